//! Request content that a server's application does not want: it is read on and dropped, up to a bound.
//!
//! RFC 9114 section 4.1 lets a server "abort reading the request stream, send a complete response" and
//! ask the client by H3_NO_ERROR to stop sending, and says that "clients MUST NOT discard complete
//! responses as a result". Chromium does: stopped while it has more to send it resets the stream, and
//! its page never sees the response. So the client may come to its end first. Bytes are dropped as they
//! arrive, undecoded, and their flow-control credit is given back. STOP_SENDING follows when there are
//! too many of them, or when they no longer move though the response has been acknowledged.
//! docs/decisions/0059 has the rule, and what it is over the other protocols.

use std::time::Instant;

use altway_quic::{QuicConnection, Read};

use super::Connection;
use super::progress::MIN_PROGRESS;
use crate::{Code, Role, StreamId};

/// Progress of the unwanted rest of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unwanted {
    /// Bytes that may still come.
    left: u64,
    /// Time at which the rest was last known to move, or the response was acknowledged; nothing is asked of it
    /// before.
    since: Option<Instant>,
    /// Bytes that could still come then.
    before: u64,
}

impl Connection {
    /// Wants no more of the peer's body (STOP_SENDING); what this side sends goes on. A server that
    /// needs no body says so with H3_NO_ERROR: then up to [`Limits::max_unwanted`](crate::Limits::max_unwanted)
    /// bytes of it are dropped first, for as long as [`Limits::linger`](crate::Limits::linger) lets them,
    /// as some clients lose a response that STOP_SENDING accompanies. Without effect on what is over already.
    pub fn stop_reading(&mut self, quic: &mut impl QuicConnection, id: StreamId, code: Code) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        if exchange.receiver.take().is_none() {
            return;
        }
        // No section of it will be decoded.
        (exchange.blocked_section, exchange.trailers) = (None, None);
        // Holding less can't fail.
        let _ = self.check_kept(quic, id);
        let left = self.shared_config.limits.max_unwanted;
        if self.shared_config.role == Role::Client || code != Code::H3_NO_ERROR || left == 0 {
            return self.abort_reading(quic, id, code);
        }
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.unwanted = Some(Unwanted {
                left,
                since: None,
                before: left,
            });
        }
        self.waiting.retain(|(_, waiting)| *waiting != id);
        self.discard(quic, id);
    }

    /// Drops what has come of an unwanted message.
    pub(super) fn discard(&mut self, quic: &mut impl QuicConnection, id: StreamId) {
        let exchange = self.exchanges.get_mut(&id);
        let Some(unwanted) = exchange.and_then(|it| it.unwanted.as_mut()) else {
            return;
        };
        loop {
            match quic.read(id) {
                Read::Data(data) => match unwanted.left.checked_sub(data.len() as u64) {
                    Some(left) => unwanted.left = left,
                    None => return self.abort_reading(quic, id, Code::H3_NO_ERROR),
                },
                Read::Pending => return,
                // A client that gives up what nobody wants may want the response.
                Read::End | Read::Reset(_) => return self.end_reading(id),
            }
        }
    }

    /// Server: the response of an exchange has been acknowledged; its request has to move from now on.
    pub(super) fn expect_progress(&mut self, id: StreamId) {
        let exchange = self.exchanges.get_mut(&id);
        if let Some(unwanted) = exchange.and_then(|it| it.unwanted.as_mut()) {
            unwanted.since = Some(self.now);
            unwanted.before = unwanted.left;
        }
    }

    /// Aborts unwanted messages that don't move.
    pub(super) fn abort_unmoved(&mut self, quic: &mut impl QuicConnection, now: Instant) {
        let linger = self.shared_config.limits.linger;
        // A peer that was told to go must not stay by sending on.
        let is_leaving = self.go_away_sent.is_some();
        let mut unmoved: Vec<StreamId> = Vec::new();
        for (id, exchange) in &mut self.exchanges {
            let Some(unwanted) = &mut exchange.unwanted else {
                continue;
            };
            let Some(since) = unwanted.since else {
                continue;
            };
            if !is_leaving && unwanted.before - unwanted.left >= MIN_PROGRESS {
                unwanted.since = Some(now);
                unwanted.before = unwanted.left;
            } else if now.saturating_duration_since(since) >= linger {
                unmoved.push(*id);
            }
        }
        unmoved.sort_unstable();
        for id in unmoved {
            self.abort_reading(quic, id, Code::H3_NO_ERROR);
        }
    }

    fn abort_reading(&mut self, quic: &mut impl QuicConnection, id: StreamId, code: Code) {
        quic.stop(id, code.get());
        self.end_reading(id);
    }

    /// Takes note that nothing more of the peer's message is read.
    fn end_reading(&mut self, id: StreamId) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.unwanted = None;
        }
        self.cancel_sections(id);
        self.remove_if_over(id);
    }
}
