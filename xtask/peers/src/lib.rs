//! The TLS settings that the programs share, so that all benches use the same cipher.
//!
//! Left to the programs: everything else.

use anyhow::{Context, Result};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

/// TLS 1.3 with AES-128-GCM alone (RFC 8446 section B.4): the cipher that every bench uses.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
    Arc::new(provider)
}

/// A server of HTTP/2 with the certificate chain and key of two PEM files.
///
/// # Errors
/// A file can't be read, holds no PEM, or key and certificate don't belong together.
pub fn server(certificate: &Path, key: &Path) -> Result<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .with_context(|| format!("cannot read {}", certificate.display()))?;
    let key = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("cannot read {}", key.display()))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    Ok(config)
}

/// A client of HTTP/2 (whoever speaks another protocol names it himself) that trusts the authority in
/// a PEM file, and never resumes a session: each connection makes a whole handshake.
///
/// # Errors
/// The file can't be read or holds no certificate.
pub fn client(authority: &Path) -> Result<ClientConfig> {
    let authority = CertificateDer::from_pem_file(authority)
        .with_context(|| format!("cannot read {}", authority.display()))?;
    let mut roots = RootCertStore::empty();
    roots.add(authority)?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}
