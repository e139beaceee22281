//! Response bodies: nothing, bytes in memory, a part of a file, what a service streams, or a tunnel.

use crate::files::FileRange;
use crate::request::handler::BoxError;
use crate::request::record::ResponseRecord;
use crate::request::trickle::Trickle;
use crate::request::tunnel::ConnectionHalf;
use bytes::{Buf, Bytes};
use http::{Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

/// Bytes of a file that a frame of its body holds at most.
pub(crate) const CHUNK: usize = 32 << 10;

/// A response's body, whose record is closed when it is dropped: then all that will ever be sent
/// of it was handed to the transport.
///
/// A body never waits, unless it is a service's.
#[derive(Debug)]
pub struct Body {
    content: Content,
    /// `None` until it is a response's.
    record: Option<ResponseRecord>,
    /// Bytes of a file that its next frame has at most; in four bytes, as every response has a body.
    largest: u32,
    /// Bytes that are still to come by Content-Length; `None` where the content says so itself.
    missing: Option<u64>,
    /// True if the content is a stream of events.
    has_events: bool,
}

/// A frame of a body, or its end.
type Polled = Option<Result<Frame<Bytes>, BoxError>>;

enum Content {
    Bytes(Bytes),
    /// Bytes that are counted by whoever shares them.
    Shared(Bytes),
    File(FileRange),
    Stream(UnsyncBoxBody<Bytes, BoxError>, Option<BodyMemory>),
    /// A tunnel, in a box because few bodies are one.
    Tunnel(Box<ConnectionHalf>),
}

/// The memory that a service's body holds beside the frames that it has given, for
/// [`Limits::max_held_bytes`](crate::Limits::max_held_bytes): put into the extensions of a response, and kept up to date
/// by the body. Clones share the figure. In a response that opens a tunnel it is the memory that the service holds for
/// that, beside the 64 KiB that wait in it.
///
/// Bodies without it count only the frame that waits for the client.
#[derive(Debug, Clone, Default)]
pub struct BodyMemory(Arc<AtomicUsize>);

impl BodyMemory {
    /// Sets the number of bytes that are held now.
    pub fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes(_) => "Bytes",
            Self::Shared(_) => "Shared",
            Self::File(_) => "File",
            Self::Stream(..) => "Stream",
            Self::Tunnel(_) => "Tunnel",
        })
    }
}

impl Body {
    pub(crate) fn empty() -> Self {
        Self::bytes(Bytes::new())
    }

    /// A response of that status without content.
    pub(crate) fn empty_response(status: StatusCode) -> Response<Self> {
        let mut response = Response::new(Self::empty());
        *response.status_mut() = status;
        response
    }

    fn of(content: Content) -> Self {
        Self {
            content,
            record: None,
            largest: CHUNK as u32,
            missing: None,
            has_events: false,
        }
    }

