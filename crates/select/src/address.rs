//! A client as the store knows it: keyed hashes of its address and of the networks around it.

use crate::secret::Domain;
use crate::{ClientClass, Secret};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Leading bits that one client's addresses share: an IPv4 address, or the IPv6 /64 in which a host chooses
/// its addresses freely.
const CLIENT: (u32, u32) = (32, 64);

/// The longest prefixes that the public routing table carries: addresses in one share their path to us as
/// far as the outside world is concerned.
const NETWORK: (u32, u32) = (24, 48);

/// The smallest block of IPv6 that a registry hands out, and a large one of IPv4: whoever holds one can
/// use every address in it.
const ALLOCATION: (u32, u32) = (16, 32);

/// One client: its address (IPv4 /32, IPv6 /64) and its class, with the networks around it. It contains addresses as
/// keyed hashes only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    pub(crate) address: u64,
    /// IPv4 /24, IPv6 /48.
    pub(crate) network: u64,
    /// IPv4 /16, IPv6 /32.
    pub(crate) allocation: u64,
    /// The prefix that counts as one voice in a quorum: IPv4 /24, IPv6 /32 (a /48 costs nothing to who has a /32).
    pub(crate) voting_network: u64,
    pub(crate) class: ClientClass,
}

impl Client {
    /// The client of `class` at `address`. An IPv4 address that a dual-stack socket shows as IPv6
    /// (`::ffff:192.0.2.1`) counts as IPv4.
    #[must_use]
    pub fn new(secret: &Secret, address: IpAddr, class: ClientClass) -> Self {
        let address = address.to_canonical();
        let hash = |domain, lengths| secret.hash(domain, &[&prefix(address, lengths)]);
        let network = hash(Domain::Network, NETWORK);
        let allocation = hash(Domain::Allocation, ALLOCATION);
        Self {
            address: hash(Domain::Address, CLIENT),
            network,
            allocation,
            voting_network: if address.is_ipv4() {
                network
            } else {
                allocation
            },
            class,
        }
    }

    /// The client's class.
    #[must_use]
    pub const fn class(&self) -> ClientClass {
        self.class
    }

    /// The same address with another class.
    #[must_use]
    pub const fn with_class(self, class: ClientClass) -> Self {
        Self { class, ..self }
    }

    /// The key that stands for the address, whatever the class, in logs and exports.
    #[must_use]
    pub const fn key(&self) -> ClientKey {
        ClientKey::of(self.address)
    }

    /// A number for logs that is the same for the same address and class, and reveals neither.
    #[must_use]
    pub fn pseudonym(&self) -> u64 {
        self.address ^ u64::from(self.class.index()).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// A client's address (IPv4 /32, IPv6 /64) in logs and exports: 48 bits of its keyed hash. Visits of the same client
/// can be recognised by it; without the key it reveals no address.
///
/// Text form: twelve hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientKey(u64);

impl ClientKey {
    pub(crate) const fn of(address: u64) -> Self {
        Self(address >> 16)
    }

    /// The key as a number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

/// A text that is no [`ClientKey`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no key of a client: expected twelve hexadecimal digits")]
pub struct ParseKeyError(String);

impl FromStr for ClientKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let number = u64::from_str_radix(text, 16).ok();
        number
            .filter(|_| text.len() == 12 && text.bytes().all(is_hex))
            .map(Self)
            .ok_or_else(|| ParseKeyError(text.into()))
    }
}

/// Version, length and the leading bits of `address`, all others 0.
fn prefix(address: IpAddr, (ipv4, ipv6): (u32, u32)) -> [u8; 17] {
    let mut bytes = [0; 17];
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - ipv4).unwrap_or(0);
            bytes[0] = 4;
            bytes[1..5].copy_from_slice(&(address.to_bits() & mask).to_be_bytes());
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - ipv6).unwrap_or(0);
            bytes[0] = 6;
            bytes[1..].copy_from_slice(&(address.to_bits() & mask).to_be_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> Client {
        let address = address.parse().unwrap();
        Client::new(&Secret::new([1; 16]), address, ClientClass::OTHER)
    }

    #[test]
    fn a_client_is_an_address_of_ipv4_or_a_64_of_ipv6() {
        assert_ne!(client("192.0.2.1").address, client("192.0.2.2").address);
        let one = client("2001:db8::1");
        assert_eq!(one.address, client("2001:db8::ffff:1").address);
        assert_ne!(one.address, client("2001:db8:0:1::1").address);
    }

    #[test]
    fn a_network_is_a_24_or_a_48() {
        assert_eq!(client("192.0.2.1").network, client("192.0.2.255").network);
        assert_ne!(client("192.0.2.1").network, client("192.0.3.1").network);
        let one = client("2001:db8:1::1");
        assert_eq!(one.network, client("2001:db8:1:ffff::1").network);
        assert_ne!(one.network, client("2001:db8:2::1").network);
    }

    #[test]
    fn an_allocation_is_a_16_or_a_32() {
        let one = client("192.0.2.1");
        assert_eq!(one.allocation, client("192.0.255.1").allocation);
        assert_ne!(one.allocation, client("192.1.2.1").allocation);
        let six = client("2001:db8:1::1");
        assert_eq!(six.allocation, client("2001:db8:ffff::1").allocation);
        assert_ne!(six.allocation, client("2001:db9::1").allocation);
    }

    #[test]
    fn the_48s_of_one_32_have_one_voice() {
        assert_eq!(
            client("2001:db8:1::1").voting_network,
            client("2001:db8:2::1").voting_network
        );
        assert_ne!(
            client("192.0.2.1").voting_network,
            client("192.0.3.1").voting_network
        );
    }

    #[test]
    fn a_key_is_read_as_it_is_printed_and_is_the_same_for_all_classes() {
        let client = client("192.0.2.1");
        let key = client.key();
        assert_eq!(key.to_string().parse(), Ok(key));
        let other = client.with_class("firefox-linux".parse().unwrap());
        assert_eq!(other.key(), key);
        for bad in [
            "",
            "0123456789a",
            "0123456789ABCD",
            "+12345678901",
            "0123456789ag",
        ] {
            assert!(bad.parse::<ClientKey>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mapped_address_is_ipv4() {
        assert_eq!(client("::ffff:192.0.2.9"), client("192.0.2.9"));
    }
}
