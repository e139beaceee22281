//! Addresses at which a server listens.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// An address and a port number, for TCP and UDP alike.
///
/// Text form: `*:8443` (all addresses, IPv6 and IPv4), `127.0.0.1:8443`, `[::1]:8443`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListenAddress {
    /// The address; `None`: all, IPv6 and IPv4, or IPv4 alone where IPv6 is switched off.
    pub ip: Option<IpAddr>,
    /// The port number; 0: any that is free.
    pub port: u16,
}

impl ListenAddress {
    /// Returns true if a socket at this address takes what comes to `other`, so that none can be bound there: `[::]` takes
    /// IPv4 as well.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let takes = match (self.ip, other.ip) {
            (None, _) => true,
            (Some(ip), None) => ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            (Some(ip), Some(other)) => {
                ip == other || ip.is_unspecified() && (ip.is_ipv6() || other.is_ipv4())
            }
        };
        takes && self.port == other.port && self.port != 0
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            Some(ip) => SocketAddr::new(ip, self.port).fmt(f),
            None => write!(f, "*:{}", self.port),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = || BadAddress(text.into());
        if let Some(port) = text.strip_prefix("*:") {
            let port = port.parse().map_err(|_| bad())?;
            return Ok(Self { ip: None, port });
        }
        let address: SocketAddr = text.parse().map_err(|_| bad())?;
        Ok(Self {
            ip: Some(address.ip()),
            port: address.port(),
        })
    }
}

/// A text that is no address to listen at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an address to listen at: expected an IP address and a port, like `*:443`, `127.0.0.1:8443` or `[::1]:8443`"
)]
pub struct BadAddress(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_parse_what_they_print() {
        for text in ["*:443", "127.0.0.1:8443", "[::1]:8443", "[::]:0"] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        for text in [
            "443",
            ":443",
            "*",
            "*:65536",
            "localhost:443",
            "::1:443",
            "",
        ] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
