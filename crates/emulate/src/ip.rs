//! The version of IP that an emulation speaks.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// A version of the Internet Protocol. An emulation has addresses of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum IpVersion {
    /// IPv4, the default.
    #[default]
    #[serde(rename = "ipv4")]
    V4,
    /// IPv6, without neighbour discovery, router advertisements or multicast reports on the link.
    #[serde(rename = "ipv6")]
    V6,
}

impl IpVersion {
    /// Both versions, the older one first.
    pub(crate) const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The version of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The version of a packet, by its first byte; `None` where that says neither.
    pub(crate) fn of_packet(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Some(Self::V4),
            6 => Some(Self::V6),
            _ => None,
        }
    }

    /// The smallest MTU that every link must have, in bytes: 68 (RFC 791 §3.2) or 1,280 (RFC 8200
    /// §5).
    #[must_use]
    pub fn least_mtu(self) -> u16 {
        match self {
            Self::V4 => 68,
            Self::V6 => 1_280,
        }
    }

    /// The bits of an address.
    pub(crate) const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}
