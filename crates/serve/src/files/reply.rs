//! The answer of files: at once, or when work in the background is done.

use crate::request::body::Body;
use http::Response;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// An answer that may have to be waited for.
pub(crate) enum Reply {
    Now(Response<Body>),
    Later(Later),
}

/// A response that is waited for.
pub(crate) type Later = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

impl Reply {
    /// Applies `change` to the response, as soon as it is there.
    pub(super) fn map(
        self,
        change: impl FnOnce(Response<Body>) -> Response<Body> + Send + 'static,
    ) -> Self {
        match self {
            Self::Now(response) => Self::Now(change(response)),
            Self::Later(response) => Self::Later(Box::pin(async { change(response.await) })),
        }
    }
}

/// The response of [`Files`](crate::Files). Most are there at once.
pub struct FilesFuture(Option<Reply>);

impl FilesFuture {
    pub(super) fn new(reply: Reply) -> Self {
        Self(Some(reply))
    }
}

impl Future for FilesFuture {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = match self.0.take() {
            Some(Reply::Now(response)) => response,
            Some(Reply::Later(mut later)) => match later.as_mut().poll(cx) {
                Poll::Ready(response) => response,
                Poll::Pending => {
                    self.0 = Some(Reply::Later(later));
                    return Poll::Pending;
                }
            },
            None => panic!("polled after it was ready"),
        };
        Poll::Ready(Ok(response))
    }
}

impl fmt::Debug for FilesFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesFuture").finish_non_exhaustive()
    }
}
