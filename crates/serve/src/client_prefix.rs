//! The group of addresses that counts as one client where a limit is shared out.

use altway_units::PrefixLengths;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address that a socket of both families shows as IPv6 (`::ffff:192.0.2.1`), as the IPv4 that it is; others as they are.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The addresses that count as one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientPrefix(IpAddr, u8);

impl ClientPrefix {
    /// The prefix of this length that `address` is in. An IPv4 address that a socket of both families shows as
    /// IPv6 (`::ffff:192.0.2.1`) counts as IPv4.
    #[must_use]
    pub fn of(address: IpAddr, lengths: PrefixLengths) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let mask = u32::MAX << (32 - u32::from(lengths.ipv4()));
                let address = Ipv4Addr::from_bits(address.to_bits() & mask);
                Self(address.into(), lengths.ipv4())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - u32::from(lengths.ipv6()));
                let address = Ipv6Addr::from_bits(address.to_bits() & mask);
                Self(address.into(), lengths.ipv6())
            }
        }
    }
}

/// `192.0.2.1/32`, `2001:db8::/48`.
impl fmt::Display for ClientPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(lengths: PrefixLengths, address: &str) -> String {
        ClientPrefix::of(address.parse().unwrap(), lengths).to_string()
    }

    #[test]
    fn an_address_of_ipv4_and_a_site_of_ipv6_are_one_client() {
        let lengths = PrefixLengths::default();
        assert_eq!(prefix(lengths, "192.0.2.77"), "192.0.2.77/32");
        assert_eq!(prefix(lengths, "::ffff:192.0.2.77"), "192.0.2.77/32");
        assert_eq!(prefix(lengths, "2001:db8:1:2::3"), "2001:db8:1::/48");
    }

    #[test]
    fn lengths_can_be_chosen() {
        let lengths: PrefixLengths = "24,64".parse().unwrap();
        assert_eq!(prefix(lengths, "192.0.2.77"), "192.0.2.0/24");
        assert_eq!(prefix(lengths, "2001:db8:1:2::3"), "2001:db8:1:2::/64");
        let whole: PrefixLengths = "1,128".parse().unwrap();
        assert_eq!(prefix(whole, "192.0.2.77"), "128.0.0.0/1");
        assert_eq!(prefix(whole, "2001:db8::3"), "2001:db8::3/128");
    }
}
