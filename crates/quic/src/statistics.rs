//! Statistics that a connection keeps of its network path, and an endpoint of its connections.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// An endpoint's connections at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStatistics {
    /// Connections that it holds, those in handshake and those closing included.
    pub connections: usize,
    /// Connections among these whose handshake has not come so far that the client's address is validated.
    pub unvalidated: usize,
    /// Clients that were answered by Retry, since the endpoint began.
    pub retries: u64,
    /// Handshakes that are over, by what came of them.
    pub handshakes: HandshakeCounts,
    /// Bytes of the pool that windows have, as far as they are beyond what each connection has anyway.
    pub held_bytes: u64,
    /// Bytes of the pool ([`Limits::max_held_bytes`](crate::Limits::max_held_bytes)); 0 without one, at a client.
    pub max_held_bytes: u64,
}

/// Handshakes since an endpoint began, by what came of them. Those in progress are in none of the counts, and those of
/// connections that an endpoint ignores neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandshakeCounts {
    /// Handshakes that were done: both sides have the connection's keys.
    pub completed: u64,
    /// Handshakes that either side gave up over what the other sent, an untrusted certificate for instance.
    pub failed: u64,
    /// Handshakes of which nothing came any more, or that took longer than they may.
    pub timed_out: u64,
    /// Server: clients that were refused at their first packet.
    pub refused: u64,
}

/// The acknowledged bytes at one moment of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckProgress {
    /// The time at which an acknowledgement came.
    pub at: Instant,
    /// [`PathStatistics::bytes_acked`] with it.
    pub bytes_acked: u64,
}

/// A connection's path at one moment. Counters run since the connection began, except what is
/// acknowledged, which starts anew when the peer moves to another network.
///
/// The number of packets declared lost in vain is not in it: the engine forgets a packet once it is declared
/// lost, and doesn't tell when its acknowledgement comes after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStatistics {
    /// The peer's address.
    pub remote: SocketAddr,
    /// Smallest round-trip time seen, without the peer's acknowledgement delay.
    pub min_rtt: Duration,
    /// Smoothed round-trip time (RFC 9002 section 5.3).
    pub smoothed_rtt: Duration,
    /// Congestion window, bytes.
    pub congestion_window: u64,
    /// Largest UDP payload that the path is known to carry, bytes.
    pub mtu: u16,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets declared lost, without MTU probes.
    pub packets_lost: u64,
    /// UDP payload bytes sent.
    pub bytes_sent: u64,
    /// UDP payload bytes received.
    pub bytes_received: u64,
    /// Bytes of ack-eliciting packets that the peer has acknowledged on this path.
    pub bytes_acked: u64,
    /// Progress in the current burst, which began when there had been nothing left to send: the acknowledgement with which an
    /// quarter to a half of the burst's acknowledged bytes had arrived; `None` until these are 32 KiB. From there on the
    /// delivery rate is that after slow start.
    pub progress: Option<AckProgress>,
    /// Congestion events: lost packets, or an acknowledgement of marked ones (ECN). The window is cut once a
    /// round trip at most.
    pub congestion_events: u64,
    /// The time from the first packet to the end of the handshake; `None` before that.
    pub handshake: Option<Duration>,
}
