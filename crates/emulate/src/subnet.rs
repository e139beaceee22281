//! Addresses of the ends.

use crate::ip::IpVersion;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// 198.18.0.0/15 is set aside for benchmarks between network devices (RFC 2544 appendix C.2.2,
/// RFC 6890 §2.2.2), so no real network uses it.
const RANGE_V4: Prefix = Prefix::new(IpAddr::V4(Ipv4Addr::new(198, 18, 0, 0)), 15);

/// 2001:2::/48 is the same for IPv6 (RFC 5180 §8).
const RANGE_V6: Prefix = Prefix::new(IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0)), 48);

/// Number of subnets of each version: as many of four addresses as the range of IPv4 has.
const SUBNETS: u32 = 1 << 15;

/// A block of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    version: IpVersion,
    first: u128,
    length: u8,
}

impl Prefix {
    /// The block of that `length` (at most the bits of an address) that `address` is in.
    pub(crate) const fn new(address: IpAddr, length: u8) -> Self {
        let (version, bits) = match address {
            IpAddr::V4(address) => (IpVersion::V4, address.to_bits() as u128),
            IpAddr::V6(address) => (IpVersion::V6, address.to_bits()),
        };
        Self::of_bits(version, bits, length)
    }

    /// The first address.
    pub(crate) fn address(self) -> IpAddr {
        address(self.version, self.first)
    }

    /// Returns the number of bits that its addresses have in common.
    pub(crate) fn length(self) -> u8 {
        self.length
    }

    /// Returns whether an address is in it.
    pub(crate) fn has(self, address: IpAddr) -> bool {
        self.contains(Self::new(address, IpVersion::of(address).bits()))
    }

    const fn of_bits(version: IpVersion, bits: u128, length: u8) -> Self {
        let host_bits = (version.bits() - length) as u32;
        // A shift by all bits there are is an overflow.
        let mask = match host_bits {
            128 => 0,
            host_bits => u128::MAX << host_bits,
        };
        Self {
            version,
            first: bits & mask,
            length,
        }
    }

    fn contains(self, other: Self) -> bool {
        self.version == other.version
            && self.length <= other.length
            && Self::of_bits(self.version, other.first, self.length) == self
    }

    fn overlaps(self, other: Self) -> bool {
        self.contains(other) || other.contains(self)
    }
}

/// Two addresses that reach each other directly: a /30 of IPv4 (a network address, two ends, a
/// broadcast address) or a /64 of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subnet(Prefix);

impl Subnet {
    /// Number `number` of the benchmarking range, counted modulo their count.
    pub(crate) fn number(version: IpVersion, number: u32) -> Self {
        let (range, length) = match version {
            IpVersion::V4 => (RANGE_V4, 30),
            IpVersion::V6 => (RANGE_V6, 64),
        };
        let host_bits = version.bits() - length;
        let offset = u128::from(number % SUBNETS) << host_bits;
        Self(Prefix::of_bits(version, range.first + offset, length))
    }

    /// The first subnet from number `start` on that overlaps none of the prefixes `in_use`.
    ///
    /// A route to more than the whole range (a default route, or a VPN's 128.0.0.0/1) doesn't count
    /// as a use of it.
    pub(crate) fn free(version: IpVersion, start: u32, in_use: &[Prefix]) -> Option<Self> {
        let uses: Vec<_> = in_use
            .iter()
            .filter(|used| RANGE_V4.contains(**used) || RANGE_V6.contains(**used))
            .collect();
        (0..SUBNETS)
            .map(|offset| Self::number(version, start.wrapping_add(offset)))
            .find(|subnet| !uses.iter().any(|used| used.overlaps(subnet.0)))
    }

    /// A subnet that is as far from number `start` as can be, so that whoever searches from there on
    /// comes to it last, and that overlaps none of the prefixes `in_use`.
    pub(crate) fn free_far_from(version: IpVersion, start: u32, in_use: &[Prefix]) -> Option<Self> {
        Self::free(version, start.wrapping_add(SUBNETS / 2), in_use)
    }

