//! TLS to servers: whose certificates are believed, and which one they are shown.

use crate::{Error, Protocol};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
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

impl Roots {
    /// Reads the roots, as [`Group::new`](crate::Group::new) does.
    ///
    /// # Errors
    /// They can't be read, or there are none.
    pub fn check(&self) -> Result<(), Error> {
        self.store().map(drop)
    }

    fn store(&self) -> Result<RootCertStore, Error> {
        let (certificates, place) = match self {
            Self::System => {
                let found = rustls_native_certs::load_native_certs();
                (found.certs, "the system's store".to_owned())
            }
            Self::File(path) => {
                let read = certificates_of(path).map_err(|source| Error::Roots {
                    path: path.clone(),
                    source,
                })?;
                (read, format!("`{}`", path.display()))
            }
        };
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(certificates);
        match store.is_empty() {
            true => Err(Error::NoRoots { place }),
            false => Ok(store),
        }
    }
}

/// A certificate with its key, which is shown to servers that ask for one.
#[derive(Debug, Clone)]
pub struct ClientCertificate(Arc<CertifiedKey>);

impl ClientCertificate {
    /// The chain of a PEM file, this server's own certificate first, and the key in `pem`, which was found in `place`.
    ///
    /// # Errors
    /// Either can't be read, or they don't belong to each other.
    pub fn from_pem(chain: &Path, place: &str, pem: &[u8]) -> Result<Self, Error> {
        let unread = |source| Error::ClientChain {
            path: chain.to_owned(),
            source,
        };
        let certificates = certificates_of(chain).map_err(unread)?;
        if certificates.is_empty() {
            return Err(unread(pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|source| Error::ClientKey {
            place: place.to_owned(),
            source,
        })?;
        let certified = CertifiedKey::from_der(certificates, key, &provider());
        let certified = certified.map_err(|source| match is_of_old_version(&source) {
            true => Error::ClientCertificateVersion {
                path: chain.to_owned(),
            },
            false => Error::ClientCertificate {
                path: chain.to_owned(),
                place: place.to_owned(),
                source,
            },
        })?;
        Ok(Self(Arc::new(certified)))
    }
}

/// Returns true if a certificate is not of version 3 of X.509. rustls has no error of its own for that.
fn is_of_old_version(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(CertificateError::Other(other)) = error else {
        return false;
    };
    other.to_string() == "UnsupportedCertVersion"
}

/// Reads the certificates of a PEM file.
fn certificates_of(path: &Path) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let (text, _) = altway_folder::read_file(path).map_err(pem::Error::Io)?;
    CertificateDer::pem_slice_iter(&text).collect()
}

fn provider() -> CryptoProvider {
    aws_lc_rs::default_provider()
}

/// The configuration of every handshake, for each protocol: that is offered alone, so that no server answers with another.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    http3: Arc<ClientConfig>,
}

impl Tls {
    pub(crate) fn new(roots: &Roots, shown: Option<&ClientCertificate>) -> Result<Self, Error> {
        let builder = ClientConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(rustls::ALL_VERSIONS)?
            .with_root_certificates(roots.store()?);
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some(ClientCertificate(certified)) => {
                let shown = SingleCertAndKey::from(Arc::clone(certified));
                builder.with_client_cert_resolver(Arc::new(shown))
            }
        };
        let with = |alpn: &str| {
            let mut config = config.clone();
            config.alpn_protocols = vec![alpn.into()];
            Arc::new(config)
        };
        Ok(Self {
            http1: with("http/1.1"),
            http2: with("h2"),
            http3: with("h3"),
        })
    }

    pub(crate) fn config(&self, protocol: Protocol) -> Arc<ClientConfig> {
        Arc::clone(match protocol {
            Protocol::Http1 => &self.http1,
            Protocol::Http2 => &self.http2,
            Protocol::Http3 => &self.http3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;

    #[test]
    fn a_client_certificate_of_an_old_version_of_x509_is_called_so() {
        let made = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
        let key = made.signing_key.serialize_pem();
        let mut der = made.cert.der().to_vec();
        // The version stands within a tag of its own; 0 is the first.
        let place = der.windows(4).position(|it| it == [0xa0, 3, 2, 1]).unwrap() + 4;
        der[place] = 0;
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        let text = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
        let dir = tempfile::tempdir().unwrap();
        let chain = dir.path().join("client.pem");
        std::fs::write(&chain, text).unwrap();
        let error = ClientCertificate::from_pem(&chain, "here", key.as_bytes()).unwrap_err();
        assert!(
            matches!(error, Error::ClientCertificateVersion { .. }),
            "{error:?}"
        );
    }
}
