//! A range of addresses that share their first bits.

use crate::text::as_text;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network: the addresses that share so many leading bits.
///
/// Text form: `10.0.0.0/8`, `2001:db8::/32`, or an address alone for all of its bits. Bits beyond the prefix must be
/// 0. An IPv4 address that a socket of both families shows as IPv6 (`::ffff:10.0.0.1`) counts as IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Checks whether an address is in it.
    ///
    /// ```
    /// use altway_units::Network;
    ///
    /// let network: Network = "10.0.0.0/8".parse()?;
    /// assert!(network.contains("10.1.2.3".parse().unwrap()));
    /// assert!(!network.contains("11.0.0.0".parse().unwrap()));
    /// # Ok::<(), altway_units::BadNetwork>(())
    /// ```
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        masked(address.to_canonical(), self.bits) == Some(self.address)
    }
}

/// The address with its first bits alone; `None` if it has fewer.
fn masked(address: IpAddr, bits: u8) -> Option<IpAddr> {
    let bits = u32::from(bits);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(bits)?).unwrap_or(0);
            Some(IpAddr::V4((address.to_bits() & mask).into()))
        }
        IpAddr::V6(address) => {
            let shift = 128_u32.checked_sub(bits)?;
            let mask = u128::MAX.checked_shl(shift).unwrap_or(0);
            Some(IpAddr::V6((address.to_bits() & mask).into()))
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.address, self.bits))
    }
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let bad = || BadNetwork(text.into());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let address = address.to_canonical();
        let bits = match bits {
            Some(bits) if bits.bytes().all(|it| it.is_ascii_digit()) => {
                bits.parse().map_err(|_| bad())?
            }
            Some(_) => return Err(bad()),
            None if address.is_ipv4() => 32,
            None => 128,
        };
        match masked(address, bits) == Some(address) {
            true => Ok(Self { address, bits }),
            false => Err(bad()),
        }
    }
}

/// A text that names no [`Network`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a network: expected an address and its leading bits, the others 0, like `10.0.0.0/8` or `2001:db8::/32`"
)]
pub struct BadNetwork(String);

as_text!(Network);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_parse_what_they_print() {
        for text in [
            "10.0.0.0/8",
            "0.0.0.0/0",
            "192.0.2.1/32",
            "2001:db8::/32",
            "::/0",
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        assert_eq!("::1".parse::<Network>().unwrap().to_string(), "::1/128");
    }

    #[test]
    fn addresses_are_in_the_networks_of_their_family() {
        let is_in = |network: &str, address: &str| {
            let network: Network = network.parse().unwrap();
            network.contains(address.parse().unwrap())
        };
        assert!(is_in("10.0.0.0/8", "::ffff:10.255.0.1"));
        assert!(is_in("192.0.2.128/25", "192.0.2.128"));
        assert!(!is_in("192.0.2.128/25", "192.0.2.127"));
        assert!(is_in("2001:db8::/33", "2001:db8:7fff::1"));
        assert!(!is_in("2001:db8::/33", "2001:db8:8000::1"));
        assert!(is_in("0.0.0.0/0", "8.8.8.8") && !is_in("0.0.0.0/0", "::1"));
        assert!(!is_in("::/0", "10.0.0.1"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "::/129",
            "10/8",
            "a/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
