//! The port that is passed on, and the place that it is passed on to, as people write it:
//! `8444:server:8443`.

use crate::Error;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// A port of this host whose connections or datagrams go to a port of another.
///
/// Written `[ADDRESS:]PORT:HOST:PORT`, with IPv6 addresses in brackets: `8444:server:8443`,
/// `127.0.0.1:8444:198.18.0.2:8443`, `8443:[2001:db8::2]:8443`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Address that clients come to; port 0 is one that is free. When no address is written it is 127.0.0.1,
    /// so that only this host's programs are passed on; `0.0.0.0` stands for all addresses of IPv4 and
    /// `[::]` for all of both versions.
    pub listen: SocketAddr,
    /// The name or address of the target.
    pub host: String,
    /// The port of the target.
    pub port: u16,
}

impl Forward {
    /// The address of the target; a name's first one.
    pub(super) fn resolve(&self) -> Result<SocketAddr, Error> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let first = found.and_then(|mut addresses| {
            let none = || io::Error::new(io::ErrorKind::NotFound, "it has no address");
            addresses.next().ok_or_else(none)
        });
        first.map_err(|source| Error::ProxyTarget {
            host: self.host.clone(),
            source,
        })
    }
}

impl FromStr for Forward {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| Error::UnknownForward { text: text.into() })
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, host, port } = self;
        if host.contains(':') {
            write!(f, "{listen}:[{host}]:{port}")
        } else {
            write!(f, "{listen}:{host}:{port}")
        }
    }
}

fn parse(text: &str) -> Option<Forward> {
    let (rest, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let (listen, host) = match rest.strip_suffix(']') {
        Some(rest) => {
            let (listen, address) = rest.rsplit_once(":[")?;
            address.parse::<Ipv6Addr>().ok()?;
            (listen, address)
        }
        None => rest.rsplit_once(':')?,
    };
    let is_name = !host.is_empty() && !host.contains(['[', ']', '/', ' ']);
    is_name.then_some(Forward {
        listen: parse_listen(listen)?,
        host: host.into(),
        port,
    })
}

fn parse_listen(text: &str) -> Option<SocketAddr> {
    let port = text
        .parse()
        .map(|port: u16| (Ipv4Addr::LOCALHOST, port).into());
    port.ok().or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward(text: &str) -> Forward {
        text.parse().unwrap()
    }

    #[test]
    fn a_port_alone_is_listened_on_for_this_host_only() {
        let expected = Forward {
            listen: "127.0.0.1:8444".parse().unwrap(),
            host: "server".into(),
            port: 8_443,
        };
        assert_eq!(forward("8444:server:8443"), expected);
    }

    #[test]
    fn addresses_of_both_versions_stand_on_both_sides() {
        for (text, listen, host) in [
            ("127.0.0.1:1:198.18.0.2:2", "127.0.0.1:1", "198.18.0.2"),
            ("[::1]:1:[2001:db8::2]:2", "[::1]:1", "2001:db8::2"),
            ("[::1]:1:server:2", "[::1]:1", "server"),
            ("0:[::1]:2", "127.0.0.1:0", "::1"),
            ("0.0.0.0:1:server:2", "0.0.0.0:1", "server"),
            ("[::]:1:server:2", "[::]:1", "server"),
        ] {
            let read = forward(text);
            assert_eq!(read.listen, listen.parse().unwrap(), "{text}");
            assert_eq!((read.host.as_str(), read.port), (host, 2), "{text}");
            assert_eq!(forward(&read.to_string()), read);
        }
    }

    #[test]
    fn what_is_no_forwarding_is_refused_with_its_form() {
        for text in [
            "",
            "8443",
            "8443:server",
            "8443:server:",
            "8443:server:0",
            "8443::8443",
            "server:8443",
            "8443:[server]:8443",
            "8443:::1:8443",
            "99999:server:8443",
            "8443:a b:1",
            "x:1:server:2",
        ] {
            let refused = text.parse::<Forward>().unwrap_err().to_string();
            assert!(
                refused.contains("[ADDRESS:]PORT:HOST:PORT"),
                "{text}: {refused}"
            );
        }
    }

    #[test]
    fn a_name_that_nobody_knows_is_an_error() {
        let unknown = forward("1:nobody.invalid:2").resolve();
        assert!(
            matches!(unknown, Err(Error::ProxyTarget { host, .. }) if host == "nobody.invalid")
        );
    }
}
