//! Sending of a connection: quinn-proto's batches, as far as its handshake and its path permit them.

use std::time::Instant;

use super::{Connection, in_varint};
use crate::engine::meter;

/// Bytes that one send call carries at most: the largest UDP payload over IPv4.
const MAX_BATCH: usize = 65_507;

impl Connection {
    /// The next batch of datagrams.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<quinn_proto::Transmit> {
        if self.draining {
            return None;
        }
        if let Some((code, reason)) = self.closing.take() {
            self.engine.close(now, in_varint(code), reason);
        }
        if self.engine.is_closed() {
            meter::lift_limits(self.engine.congestion_state());
        }
        let fitting = MAX_BATCH / usize::from(self.engine.current_mtu());
        let max_segments = max_segments.min(fitting.max(1));
        let allowed = self.budget.allows(max_segments, self.engine.current_mtu());
        if allowed == 0 {
            return None;
        }
        loop {
            if let Some((transmit, bytes)) = self.paths.next_waiting() {
                buf.extend_from_slice(&bytes);
                return Some(transmit);
            }
            let mtu = self.engine.current_mtu();
            let allowed = if self.paths.is_validated() {
                allowed
            } else {
                1
            };
            let less = self.paths.truncation(mtu);
            let transmit = self.poll_shortened(now, allowed, less, buf)?;
            if self.paths.permits(&transmit, buf, less, mtu) {
                self.budget.on_sent(transmit.size);
                return Some(transmit);
            }
            buf.clear();
        }
    }

    /// A batch of quinn-proto's, which is this much longer in quinn-proto's counts. Unless that is 0, it is
    /// one datagram.
    fn poll_shortened(
        &mut self,
        now: Instant,
        max_segments: usize,
        less: u16,
        buf: &mut Vec<u8>,
    ) -> Option<quinn_proto::Transmit> {
        self.keys.truncation.set(less);
        let transmit = self.engine.poll_transmit(now, max_segments, buf);
        self.keys.truncation.set(0);
        let mut transmit = transmit?;
        transmit.size -= usize::from(less);
        buf.truncate(transmit.size);
        Some(transmit)
    }
}
