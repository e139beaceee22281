//! Request bodies: from an engine's events to whoever answers the request, with back-pressure.
//!
//! An [`Upload`] is the connection's end, a [`RequestBody`] the reader's, which may live on another
//! thread. What the reader takes is reported back, so that the engine lets the client send as much
//! more: never is more waiting than the stream's receive window.

use crate::locks::lock;
use crate::request::content_limit::Allowance;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use tokio::sync::mpsc::UnboundedSender;

/// Pieces of fewer bytes are joined while they wait: each takes memory of its own, of which nobody knows, and a client can
/// send content byte by byte.
const SMALL_PIECE: usize = 512;

/// Bytes that are joined to one piece.
const JOINED: usize = 4 << 10;

/// The body of a request, as it arrives.
///
/// A client can send no faster than the body is read. It may be dropped before its end: what is still to come is
/// discarded, or refused if that takes too long.
#[derive(Debug)]
pub struct RequestBody {
    source: Source,
    end: End,
    /// `None`: the content may be of any length, or is known not to be too long.
    allowance: Option<Allowance>,
}

/// The way to a body's end, which is never found at the same moment as content that the reader has waited for. Content
/// comes from another thread, at any moment, and multer (axum's `Multipart`) looks for it twice in one poll: it takes a
/// form for cut off whose content and end both come between its two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The reader has not waited.
    Plain,
    /// The reader has waited: it will be woken once more for the end.
    Separate,
    /// The end has come, and the reader was woken for it.
    Due,
}

/// Errors that end a request's body early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestBodyError {
    /// The client cancelled the request, or its connection is gone.
    #[error("the client did not send the request's body to its end")]
    Incomplete,
    /// The content is longer than [`Limits::max_body`](crate::Limits::max_body). Whatever is answered now becomes 413.
    #[error("the request's body is longer than it may be")]
    TooLong,
    /// The body broke the rules of HTTP/1.1.
    #[error("cannot read the request's body")]
    Http1(#[source] hyper::Error),
}

impl RequestBodyError {
    /// The error of a body that hyper reads: its rules are broken where hyper, or the gate before it, calls what has come
    /// invalid; anything else is the end of the connection.
    fn of_http1(error: hyper::Error) -> Self {
        let cause = error.source().and_then(|it| it.downcast_ref::<io::Error>());
        match cause.map(io::Error::kind) {
            Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) => Self::Http1(error),
            _ => Self::Incomplete,
        }
    }
}

#[derive(Debug)]
enum Source {
    /// Bytes that are there.
    Bytes(Bytes),
    Http1 {
        incoming: Incoming,
        /// Set while the reader waits for the client.
        reading: Arc<AtomicBool>,
        /// Set until the body's end was read.
        unread: Arc<AtomicBool>,
    },
    Upload(Reader),
}

impl RequestBody {
    /// A body without content, for tests of handlers.
    #[must_use]
    pub fn empty() -> Self {
        Self::from(Bytes::new())
    }

    fn of(source: Source) -> Self {
        Self {
            source,
            end: End::Plain,
            allowance: None,
        }
    }

    /// The same content, which ends with an error where it becomes too long.
    pub(super) fn limited(self, allowance: Allowance) -> Self {
        let allowance = Some(allowance);
        Self { allowance, ..self }
    }

    /// Takes a frame off the allowance.
    fn admit(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, RequestBodyError> {
        let len = frame.data_ref().map_or(0, Bytes::len);
        match self.allowance.as_mut().is_none_or(|it| it.take(len)) {
            true => Ok(frame),
            false => Err(RequestBodyError::TooLong),
        }
    }

    /// Returns true if the body comes by an [`Upload`]. Over HTTP/1.1 that is so in requests for a
    /// WebSocket alone.
    pub(crate) fn is_upload(&self) -> bool {
        matches!(self.source, Source::Upload(_))
    }

    /// `reading` is set while the reader waits for the client, `unread` until all is read.
    pub(crate) fn http1(
        incoming: Incoming,
        reading: Arc<AtomicBool>,
        unread: Arc<AtomicBool>,
    ) -> Self {
        unread.store(!incoming.is_end_stream(), Ordering::Relaxed);
        Self::of(Source::Http1 {
            incoming,
            reading,
            unread,
        })
    }
}

/// Makes a body of bytes, for tests of handlers.
impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self::of(Source::Bytes(bytes))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        if self.end == End::Due {
            return Poll::Ready(None);
        }
        let frame = self.source.poll_frame(cx);
        match &frame {
            Poll::Pending => self.end = End::Separate,
            Poll::Ready(None) if self.end == End::Separate => {
                self.end = End::Due;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(_) => {}
        }
        frame.map(|it| it.map(|frame| self.admit(frame?)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Bytes(bytes) => bytes.is_empty(),
            Source::Http1 { incoming, .. } => incoming.is_end_stream(),
            Source::Upload(reader) => reader.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Http1 { incoming, .. } => incoming.size_hint(),
            Source::Upload(reader) => reader.size_hint(),
        }
    }
}

impl Source {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        match self {
            Self::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Self::Http1 {
                incoming,
                reading,
                unread,
            } => {
                let frame = Pin::new(&mut *incoming).poll_frame(cx);
                reading.store(frame.is_pending(), Ordering::Relaxed);
                if matches!(frame, Poll::Ready(None)) || incoming.is_end_stream() {
                    unread.store(false, Ordering::Relaxed);
                }
                frame.map_err(RequestBodyError::of_http1)
            }
            Self::Upload(reader) => reader.poll_frame(cx),
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Self::Http1 { reading, .. } = self {
            reading.store(false, Ordering::Relaxed);
        }
    }
}

/// The connection's end of a body.
#[derive(Debug)]
pub(crate) struct Upload(Arc<Mutex<Shared>>);

/// The reader's progress since it was last reported.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Bytes that it took.
    pub(crate) read: usize,
    /// True if the reader has asked for a body of which nothing had come.
    pub(crate) waits: bool,
}

