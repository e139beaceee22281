//! Groups of addresses: a client, the network it lives in, and the allocation that network is part of.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// Leading bits of an IPv4 and of an IPv6 address that a group shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrefixLengths {
    ipv4: u32,
    ipv6: u32,
}

/// One client: an IPv4 address, or the IPv6 /64 in which a host chooses its addresses freely.
pub(crate) const CLIENT: PrefixLengths = PrefixLengths { ipv4: 32, ipv6: 64 };

/// The longest prefixes that the public routing table carries: addresses inside one share their path to
/// us as far as the outside world is concerned.
pub(crate) const NETWORK: PrefixLengths = PrefixLengths { ipv4: 24, ipv6: 48 };

/// The smallest block that a registry hands out in IPv6, and a large one of IPv4: whoever holds it can
/// use any address in it.
pub(crate) const ALLOCATION: PrefixLengths = PrefixLengths { ipv4: 16, ipv6: 32 };

impl PrefixLengths {
    /// The first address of the group that `address` is in. An IPv4 address that a dual-stack socket
    /// shows as IPv6 (`::ffff:192.0.2.1`) counts as IPv4.
    pub(crate) fn first(self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                Ipv4Addr::from_bits(address.to_bits() & !self.ipv4_rest()).into()
            }
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & !self.ipv6_rest()).into()
            }
        }
    }

    /// All addresses of the group that `address` is in.
    pub(crate) fn range(self, address: IpAddr) -> RangeInclusive<IpAddr> {
        let first = self.first(address);
        let last = match first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() | self.ipv4_rest()).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() | self.ipv6_rest()).into(),
        };
        first..=last
    }

    fn ipv4_rest(self) -> u32 {
        u32::MAX.checked_shr(self.ipv4).unwrap_or(0)
    }

    fn ipv6_rest(self) -> u128 {
        u128::MAX.checked_shr(self.ipv6).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lengths: PrefixLengths, address: &str, first: &str, last: &str) {
        let range = lengths.range(address.parse().unwrap());
        assert_eq!(range.start().to_string(), first, "{address}");
        assert_eq!(range.end().to_string(), last, "{address}");
    }

    #[test]
    fn a_client_is_an_address_of_ipv4_or_a_64_of_ipv6() {
        check(CLIENT, "192.0.2.9", "192.0.2.9", "192.0.2.9");
        check(
            CLIENT,
            "2001:db8::9",
            "2001:db8::",
            "2001:db8::ffff:ffff:ffff:ffff",
        );
    }

    #[test]
    fn a_network_is_a_24_or_a_48() {
        check(NETWORK, "192.0.2.9", "192.0.2.0", "192.0.2.255");
        let last = "2001:db8:1:ffff:ffff:ffff:ffff:ffff";
        check(NETWORK, "2001:db8:1:2::9", "2001:db8:1::", last);
    }

    #[test]
    fn an_allocation_is_a_16_or_a_32() {
        check(ALLOCATION, "192.0.2.9", "192.0.0.0", "192.0.255.255");
        let last = "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff";
        check(ALLOCATION, "2001:db8:1:2::9", "2001:db8::", last);
    }

    #[test]
    fn a_mapped_address_is_ipv4() {
        check(NETWORK, "::ffff:192.0.2.9", "192.0.2.0", "192.0.2.255");
    }
}
