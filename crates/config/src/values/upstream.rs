//! Servers behind a proxy, as a configuration names them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A server that requests are carried to.
///
/// Text form: `http://10.0.1.1:8080`, `https://HOST`, `h2c://HOST:PORT` (HTTP/2 by prior knowledge), `h2://HOST` (HTTP/2
/// over TLS), `h3://HOST` (HTTP/3), `unix:/run/api.sock`, `unix+h2c:/run/api.sock`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Upstream {
    /// The place of the server.
    pub place: UpstreamPlace,
    /// The protocol that it is spoken to in.
    pub protocol: UpstreamProtocol,
    /// True if the upstream is spoken to over TLS, with the host as its name.
    pub is_tls: bool,
}

/// The protocol that a server is spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpstreamProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
    /// HTTP/3, always over TLS.
    Http3,
}

/// The place of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UpstreamPlace {
    /// A host name or an address (without brackets), and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Upstream {
    const SCHEMES: [(&'static str, UpstreamProtocol, bool); 5] = [
        ("http", UpstreamProtocol::Http1, false),
        ("https", UpstreamProtocol::Http1, true),
        ("h2c", UpstreamProtocol::Http2, false),
        ("h2", UpstreamProtocol::Http2, true),
        ("h3", UpstreamProtocol::Http3, true),
    ];

    fn scheme(&self) -> &'static str {
        let this = |(_, protocol, tls): &&(&str, UpstreamProtocol, bool)| {
            (*protocol, *tls) == (self.protocol, self.is_tls)
        };
        let found = Self::SCHEMES.iter().find(this);
        found.map_or("http", |(scheme, ..)| scheme)
    }

    const fn default_port(is_tls: bool) -> u16 {
        if is_tls { 443 } else { 80 }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            UpstreamPlace::Unix(path) => {
                let is_http1 = self.protocol == UpstreamProtocol::Http1;
                let scheme = if is_http1 { "unix" } else { "unix+h2c" };
                write!(f, "{scheme}:{}", path.display())
            }
            UpstreamPlace::Tcp(host, port) => {
                let (open, close) = if host.contains(':') {
                    ("[", "]")
                } else {
                    ("", "")
                };
                write!(f, "{}://{open}{host}{close}:{port}", self.scheme())
            }
        }
    }
}

impl FromStr for Upstream {
    type Err = BadUpstream;

    fn from_str(text: &str) -> Result<Self, BadUpstream> {
        let bad = |reason| {
            Err(BadUpstream {
                text: text.into(),
                reason,
            })
        };
        if text.chars().any(|it| it.is_whitespace() || it.is_control()) {
            return bad("it has spaces or control characters");
        }
        for (scheme, protocol) in [
            ("unix:", UpstreamProtocol::Http1),
            ("unix+h2c:", UpstreamProtocol::Http2),
        ] {
            if let Some(path) = text.strip_prefix(scheme) {
                if !path.starts_with('/') {
                    return bad("the path of its Unix socket does not begin with `/`");
                }
                return Ok(Self {
                    place: UpstreamPlace::Unix(path.into()),
                    protocol,
                    is_tls: false,
                });
            }
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return bad("it has no scheme");
        };
        let mut schemes = Self::SCHEMES.iter();
        // RFC 3986 section 3.1: upper and lower case are alike.
        let is_it = |name: &str| name.eq_ignore_ascii_case(scheme);
        let Some((_, protocol, is_tls)) = schemes.find(|(name, ..)| is_it(name)) else {
            return bad("its scheme is none of http, https, h2c, h2, h3 and unix");
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return bad(
                "it has a path, and requests keep their own: `add-prefix` of a route puts one before it",
            );
        }
        if authority.contains('@') {
            return bad("it names a user: `request-headers` of a route can set Authorization");
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let port = match port.map(str::parse::<u16>) {
            None => Self::default_port(*is_tls),
            Some(Ok(port)) if port > 0 => port,
            Some(_) => return bad("its port is not a number from 1 to 65535"),
        };
        let host = match host.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            Some(ip) if ip.parse::<std::net::Ipv6Addr>().is_ok() => ip,
            Some(_) => return bad("there is no IPv6 address in its brackets"),
            None if !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_digit()) => {
                return bad("its host is a number: a port of this machine is `localhost:PORT`");
            }
            None if host.is_empty() => {
                return bad("it has no host: a port of this machine is `localhost:PORT`");
            }
            None if is_host(host) => host,
            None => return bad("its host is neither a name nor an address"),
        };
        Ok(Self {
            place: UpstreamPlace::Tcp(host.into(), port),
            protocol: *protocol,
            is_tls: *is_tls,
        })
    }
}

fn is_host(host: &str) -> bool {
    let of_a_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !host.is_empty() && host.len() <= 253 && host.bytes().all(of_a_host)
}

/// A text that names no server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` names no upstream: {reason}", text.escape_debug())]
pub struct BadUpstream {
    text: String,
    reason: &'static str,
}

impl BadUpstream {
    /// Examples.
    pub(crate) fn hint(&self) -> String {
        "like `http://10.0.1.1:8080`, `https://api.example.org` or `unix:/run/api.sock`".into()
    }
}

/// The choice of a server for a request.
///
/// Text form: `round-robin`, `least-requests`, `hash:client`, or `hash:` and a field's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Balance {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The one with fewer requests in progress, of two at random.
    LeastRequests,
    /// The same one for each client's address.
    HashClient,
    /// The same one for each value of a field, whose name is in lower case.
    HashField(String),
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoundRobin => f.pad("round-robin"),
            Self::LeastRequests => f.pad("least-requests"),
            Self::HashClient => f.pad("hash:client"),
            Self::HashField(name) => write!(f, "hash:{name}"),
        }
    }
}

