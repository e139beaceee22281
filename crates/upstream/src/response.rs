//! The content of a response on its way to the client, with the place at the server that it holds until its end.

use crate::MinRate;
use crate::http1;
use crate::http2::Http2Body;
use crate::http3::Http3Body;
use crate::pool::Lease;
use crate::{BoxError, heads};
use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// Bytes of content whose length is known that must come in the time for which it may pause, where nothing else is said.
const LEAST_BYTES: u64 = 1 << 10;

/// Bytes of content that are looked for as soon as a head is there: content that ends within them passes in one piece with its
/// head.
pub(crate) const SHORT: usize = 16 << 10;

/// The content of a response, as the server sends it. To drop it before its end ends the connection to the server.
#[derive(Debug)]
pub struct ResponseBody(Content);

#[derive(Debug)]
enum Content {
    /// All of it has come with the head, and holds nothing of the server any more.
    Whole(Bytes),
    /// Content that is still to come. In a box: a response that is whole is to have no room for it.
    Streamed(Box<Streamed>),
}

/// Content that is still to come.
#[derive(Debug)]
struct Streamed {
    /// Content that has come with the head, and was not given yet.
    first: Bytes,
    source: Source,
    lease: Option<Lease>,
    pace: RateCheck,
    /// `None`: the server was never waited for.
    wait: Option<Box<Wait>>,
    /// The failure that the next poll gives.
    failure: Option<BoxError>,
}

/// The limits of a server that sends content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateCheck {
    pub(crate) idle_timeout: Duration,
    /// `None`: pauses alone are limited.
    pub(crate) min_rate: Option<MinRate>,
}

/// A server that is waited for, or was.
#[derive(Debug)]
struct Wait {
    timer: Pin<Box<Sleep>>,
    /// The time since when it is; `None`: it is not at the moment.
    since: Option<Instant>,
    /// Time for which it was since the least amount last came.
    waited: Duration,
    /// Bytes that came since then.
    came: u64,
}

/// Content as a protocol's client gives it.
#[derive(Debug)]
pub(crate) enum Source {
    Http1(Box<http1::Incoming>),
    Http2(Http2Body),
    /// Content of a tunnel over HTTP/2 that was refused.
    Refused(RecvStream),
    Http3(Http3Body),
    /// No content.
    None,
}

impl From<Box<http1::Incoming>> for Source {
    fn from(incoming: Box<http1::Incoming>) -> Self {
        Self::Http1(incoming)
    }
}

impl From<Http2Body> for Source {
    fn from(body: Http2Body) -> Self {
        Self::Http2(body)
    }
}

impl From<RecvStream> for Source {
    fn from(stream: RecvStream) -> Self {
        Self::Refused(stream)
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
            Self::Http1(incoming) => incoming.poll_frame(cx),
            Self::Http2(body) => body.poll_frame(cx),
            Self::Refused(stream) => {
                let data = ready!(stream.poll_data(cx));
                Poll::Ready(data.map(|data| {
                    let data = data?;
                    stream.flow_control().release_capacity(data.len())?;
                    Ok(Frame::data(data))
                }))
            }
            Self::Http3(body) => body.poll_frame(cx),
            Self::None => Poll::Ready(None),
        }
    }

    /// Takes the content that is there, or enough of it to know that it is not [short](SHORT).
    fn take_short(&mut self) -> Bytes {
        let mut taken = Bytes::new();
        if self.size_hint().lower() > SHORT as u64 {
            return taken;
        }
        while taken.len() <= SHORT
            && let Some(piece) = self.take_arrived()
        {
            taken = match taken.is_empty() {
                true => piece,
                false => [taken, piece].concat().into(),
            };
        }
        taken
    }

    /// Takes the next piece of content, where it is there.
    fn take_arrived(&mut self) -> Option<Bytes> {
        match self {
            Self::Http1(incoming) => incoming.take_arrived(),
            Self::Http2(body) => body.take_arrived(),
            Self::Http3(body) => body.take_arrived(),
            Self::Refused(_) | Self::None => None,
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(incoming) => incoming.is_end_stream(),
            Self::Http2(body) => body.is_end_stream(),
            Self::Refused(stream) => stream.is_end_stream(),
            Self::Http3(body) => body.is_end_stream(),
            Self::None => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(incoming) => incoming.size_hint(),
            Self::Http2(body) => body.size_hint(),
            Self::Http3(body) if !body.is_end_stream() => SizeHint::default(),
            Self::Refused(_) => SizeHint::default(),
            Self::Http3(_) | Self::None => SizeHint::with_exact(0),
        }
    }

    /// Returns whether the length of the content is known.
    fn has_length(&self) -> bool {
        match self {
            Self::Http3(body) => body.has_length(),
            source => source.size_hint().exact().is_some(),
        }
    }
}

impl ResponseBody {
    /// Content of which nothing is to come any more.
    pub(crate) fn whole(content: Bytes) -> Self {
        Self(Content::Whole(content))
    }