    /// The address of the end nearer to the client.
    pub(crate) fn client(self) -> IpAddr {
        address(self.0.version, self.0.first + 1)
    }

    /// The address of the end nearer to the server.
    pub(crate) fn server(self) -> IpAddr {
        address(self.0.version, self.0.first + 2)
    }

    /// All its addresses.
    pub(crate) fn prefix(self) -> Prefix {
        self.0
    }
}

fn address(version: IpVersion, bits: u128) -> IpAddr {
    match version {
        // The upper bits are zero.
        IpVersion::V4 => Ipv4Addr::from_bits(bits as u32).into(),
        IpVersion::V6 => Ipv6Addr::from_bits(bits).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use IpVersion::{V4, V6};

    fn prefix(address: &str, length: u8) -> Prefix {
        Prefix::new(address.parse().unwrap(), length)
    }

    fn ends(subnet: Subnet) -> [String; 2] {
        [subnet.client(), subnet.server()].map(|address| address.to_string())
    }

    #[test]
    fn numbers_stay_within_the_benchmarking_range() {
        let last = SUBNETS - 1;
        let of = |version, number| ends(Subnet::number(version, number));
        assert_eq!(of(V4, 0), ["198.18.0.1", "198.18.0.2"]);
        assert_eq!(of(V4, last), ["198.19.255.253", "198.19.255.254"]);
        assert_eq!(of(V6, 0), ["2001:2::1", "2001:2::2"]);
        assert_eq!(of(V6, last), ["2001:2:0:7fff::1", "2001:2:0:7fff::2"]);
        for version in [V4, V6] {
            let number = |number| Subnet::number(version, number);
            assert_eq!(number(SUBNETS), number(0));
        }
    }

    #[test]
    fn subnets_do_not_overlap() {
        for version in [V4, V6] {
            let [one, next] = [7, 8].map(|number| Subnet::number(version, number).prefix());
            assert!(!one.overlaps(next) && one.overlaps(one));
        }
    }

    #[test]
    fn skips_what_is_in_use() {
        let in_use = [
            prefix("198.18.0.0", 30),
            prefix("198.18.0.5", 32),
            prefix("2001:2::2", 128),
        ];
        assert_eq!(Subnet::free(V4, 0, &in_use), Some(Subnet::number(V4, 2)));
        assert_eq!(Subnet::free(V4, 7, &in_use), Some(Subnet::number(V4, 7)));
        assert_eq!(Subnet::free(V6, 0, &in_use), Some(Subnet::number(V6, 1)));
    }

    #[test]
    fn a_default_route_uses_nothing() {
        let in_use = [
            prefix("0.0.0.0", 0),
            prefix("128.0.0.0", 1),
            prefix("::", 0),
        ];
        for version in [V4, V6] {
            let found = Subnet::free(version, 3, &in_use);
            assert_eq!(found, Some(Subnet::number(version, 3)));
        }
    }

    #[test]
    fn a_used_up_range_has_nothing_free() {
        assert_eq!(Subnet::free(V4, 0, &[prefix("198.18.0.0", 15)]), None);
        assert_eq!(Subnet::free(V6, 0, &[prefix("2001:2::", 48)]), None);
    }

    #[test]
    fn the_search_wraps_around() {
        let second_half = prefix("198.19.0.0", 16);
        let found = Subnet::free(V4, SUBNETS / 2, &[second_half]);
        assert_eq!(found, Some(Subnet::number(V4, 0)));
    }

    #[test]
    fn subnets_of_neighbours_are_far_from_each_other() {
        let (near, far) = (Subnet::free(V4, 5, &[]), Subnet::free_far_from(V4, 5, &[]));
        assert_eq!(near, Some(Subnet::number(V4, 5)));
        assert_eq!(far, Some(Subnet::number(V4, 5 + SUBNETS / 2)));
    }
}
