//! The workloads of HTTP/2 and HTTP/3, idle connections and new ones: what a round asks of a server.

use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// A small file's size in bytes.
pub(crate) const SMALL_BYTES: u64 = 600;

/// The large file's size in bytes.
pub(crate) const LARGE_BYTES: u64 = 10_000_000;

/// Number of small files that W5 goes through.
pub(crate) const PATHS: usize = 200;

/// The requests of a load client in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
pub(crate) enum Workload {
    /// 100 connections, 10 streams each, one small file.
    #[value(name = "W1")]
    W1,
    /// 1000 connections, 100 streams each, one small file.
    #[value(name = "W2")]
    W2,
    /// 8 connections, one 10 MB file.
    #[value(name = "W3")]
    W3,
    /// 100 connections, one stream each, one small file.
    #[value(name = "W4")]
    W4,
    /// W1 over 200 small files.
    #[value(name = "W5")]
    W5,
    /// 100 connections, 10 streams each, one small file, over HTTP/3.
    #[value(name = "HQ1")]
    #[serde(rename = "HQ1")]
    Hq1,
    /// 100 connections, one stream each, one small file, over HTTP/3.
    #[value(name = "HQ1b")]
    #[serde(rename = "HQ1b")]
    Hq1b,
    /// 8 connections, one 10 MB file, over a pair of virtual Ethernet devices.
    #[value(name = "HQ2")]
    #[serde(rename = "HQ2")]
    Hq2,
    /// 1000 connections, 25 at a time, one request each.
    #[value(name = "HQ3")]
    #[serde(rename = "HQ3")]
    Hq3,
    /// 2000 connections in 4 seconds, one request each.
    #[value(name = "ramp")]
    #[serde(rename = "ramp")]
    Ramp,
    /// 10,000 connections that stay open after one request.
    #[value(name = "idle")]
    #[serde(rename = "idle")]
    Idle,
    /// 4000 connections at once, one request each.
    #[value(name = "storm")]
    #[serde(rename = "storm")]
    Storm,
    /// 2000 connections, one every millisecond, one request each.
    #[value(name = "trickle")]
    #[serde(rename = "trickle")]
    Trickle,
    /// 100 connections, 10 streams each, one small file of an origin behind.
    #[value(name = "P1")]
    P1,
    /// 8 connections, one 10 MB file of an origin behind.
    #[value(name = "P2")]
    P2,
    /// 100 connections, one stream each, one small file of an origin behind.
    #[value(name = "P3")]
    P3,
    /// 1,000 requests a second over 10 connections, in an open loop, for one small file of an origin behind.
    #[value(name = "latency")]
    #[serde(rename = "latency")]
    ProxyLatency,
    /// 10,000 connections from as many addresses that stay open after one request to an origin behind.
    #[value(name = "idle-clients")]
    #[serde(rename = "idle-clients")]
    ProxyIdle,
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
    /// Connections open at the same time. `None`: all of them.
    pub(crate) at_once: Option<u64>,
    /// Milliseconds from one connection's beginning to the next one's. `None`: all at once.
    pub(crate) connection_every_ms: Option<u64>,
    /// Requests that are due each second, whether earlier ones are answered or not. `None`: as fast as they are
    /// answered.
    pub(crate) per_second: Option<u64>,
    /// Addresses that connections come from, in turn.
    pub(crate) addresses: u64,
}

impl Workload {
    /// Requests, connections and streams of a whole round; sized so that a round takes a second or two.
    pub(crate) const fn load(self) -> Load {
        let (connections, streams, requests, body_bytes, paths) = match self {
            Self::W1 => (100, 10, 300_000, SMALL_BYTES, 1),
            Self::W2 => (1000, 100, 400_000, SMALL_BYTES, 1),
            Self::W3 => (8, 1, 160, LARGE_BYTES, 1),
            Self::W4 => (100, 1, 100_000, SMALL_BYTES, 1),
            Self::W5 => (100, 10, 300_000, SMALL_BYTES, PATHS),
            Self::Hq1 => (100, 10, 200_000, SMALL_BYTES, 1),
            Self::Hq1b => (100, 1, 100_000, SMALL_BYTES, 1),
            Self::Hq2 => (8, 1, 80, LARGE_BYTES, 1),
            Self::Hq3 => (1000, 1, 1000, SMALL_BYTES, 1),
            Self::Ramp => (2000, 1, 2000, SMALL_BYTES, 1),
            Self::Idle => (10_000, 1, 10_000, SMALL_BYTES, 1),
            // Fewer than a listener's queue holds.
            Self::Storm => (4000, 1, 4000, SMALL_BYTES, 1),
            Self::Trickle => (2000, 1, 2000, SMALL_BYTES, 1),
            Self::P1 => (100, 10, 100_000, SMALL_BYTES, 1),
            Self::P2 => (8, 1, 80, LARGE_BYTES, 1),
            Self::P3 => (100, 1, 60_000, SMALL_BYTES, 1),
            Self::ProxyLatency => (10, 10, 10_000, SMALL_BYTES, 1),
            Self::ProxyIdle => (10_000, 1, 10_000, SMALL_BYTES, 1),
        };
        let connection_every_ms = match self {
            Self::Trickle => Some(1),
            // All at once, quic-go and Caddy refuse some: 32 may wait to be accepted.
            Self::Hq1 | Self::Hq1b | Self::Ramp => Some(2),
            _ => None,
        };
        let at_once = match self {
            // quic-go refuses connections when 32 wait to be accepted.
            Self::Hq3 => Some(25),
            _ => None,
        };
        let per_second = match self {
            Self::ProxyLatency => Some(1000),
            _ => None,
        };
        let addresses = match self {
            // Servers bound what one address may have.
            Self::ProxyIdle => connections,
            _ => 1,
        };
        Load {
            connections,
            streams,
            requests,
            body_bytes,
            paths,
            at_once,
            connection_every_ms,
            per_second,
            addresses,
        }
    }