    pub(crate) fn new(source: impl Into<Source>, lease: Lease, pace: RateCheck) -> Self {
        let mut source = source.into();
        let first = source.take_short();
        // Where the content has ended the place at the server is given back.
        let mut streamed = Streamed::new(source, lease, pace);
        if streamed.source.is_end_stream() {
            return Self(Content::Whole(first));
        }
        streamed.first = first;
        Self(Content::Streamed(Box::new(streamed)))
    }

    pub(crate) fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    /// Returns whether nothing more of it is to come from the server, though not all of it may have
    /// been given.
    #[must_use]
    pub fn is_received(&self) -> bool {
        match &self.0 {
            Content::Whole(_) => true,
            Content::Streamed(streamed) => streamed.is_received(),
        }
    }

    /// Bytes in memory that it has received and not given. Over HTTP/2 and HTTP/3 those that have not come with the head are
    /// in the connection's window, and do not count here.
    #[must_use]
    pub fn held(&self) -> usize {
        match &self.0 {
            Content::Whole(bytes) => bytes.len(),
            Content::Streamed(streamed) => streamed.held(),
        }
    }
}

impl Streamed {
    fn new(source: Source, lease: Lease, pace: RateCheck) -> Self {
        let mut body = Self {
            first: Bytes::new(),
            source,
            lease: Some(lease),
            pace,
            wait: None,
            failure: None,
        };
        if body.pace.min_rate.is_none() && body.source.has_length() {
            body.pace.min_rate = Some(MinRate {
                bytes: LEAST_BYTES,
                time: body.pace.idle_timeout,
            });
        }
        body.release_at_end();
        body
    }

    fn is_received(&self) -> bool {
        match &self.source {
            Source::Http1(incoming) => incoming.is_read(),
            source => source.is_end_stream(),
        }
    }

    fn held(&self) -> usize {
        let held = match &self.source {
            Source::Http1(incoming) => incoming.held(),
            _ => 0,
        };
        self.first.len() + held
    }

    /// Gives the place at the server back as soon as nothing more is to come of it.
    fn release_at_end(&mut self) {
        if self.is_received() {
            self.release();
        }
    }

    fn release(&mut self) {
        let Some(lease) = self.lease.take() else {
            return;
        };
        let connection = match &mut self.source {
            Source::Http1(incoming) => incoming.take_connection(),
            _ => None,
        };
        lease.release(connection, std::time::Instant::now());
    }

    /// The server has nothing to give; an error once that lasts too long.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let pace = self.pace;
        let wait = self.wait.get_or_insert_with(|| {
            Box::new(Wait {
                timer: Box::pin(sleep(pace.idle_timeout)),
                since: None,
                waited: Duration::ZERO,
                came: 0,
            })
        });
        if wait.since.is_none() {
            let now = Instant::now();
            wait.since = Some(now);
            let left = pace.min_rate.map(|it| it.time.saturating_sub(wait.waited));
            let time = left.map_or(pace.idle_timeout, |left| left.min(pace.idle_timeout));
            wait.timer.as_mut().reset(now + time);
        }
        if wait.timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let waited = wait.waited;
        self.lease = None;
        self.source = Source::None;
        Poll::Ready(Some(Err(match waited.is_zero() {
            true => "the upstream has paused for too long".into(),
            false => "the upstream sends too slowly".into(),
        })))
    }

    /// The server has given so many bytes.
    fn note(&mut self, bytes: usize) {
        let (Some(wait), Some(min_rate)) = (&mut self.wait, self.pace.min_rate) else {
            if let Some(wait) = &mut self.wait {
                wait.since = None;
            }
            return;
        };
        if let Some(since) = wait.since.take() {
            wait.waited += since.elapsed();
        }
        wait.came += bytes as u64;
        if wait.came >= min_rate.bytes {
            (wait.came, wait.waited) = (0, Duration::ZERO);
        }
    }
}

impl Streamed {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(failure) = self.failure.take() {
            return Poll::Ready(Some(Err(failure)));
        }
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if let Source::None = self.source {
            return Poll::Ready(None);
        }
        let mut frame = match self.source.poll_frame(cx) {
            Poll::Pending => return self.wait(cx),
            Poll::Ready(frame) => frame,
        };
        let bytes = frame
            .as_ref()
            .and_then(|frame| Some(frame.as_ref().ok()?.data_ref()?.len()));
        self.note(bytes.unwrap_or_default());
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
            Some(Err(_)) => {
                self.lease = None;
                self.source = Source::None;
                // What came before goes on its way first: a transport that is told at once drops what it has not sent,
                // the head of the response among it.
                self.failure = frame.and_then(Result::err);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.failure.is_none() && self.first.is_empty() && self.source.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let left = match self.failure {
            Some(_) => None,
            None => self.source.size_hint().exact(),
        };
        left.map_or_else(SizeHint::default, |left| {
            SizeHint::with_exact(left + self.first.len() as u64)
        })
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Streamed(streamed) => streamed.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Streamed(streamed) => streamed.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Streamed(streamed) => streamed.size_hint(),
        }
    }
}