struct Shared {
    /// Bounded by the stream's receive window.
    chunks: VecDeque<Bytes>,
    /// Small pieces that have come behind these.
    joined: Vec<u8>,
    trailers: Option<HeaderMap>,
    end: Option<Outcome>,
    /// Bytes of Content-Length that have not come.
    remaining: Option<u64>,
    read: usize,
    waits: bool,
    /// Nobody will read on.
    dropped: bool,
    /// True if there is a report that the connection was told of and has not taken.
    told: bool,
    reader: Option<Waker>,
    tell: Box<dyn Fn() + Send>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Complete,
    Failed,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("chunks", &self.chunks.len())
            .field("end", &self.end)
            .field("dropped", &self.dropped)
            .finish_non_exhaustive()
    }
}

/// Makes both ends of one request's body. `key` goes to `reports` when [`Upload::report`] has
/// something to say, at most once before it is asked; `length` is what Content-Length says.
pub(crate) fn upload<K: Copy + Send + 'static>(
    key: K,
    reports: &UnboundedSender<K>,
    length: Option<u64>,
) -> (Upload, RequestBody) {
    let reports = reports.clone();
    let shared = Arc::new(Mutex::new(Shared {
        chunks: VecDeque::new(),
        joined: Vec::new(),
        trailers: None,
        end: None,
        remaining: length,
        read: 0,
        waits: false,
        dropped: false,
        told: false,
        reader: None,
        tell: Box::new(move || {
            // Without effect once the connection is gone.
            let _ = reports.send(key);
        }),
    }));
    let reader = Reader(Arc::clone(&shared));
    (Upload(shared), RequestBody::of(Source::Upload(reader)))
}

impl Upload {
    /// Hands over what came; false, and `data` is not called, when nobody will read it.
    pub(crate) fn push(&self, data: impl FnOnce() -> Bytes) -> bool {
        let mut shared = lock(&self.0);
        if shared.dropped {
            return false;
        }
        let data = data();
        if !data.is_empty() {
            shared.push(data);
            wake(shared);
        }
        true
    }

    /// Keeps the fields that follow the body, for when it is complete.
    pub(crate) fn keep_trailers(&self, trailers: HeaderMap) {
        lock(&self.0).trailers = Some(trailers);
    }

    /// The body is complete.
    pub(crate) fn complete(&self) {
        let mut shared = lock(&self.0);
        shared.end.get_or_insert(Outcome::Complete);
        wake(shared);
    }

    pub(crate) fn is_complete(&self) -> bool {
        lock(&self.0).end == Some(Outcome::Complete)
    }

    /// Returns true if nobody will read on.
    pub(crate) fn is_dropped(&self) -> bool {
        lock(&self.0).dropped
    }

    /// Bytes that wait for the reader.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.0).waiting()
    }

    /// Takes the reader's report.
    pub(crate) fn report(&self) -> Report {
        let mut shared = lock(&self.0);
        shared.told = false;
        Report {
            read: std::mem::take(&mut shared.read),
            waits: std::mem::take(&mut shared.waits),
        }
    }
}

/// Ends the upload: no more of it will come.
impl Drop for Upload {
    fn drop(&mut self) {
        let mut shared = lock(&self.0);
        shared.end.get_or_insert(Outcome::Failed);
        wake(shared);
    }
}

#[derive(Debug)]
struct Reader(Arc<Mutex<Shared>>);

