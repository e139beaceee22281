//! A response that is waited for, and the interim responses that go ahead of it.

use super::early_hints::Hints;
use crate::request::handler::Pending;
use http::{HeaderMap, StatusCode};
use std::future::pending;
use std::task::{Context, Poll};

/// An answer that takes more than a moment, with a `T` as its final response.
pub(crate) struct Answering<T> {
    response: Pending<T>,
    hints: Hints,
    /// The response, while hints go ahead of it.
    ready: Option<Box<T>>,
}

/// What there is to send next.
pub(crate) enum Step<T> {
    /// Status and fields of an interim response. More steps follow.
    Interim(StatusCode, HeaderMap),
    /// The final response, which is the last step.
    Response(T),
}

impl<T: 'static> Answering<T> {
    pub(crate) fn new(response: Pending<T>, hints: Hints) -> Self {
        Self {
            response,
            hints,
            ready: None,
        }
    }

    /// The next step, not to be asked for after the last.
    pub(crate) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step<T>> {
        let response = match self.ready.take() {
            Some(response) => Poll::Ready(*response),
            None => self.response.as_mut().poll(cx),
        };
        let Some((status, fields)) = self.hints.next(cx) else {
            return response.map(Step::Response);
        };
        if let Poll::Ready(response) = response {
            self.ready = Some(Box::new(response));
        }
        Poll::Ready(Step::Interim(status, fields))
    }

    /// The answer for another [`poll_step`](Self::poll_step); what stays behind never gives anything.
    pub(crate) fn take(&mut self) -> Self {
        let nothing = Self::new(Box::pin(pending()), Hints::none());
        std::mem::replace(self, nothing)
    }
}
