//! Response bodies: nothing, bytes in memory, or a part of a file.

use crate::access::Exchange;
use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The most bytes of a file that are in memory for one response.
pub(crate) const CHUNK: usize = 64 * 1024;

/// A response's body, which logs its exchange when it is dropped: then all that will ever be sent
/// of it was handed to the transport.
#[derive(Debug)]
pub(crate) struct Body {
    content: Content,
    exchange: Option<Exchange>,
}

#[derive(Debug)]
enum Content {
    Bytes(Bytes),
    File(FileRange),
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

    /// Lets the body account for `exchange`.
    pub(crate) fn with_exchange(self, exchange: Option<Exchange>) -> Self {
        Self { exchange, ..self }
    }

    /// How many bytes are still to come.
    pub(crate) fn remaining(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File(range) => range.remaining,
        }
    }

    /// The next piece, at most [`CHUNK`] bytes of a file; `None` at the end.
    ///
    /// Reads a file on the calling thread: what is served often lies in the page cache, where a
    /// read costs less than handing it to another thread. A cold disk stalls this worker's other
    /// connections for the time of the read.
    ///
    /// # Errors
    /// The file can't be read, or is shorter than it was when the head was written. The response
    /// must then be cut off, for its promised length can't be kept.
    pub(crate) fn next_chunk(&mut self) -> io::Result<Option<Bytes>> {
        let chunk = match &mut self.content {
            Content::Bytes(bytes) => std::mem::take(bytes),
            Content::File(range) => range.read()?,
        };
        if chunk.is_empty() {
            return Ok(None);
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.sent(chunk.len());
        }
        Ok(Some(chunk))
    }
}

impl FileRange {
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

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(
            self.next_chunk()
                .transpose()
                .map(|chunk| chunk.map(Frame::data)),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.remaining() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(size: usize) -> (Vec<u8>, File) {
        let bytes: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        (bytes, file)
    }

    fn drain(mut body: Body) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(chunk) = body.next_chunk()? {
            assert!(chunk.len() <= CHUNK);
            all.extend_from_slice(&chunk);
        }
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
        assert_eq!(body.remaining(), 2 * CHUNK as u64 + 1);
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
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn an_empty_body_ends_at_once() {
        assert!(http_body::Body::is_end_stream(&Body::empty()));
        assert_eq!(drain(Body::empty()).unwrap(), b"");
    }
}
