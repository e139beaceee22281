//! What a connection knows of its network path.

use std::net::SocketAddr;
use std::time::Duration;

/// A connection's path at one moment. Counters run since the connection began, except
/// `acked_bytes`, which starts anew when the peer moves to another network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStatistics {
    /// The peer's address.
    pub remote: SocketAddr,
    /// Smallest round-trip time seen, without the peer's acknowledgement delay.
    pub min_rtt: Duration,
    /// Smoothed round-trip time (RFC 9002 section 5.3).
    pub smoothed_rtt: Duration,
    /// The latest sample: from sending a packet to hearing of it, with acknowledgement delay.
    pub latest_rtt: Duration,
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
    /// How often the congestion window was cut.
    pub congestion_events: u64,
    /// From the first packet to the end of the hand-shake; `None` before that.
    pub handshake: Option<Duration>,
}
