//! A response that is waited for, and the interim responses that go ahead of it.

use super::early_hints::Hints;
use crate::body::Body;
use crate::handler::Pending;
use http::{HeaderMap, Response};
use std::future::{pending, poll_fn};
use std::task::{Context, Poll};

/// An answer that takes more than a moment.
pub(crate) struct Answering {
    response: Pending<Response<Body>>,
    hints: Hints,
    /// The response, while hints go ahead of it.
    ready: Option<Response<Body>>,
}

/// What there is to send next.
pub(crate) enum Step {
    /// Fields of a 103 response (RFC 8297). More steps follow.
    Hints(HeaderMap),
    /// The final response, which is the last step.
    Response(Response<Body>),
}

impl Answering {
    pub(crate) fn new(response: Pending<Response<Body>>, hints: Hints) -> Self {
        Self {
            response,
            hints,
            ready: None,
        }
    }

    /// The next step, not to be asked for after the last.
    pub(crate) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if self.ready.is_none()
            && let Poll::Ready(response) = self.response.as_mut().poll(cx)
        {
            self.ready = Some(response);
        }
        if let Some(fields) = self.hints.next(cx) {
            return Poll::Ready(Step::Hints(fields));
        }
        let response = self.ready.take().map(Step::Response);
        response.map_or(Poll::Pending, Poll::Ready)
    }

    /// The answer for another [`poll_step`](Self::poll_step); what stays behind never gives anything.
    pub(crate) fn take(&mut self) -> Self {
        let nothing = Self::new(Box::pin(pending()), Hints::none());
        std::mem::replace(self, nothing)
    }

    /// The final response, for a protocol that sends no hints.
    pub(crate) async fn response(mut self) -> Response<Body> {
        loop {
            if let Step::Response(response) = poll_fn(|cx| self.poll_step(cx)).await {
                return response;
            }
        }
    }
}
