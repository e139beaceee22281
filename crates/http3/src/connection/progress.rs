//! Slow peers: exchanges that could move and don't are given up. Resting ones: what a connection that
//! has none keeps for the next is let go.

use std::time::{Duration, Instant};

use altway_quic::QuicConnection;
use http::Method;

use super::Connection;
use super::exchange::Exchange;
use super::head_cache::{LastRequest, LastResponse};
use crate::failure::Failure;
use crate::receive::Receiver;
use crate::send::Sender;
use crate::{Code, Event, Role, StreamId};

/// Content that nobody wants moves if so many bytes do within [`Limits::linger`](crate::Limits::linger).
pub(super) const MIN_PROGRESS: u64 = 1024;

/// Time for which a connection without exchanges keeps what only saves time.
const IDLE_CACHE_TIME: Duration = Duration::from_secs(1);

/// Progress of an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Bytes of the message that came and of the one that went.
    pub(super) moved: u64,
    /// Time at which the exchange was last known to move, and the bytes it had moved then.
    since: Instant,
    before: u64,
    /// The time at which the exchange began.
    began: Instant,
    /// The peer of a tunnel may be silent.
    pub(super) tunnel: bool,
}

impl Progress {
    pub(super) fn new(now: Instant, method: Option<&Method>) -> Self {
        Self {
            moved: 0,
            since: now,
            before: 0,
            began: now,
            tunnel: method == Some(&Method::CONNECT),
        }
    }
}

impl Connection {
    /// Returns the time to call [`handle_timeout`](Self::handle_timeout); `None` while there is nothing to look after.
    /// To be asked once there are no events; the answer stays the same until then.
    pub fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        if self.sweep.is_none() && !self.is_idle() {
            // Four times in the time that an exchange has, and once more when there is none.
            self.sweep = Some(now + (self.shared_config.limits.stall / 4).min(IDLE_CACHE_TIME));
        }
        self.sweep
    }

    /// Gives up exchanges that have not moved for [`Limits::stall`](crate::Limits::stall), and heads that are not there
    /// after [`Limits::head`](crate::Limits::head). Calls too early do nothing.
    pub fn handle_timeout(&mut self, quic: &mut impl QuicConnection, now: Instant) {
        if self.sweep.is_none_or(|at| at > now) {
            return;
        }
        self.sweep = None;
        let role = self.shared_config.role;
        let limits = &self.shared_config.limits;
        let (stall, least) = (limits.stall, limits.stall_bytes);
        self.give_up_late_heads(quic, now);
        let mut stalled: Vec<StreamId> = Vec::new();
        for (id, exchange) in &mut self.exchanges {
            let waits = exchange.waits_for_peer(role);
            let progress = &mut exchange.progress;
            if !waits || progress.moved - progress.before >= least {
                progress.since = now;
                progress.before = progress.moved;
            } else if now.saturating_duration_since(progress.since) >= stall {
                stalled.push(*id);
            }
        }
        stalled.sort_unstable();
        for id in stalled {
            self.events.push_back(Event::Stalled { stream: id });
            self.fail_exchange(quic, id, Failure::Stream(Code::H3_REQUEST_CANCELLED));
        }
        self.abort_unmoved(quic, now);
        self.count_kept(quic);
        if self.is_idle() {
            self.rest();
        }
    }

    /// Server: tells of requests whose heads are not there in time.
    fn give_up_late_heads(&mut self, quic: &mut impl QuicConnection, now: Instant) {
        if self.shared_config.role == Role::Client {
            return;
        }
        let limits = &self.shared_config.limits;
        let limit = limits.head.min(limits.stall);
        let age = |it: &Exchange| now.saturating_duration_since(it.progress.began);
        for id in self.streams(|_, it| age(it) >= limit && it.awaits_head()) {
            self.report_rejected_head(quic, id, Event::RequestLate { stream: id });
        }
    }

    /// Lets go of what only saves time: some 2 KiB, of which a server with many idle connections has
    /// nothing.
    fn rest(&mut self) {
        self.exchanges.shrink_to_fit();
        self.events.shrink_to_fit();
        self.last_request = LastRequest::default();
        self.last_response = LastResponse::default();
        self.incoming.shrink();
        for stream in self.outgoing() {
            stream.shrink();
        }
    }
}

impl Exchange {
    /// Server: whether the request's head is still to come, or waits for QPACK.
    fn awaits_head(&self) -> bool {
        self.receiver.as_ref().is_some_and(Receiver::in_head)
    }

    /// Returns true if the next move is the peer's, and not our application's.
    fn waits_for_peer(&self, role: Role) -> bool {
        let receives = self.receiver.as_ref().is_some_and(|receiver| {
            // A client waits for a head, and for what follows it, as long as its application does.
            role == Role::Server
                && !self.progress.tunnel
                && (receiver.in_head() || self.blocked_section.is_some() || !self.readable)
        });
        receives || self.sender.as_ref().is_some_and(Sender::is_held_up)
    }
}
