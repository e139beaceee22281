//! The content of a response over HTTP/1.1, read from its connection by whoever wants it.

use super::chunked::{BadChunks, Chunked, Piece};
use super::deadline::Deadline;
use super::head::Extent;
use super::upload::UploadTask;
use super::{Http1, Link, read};
use crate::BoxError;
use crate::counters::OpenConnection;
use crate::socket::Stream;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf, ReadHalf};

/// The content that is to come, and the connection that it comes over. It is read when it is asked for, so that the
/// server sends no faster.
#[derive(Debug)]
pub(crate) struct Incoming {
    io: Io,
    /// `None`: the connection was given back.
    open: Option<OpenConnection>,
    deadline: Deadline,
    /// Bytes that were read, and not given yet: one read at most.
    input: Bytes,
    /// Bytes of that read, all of which stay in memory while some of them do.
    read: usize,
    left: ContentLeft,
    /// The piece after the one that was given, where it was there.
    ahead: Option<Result<Piece, BadChunks>>,
    /// Time for which the connection may wait for another request after the message; `None`: it carries no other.
    kept: Option<Duration>,
    /// The latest read has filled its buffer.
    is_fast: bool,
}

/// The connection's streams.
#[derive(Debug)]
pub(super) enum Io {
    Whole(Stream),
    /// The request is still sent by a task.
    Divided(ReadHalf<Stream>, UploadTask<Stream>),
    /// No connection: it was given back, or is broken.
    None,
}

#[derive(Debug)]
enum ContentLeft {
    Length(u64),
    Chunked(Box<Chunked>),
    ToTheEnd,
    Nothing,
}

impl Incoming {
    /// `input` was read after the response's head.
    pub(super) fn new(
        (io, open, deadline): (Io, OpenConnection, Deadline),
        input: Bytes,
        extent: Extent,
        kept: Option<Duration>,
    ) -> Self {
        Self {
            io,
            open: Some(open),
            deadline,
            read: input.len(),
            input,
            left: match extent {
                Extent::Length(0) => ContentLeft::Nothing,
                Extent::Length(length) => ContentLeft::Length(length),
                Extent::Chunked => ContentLeft::Chunked(Box::default()),
                Extent::ToTheEnd => ContentLeft::ToTheEnd,
            },
            ahead: None,
            kept: kept.filter(|_| extent != Extent::ToTheEnd),
            is_fast: false,
        }
    }

    /// Returns whether all that the message has was read from the connection, though not all of it
    /// was given.
    pub(crate) fn is_read(&self) -> bool {
        match self.left {
            ContentLeft::Nothing => true,
            ContentLeft::Length(left) => self.input.len() as u64 >= left,
            _ => false,
        }
    }

    /// The connection, for another request: where the message was read whole, and the request sent whole, and nothing
    /// else has arrived.
    pub(crate) fn take_connection(&mut self) -> Option<Http1> {
        if !self.is_read() {
            return None;
        }
        let io = std::mem::replace(&mut self.io, Io::None);
        let open = self.open.take()?;
        let is_clean = match self.left {
            ContentLeft::Length(left) => self.input.len() as u64 == left,
            _ => self.input.is_empty(),
        };
        let kept = self.kept.filter(|_| is_clean)?;
        let stream = match io {
            Io::Whole(stream) => stream,
            Io::Divided(read, rest) => read.unsplit(rest.finish()?),
            Io::None => return None,
        };
        let deadline = std::mem::take(&mut self.deadline);
        let link = Link {
            stream,
            open,
            deadline,
        };
        Some(Http1::reused(link, kept))
    }

    /// Takes the next piece of content, where it was read.
    pub(crate) fn take_arrived(&mut self) -> Option<Bytes> {
        if self.ahead.is_some() {
            return None;
        }
        match self.next() {
            Ok(Piece::Data(data)) => Some(data),
            Ok(Piece::More | Piece::End) => None,
            piece => {
                self.ahead = Some(piece);
                None
            }
        }
    }

