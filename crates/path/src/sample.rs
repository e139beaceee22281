//! One observation of a path, and what many of them add up to.

use altway_units::Ratio;
use std::time::Duration;

/// The transport that made an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// HTTP/1.1 and HTTP/2. Retransmissions stand for losses.
    Tcp,
    /// HTTP/3. Losses are the engine's own (RFC 9002 section 6).
    Quic,
}

/// What one connection saw since its previous sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Who measured.
    pub transport: Transport,
    /// When, since the server's start.
    pub at: Duration,
    /// The connection's smallest round-trip time so far.
    pub min_rtt: Duration,
    /// Packets that carried data, sent since the connection's previous sample.
    pub packets_sent: u64,
    /// Of these, packets found lost since the previous sample. More than were sent (a loss may be
    /// found late) counts as all of them.
    pub packets_lost: u64,
}

/// What is known of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathStatistics {
    /// The smallest round-trip time seen lately: the path without its queues.
    pub min_rtt: Duration,
    /// Lost packets of all sent ones; zero when none was sent.
    pub loss: Ratio,
    /// How many sent packets `loss` rests on.
    pub packets: u64,
    /// When the newest sample came, since the server's start.
    pub updated: Duration,
}
