//! The content of a response on its way to the client, with the place at the server that it holds until its end.

use crate::group::InProgress;
use crate::http1::{self, Http1};
use crate::pool::Pool;
use crate::{BoxError, heads};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep};

/// The place of a request at a server. Its connection goes back to the pool only after a whole response.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Arc<Pool>,
    _in_progress: InProgress,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    pub(crate) fn new(
        pool: &Arc<Pool>,
        permit: OwnedSemaphorePermit,
        in_progress: InProgress,
    ) -> Self {
        Self {
            pool: Arc::clone(pool),
            _in_progress: in_progress,
            _permit: permit,
        }
    }

    /// The response is whole. `connection`: the one that it came over, if that can carry another request.
    fn release(self, connection: Option<Http1>) {
        if let Some(connection) = connection {
            self.pool.put(connection);
        }
    }
}

/// Content as a protocol's client gives it.
#[derive(Debug)]
pub(crate) enum Source {
    Http1(http1::Incoming),
    Http2(hyper::body::Incoming),
    /// There is none.
    None,
}

/// The content of a response, as the server sends it. To drop it before its end ends the connection to the server.
#[derive(Debug)]
pub struct ResponseBody {
    source: Source,
    lease: Option<Lease>,
    idle_timeout: Duration,
    /// Runs while the server is waited for.
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl ResponseBody {
    pub(crate) fn new(source: Source, lease: Lease, idle_timeout: Duration) -> Self {
        let mut body = Self {
            source,
            lease: Some(lease),
            idle_timeout,
            timer: None,
            is_waiting: false,
        };
        body.release_at_end();
        body
    }

    pub(crate) fn empty(idle_timeout: Duration) -> Self {
        Self {
            source: Source::None,
            lease: None,
            idle_timeout,
            timer: None,
            is_waiting: false,
        }
    }

    /// Gives the place at the server back as soon as nothing more is to come of it, though some of it may have to be
    /// given still.
    fn release_at_end(&mut self) {
        let is_read = match &self.source {
            Source::Http1(incoming) => incoming.is_read(),
            Source::Http2(incoming) => incoming.is_end_stream(),
            Source::None => true,
        };
        if is_read {
            self.release();
        }
    }

    fn release(&mut self) {
        let Some(lease) = self.lease.take() else {
            return;
        };
        lease.release(match &mut self.source {
            Source::Http1(incoming) => incoming.take_connection(),
            _ => None,
        });
    }

    /// The server has nothing to give; an error once that lasts too long.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let idle_timeout = self.idle_timeout;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep(idle_timeout)));
        if !self.is_waiting {
            self.is_waiting = true;
            timer.as_mut().reset(Instant::now() + idle_timeout);
        }
        if timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.lease = None;
        self.source = Source::None;
        Poll::Ready(Some(Err("the upstream has paused for too long".into())))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = match &mut self.source {
            Source::Http1(incoming) => incoming.poll_frame(cx),
            Source::Http2(incoming) => {
                let polled = Pin::new(incoming).poll_frame(cx);
                polled.map(|frame| frame.map(|it| it.map_err(Into::into)))
            }
            Source::None => return Poll::Ready(None),
        };
        let mut frame = match polled {
            Poll::Pending => return self.wait(cx),
            Poll::Ready(frame) => frame,
        };
        self.is_waiting = false;
        match &mut frame {
            None => self.release(),
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_mut() {
                    heads::pass_trailers(trailers);
                    // Nothing follows trailers, and nobody may ask.
                    self.release();
                } else {
                    self.release_at_end();
                }
            }
            Some(Err(_)) => self.lease = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Http1(incoming) => incoming.is_end_stream(),
            Source::Http2(incoming) => incoming.is_end_stream(),
            Source::None => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Http1(incoming) => incoming.size_hint(),
            Source::Http2(incoming) => incoming.size_hint(),
            Source::None => SizeHint::with_exact(0),
        }
    }
}
