//! A connection of an endpoint, with what the endpoint notes of it.

use std::time::Instant;

use super::connection::Connection;
use crate::QuicConnection;
use crate::pacer::Pacer;

/// A connection's place in its endpoint.
pub(crate) struct Slot<S> {
    pub(crate) connection: Connection,
    /// The application's.
    pub(crate) state: S,
    /// True if the connection counts as unvalidated.
    pub(crate) unvalidated: bool,
    /// True as long as what came of the handshake is not counted.
    pub(crate) uncounted: bool,
    /// True if the connection is in the endpoint's `awake`.
    pub(crate) awake: bool,
    /// True if the connection is in the endpoint's `sending`.
    pub(crate) sending: bool,
    /// Batches sent in this turn.
    pub(crate) batches: u8,
    pacer: Pacer,
}

impl<S> Slot<S> {
    pub(crate) fn new(connection: Connection, state: S, unvalidated: bool) -> Self {
        Self {
            connection,
            state,
            unvalidated,
            uncounted: true,
            awake: false,
            sending: false,
            batches: 0,
            pacer: Pacer::default(),
        }
    }

    /// Returns the time at which the connection has something to do.
    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        let timers = [self.connection.poll_timeout(), self.pacer.due()];
        timers.into_iter().flatten().min()
    }

    /// The next batch of datagrams, unless it is held back by the rate that the congestion controller has.
    /// The end of a connection is not.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<quinn_proto::Transmit> {
        let quic = self.connection.engine();
        let (mtu, metrics) = (quic.current_mtu(), quic.congestion_state().metrics());
        let bits = metrics.pacing_rate.filter(|_| !self.connection.is_closed());
        let rate = bits.map(|bits| bits / 8);
        let allowed = self.pacer.allows(now, rate, mtu, max_segments);
        if allowed == 0 {
            return None;
        }
        let transmit = self.connection.poll_transmit(now, allowed, buf);
        match &transmit {
            Some(transmit) => self.pacer.on_sent(now, transmit.size),
            None => self.pacer.on_nothing(),
        }
        transmit
    }
}
