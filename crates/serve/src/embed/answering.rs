//! A response that is waited for, and the interim responses that go ahead of it.

use super::early_hints::Hints;
use http::{HeaderMap, StatusCode};
use std::pin::Pin;
use std::task::{Context, Poll};

/// An answer that takes more than a moment, whose final response is what an `F` gives.
pub(crate) struct Answering<F: Future> {
    /// `None`: it was taken.
    response: Option<F>,
    hints: Hints,
    /// The response, while hints go ahead of it.
    ready: Option<Box<F::Output>>,
}

/// The next response to send.
pub(crate) enum Step<T> {
    /// Status and fields of an interim response. More steps follow.
    Interim(StatusCode, HeaderMap),
    /// The final response, which is the last step.
    Response(T),
}

impl<F: Future + Unpin> Answering<F> {
    pub(crate) fn new(response: F, hints: Hints) -> Self {
        Self {
            response: Some(response),
            hints,
            ready: None,
        }
    }

    /// The next step, not to be asked for after the last.
    pub(crate) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step<F::Output>> {
        let response = match (self.ready.take(), &mut self.response) {
            (Some(response), _) => Poll::Ready(*response),
            (None, Some(response)) => Pin::new(response).poll(cx),
            (None, None) => Poll::Pending,
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
        Self {
            response: self.response.take(),
            hints: std::mem::replace(&mut self.hints, Hints::none()),
            ready: self.ready.take(),
        }
    }
}
