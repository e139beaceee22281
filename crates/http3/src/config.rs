//! Configuration of an endpoint: what an operator may choose, with its meaning, unit and cost.
//!
//! Everything has a default, and defaults differ by role only where the roles differ: a client
//! downloads, so its receive windows are large; a server takes small request bodies from many.

use std::sync::Arc;

use altway_quic::{self as quic, Transport};

use crate::Error;

/// HTTP/3's name in ALPN (RFC 9114 section 3.1).
const ALPN: &[u8] = b"h3";

/// Unidirectional streams a peer may have open. RFC 9114 section 6.2 asks for three at least; the
/// rest is for streams of unknown type, which are refused one by one.
const MAX_UNIDIRECTIONAL_STREAMS: u32 = 16;

/// A server's configuration.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Certificates and keys. Must allow TLS 1.3 and AES-128-GCM; the endpoint works on a copy
    /// with ALPN `h3` and without early data.
    pub tls: Arc<rustls::ServerConfig>,
    /// QUIC's knobs.
    pub transport: Transport,
    /// What peers may cost.
    pub limits: Limits,
}

impl ServerConfig {
    /// Defaults around a TLS configuration.
    #[must_use]
    pub fn new(tls: Arc<rustls::ServerConfig>) -> Self {
        Self {
            tls,
            transport: Transport::default(),
            limits: Limits::default(),
        }
    }

    /// QUIC's part.
    pub(crate) fn quic(&self) -> quic::ServerConfig {
        let mut tls = rustls::ServerConfig::clone(&self.tls);
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let mut config = quic::ServerConfig::new(Arc::new(tls));
        config.transport = self.transport.clone();
        config.limits = self.limits.quic(self.limits.max_concurrent_requests);
        config
    }
}

/// A client's configuration.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Trust anchors. Must allow TLS 1.3 and AES-128-GCM; the endpoint works on a copy with ALPN
    /// `h3` and without early data.
    pub tls: Arc<rustls::ClientConfig>,
    /// QUIC's knobs.
    pub transport: Transport,
    /// What peers may cost.
    pub limits: Limits,
}

impl ClientConfig {
    /// Defaults around a TLS configuration.
    #[must_use]
    pub fn new(tls: Arc<rustls::ClientConfig>) -> Self {
        Self {
            tls,
            transport: Transport::default(),
            limits: Limits::default(),
        }
    }

    /// QUIC's part.
    pub(crate) fn quic(&self) -> quic::ClientConfig {
        let mut tls = rustls::ClientConfig::clone(&self.tls);
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let mut config = quic::ClientConfig::new(Arc::new(tls));
        config.transport = self.transport.clone();
        config.limits = self.limits.quic(0);
        config
    }
}

/// What peers may cost. Each bound holds for hostile peers as well.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest head or trailer section that is accepted, in bytes as RFC 9114 section 4.2.2
    /// counts (names + values + 32 a field); announced to the peer. A server answers a larger one
    /// with 431. Default: 64 KiB. At most 1 MiB.
    pub max_field_section_size: u64,
    /// Requests of one connection in progress at once, in either role. Default: 256.
    pub max_concurrent_requests: u32,
    /// Connections of the endpoint, those in hand-shake and those closing included; more are
    /// refused. Default: 65,536.
    pub max_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_field_section_size: 64 << 10,
            max_concurrent_requests: 256,
            max_connections: 1 << 16,
        }
    }
}

impl Limits {
    /// Names the first field that is out of range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (field, expected) = if self.max_field_section_size > 1 << 20 {
            ("max_field_section_size", "at most 1 MiB")
        } else if self.max_concurrent_requests == 0 {
            ("max_concurrent_requests", "1 or more")
        } else {
            return Ok(());
        };
        Err(Error::InvalidConfig { field, expected })
    }

    fn quic(&self, requests: u32) -> quic::Limits {
        quic::Limits {
            max_bidirectional_streams: requests,
            max_unidirectional_streams: MAX_UNIDIRECTIONAL_STREAMS,
            max_connections: self.max_connections,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_of(change: impl FnOnce(&mut Limits)) -> Option<&'static str> {
        let mut limits = Limits::default();
        change(&mut limits);
        match limits.check() {
            Err(Error::InvalidConfig { field, .. }) => Some(field),
            Err(other) => panic!("{other}"),
            Ok(()) => None,
        }
    }

    #[test]
    fn a_value_out_of_range_is_named() {
        assert_eq!(field_of(|_| {}), None);
        let size = field_of(|limits| limits.max_field_section_size = (1 << 20) + 1);
        assert_eq!(size, Some("max_field_section_size"));
        let requests = field_of(|limits| limits.max_concurrent_requests = 0);
        assert_eq!(requests, Some("max_concurrent_requests"));
    }
}
