//! Several parts of a file as one content: `multipart/byteranges` (RFC 9110 section 14.6).

use super::range::Span;
use super::shared::{FileRange, OpenFile};
use crate::request::body::CHUNK;
use bytes::Bytes;
use http::HeaderValue;
use http_body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

/// The content. Reads a piece of the file when it is asked for one.
#[derive(Debug)]
pub(super) struct Multipart {
    boundary: String,
    /// Pieces that have not been given yet: text, or a part of the file. At most twice as many as there are parts, and
    /// one.
    pieces: VecDeque<Piece>,
    remaining: u64,
}

#[derive(Debug)]
enum Piece {
    Text(Bytes),
    Part(FileRange),
}

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Part(range) => range.remaining,
        }
    }
}

impl Multipart {
    /// The `spans` of a file with this media type and entity tag.
    pub(super) fn new(
        file: &Arc<OpenFile>,
        kind: &HeaderValue,
        spans: &[Span],
        etag: &str,
    ) -> Self {
        let boundary = boundary(etag, spans);
        let kind = kind.to_str().unwrap_or("application/octet-stream");
        let mut pieces = VecDeque::with_capacity(2 * spans.len() + 1);
        let mut before = "";
        for span in spans {
            let content_range = span.content_range(file.size());
            let head = format!(
                "{before}--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: {content_range}\r\n\r\n"
            );
            before = "\r\n";
            pieces.push_back(Piece::Text(head.into()));
            pieces.push_back(Piece::Part(FileRange {
                file: Arc::clone(file),
                offset: span.first,
                remaining: span.length(),
            }));
        }
        let end = format!("\r\n--{boundary}--\r\n");
        pieces.push_back(Piece::Text(end.into()));
        Self {
            remaining: pieces.iter().map(Piece::length).sum(),
            boundary,
            pieces,
        }
    }

    /// The value of Content-Type.
    pub(super) fn kind(&self) -> HeaderValue {
        let kind = format!("multipart/byteranges; boundary={}", self.boundary);
        HeaderValue::try_from(kind).expect("letters and digits")
    }

    /// Bytes that have not been given yet.
    pub(super) fn remaining(&self) -> u64 {
        self.remaining
    }

    fn next(&mut self) -> Option<io::Result<Bytes>> {
        let bytes = match self.pieces.front_mut()? {
            Piece::Text(text) => std::mem::take(text),
            Piece::Part(range) => match range.read(CHUNK) {
                Ok(bytes) => bytes,
                Err(error) => return Some(Err(error)),
            },
        };
        self.remaining -= bytes.len() as u64;
        self.pieces.pop_front_if(|piece| piece.length() == 0);
        Some(Ok(bytes))
    }
}

impl Body for Multipart {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(self.next().map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

/// A line that stands between parts. Nobody can put it into a file ahead of time: it depends on a number that
/// the process has drawn. The same request has the same content as long as the process runs.
fn boundary(etag: &str, spans: &[Span]) -> String {
    static KEYS: LazyLock<[RandomState; 2]> =
        LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    let [one, other] = KEYS.each_ref().map(|keys| keys.hash_one((etag, spans)));
    format!("{one:016x}{other:016x}")
}
