//! QPACK's streams and the sections that wait for them (RFC 9204).

use std::sync::Arc;

use altway_quic::QuicConnection;
use bytes::Bytes;

use super::Connection;
use crate::failure::Violation;
use crate::receive::Follow;
use crate::{Code, StreamId};

/// Bytes that may wait for the decoder stream. A peer that takes no acknowledgements, though it goes
/// on using its table, is of ill will.
const MAX_WAITING: usize = 16 << 10;

/// A field section that waits for insertions into the dynamic table.
#[derive(Debug)]
pub(super) enum BlockedSection {
    /// A head.
    Head(Bytes),
    /// Trailers.
    Trailers(Bytes),
    /// No section any more: a request that waits for the end of the handshake.
    Request(Arc<http::Request<()>>, Follow),
}

impl Connection {
    /// Bytes of the peer's encoder stream.
    pub(super) fn on_encoder_stream(
        &mut self,
        quic: &mut impl QuicConnection,
        piece: &[u8],
    ) -> Result<(), Violation> {
        let instructions = self.decoder.on_encoder_stream(piece)?;
        self.floods.spend(instructions)?;
        self.unpark(quic);
        Ok(())
    }

    /// Bytes of the peer's decoder stream.
    pub(super) fn on_decoder_stream(&mut self, piece: &[u8]) -> Result<(), Violation> {
        let instructions = self.encoder.on_decoder_stream(piece)?;
        self.floods.spend(instructions)
    }

    /// Keeps a section until its entries are there.
    pub(super) fn block(
        &mut self,
        id: StreamId,
        section: BlockedSection,
        required: u64,
    ) -> Result<(), Violation> {
        // RFC 9204 section 2.1.2: "If a decoder encounters more blocked streams than it promised to
        // support, it MUST treat this as a connection error of type QPACK_DECOMPRESSION_FAILED."
        if self.waiting.len() >= self.shared_config.limits.qpack_blocked_streams as usize {
            let reason = "more blocked streams than allowed";
            return Err(Violation::new(Code::QPACK_DECOMPRESSION_FAILED, reason));
        }
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.blocked_section = Some(section);
            self.waiting.push((required, id));
        }
        Ok(())
    }

    /// The stream's sections will not be decoded.
    pub(super) fn cancel_sections(&mut self, id: StreamId) {
        self.waiting.retain(|(_, waiting)| *waiting != id);
        self.decoder.cancel(id.get());
    }

    /// Writes what the compression tables of both sides have to say to each other, unless it can wait. To be called before
    /// the connection's datagrams are made; once for all that a turn brought, as each time costs a write on a stream.
    pub fn flush(&mut self, quic: &mut impl QuicConnection) {
        let is_due = self.decoder.is_due();
        let insertions = Some((self.encoder.instructions(), &mut self.encoder_stream));
        let answers = is_due.then(|| (self.decoder.instructions(), &mut self.decoder_stream));
        for (instructions, stream) in insertions.into_iter().chain(answers) {
            if !instructions.is_empty() {
                stream.unsent().extend_from_slice(instructions);
                instructions.clear();
                stream.flush(quic);
            }
        }
    }

    /// Refuses to go on with a peer that takes no acknowledgements.
    pub(super) fn check_decoder_stream(&self) -> Result<(), Violation> {
        if self.decoder_stream.len() > MAX_WAITING {
            let reason = "acknowledgements are not taken";
            return Err(Violation::new(Code::H3_EXCESSIVE_LOAD, reason));
        }
        Ok(())
    }

    /// Goes on with the sections whose entries are there, in the order in which they came.
    fn unpark(&mut self, quic: &mut impl QuicConnection) {
        let inserted = self.decoder.insert_count();
        while let Some(ready) = self.waiting.iter().position(|(it, _)| *it <= inserted) {
            let (_, id) = self.waiting.remove(ready);
            let exchange = self.exchanges.get_mut(&id);
            match exchange.and_then(|exchange| exchange.blocked_section.take()) {
                Some(BlockedSection::Head(section)) => self.go_on_with_head(quic, id, section),
                Some(BlockedSection::Trailers(section)) => {
                    self.go_on_with_trailers(quic, id, &section);
                }
                Some(BlockedSection::Request(..)) | None => {}
            }
            if let Err(failure) = self.check_kept(quic, id) {
                self.fail_exchange(quic, id, failure);
            }
        }
    }
}
