//! The topology: what stands between the client and the server, as a value.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The stretch between the client and the server.
///
/// The emulated link is the same in each, so a round trip takes the delay of both directions
/// whatever the topology. Several topologies, because they explain why two labs disagree about which
/// protocol is faster on "the same" path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// One hop, the emulated link:
    ///
    /// ```text
    ///   client ══ link ══ server
    /// ```
    #[default]
    Direct,
    /// A router in a namespace of its own that forwards packets, and shapes both directions: what
    /// it sends to the server, and what the server sends through it. The hop to the client is a
    /// veth pair that changes nothing.
    ///
    /// ```text
    ///   client ── veth ── router ══ link ══ server
    /// ```
    Router,
    /// The same, but the router passes no packets on. Proxies of ours on it take connections of TCP
    /// and datagrams of UDP, and pass their bytes on ([`proxy`](crate::proxy)). So TCP's hand-shake
    /// with the client ends at the router, before the delay, and the server sees the router's
    /// address; TLS and QUIC go through untouched. The router shapes what it sends to the server,
    /// the server what it sends back.
    ///
    /// ```text
    ///   client ── veth ── router with proxies ══ link ══ server
    ///      TCP 1 ──────────▶│ TCP 2 ────────────────────────▶
    ///      QUIC ────────────────────────────────────────────▶
    /// ```
    Proxied,
    /// One hop, but each end shapes what it sends, on its own interface, as a server does that limits
    /// itself by `tc`: the rate and its queue are the kernel's HTB there, which counts Ethernet headers
    /// too. TCP hands large pieces over (GSO), as hosts do by default: each is one in the queue, and leaves it in one burst, up
    /// to 64 KB before the rate would let it. The link has what is left, loss and delay; of
    /// [`Backend::Netem`](crate::Backend::Netem) the delay is at the interfaces as well. Not for
    /// [`Backend::Tun`](crate::Backend::Tun), and without changes while it runs.
    ///
    /// ```text
    ///   client with HTB ══ link ══ HTB with server
    /// ```
    Egress,
    /// The same, but TCP hands over each packet by itself, so that the queue counts packets of the wire and the
    /// rate holds for each.
    #[serde(rename = "egress-packets")]
    EgressPackets,
}

impl Topology {
    /// All of them, the simplest first.
    pub const ALL: [Self; 5] = [
        Self::Direct,
        Self::Router,
        Self::Proxied,
        Self::Egress,
        Self::EgressPackets,
    ];

    /// Returns whether the ends shape what they send, and not the link.
    #[must_use]
    pub fn shapes_at_the_ends(self) -> bool {
        matches!(self, Self::Egress | Self::EgressPackets)
    }

    /// The name: `direct`, `router`, `proxied`, `egress` or `egress-packets`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Router => "router",
            Self::Proxied => "proxied",
            Self::Egress => "egress",
            Self::EgressPackets => "egress-packets",
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Topology {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let named = Self::ALL
            .into_iter()
            .find(|topology| topology.name() == text);
        named.ok_or_else(|| Error::UnknownTopology { text: text.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_printed_and_stored() {
        for topology in Topology::ALL {
            assert_eq!(topology.to_string().parse::<Topology>().unwrap(), topology);
            let stored = serde_json::to_value(topology).unwrap();
            assert_eq!(stored, topology.name());
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_there_are() {
        let refused = "star".parse::<Topology>().unwrap_err().to_string();
        assert_eq!(
            refused,
            "`star` is no topology: expected direct, router, proxied, egress or egress-packets"
        );
    }
}