    /// Returns true if its cost is counted by the gigabyte and not by the request.
    pub(crate) const fn is_bulk(self) -> bool {
        matches!(self, Self::W3 | Self::Hq2 | Self::P2)
    }

    /// Returns true if the servers have nothing of their own and ask an origin behind them.
    pub(crate) const fn is_proxied(self) -> bool {
        matches!(
            self,
            Self::P1 | Self::P2 | Self::P3 | Self::ProxyLatency | Self::ProxyIdle
        )
    }

    /// Returns true if memory is what counts: connections are opened, ask once and stay.
    pub(crate) const fn is_idle(self) -> bool {
        matches!(self, Self::Idle | Self::ProxyIdle)
    }

    /// Returns true if a connection makes one request and ends: its cost is a connection's.
    pub(crate) const fn is_of_connections(self) -> bool {
        matches!(self, Self::Hq3 | Self::Ramp | Self::Storm | Self::Trickle)
    }

    /// Returns true if its packets go through virtual Ethernet devices, with an Ethernet's MTU, and not
    /// through loopback, whose packets of 64 KB no network has.
    pub(crate) const fn is_over_veth(self) -> bool {
        matches!(self, Self::Hq2)
    }
}

impl Load {
    /// The same load with a `divisor`-th of the requests, but each connection and stream in use; of
    /// connections that come one after the other a `divisor`-th, but as many at once.
    pub(crate) fn divided(self, divisor: u64) -> Self {
        let fewer = |least| (self.requests / divisor).max(least).min(self.requests);
        match self.at_once {
            None => Self {
                requests: fewer(self.connections * self.streams),
                ..self
            },
            Some(at_once) => Self {
                connections: fewer(at_once),
                requests: fewer(at_once),
                ..self
            },
        }
    }

    /// Parts that are done one after the other, each with all of its connections at once.
    pub(crate) fn parts(self) -> impl Iterator<Item = Self> {
        let at_once = self.at_once.unwrap_or(self.connections);
        let part = move |begun| {
            let connections = at_once.min(self.connections - begun);
            Self {
                connections,
                requests: self.requests * connections / self.connections,
                at_once: None,
                ..self
            }
        };
        let step = usize::try_from(at_once.max(1)).unwrap_or(usize::MAX);
        (0..self.connections).step_by(step).map(part)
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
            Self::Hq1 => "HQ1",
            Self::Hq1b => "HQ1b",
            Self::Hq2 => "HQ2",
            Self::Hq3 => "HQ3",
            Self::Ramp => "ramp",
            Self::Idle => "idle",
            Self::Storm => "storm",
            Self::Trickle => "trickle",
            Self::P1 => "P1",
            Self::P2 => "P2",
            Self::P3 => "P3",
            Self::ProxyLatency => "latency",
            Self::ProxyIdle => "idle-clients",
        })
    }
}

/// Transport that carries HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    /// HTTP/2 in clear text, by prior knowledge (RFC 9113 section 3.3).
    H2c,
    /// HTTP/2 over TLS 1.3 with AES-128-GCM.
    Tls,
    /// HTTP/3 over QUIC with AES-128-GCM.
    H3,
}

impl Transport {
    pub(crate) const fn scheme(self) -> &'static str {
        match self {
            Self::H2c => "http",
            Self::Tls | Self::H3 => "https",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::H2c => "h2c",
            Self::Tls => "TLS",
            Self::H3 => "h3",
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
    fn the_parts_of_a_load_make_up_the_whole() {
        let load = Workload::Hq3.load();
        let parts: Vec<_> = load.parts().collect();
        assert_eq!(parts.len(), 40);
        assert!(parts.iter().all(|part| part.connections == 25));
        assert_eq!(parts.iter().map(|part| part.requests).sum::<u64>(), 1000);
        let uneven = Load {
            connections: 60,
            requests: 60,
            ..load
        };
        let sizes: Vec<_> = uneven.parts().map(|part| part.connections).collect();
        assert_eq!(sizes, [25, 25, 10]);
        let whole = Workload::Hq1.load();
        assert_eq!(whole.parts().collect::<Vec<_>>(), [whole]);
    }

    #[test]
    fn fewer_connections_come_just_as_many_at_once() {
        let load = Workload::Hq3.load().divided(10);
        assert_eq!((load.connections, load.requests), (100, 100));
        assert_eq!(load.at_once, Some(25));
        assert_eq!(load.divided(1000).connections, 25);
    }

    #[test]
    fn a_rate_does_not_change_with_the_number_of_requests() {
        let load = Workload::ProxyLatency.load().divided(10);
        assert_eq!((load.requests, load.per_second), (1000, Some(1000)));
    }

    #[test]
    fn a_round_of_bulk_is_counted_in_bytes() {
        assert_eq!(Workload::W3.load().total_bytes(), 1_600_000_000);
    }
}
