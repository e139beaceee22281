//! The address of an admin socket.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The address of an admin socket: the path of a Unix socket, or an address of the loopback interface with a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket, which only its owner may use (mode 600).
    Unix(PathBuf),
    /// A port of the loopback interface: whoever is on this machine may use it.
    Loopback(SocketAddr),
}

/// A text that is no [`Address`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// The text is empty.
    #[error("an empty text is no place for an admin socket")]
    Empty,
    /// Others than this machine could reach it.
    #[error(
        "`{0}` can be reached from other machines: whoever asks there sees addresses of clients"
    )]
    NotLoopback(SocketAddr),
    /// A port alone, or one beside a name that is not looked up.
    #[error(
        "`{0}` is neither an IP address with a port, like `127.0.0.1:2019`, nor the path of a socket"
    )]
    NoAddress(String),
}

/// Reads IP:PORT as a port of the loopback interface, `localhost:PORT` as one of 127.0.0.1, and anything else as the
/// path of a Unix socket, unless it looks like a port.
impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Self::Loopback(address)),
            Ok(address) => Err(BadAddress::NotLoopback(address)),
            Err(_) if text.is_empty() => Err(BadAddress::Empty),
            Err(_) if looks_like_port(text) => local_port(text),
            Err(_) => Ok(Self::Unix(Path::new(text).to_owned())),
        }
    }
}

/// True for a port number, alone or behind a colon: nobody names a socket so.
fn looks_like_port(text: &str) -> bool {
    let port = text.rsplit(':').next().unwrap_or(text);
    !text.contains('/') && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// A port of `localhost`, which nothing has to look up.
fn local_port(text: &str) -> Result<Address, BadAddress> {
    let port = text.strip_prefix("localhost:").map(str::parse);
    match port {
        Some(Ok(port)) => Ok(Address::Loopback((Ipv4Addr::LOCALHOST, port).into())),
        _ => Err(BadAddress::NoAddress(text.into())),
    }
}

/// Writes the text that it is parsed from, but for `localhost`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Loopback(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_ports_of_this_machine_are_addresses() {
        for text in [
            "/run/altway/admin.sock",
            "admin.sock",
            "127.0.0.1:2019",
            "[::1]:0",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(matches!(address, Address::Loopback(_)), text.contains(':'));
        }
    }

    #[test]
    fn a_port_is_never_the_name_of_a_socket() {
        let local: Address = "localhost:2019".parse().unwrap();
        assert_eq!(local.to_string(), "127.0.0.1:2019");
        for text in [
            "2019",
            ":2019",
            "host.example:2019",
            "localhost:70000",
            "127.0.0.1:70000",
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(matches!(error, BadAddress::NoAddress(_)), "{text}");
        }
        for text in ["./2019", "/run/altway:1", "admin.sock2", "a:b"] {
            assert!(matches!(text.parse(), Ok(Address::Unix(_))), "{text}");
        }
    }

    #[test]
    fn what_others_could_reach_is_refused() {
        for text in ["0.0.0.0:2019", "192.0.2.1:80", "[::]:1"] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(matches!(error, BadAddress::NotLoopback(_)), "{text}");
        }
        assert_eq!("".parse::<Address>(), Err(BadAddress::Empty));
    }
}
