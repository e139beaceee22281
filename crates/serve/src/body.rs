//! Response bodies: nothing, bytes in memory, a part of a file, or what a service streams.

use crate::access::Exchange;
use crate::handler::BoxError;
use bytes::{Buf, Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The most bytes of a file that are in memory for one response.
pub(crate) const CHUNK: usize = 64 * 1024;

/// A response's body, which logs its exchange when it is dropped: then all that will ever be sent
/// of it was handed to the transport.
///
/// It never waits, unless it is a service's.
#[derive(Debug)]
pub struct Body {
    content: Content,
    /// In a box, for most servers have no log.
    exchange: Option<Box<Exchange>>,
}

enum Content {
    Bytes(Bytes),
    File(FileRange),
    Stream(Pin<Box<dyn Stream>>),
}

/// A body of any type.
trait Stream: Send {
    fn poll_bytes(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>>;

    fn has_ended(&self) -> bool;

    fn length(&self) -> SizeHint;
}

impl<B> Stream for B
where
    B: http_body::Body + Send,
    B::Error: Into<BoxError>,
{
    fn poll_bytes(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let bytes = |mut data: B::Data| data.copy_to_bytes(data.remaining());
        let frame = ready!(self.poll_frame(cx));
        Poll::Ready(frame.map(|frame| match frame {
            Ok(frame) => Ok(frame.map_data(bytes)),
            Err(error) => Err(error.into()),
        }))
    }

    fn has_ended(&self) -> bool {
        self.is_end_stream()
    }

    fn length(&self) -> SizeHint {
        self.size_hint()
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes(_) => "Bytes",
            Self::File(_) => "File",
            Self::Stream(_) => "Stream",
        })
    }
}

/// Bytes `offset` to `offset + remaining` of a file.
#[derive(Debug)]
pub(crate) struct FileRange {
    pub(crate) file: File,
    pub(crate) offset: u64,
    pub(crate) remaining: u64,
}

impl Body {
    pub(crate) fn empty() -> Self {
        Self::bytes(Bytes::new())
    }

    pub(crate) fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self {
            content: Content::Bytes(bytes.into()),
            exchange: None,
        }
    }

    pub(crate) fn file(range: FileRange) -> Self {
        Self {
            content: Content::File(range),
            exchange: None,
        }
    }

    /// Whatever a service gives.
    pub(crate) fn stream<B>(body: B) -> Self
    where
        B: http_body::Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self {
            content: Content::Stream(Box::pin(body)),
            exchange: None,
        }
    }

    /// Lets the body account for `exchange`.
    pub(crate) fn with_exchange(self, exchange: Option<Exchange>) -> Self {
        Self {
            exchange: exchange.map(Box::new),
            ..self
        }
    }

    fn poll_content(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let chunk = match &mut self.content {
            Content::Bytes(bytes) => std::mem::take(bytes),
            Content::File(range) => match range.read() {
                Ok(chunk) => chunk,
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            },
            Content::Stream(body) => return body.as_mut().poll_bytes(cx),
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
        if let Some(exchange) = &mut self.exchange
            && let Some(Ok(frame)) = &frame
        {
            exchange.sent(frame.data_ref().map_or(0, Bytes::len));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Stream(body) => body.has_ended(),
            _ => self.size_hint().exact() == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::File(range) => SizeHint::with_exact(range.remaining),
            Content::Stream(body) => body.length(),
        }
    }
}

impl FileRange {
    /// The next piece, at most [`CHUNK`] bytes; none at the end.
    ///
    /// Reads on the calling thread: what is served often lies in the page cache, where a read costs
    /// less than handing it to another thread. A cold disk stalls this worker's other connections
    /// for the time of the read.
    ///
    /// # Errors
    /// The file can't be read, or is shorter than it was when the head was written. The response
    /// must then be cut off, for its promised length can't be kept.
    fn read(&mut self) -> io::Result<Bytes> {
        let length = self.remaining.min(CHUNK as u64);
        let chunk = read_at(&self.file, self.offset, length)?;
        self.offset += length;
        self.remaining -= length;
        Ok(chunk)
    }
}

/// Reads exactly `length` bytes, which the caller bounds.
///
/// # Errors
/// The file can't be read, or is too short.
pub(crate) fn read_at(file: &File, offset: u64, length: u64) -> io::Result<Bytes> {
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut buffer = BytesMut::zeroed(length);
    file.read_exact_at(&mut buffer, offset)?;
    Ok(buffer.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;
    use std::io::Write;
    use std::task::Waker;

    fn file(size: usize) -> (Vec<u8>, File) {
        let bytes: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        (bytes, file)
    }

    fn drain(mut body: Body) -> Result<Vec<u8>, BoxError> {
        let mut all = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut context) {
            let chunk = frame?.into_data().unwrap();
            assert!(chunk.len() <= CHUNK);
            all.extend_from_slice(&chunk);
        }
        assert!(body.is_end_stream());
        Ok(all)
    }

    #[test]
    fn a_part_of_a_file_comes_in_chunks() {
        let (bytes, file) = file(3 * CHUNK);
        let range = FileRange {
            file,
            offset: 5,
            remaining: 2 * CHUNK as u64 + 1,
        };
        let body = Body::file(range);
        assert_eq!(body.size_hint().exact(), Some(2 * CHUNK as u64 + 1));
        assert_eq!(drain(body).unwrap(), bytes[5..2 * CHUNK + 6]);
    }

    #[test]
    fn a_file_that_shrank_is_an_error_and_not_a_short_body() {
        let (_, file) = file(100);
        let range = FileRange {
            file,
            offset: 0,
            remaining: 101,
        };
        let error = drain(Body::file(range)).unwrap_err();
        let error = error.downcast::<io::Error>().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn an_empty_body_ends_at_once() {
        assert!(http_body::Body::is_end_stream(&Body::empty()));
        assert_eq!(drain(Body::empty()).unwrap(), b"");
    }
}
