//! The network that a client lives in.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const IPV4_BITS: u32 = 24;
const IPV6_BITS: u32 = 48;

/// A client network: an IPv4 /24 or an IPv6 /48.
///
/// These are the longest prefixes that the public routing table carries, so addresses inside one
/// share their path to us as far as the outside world is concerned; and a phone that changes its
/// IPv6 address every day stays in its own. An IPv4 address that a dual-stack socket shows as
/// IPv6 (`::ffff:192.0.2.1`) counts as IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(IpAddr);

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => {
                let mask = u32::MAX << (32 - IPV4_BITS);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - IPV6_BITS);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        })
    }
}

/// `192.0.2.0/24`, `2001:db8::/48`.
impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = if self.0.is_ipv4() {
            IPV4_BITS
        } else {
            IPV6_BITS
        };
        write!(f, "{}/{bits}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(address: &str) -> String {
        Prefix::from(address.parse::<IpAddr>().unwrap()).to_string()
    }

    #[test]
    fn keeps_the_first_24_bits_of_ipv4() {
        assert_eq!(prefix("192.0.2.255"), "192.0.2.0/24");
        assert_ne!(prefix("192.0.3.0"), prefix("192.0.2.255"));
    }

    #[test]
    fn keeps_the_first_48_bits_of_ipv6() {
        assert_eq!(prefix("2001:db8:1:ffff::1"), "2001:db8:1::/48");
        assert_ne!(prefix("2001:db8:2::"), prefix("2001:db8:1:ffff::1"));
    }

    #[test]
    fn a_mapped_address_is_ipv4() {
        assert_eq!(prefix("::ffff:192.0.2.9"), "192.0.2.0/24");
    }
}
