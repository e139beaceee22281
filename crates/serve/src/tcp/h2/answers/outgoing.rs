//! The part of a response that waits for its turn.

use crate::access::Exchange;
use crate::body::Body;
use crate::exchanges::Exchanges;
use crate::files::Reading;
use crate::handler::BoxError;
use crate::sending::{Next, Sending};
use crate::tcp::h2::Desk;
use altway_http2::{StreamId, Turn};
use bytes::Buf;

/// A body that has not been handed over whole.
pub(super) enum Outgoing {
    Body(Sending),
    File(OutgoingFile),
}

/// The rest of a file of the worker's cache.
pub(super) struct OutgoingFile {
    pub(super) reading: Reading,
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
        desk: &Desk,
    ) -> Result<Sent, BoxError> {
        let (chunk, last) = self.reading.next(&mut desk.files.borrow_mut())?;
        let sent = turn.send_data(stream, chunk, last)?;
        chunk.advance(sent);
        if let Some(exchange) = &mut self.exchange {
            exchange.sent(sent);
        }
        Ok(if last && chunk.is_empty() {
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
