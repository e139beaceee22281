//! The part of a response that waits for its turn.

use crate::files::{Piece, Reading};
use crate::request::body::Body;
use crate::request::handler::BoxError;
use crate::request::log::LogEntry;
use crate::request::outgoing::{Next, RESPONSE_OVERHEAD, Sending};
use crate::request::pending::Exchanges;
use crate::tcp::h2::WorkerBuffers;
use altway_http2::{StreamId, Turn};
use bytes::{Buf, Bytes};

/// A body that has not been handed over whole.
pub(super) enum Outgoing {
    Body(Sending),
    File(OutgoingFile),
}

/// What is left of a file.
pub(super) struct OutgoingFile {
    pub(super) reading: Reading,
    pub(super) entry: Option<LogEntry>,
}

/// What became of a frame.
pub(super) enum Sent {
    /// More is to come.
    Part,
    /// It was the last.
    All,
}

impl Outgoing {
    pub(super) fn body(body: Body) -> Self {
        match body.into_file() {
            Ok((range, entry)) => Self::File(OutgoingFile {
                reading: Reading::File(range),
                entry,
            }),
            Err(body) => Self::Body(Sending::new(body)),
        }
    }

    /// Bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        RESPONSE_OVERHEAD
            + match self {
                Self::Body(sending) => sending.held(),
                Self::File(file) => file.reading.held(),
            }
    }
}

impl OutgoingFile {
    /// Sends one frame, as far as the windows allow. What they don't allow is not read.
    ///
    /// # Errors
    /// The file can't be read, or the stream is gone.
    pub(super) fn send(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        buffers: &WorkerBuffers,
    ) -> Result<Sent, BoxError> {
        let piece = match turn.send_capacity(stream) {
            0 => Piece::nothing(),
            capacity => self
                .reading
                .next(&mut buffers.files.borrow_mut(), capacity)?,
        };
        let sent = turn.send_data(stream, &piece.bytes, piece.last)?;
        self.reading.advance(sent);
        if let Some(entry) = &mut self.entry {
            entry.sent(sent);
        }
        Ok(if piece.last && self.reading.remaining() == 0 {
            Sent::All
        } else {
            Sent::Part
        })
    }
}

/// Sends one frame of a body, as far as the windows allow.
///
/// # Errors
/// The body fails, or the stream is gone.
pub(super) fn send(
    sending: &mut Sending,
    turn: &mut Turn<'_>,
    stream: StreamId,
    exchanges: &mut Exchanges<StreamId>,
) -> Result<Sent, BoxError> {
    if turn.send_capacity(stream) == 0 && !sending.is_at_end() {
        // What can't leave is not asked for.
        turn.send_data(stream, &Bytes::new(), false)?;
        return Ok(Sent::Part);
    }
    match sending.next(stream, exchanges)? {
        Next::Nothing => Ok(Sent::Part),
        Next::Trailers(trailers) => {
            turn.send_trailers(stream, &trailers)?;
            Ok(Sent::All)
        }
        Next::Data { chunk, last } => {
            let sent = turn.send_data(stream, chunk, last)?;
            chunk.advance(sent);
            Ok(if last && chunk.is_empty() {
                Sent::All
            } else {
                Sent::Part
            })
        }
    }
}
