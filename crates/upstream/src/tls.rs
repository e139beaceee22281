//! TLS to servers: whose certificates are believed.

use crate::{Error, Protocol};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::path::PathBuf;
use std::sync::Arc;

/// The authorities that sign servers' certificates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Roots {
    /// The roots of the system.
    #[default]
    System,
    /// The roots of a PEM file, and no others.
    File(PathBuf),
}

/// The configuration of every handshake, for each protocol: that is offered alone, so that no server answers with another.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

impl Tls {
    pub(crate) fn new(roots: &Roots) -> Result<Self, Error> {
        let (certificates, place) = match roots {
            Roots::System => {
                let found = rustls_native_certs::load_native_certs();
                (found.certs, "the system's store".to_owned())
            }
            Roots::File(path) => {
                let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
                let read = read.map_err(|source| Error::Roots {
                    path: path.clone(),
                    source,
                })?;
                (read, format!("`{}`", path.display()))
            }
        };
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(certificates);
        if store.is_empty() {
            return Err(Error::NoRoots { place });
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::ALL_VERSIONS)?
            .with_root_certificates(store)
            .with_no_client_auth();
        let with = |alpn: &str| {
            let mut config = config.clone();
            config.alpn_protocols = vec![alpn.into()];
            Arc::new(config)
        };
        Ok(Self {
            http1: with("http/1.1"),
            http2: with("h2"),
        })
    }

    pub(crate) fn config(&self, protocol: Protocol) -> Arc<ClientConfig> {
        Arc::clone(match protocol {
            Protocol::Http1 => &self.http1,
            Protocol::Http2 => &self.http2,
        })
    }
}