    /// Bytes in memory, for what was read and not given.
    pub(crate) fn held(&self) -> usize {
        let has_ahead = matches!(self.ahead, Some(Ok(Piece::Data(_))));
        match self.input.is_empty() && !has_ahead {
            true => 0,
            false => self.read,
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            let piece = match self.ahead.take() {
                Some(piece) => piece,
                None => self.next(),
            };
            match piece {
                Ok(Piece::Data(data)) => {
                    // Whoever has the last piece is to know it.
                    self.ahead = Some(self.next()).filter(|it| *it != Ok(Piece::More));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Ok(Piece::Trailers(fields)) => {
                    return Poll::Ready(Some(Ok(Frame::trailers(fields))));
                }
                Ok(Piece::End) => return Poll::Ready(None),
                Ok(Piece::More) => match ready!(self.poll_fill(cx)) {
                    Ok(()) => {}
                    Err(error) => return Poll::Ready(Some(Err(self.fail(error)))),
                },
                Err(error) => return Poll::Ready(Some(Err(self.fail(error)))),
            }
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        matches!(self.left, ContentLeft::Nothing)
            && self.ahead.as_ref().is_none_or(|it| *it == Ok(Piece::End))
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self.left {
            ContentLeft::Nothing if self.is_end_stream() => SizeHint::with_exact(0),
            ContentLeft::Length(left) => SizeHint::with_exact(left),
            _ => SizeHint::new(),
        }
    }

    fn fail(&mut self, error: impl Into<BoxError>) -> BoxError {
        self.io = Io::None;
        self.open = None;
        self.left = ContentLeft::Nothing;
        self.kept = None;
        error.into()
    }

    /// The next piece of what was read.
    fn next(&mut self) -> Result<Piece, BadChunks> {
        let piece = match &mut self.left {
            ContentLeft::Nothing => Piece::End,
            _ if self.input.is_empty() => Piece::More,
            ContentLeft::Length(left) => {
                let n = self
                    .input
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= n as u64;
                let is_last = *left == 0;
                if is_last {
                    self.left = ContentLeft::Nothing;
                }
                Piece::Data(self.input.split_to(n))
            }
            ContentLeft::Chunked(chunked) => {
                match chunked.decode(&mut self.input)? {
                    // Whoever waits for its client shall not hold the whole read for it.
                    Piece::Data(data) if data.len() < self.read / 4 => {
                        Piece::Data(Bytes::copy_from_slice(&data))
                    }
                    piece @ (Piece::End | Piece::Trailers(_)) => {
                        self.left = ContentLeft::Nothing;
                        piece
                    }
                    piece => piece,
                }
            }
            ContentLeft::ToTheEnd => Piece::Data(std::mem::take(&mut self.input)),
        };
        Ok(piece)
    }

    /// Reads more; where the connection has ended and the content with it, nothing is left.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let most = match self.left {
            ContentLeft::Length(left) => usize::try_from(left).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let input = ready!(read::poll(&mut self.io, cx, most, &mut self.is_fast))?;
        if input.is_empty() {
            let ContentLeft::ToTheEnd = self.left else {
                let error = "the upstream closed the connection before the end of its response";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, error)));
            };
            self.left = ContentLeft::Nothing;
            self.io = Io::None;
            self.open = None;
        }
        self.read = input.len();
        self.input = input;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Whole(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Divided(half, _) => Pin::new(half).poll_read(cx, buffer),
            Self::None => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use std::sync::Arc;
    use std::task::Waker;

    fn incoming(input: &str, extent: Extent) -> Incoming {
        let open = Arc::<Counters>::default().open();
        let input = Bytes::copy_from_slice(input.as_bytes());
        Incoming::new(
            (Io::None, open, Deadline::default()),
            input,
            extent,
            Some(Duration::ZERO),
        )
    }

    fn data(incoming: &mut Incoming) -> Option<Bytes> {
        let mut context = Context::from_waker(Waker::noop());
        match incoming.poll_frame(&mut context) {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
            _ => None,
        }
    }

    #[test]
    fn the_last_piece_is_known_to_be_the_last() {
        let mut body = incoming("5\r\nhello\r\n6\r\n, you.\r\n0\r\n\r\n", Extent::Chunked);
        assert_eq!(data(&mut body).unwrap(), "hello");
        assert!(!body.is_end_stream());
        assert_eq!(data(&mut body).unwrap(), ", you.");
        assert!(body.is_end_stream() && body.is_read());
        let mut body = incoming("hello", Extent::Length(5));
        assert!(body.is_read() && !body.is_end_stream());
        assert_eq!(data(&mut body).unwrap(), "hello");
        assert!(body.is_end_stream());
    }

    #[test]
    fn a_piece_that_waits_for_its_client_holds_no_whole_read() {
        let many = format!("3\r\nabc\r\n{:x}\r\n{}", 1 << 15, "x".repeat(1 << 15));
        let mut body = incoming(&many, Extent::Chunked);
        assert_eq!(body.held(), many.len());
        let first = data(&mut body).unwrap();
        assert_eq!(first, "abc");
        assert!(first.is_unique(), "it is a copy");
        assert_eq!(body.held(), many.len(), "the rest is here");
        assert_eq!(data(&mut body).unwrap().len(), 1 << 15);
        assert_eq!(body.held(), 0);
    }

    #[test]
    fn a_connection_on_which_more_has_come_than_the_message_is_not_used_again() {
        let mut body = incoming("hello, and more", Extent::Length(5));
        assert!(body.is_read());
        assert!(body.take_connection().is_none());
        let mut body = incoming("he", Extent::Length(5));
        assert!(!body.is_read());
        assert!(body.take_connection().is_none());
    }
}
