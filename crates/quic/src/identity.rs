//! Identity that a peer has shown in the handshake.

use rustls::pki_types::CertificateDer;
use rustls::quic::Connection;

/// Identity that a peer has shown in the handshake.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerIdentity {
    /// The name that a client connected to (RFC 6066 section 3); `None` where it said none.
    pub server_name: Option<Box<str>>,
    /// Certificate of the peer and those that lead to a root; empty where it has shown none.
    pub certificates: Vec<CertificateDer<'static>>,
}

impl PeerIdentity {
    pub(crate) fn of(tls: &Connection) -> Self {
        let server_name = match tls {
            Connection::Client(_) => None,
            Connection::Server(tls) => tls.server_name().map(Into::into),
        };
        let chain = tls.peer_certificates().unwrap_or_default();
        let certificates = chain.iter().map(|one| one.clone().into_owned());
        Self {
            server_name,
            certificates: certificates.collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.server_name.is_none() && self.certificates.is_empty()
    }
}
