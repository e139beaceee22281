//! The TLS settings of both transports: one provider, one certificate, one set of ticket keys.

use crate::{Error, Identity};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use std::sync::Arc;

/// Protocols on TCP in the server's order (RFC 7301).
const ALPN_TCP: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The cryptography: aws-lc, with AES-128-GCM before AES-256-GCM and ChaCha20. On every processor
/// with AES instructions it costs the least per byte, and clients that know it lose no strength
/// that matters.
pub(crate) fn provider() -> CryptoProvider {
    use aws_lc_rs::cipher_suite as suite;
    let mut provider = aws_lc_rs::default_provider();
    let first = [
        suite::TLS13_AES_128_GCM_SHA256,
        suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ];
    provider
        .cipher_suites
        .sort_by_key(|candidate| !first.contains(candidate));
    provider
}

/// TLS for TCP: versions 1.2 and 1.3, HTTP/2 and HTTP/1.1.
pub(crate) fn for_tcp(identity: &Identity) -> Result<Arc<ServerConfig>, Error> {
    let mut config = config(identity, &[&TLS13, &TLS12])?;
    config.alpn_protocols = ALPN_TCP.map(<[u8]>::to_vec).into();
    Ok(Arc::new(config))
}

/// TLS for QUIC: version 1.3 (RFC 9001 section 4.2). No early data: requests in it can be replayed.
pub(crate) fn for_quic(identity: &Identity) -> Result<Arc<ServerConfig>, Error> {
    Ok(Arc::new(config(identity, &[&TLS13])?))
}

fn config(
    identity: &Identity,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ServerConfig, Error> {
    let resolver = Arc::new(OneCertificate(identity.certified()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    config.ignore_client_order = true;
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    Ok(config)
}

/// The same certificate for every server name, so that a server can be reached by address.
#[derive(Debug)]
struct OneCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for OneCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aes_128_gcm_comes_first_and_no_suite_is_lost() {
        let suites = provider().cipher_suites;
        let first = suites[0].suite();
        assert_eq!(first, rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
        let default = aws_lc_rs::default_provider().cipher_suites;
        assert_eq!(suites.len(), default.len());
    }
}
