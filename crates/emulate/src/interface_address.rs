//! An address as an interface has it: with the length of the block that it is in.

use crate::Error;
use crate::ip::IpVersion;
use crate::subnet::Prefix;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address, and how many of its leading bits all have in common that are reached without a router.
///
/// ```
/// use altway_emulate::InterfaceAddress;
///
/// let address: InterfaceAddress = "198.18.0.1/24".parse()?;
/// assert_eq!(address.to_string(), "198.18.0.1/24");
/// assert!("198.18.0.1/33".parse::<InterfaceAddress>().is_err());
/// # Ok::<(), altway_emulate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceAddress {
    address: IpAddr,
    length: u8,
}

impl InterfaceAddress {
    /// The address alone.
    #[must_use]
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// The block that it is in.
    pub(crate) fn block(self) -> Prefix {
        Prefix::new(self.address, self.length)
    }
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for InterfaceAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| Error::UnknownAddress {
            text: text.to_owned(),
        })
    }
}

fn parse(text: &str) -> Option<InterfaceAddress> {
    let (address, length) = text.split_once('/')?;
    let (address, length) = (address.parse().ok()?, length.parse().ok()?);
    (length <= IpVersion::of(address).bits()).then_some(InterfaceAddress { address, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_as_it_is_written() {
        for text in [
            "198.18.0.1/24",
            "0.0.0.0/0",
            "10.0.0.1/32",
            "2001:2::1/64",
            "::1/128",
        ] {
            assert_eq!(text.parse::<InterfaceAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_address_without_a_fitting_length_is_none() {
        for text in [
            "198.18.0.1",
            "198.18.0.1/",
            "198.18.0.1/33",
            "::1/129",
            "/24",
            "eth0",
            "",
        ] {
            let error = text.parse::<InterfaceAddress>().unwrap_err().to_string();
            assert!(error.contains("like 198.18.0.1/24"), "{text}: {error}");
        }
    }
}
