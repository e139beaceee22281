//! The workloads W1 to W5, idle connections and new ones: what a round asks of a server.

use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// A small file's size in bytes.
pub(crate) const SMALL_BYTES: u64 = 600;

/// The large file's size in bytes.
pub(crate) const LARGE_BYTES: u64 = 10_000_000;

/// How many small files W5 goes through.
pub(crate) const PATHS: usize = 200;

/// What a load client does in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
pub(crate) enum Workload {
    /// 100 connections, 10 streams each, one small file.
    #[value(name = "W1", alias = "w1")]
    W1,
    /// 1000 connections, 100 streams each, one small file.
    #[value(name = "W2", alias = "w2")]
    W2,
    /// 8 connections, one 10 MB file.
    #[value(name = "W3", alias = "w3")]
    W3,
    /// 100 connections, one stream each, one small file.
    #[value(name = "W4", alias = "w4")]
    W4,
    /// As W1, over 200 small files.
    #[value(name = "W5", alias = "w5")]
    W5,
    /// 10,000 connections over TLS that stay open after one request.
    #[value(name = "idle")]
    #[serde(rename = "idle")]
    Idle,
    /// 4000 connections at once, one request each.
    #[value(skip)]
    #[serde(rename = "storm")]
    Storm,
    /// 2000 connections, one every millisecond, one request each.
    #[value(skip)]
    #[serde(rename = "trickle")]
    Trickle,
}

/// The figures of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Load {
    pub(crate) connections: u64,
    /// Requests at the same time on each connection.
    pub(crate) streams: u64,
    /// Requests in a round, over all connections.
    pub(crate) requests: u64,
    /// Bytes of each response's body.
    pub(crate) body_bytes: u64,
    /// Different paths, taken in turn.
    pub(crate) paths: usize,
    /// `None`: all at once.
    pub(crate) connections_per_ms: Option<u64>,
}

impl Workload {
    /// What a whole round asks; sized so that a round takes a second or two.
    pub(crate) const fn load(self) -> Load {
        let (connections, streams, requests, body_bytes, paths) = match self {
            Self::W1 => (100, 10, 300_000, SMALL_BYTES, 1),
            Self::W2 => (1000, 100, 400_000, SMALL_BYTES, 1),
            Self::W3 => (8, 1, 160, LARGE_BYTES, 1),
            Self::W4 => (100, 1, 100_000, SMALL_BYTES, 1),
            Self::W5 => (100, 10, 300_000, SMALL_BYTES, PATHS),
            Self::Idle => (10_000, 1, 10_000, SMALL_BYTES, 1),
            // Fewer than a listener's queue holds.
            Self::Storm => (4000, 1, 4000, SMALL_BYTES, 1),
            Self::Trickle => (2000, 1, 2000, SMALL_BYTES, 1),
        };
        let connections_per_ms = match self {
            Self::Trickle => Some(1),
            _ => None,
        };
        Load {
            connections,
            streams,
            requests,
            body_bytes,
            paths,
            connections_per_ms,
        }
    }

    /// Whether its cost is counted by the gigabyte and not by the request.
    pub(crate) const fn is_bulk(self) -> bool {
        matches!(self, Self::W3)
    }

    /// Whether a connection makes one request and ends: its cost is a connection's.
    pub(crate) const fn is_of_connections(self) -> bool {
        matches!(self, Self::Storm | Self::Trickle)
    }
}

impl Load {
    /// The same load with a `divisor`-th of the requests, but each connection and stream in use.
    pub(crate) fn divided(self, divisor: u64) -> Self {
        let least = self.connections * self.streams;
        Self {
            requests: (self.requests / divisor).max(least).min(self.requests),
            ..self
        }
    }

    /// Body bytes that a round has to bring, over all requests.
    pub(crate) const fn total_bytes(self) -> u64 {
        self.requests * self.body_bytes
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::W1 => "W1",
            Self::W2 => "W2",
            Self::W3 => "W3",
            Self::W4 => "W4",
            Self::W5 => "W5",
            Self::Idle => "idle",
            Self::Storm => "storm",
            Self::Trickle => "trickle",
        })
    }
}

/// How HTTP/2 is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    /// Clear text, by prior knowledge (RFC 9113 section 3.3).
    H2c,
    /// TLS 1.3 with AES-128-GCM.
    Tls,
}

impl Transport {
    pub(crate) const fn scheme(self) -> &'static str {
        match self {
            Self::H2c => "http",
            Self::Tls => "https",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::H2c => "h2c",
            Self::Tls => "TLS",
        })
    }
}

/// One table's worth of measuring: what the servers of a round have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub(crate) struct Cell {
    pub(crate) workers: usize,
    pub(crate) workload: Workload,
    pub(crate) transport: Transport,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workers = if self.workers == 1 {
            "worker"
        } else {
            "workers"
        };
        let (workload, transport) = (self.workload, self.transport);
        write!(f, "{workload} {transport}, {} {workers}", self.workers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_load_still_uses_every_stream() {
        let load = Workload::W2.load().divided(10);
        assert_eq!(load.requests, 100_000);
        assert_eq!(Workload::W1.load().divided(10).requests, 30_000);
        assert_eq!(Workload::W1.load().divided(1), Workload::W1.load());
    }

    #[test]
    fn a_round_of_bulk_is_counted_in_bytes() {
        assert_eq!(Workload::W3.load().total_bytes(), 1_600_000_000);
    }
}