impl FromStr for Balance {
    type Err = BadBalance;

    fn from_str(text: &str) -> Result<Self, BadBalance> {
        let of_a_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        match text {
            "round-robin" => Ok(Self::RoundRobin),
            "least-requests" => Ok(Self::LeastRequests),
            "hash:client" => Ok(Self::HashClient),
            _ => match text.strip_prefix("hash:") {
                Some(name) if !name.is_empty() && name.bytes().all(of_a_token) => {
                    Ok(Self::HashField(name.to_ascii_lowercase()))
                }
                _ => Err(BadBalance(text.into())),
            },
        }
    }
}

/// A text that names no [`Balance`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a way to balance: expected round-robin, least-requests, hash:client or hash:FIELD", .0.escape_debug()
)]
pub struct BadBalance(String);

/// An authority that Host may have (RFC 9110 section 7.2).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostValue(String);

impl HostValue {
    /// The value.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for HostValue {
    type Err = BadHost;

    fn from_str(text: &str) -> Result<Self, BadHost> {
        // A server's name with its port, read by the rules for servers.
        match format!("http://{text}").parse::<Upstream>() {
            Ok(_) if !text.ends_with('/') => Ok(Self(text.into())),
            _ => Err(BadHost(text.into())),
        }
    }
}

/// A text that no Host field may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a host: expected a name, perhaps with a port", .0.escape_debug())]
pub struct BadHost(String);

/// The name that a server is asked for in TLS, and that its certificate has to be for: a host name or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TlsName(String);

impl TlsName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TlsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for TlsName {
    type Err = BadTlsName;

    fn from_str(text: &str) -> Result<Self, BadTlsName> {
        match is_host(text) || text.parse::<std::net::Ipv6Addr>().is_ok() {
            true => Ok(Self(text.into())),
            false => Err(BadTlsName(text.into())),
        }
    }
}

/// A text that no certificate can be for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not the name of a server: expected one like `api.internal`, without a port", .0.escape_debug())]
pub struct BadTlsName(String);

/// The target of a request: a path, perhaps with a query (RFC 9112 section 3.2.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CheckPath(String);

impl CheckPath {
    /// The target.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CheckPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for CheckPath {
    type Err = BadCheckPath;

    fn from_str(text: &str) -> Result<Self, BadCheckPath> {
        let of_a_target = |byte: u8| byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&byte);
        match text.starts_with('/') && text.len() <= 2_048 && text.bytes().all(of_a_target) {
            true => Ok(Self(text.into())),
            false => Err(BadCheckPath(text.into())),
        }
    }
}

/// A text that no request can be for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not the path of a request: expected one like `/healthz`", .0.escape_debug())]
pub struct BadCheckPath(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_they_are_printed() {
        for (text, printed) in [
            ("http://10.0.1.1:8080", "http://10.0.1.1:8080"),
            ("http://localhost", "http://localhost:80"),
            ("https://api.example.org/", "https://api.example.org:443"),
            ("h2c://[::1]:50051", "h2c://[::1]:50051"),
            ("h2://[2001:db8::1]", "h2://[2001:db8::1]:443"),
            ("h3://api.example.org", "h3://api.example.org:443"),
            ("unix:/run/api.sock", "unix:/run/api.sock"),
            ("unix+h2c:/run/grpc.sock", "unix+h2c:/run/grpc.sock"),
            ("HTTP://localhost:3000", "http://localhost:3000"),
        ] {
            let upstream: Upstream = text.parse().unwrap();
            assert_eq!(upstream.to_string(), printed);
            assert_eq!(printed.parse(), Ok(upstream));
        }
    }

    #[test]
    fn what_names_no_server_is_refused() {
        for text in [
            "",
            "localhost:3000",
            "ftp://a",
            "http://",
            "http://a/api",
            "http://a:0",
            "http://a:65536",
            "http://a:x",
            "http://user@a",
            "http://3000",
            "http://[::g]",
            "http://[::1",
            "http://::1",
            "unix:api.sock",
            "http://a b",
        ] {
            assert!(text.parse::<Upstream>().is_err(), "{text}");
        }
        let refused = "https://user:password@a".parse::<Upstream>().unwrap_err();
        assert!(refused.to_string().contains("it names a user"), "{refused}");
    }

    #[test]
    fn balances_and_hosts_are_read_as_they_are_printed() {
        for text in [
            "round-robin",
            "least-requests",
            "hash:client",
            "hash:x-user",
        ] {
            assert_eq!(text.parse::<Balance>().unwrap().to_string(), text);
        }
        for text in ["", "hash", "hash:", "hash:a b", "random"] {
            assert!(text.parse::<Balance>().is_err(), "{text}");
        }
        for text in ["/", "/healthz", "/a%20b?c=d"] {
            assert_eq!(text.parse::<CheckPath>().unwrap().to_string(), text);
        }
        for text in ["", "healthz", "/a b", "/a#b", "/\u{e4}"] {
            assert!(text.parse::<CheckPath>().is_err(), "{text}");
        }
        for text in ["a.example", "a.example:8080", "[::1]:1"] {
            assert_eq!(text.parse::<HostValue>().unwrap().to_string(), text);
        }
        for text in ["", "a/b", "a b", "a/", "http://a"] {
            assert!(text.parse::<HostValue>().is_err(), "{text}");
        }
        for text in ["api.internal", "10.0.0.1", "2001:db8::1"] {
            assert_eq!(text.parse::<TlsName>().unwrap().to_string(), text);
        }
        for text in ["", "a:443", "[::1]", "https://a", "a b"] {
            assert!(text.parse::<TlsName>().is_err(), "{text}");
        }
    }
}
