//! Number of leading bits of an address that count, for each family.

use std::fmt;
use std::str::FromStr;

/// Number of leading bits of an address that tell one client from another, for each family.
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

    /// Bits of IPv4.
    #[must_use]
    pub fn ipv4(self) -> u8 {
        self.ipv4
    }

    /// Bits of IPv6.
    #[must_use]
    pub fn ipv6(self) -> u8 {
        self.ipv6
    }
}

/// `32,48`: the bits of IPv4, then those of IPv6.
impl fmt::Display for PrefixLengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{},{}", self.ipv4, self.ipv6))
    }
}

impl FromStr for PrefixLengths {
    type Err = BadPrefixLengths;

    fn from_str(text: &str) -> Result<Self, BadPrefixLengths> {
        let lengths = text.split_once(',').and_then(|(ipv4, ipv6)| {
            let bits = |text: &str| text.trim().parse().ok();
            Self::new(bits(ipv4)?, bits(ipv6)?)
        });
        lengths.ok_or_else(|| BadPrefixLengths(text.into()))
    }
}

/// A text that names no [`PrefixLengths`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no pair of prefix lengths: expected bits of IPv4 and of IPv6, as in `32,48`")]
pub struct BadPrefixLengths(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_parse_what_they_print() {
        for text in ["32,48", "1,128", "24,1"] {
            assert_eq!(text.parse::<PrefixLengths>().unwrap().to_string(), text);
        }
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
