//! Networks of addresses, for those whose word is trusted.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A network: an address and how many of its leading bits count.
///
/// Text form: `10.0.0.0/8`, `2001:db8::/32`, or an address alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// A text that is no network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidNetwork(String);

impl Network {
    /// Whether an address is in the network. One of IPv4 that is written as IPv6 counts as what it is.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        if self.address.is_ipv4() != address.is_ipv4() {
            return false;
        }
        let (own, width) = number(self.address);
        let (other, _) = number(address);
        let ignored = u32::from(width - self.bits);
        let cut = |number: u128| number.checked_shr(ignored).unwrap_or(0);
        cut(own) == cut(other)
    }
}

fn number(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(ip) => (u32::from(ip).into(), 32),
        IpAddr::V6(ip) => (Ipv6Addr::to_bits(ip), 128),
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl fmt::Display for InvalidNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a network: expected an address, or one like 10.0.0.0/8",
            self.0.escape_debug()
        )
    }
}

impl std::error::Error for InvalidNetwork {}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let invalid = || InvalidNetwork(text.into());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let (_, width) = number(address);
        let bits = bits.map_or(Ok(width), str::parse).map_err(|_| invalid())?;
        if bits > width {
            return Err(invalid());
        }
        Ok(Self { address, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_what_begins_as_it_does() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("0.0.0.0/0", "203.0.113.1", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("::1", "::1", true),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert_eq!(
                parsed.contains(address.parse().unwrap()),
                expected,
                "{network} {address}"
            );
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "10.0.0.0/-1",
            "a/8",
            "10.0.0.0/",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
