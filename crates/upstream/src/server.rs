//! A server as it is named: where it is, and how it is spoken to.

use http::HeaderValue;
use rustls::pki_types::ServerName;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

/// The place of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host name or an IP address (without brackets), and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

/// The protocol that a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: with TLS by ALPN, in clear text by prior knowledge (RFC 9113 section 3.3).
    Http2,
    /// HTTP/3, always with TLS. Nothing else is tried where it does not come through.
    Http3,
}

/// A server behind a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Server {
    /// The address of the server.
    pub address: Address,
    /// The protocol that it is spoken to in.
    pub protocol: Protocol,
    /// The name that its certificate must have and that it is asked for (SNI); `None`: clear text.
    pub tls: Option<ServerName<'static>>,
}

impl Server {
    /// The authority of its URLs, for requests that come without a host.
    #[must_use]
    pub fn authority(&self) -> HeaderValue {
        let text = match &self.address {
            Address::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            Address::Tcp(host, port) => format!("{host}:{port}"),
            Address::Unix(_) => "localhost".into(),
        };
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("localhost"))
    }

    /// A number that it keeps over restarts and whatever other servers there are.
    pub(crate) fn id(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// Writes the server as a configuration names it.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.address, self.protocol, &self.tls) {
            (Address::Unix(path), Protocol::Http1, _) => {
                return write!(f, "unix:{}", path.display());
            }
            (Address::Unix(path), Protocol::Http2 | Protocol::Http3, _) => {
                return write!(f, "unix+h2c:{}", path.display());
            }
            (_, Protocol::Http1, None) => f.write_str("http://")?,
            (_, Protocol::Http1, Some(_)) => f.write_str("https://")?,
            (_, Protocol::Http2, None) => f.write_str("h2c://")?,
            (_, Protocol::Http2, Some(_)) => f.write_str("h2://")?,
            (_, Protocol::Http3, _) => f.write_str("h3://")?,
        }
        f.write_str(self.authority().to_str().unwrap_or_default())
    }
}
