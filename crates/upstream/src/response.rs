//! The content of a response on its way to the client, with the place at the server that it holds until its end.

use crate::connect::Http1;
use crate::content::Content;
use crate::group::InProgress;
use crate::http3::Http3Body;
use crate::pool::Pool;
use crate::{BoxError, heads};
use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep};

/// The place of a request at a server. Its connection goes back to the pool only after a whole response.
#[derive(Debug)]
pub(crate) struct Lease {
    connection: Option<Http1>,
    content: Content,
    pool: Arc<Pool>,
    _in_progress: InProgress,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    pub(crate) fn new(
        pool: &Arc<Pool>,
        permit: OwnedSemaphorePermit,
        in_progress: InProgress,
        content: Content,
    ) -> Self {
        Self {
            connection: None,
            content,
            pool: Arc::clone(pool),
            _in_progress: in_progress,
            _permit: permit,
        }
    }

    /// The connection that the response comes over.
    pub(crate) fn keep(&mut self, connection: Http1) {
        self.connection = Some(connection);
    }

    /// The response is whole. One that came before the end of the request leaves a connection that is good for
    /// nothing.
    fn release(mut self) {
        if let Some(connection) = self.connection.take()
            && self.content.progress().is_finished
        {
            self.pool.put(connection);
        }
    }
}

/// The content of a response, as the server sends it. To drop it before its end ends the connection to the server.
#[derive(Debug)]
pub struct ResponseBody {
    /// `None`: there is no content.
    incoming: Option<Source>,
    lease: Option<Lease>,
    idle_timeout: Duration,
    /// Runs while the server is waited for.
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

/// The connection's part of a response's content.
#[derive(Debug)]
pub(crate) enum Source {
    Hyper(Incoming),
    /// Of a tunnel that was refused.
    Http2(RecvStream),
    Http3(Http3Body),
}

impl From<Incoming> for Source {
    fn from(incoming: Incoming) -> Self {
        Self::Hyper(incoming)
    }
}

impl From<RecvStream> for Source {
    fn from(stream: RecvStream) -> Self {
        Self::Http2(stream)
    }
}

impl From<Http3Body> for Source {
    fn from(body: Http3Body) -> Self {
        Self::Http3(body)
    }
}

impl Source {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self {
            Self::Hyper(incoming) => {
                let frame = ready!(Pin::new(incoming).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Self::Http3(body) => body.poll_frame(cx),
            Self::Http2(stream) => {
                let data = ready!(stream.poll_data(cx));
                Poll::Ready(data.map(|data| {
                    let data = data?;
                    stream.flow_control().release_capacity(data.len())?;
                    Ok(Frame::data(data))
                }))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Hyper(incoming) => incoming.is_end_stream(),
            Self::Http2(stream) => stream.is_end_stream(),
            Self::Http3(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Hyper(incoming) => incoming.size_hint(),
            Self::Http3(body) if body.is_end_stream() => SizeHint::with_exact(0),
            Self::Http2(_) | Self::Http3(_) => SizeHint::default(),
        }
    }
}

impl ResponseBody {
    pub(crate) fn new(incoming: Source, lease: Lease, idle_timeout: Duration) -> Self {
        let mut body = Self {
            incoming: Some(incoming),
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
            incoming: None,
            lease: None,
            idle_timeout,
            timer: None,
            is_waiting: false,
        }
    }

    fn release_at_end(&mut self) {
        if self.is_end_stream()
            && let Some(lease) = self.lease.take()
        {
            lease.release();
        }
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
        self.incoming = None;
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
        let Some(incoming) = &mut self.incoming else {
            return Poll::Ready(None);
        };
        let mut frame = match incoming.poll_frame(cx) {
            Poll::Pending => return self.wait(cx),
            Poll::Ready(frame) => frame,
        };
        self.is_waiting = false;
        match &mut frame {
            None => {
                if let Some(lease) = self.lease.take() {
                    lease.release();
                }
            }
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_mut() {
                    heads::pass_trailers(trailers);
                }
                // Nothing follows trailers, and nobody may ask.
                if frame.is_trailers()
                    && let Some(lease) = self.lease.take()
                {
                    lease.release();
                }
                self.release_at_end();
            }
            Some(Err(_)) => self.lease = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Source::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.incoming {
            Some(incoming) => incoming.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}