    pub(crate) fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self::of(Content::Bytes(bytes.into()))
    }

    /// Bytes that other responses hold as well, and that are counted elsewhere.
    pub(crate) fn shared(bytes: Bytes) -> Self {
        Self::of(Content::Shared(bytes))
    }

    pub(crate) fn file(range: FileRange) -> Self {
        Self::of(Content::File(range))
    }

    /// Whatever a service gives; `memory`: what it says of the memory that it holds.
    pub(crate) fn stream<B>(body: B, memory: Option<BodyMemory>) -> Self
    where
        B: http_body::Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let body = body.map_err(Into::into).map_frame(|frame| {
            frame.map_data(|mut data: B::Data| data.copy_to_bytes(data.remaining()))
        });
        Self::of(Content::Stream(body.boxed_unsync(), memory))
    }

    /// The body of an open tunnel: whatever a service writes into it.
    pub(crate) fn tunnel(connection_half: ConnectionHalf) -> Self {
        Self::of(Content::Tunnel(Box::new(connection_half)))
    }

    /// The same body where it is a tunnel; an empty one in place of others.
    pub(super) fn tunnel_alone(self) -> Self {
        match self.is_tunnel() {
            true => self,
            false => Self::empty(),
        }
    }

    /// The same content, which is a stream of events.
    pub(super) fn of_events(self) -> Self {
        Self {
            has_events: true,
            ..self
        }
    }

    /// Notes of what comes of a stream of events, or of a tunnel; `None`: the body is neither.
    pub(crate) fn trickle(&self) -> Option<Box<Trickle>> {
        (self.has_events || self.is_tunnel()).then(Box::default)
    }

    /// Holds the content to `length` bytes: what is beyond is left out, and a body that ends before fails.
    pub(crate) fn with_length(self, length: u64) -> Self {
        let missing = (self.size_hint().exact() != Some(length)).then_some(length);
        Self { missing, ..self }
    }

    /// Makes the body note in `record` what is sent of it.
    pub(crate) fn with_record(self, record: ResponseRecord) -> Self {
        let mut body = Self {
            record: Some(record),
            ..self
        };
        let is_tunnel = body.is_tunnel();
        if let Some(record) = body.record.as_mut().filter(|_| is_tunnel) {
            record.untimed();
        }
        // A tunnel has no length to fall short of, and nobody asks an empty body for its end.
        if is_tunnel || body.is_end_stream() {
            body.complete_record();
        }
        body
    }

    /// Limits the bytes of a file that the next frames hold.
    pub(crate) fn limit_frames(&mut self, bytes: usize) {
        self.largest = u32::try_from(bytes).unwrap_or(u32::MAX);
    }

    /// Notes for the log that the response was cut off, although the body may have given all that it
    /// has.
    pub(crate) fn cut_off(&mut self) {
        if !self.is_tunnel()
            && let Some(record) = &mut self.record
        {
            record.cut_off();
        }
    }

    /// Returns true if the next frame is read from a file.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.content, Content::File(_))
    }

    fn is_tunnel(&self) -> bool {
        matches!(self.content, Content::Tunnel(_))
    }

    fn complete_record(&mut self) {
        if let Some(record) = &mut self.record {
            record.completed();
        }
    }

    /// Notes a frame that the body gave, or its end.
    fn note_frame(&mut self, frame: Option<&Result<Frame<Bytes>, BoxError>>) {
        let is_last = match frame {
            None => true,
            Some(Err(_)) => false,
            // Nothing follows trailers.
            Some(Ok(frame)) => frame.is_trailers() || self.is_end_stream(),
        };
        if let Some(record) = &mut self.record
            && let Some(Ok(frame)) = frame
        {
            record.sent(frame.data_ref().map_or(0, Bytes::len));
        }
        if is_last {
            self.complete_record();
        }
    }

    /// The part of a file that the body is, with its record; else the body itself.
    pub(crate) fn into_file(self) -> Result<(FileRange, Option<ResponseRecord>), Self> {
        match self.content {
            Content::File(range) => Ok((range, self.record)),
            content => Err(Self { content, ..self }),
        }
    }

    /// Bytes in memory that the body holds, as far as is known.
    pub(crate) fn held(&self) -> usize {
        match &self.content {
            Content::Bytes(bytes) => bytes.len(),
            Content::Tunnel(connection_half) if !connection_half.has_ended() => {
                connection_half.held()
            }
            Content::Stream(_, Some(memory)) => memory.get(),
            Content::Shared(_) | Content::File(_) | Content::Stream(..) | Content::Tunnel(_) => 0,
        }
    }

    /// Holds a frame to what Content-Length says.
    fn held_to_length(&mut self, frame: Polled) -> Polled {
        let Some(missing) = &mut self.missing else {
            return frame;
        };
        match frame {
            Some(Err(error)) => Some(Err(error)),
            Some(Ok(frame)) if frame.is_data() => {
                let mut data = frame.into_data().unwrap_or_default();
                let is_beyond = *missing == 0 && !data.is_empty();
                data.truncate(usize::try_from(*missing).unwrap_or(usize::MAX));
                *missing -= data.len() as u64;
                (!is_beyond).then(|| Ok(Frame::data(data)))
            }
            end if *missing == 0 => end,
            _ => Some(Err(format!(
                "{missing} bytes of its Content-Length are missing"
            )
            .into())),
        }
    }

    fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Polled> {
        let largest = self.largest as usize;
        let chunk = match &mut self.content {
            Content::Bytes(bytes) => std::mem::take(bytes),
            Content::Shared(bytes) => bytes.split_to(bytes.len().min(largest)),
            Content::File(range) => match range.read(largest) {
                Ok(chunk) => chunk,
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            },
            Content::Stream(body, _) => return Pin::new(body).poll_frame(cx),
            Content::Tunnel(connection_half) => return connection_half.poll_frame(cx),
        };
        let frame = (!chunk.is_empty()).then(|| Ok(Frame::data(chunk)));
        Poll::Ready(frame)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(self.poll_content(cx));
        let frame = self.held_to_length(frame);
        if self.record.is_some() {
            self.note_frame(frame.as_ref());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        if self.missing.is_some_and(|missing| missing > 0) {
            return false;
        }
        match &self.content {
            Content::Stream(body, _) => body.is_end_stream(),
            Content::Tunnel(connection_half) => connection_half.has_ended(),
            Content::Bytes(bytes) | Content::Shared(bytes) => bytes.is_empty(),
            Content::File(range) => range.remaining == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        if let Some(missing) = self.missing {
            return SizeHint::with_exact(missing);
        }
        match &self.content {
            Content::Bytes(bytes) | Content::Shared(bytes) => {
                SizeHint::with_exact(bytes.len() as u64)
            }
            Content::File(range) => SizeHint::with_exact(range.remaining),
            Content::Stream(body, _) => body.size_hint(),
            Content::Tunnel(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn a_body_that_says_what_it_holds_counts_with_it() {
        let memory = BodyMemory::default();
        let body = Body::stream(Body::empty(), Some(memory.clone()));
        assert_eq!(body.held(), 0);
        memory.set(65_536);
        assert_eq!(body.held(), 65_536);
        assert_eq!(Body::stream(Body::empty(), None).held(), 0);
    }

    #[test]
    fn a_tunnel_counts_with_its_pipe_and_what_its_service_says() {
        let (service_half, mut connection_half) = crate::request::tunnel::pipe();
        let memory = BodyMemory::default();
        memory.set(1_000);
        connection_half.set_memory(Some(memory));
        service_half.accept();
        let body = Body::tunnel(connection_half);
        assert_eq!(body.held(), (64 << 10) + 1_000);
        drop(service_half);
        assert_eq!(body.held(), 0);
    }

    #[test]
    fn what_follows_the_length_is_left_out_and_trailers_are_not() {
        let data = |text: &'static str| Frame::data(Bytes::from(text));
        let trailers = || Frame::trailers(http::HeaderMap::new());
        for (frames, has_trailers) in [
            (vec![data("abc"), trailers()], true),
            (vec![data("abc"), data(""), trailers()], true),
            (vec![data("abc"), data("d"), trailers()], false),
        ] {
            let frames = frames.into_iter().map(Ok::<_, BoxError>);
            let frames = http_body_util::StreamBody::new(futures_util::stream::iter(frames));
            let mut body = Body::stream(frames, None).with_length(3);
            let (mut received, mut ended) = (Vec::new(), false);
            let mut context = Context::from_waker(Waker::noop());
            while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut context) {
                match frame.unwrap().into_data() {
                    Ok(data) => received.extend_from_slice(&data),
                    Err(_) => ended = true,
                }
            }
            assert_eq!((&*received, ended), (&b"abc"[..], has_trailers));
        }
    }

    #[test]
    fn an_empty_body_ends_at_once() {
        let mut body = Body::empty();
        assert!(body.is_end_stream());
        let mut context = Context::from_waker(Waker::noop());
        let frame = Pin::new(&mut body).poll_frame(&mut context);
        assert!(matches!(frame, Poll::Ready(None)));
    }
}
