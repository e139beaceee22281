//! Field sections that have not arrived whole, or that wait: what they hold was read, so that the peer may
//! send as much again. It comes out of the pool that bounds all that connections hold.

use altway_quic::QuicConnection;

use super::Connection;
use super::exchange::Exchange;
use super::tables::BlockedSection;
use crate::failure::Failure;
use crate::receive::Receiver;
use crate::{Code, StreamId};

impl Connection {
    /// Takes note of what an exchange holds after some of it was read.
    ///
    /// # Errors
    /// H3_EXCESSIVE_LOAD: it holds more than before, and there is no room for it.
    pub(super) fn check_kept(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
    ) -> Result<(), Failure> {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return Ok(());
        };
        let kept = exchange.kept();
        let before = std::mem::replace(&mut exchange.kept, kept);
        if kept == before {
            return Ok(());
        }
        self.kept = self.kept - before + kept;
        match quic.keep(self.kept as u64) {
            false if kept > before => Err(Failure::Stream(Code::H3_EXCESSIVE_LOAD)),
            _ => Ok(()),
        }
    }

    /// Counts anew, as exchanges end in many ways.
    pub(super) fn count_kept(&mut self, quic: &mut impl QuicConnection) {
        if self.kept == 0 {
            return;
        }
        self.kept = 0;
        for exchange in self.exchanges.values_mut() {
            exchange.kept = exchange.kept();
            self.kept += exchange.kept;
        }
        quic.keep(self.kept as u64);
    }
}

impl Exchange {
    /// Bytes of memory that its sections take.
    fn kept(&self) -> usize {
        let arriving = self.receiver.as_ref().map_or(0, Receiver::kept);
        let waiting = match &self.blocked_section {
            Some(BlockedSection::Head(section) | BlockedSection::Trailers(section)) => {
                section.len()
            }
            Some(BlockedSection::Request(head, _)) => size_of(head),
            None => 0,
        };
        arriving + waiting
    }
}

/// Size of the head in bytes, as RFC 9114 section 4.2.2 counts fields.
fn size_of(head: &http::Request<()>) -> usize {
    let fields = head.headers().iter();
    fields.fold(head.uri().path().len(), |sum, (name, value)| {
        sum + name.as_str().len() + value.len() + 32
    })
}