impl Reader {
    fn poll_frame(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let mut shared = lock(&self.0);
        if let Some(chunk) = shared.pop() {
            shared.read += chunk.len();
            let left = shared.remaining;
            shared.remaining = left.map(|left| left.saturating_sub(chunk.len() as u64));
            shared.tell();
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        match shared.end {
            Some(Outcome::Complete) => {
                Poll::Ready(shared.trailers.take().map(Frame::trailers).map(Ok))
            }
            Some(Outcome::Failed) => Poll::Ready(Some(Err(RequestBodyError::Incomplete))),
            None => {
                shared.reader = Some(cx.waker().clone());
                shared.waits = true;
                shared.tell();
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let shared = lock(&self.0);
        shared.end == Some(Outcome::Complete) && shared.is_empty() && shared.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let remaining = lock(&self.0).remaining;
        remaining.map(SizeHint::with_exact).unwrap_or_default()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut shared = lock(&self.0);
        shared.read += shared.waiting();
        (shared.chunks, shared.joined) = Default::default();
        shared.dropped = true;
        shared.tell();
    }
}

impl Shared {
    fn push(&mut self, data: Bytes) {
        if data.len() >= SMALL_PIECE || self.is_empty() {
            self.end_joined();
            self.chunks.push_back(data);
            return;
        }
        self.joined.extend_from_slice(&data);
        if self.joined.len() >= JOINED {
            self.end_joined();
        }
    }

    fn end_joined(&mut self) {
        if !self.joined.is_empty() {
            let joined = std::mem::take(&mut self.joined);
            self.chunks.push_back(joined.into());
        }
    }

    fn pop(&mut self) -> Option<Bytes> {
        if self.chunks.is_empty() {
            self.end_joined();
        }
        self.chunks.pop_front()
    }

    fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.joined.is_empty()
    }

    fn waiting(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum::<usize>() + self.joined.len()
    }

    fn tell(&mut self) {
        if !std::mem::replace(&mut self.told, true) {
            (self.tell)();
        }
    }
}

fn wake(mut shared: MutexGuard<'_, Shared>) {
    let reader = shared.reader.take();
    // The reader may look at once.
    drop(shared);
    if let Some(reader) = reader {
        reader.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use http_body_util::BodyExt as _;
    use multer::Multipart;
    use tokio::sync::mpsc::unbounded_channel;

    #[test]
    fn small_pieces_that_wait_take_little_more_than_their_bytes() {
        let (reports, _reported) = unbounded_channel();
        let (upload, mut body) = upload((), &reports, None);
        let content: Vec<u8> = (0..u16::MAX).flat_map(u16::to_be_bytes).collect();
        let (mut rest, sizes) = (&content[..], [1, 3, 1, 1_000, 1, 2, 600]);
        for size in sizes.into_iter().chain(std::iter::repeat(1)) {
            let (piece, later) = rest.split_at(size.min(rest.len()));
            if piece.is_empty() {
                break;
            }
            upload.push(|| Bytes::copy_from_slice(piece));
            rest = later;
        }
        assert_eq!(upload.waiting(), content.len());
        upload.complete();
        let (mut received, mut pieces) = (Vec::new(), 0);
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut context) {
            received.extend_from_slice(&frame.unwrap().into_data().unwrap());
            pieces += 1;
        }
        assert!(received == content);
        assert!(pieces <= content.len() / 1_000, "{pieces} pieces");
    }

    const FORM: &[u8] = b"--x\r\ncontent-disposition: form-data; name=a\r\n\r\none\r\n--x--\r\n";

    #[tokio::test]
    async fn bytes_are_a_body_of_their_length() {
        let body = RequestBody::from(Bytes::from_static(b"abc"));
        assert_eq!(body.size_hint().exact(), Some(3));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abc");
        let empty = RequestBody::empty();
        assert!(empty.is_end_stream() && empty.collect().await.unwrap().to_bytes().is_empty());
    }

    #[tokio::test]
    async fn a_form_that_comes_between_two_looks_of_its_parser_is_whole() {
        let (reports, _reported) = unbounded_channel();
        let (upload, mut body) = upload((), &reports, None);
        let mut looks = 0;
        let content = stream::poll_fn(move |cx| {
            let polled = Pin::new(&mut body).poll_frame(cx);
            looks += 1;
            if looks == 1 {
                assert!(polled.is_pending());
                upload.push(|| Bytes::from_static(FORM));
                upload.complete();
            }
            polled.map(|frame| frame.map(|it| it.map(|it| it.into_data().unwrap())))
        });
        let mut form = Multipart::new(content, "x");
        let field = form.next_field().await.unwrap().unwrap();
        assert_eq!(field.text().await.unwrap(), "one");
        assert!(form.next_field().await.unwrap().is_none());
    }
}
