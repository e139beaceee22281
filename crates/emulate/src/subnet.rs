//! Which addresses the two ends get.

use std::net::Ipv4Addr;

/// 198.18.0.0/15 is set aside for benchmarks between network devices (RFC 2544 appendix C.2.2,
/// RFC 6890 §2.2.2), so no real network uses it.
const RANGE: Prefix = Prefix::new(Ipv4Addr::new(198, 18, 0, 0), 15);

/// How many subnets of four addresses the range has.
const SUBNETS: u32 = 1 << 15;

/// A block of IPv4 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    first: u32,
    length: u8,
}

impl Prefix {
    /// The block of that `length` (at most 32 bits) that `address` is in.
    pub(crate) const fn new(address: Ipv4Addr, length: u8) -> Self {
        let mask = match length {
            0 => 0,
            length => u32::MAX << (32 - length as u32),
        };
        Self {
            first: address.to_bits() & mask,
            length,
        }
    }

    fn contains(self, other: Self) -> bool {
        self.length <= other.length
            && Self::new(Ipv4Addr::from_bits(other.first), self.length) == self
    }

    fn overlaps(self, other: Self) -> bool {
        self.contains(other) || other.contains(self)
    }
}

/// A /30: a network address, the two ends, a broadcast address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subnet(u32);

impl Subnet {
    /// The prefix length of every subnet.
    pub(crate) const LENGTH: u8 = 30;

    /// Number `number` of the benchmarking range, counted modulo their count.
    pub(crate) fn number(number: u32) -> Self {
        Self(RANGE.first + number % SUBNETS * 4)
    }

    /// The first subnet from number `start` on that overlaps none of the prefixes `in_use`.
    ///
    /// A route to more than the whole range (a default route, or a VPN's 128.0.0.0/1) doesn't count
    /// as a use of it.
    pub(crate) fn free(start: u32, in_use: &[Prefix]) -> Option<Self> {
        let uses: Vec<_> = in_use
            .iter()
            .filter(|used| RANGE.contains(**used))
            .collect();
        (0..SUBNETS)
            .map(|offset| Self::number(start.wrapping_add(offset)))
            .find(|subnet| !uses.iter().any(|used| used.overlaps(subnet.prefix())))
    }

    /// The address of the client's end.
    pub(crate) fn client(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.0 + 1)
    }

    /// The address of the server's end.
    pub(crate) fn server(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.0 + 2)
    }

    fn prefix(self) -> Prefix {
        Prefix::new(Ipv4Addr::from_bits(self.0), Self::LENGTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(address: [u8; 4], length: u8) -> Prefix {
        Prefix::new(address.into(), length)
    }

    #[test]
    fn numbers_stay_within_the_benchmarking_range() {
        assert_eq!(Subnet::number(0).client(), Ipv4Addr::new(198, 18, 0, 1));
        assert_eq!(Subnet::number(0).server(), Ipv4Addr::new(198, 18, 0, 2));
        assert_eq!(
            Subnet::number(SUBNETS - 1).server(),
            Ipv4Addr::new(198, 19, 255, 254)
        );
        assert_eq!(Subnet::number(SUBNETS), Subnet::number(0));
    }

    #[test]
    fn skips_what_is_in_use() {
        let in_use = [prefix([198, 18, 0, 0], 30), prefix([198, 18, 0, 5], 32)];
        assert_eq!(Subnet::free(0, &in_use), Some(Subnet::number(2)));
        assert_eq!(Subnet::free(7, &in_use), Some(Subnet::number(7)));
    }

    #[test]
    fn a_default_route_uses_nothing() {
        let in_use = [prefix([0, 0, 0, 0], 0), prefix([128, 0, 0, 0], 1)];
        assert_eq!(Subnet::free(3, &in_use), Some(Subnet::number(3)));
    }

    #[test]
    fn a_used_up_range_has_nothing_free() {
        assert_eq!(Subnet::free(0, &[prefix([198, 18, 0, 0], 15)]), None);
    }

    #[test]
    fn the_search_wraps_around() {
        let second_half = prefix([198, 19, 0, 0], 16);
        assert_eq!(
            Subnet::free(SUBNETS / 2, &[second_half]),
            Some(Subnet::number(0))
        );
    }
}
