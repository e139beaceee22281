//! The part of a response that waits for its turn.

use crate::access::Exchange;
use crate::body::Body;
use crate::exchanges::Exchanges;
use crate::files::Entry;
use crate::handler::BoxError;
use crate::sending::{Next, Sending};
use crate::tcp::h2::Desk;
use altway_http2::{StreamId, Turn};
use bytes::{Buf, Bytes};
use std::rc::Rc;

/// A body that has not been handed over whole.
pub(super) enum Outgoing {
    Body(Sending),
    File(OutgoingFile),
}

/// The rest of a file of the worker's cache.
pub(super) struct OutgoingFile {
    pub(super) entry: Rc<Entry>,
    /// Of the next chunk.
    pub(super) offset: u64,
    /// What was read and not sent.
    pub(super) chunk: Bytes,
    pub(super) exchange: Option<Exchange>,
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
        Self::Body(Sending::new(body))
    }
}

impl OutgoingFile {
    /// Sends one frame, as far as the windows allow.
    ///
    /// # Errors
    /// The file can't be read, or the stream is gone.
    pub(super) fn send(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        desk: &mut Desk,
    ) -> Result<Sent, BoxError> {
        if self.chunk.is_empty() {
            self.chunk = desk.files.read(&self.entry, self.offset)?;
            self.offset += self.chunk.len() as u64;
        }
        let is_read = self.offset >= self.entry.size;
        let sent = turn.send_data(stream, &self.chunk, is_read)?;
        self.chunk.advance(sent);
        if let Some(exchange) = &mut self.exchange {
            exchange.sent(sent);
        }
        Ok(if is_read && self.chunk.is_empty() {
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
