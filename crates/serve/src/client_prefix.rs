//! The group of addresses that counts as one client where a limit is shared out.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// How many leading bits of an address tell one client from another, for each family.
///
/// Default: 32 bits of IPv4, for one address is all that most clients have, and 48 of IPv6, for that is
/// what a site is assigned at most (RFC 6177 section 2): whoever has it can use any address in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PrefixLengths {
    /// 1 to 32.
    ipv4: u8,
    /// 1 to 128.
    ipv6: u8,
}

impl Default for PrefixLengths {
    fn default() -> Self {
        Self { ipv4: 32, ipv6: 48 }
    }
}

impl PrefixLengths {
    /// Lengths in bits; `None` when one is 0 or longer than the addresses of its family.
    #[must_use]
    pub fn new(ipv4: u8, ipv6: u8) -> Option<Self> {
        let valid = (1..=32).contains(&ipv4) && (1..=128).contains(&ipv6);
        valid.then_some(Self { ipv4, ipv6 })
    }

    /// The prefix that `address` is in. An IPv4 address that a socket of both families shows as IPv6
    /// (`::ffff:192.0.2.1`) counts as IPv4.
    pub(crate) fn prefix_of(self, address: IpAddr) -> ClientPrefix {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let mask = u32::MAX << (32 - u32::from(self.ipv4));
                let address = Ipv4Addr::from_bits(address.to_bits() & mask);
                ClientPrefix(address.into(), self.ipv4)
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - u32::from(self.ipv6));
                let address = Ipv6Addr::from_bits(address.to_bits() & mask);
                ClientPrefix(address.into(), self.ipv6)
            }
        }
    }
}

/// `32,48`: the bits of IPv4, then those of IPv6.
impl fmt::Display for PrefixLengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{},{}", self.ipv4, self.ipv6))
    }
}

impl FromStr for PrefixLengths {
    type Err = InvalidPrefixLengths;

    fn from_str(text: &str) -> Result<Self, InvalidPrefixLengths> {
        let lengths = text.split_once(',').and_then(|(ipv4, ipv6)| {
            let bits = |text: &str| text.trim().parse().ok();
            Self::new(bits(ipv4)?, bits(ipv6)?)
        });
        lengths.ok_or_else(|| InvalidPrefixLengths(text.into()))
    }
}

/// A text that names no [`PrefixLengths`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no pair of prefix lengths: expected bits of IPv4 and of IPv6, as in 32,48")]
pub struct InvalidPrefixLengths(String);

/// The addresses that count as one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientPrefix(IpAddr, u8);

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
        lengths.prefix_of(address.parse().unwrap()).to_string()
    }

    #[test]
    fn an_address_of_ipv4_and_a_site_of_ipv6_are_one_client() {
        let lengths = PrefixLengths::default();
        assert_eq!(prefix(lengths, "192.0.2.77"), "192.0.2.77/32");
        assert_eq!(prefix(lengths, "::ffff:192.0.2.77"), "192.0.2.77/32");
        assert_eq!(prefix(lengths, "2001:db8:1:2::3"), "2001:db8:1::/48");
    }

    #[test]
    fn lengths_can_be_chosen_and_parse_what_they_print() {
        let lengths: PrefixLengths = "24,64".parse().unwrap();
        assert_eq!(prefix(lengths, "192.0.2.77"), "192.0.2.0/24");
        assert_eq!(prefix(lengths, "2001:db8:1:2::3"), "2001:db8:1:2::/64");
        assert_eq!(lengths.to_string().parse(), Ok(lengths));
        let whole: PrefixLengths = "1,128".parse().unwrap();
        assert_eq!(prefix(whole, "192.0.2.77"), "128.0.0.0/1");
        assert_eq!(prefix(whole, "2001:db8::3"), "2001:db8::3/128");
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for text in [
            "", "32", "0,48", "33,48", "32,0", "32,129", "a,b", "32,48,1",
        ] {
            assert!(text.parse::<PrefixLengths>().is_err(), "{text}");
        }
    }
}
