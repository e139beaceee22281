//! A certificate chain and its key.

use crate::{Error, tls};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys};
use std::path::Path;
use std::sync::Arc;

/// A certificate chain with the private key that belongs to its first certificate.
#[derive(Debug, Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
}

impl Identity {
    /// Reads a chain (leaf first) and a key (PKCS #8, SEC1 or PKCS #1) from PEM files; both may be
    /// the same file.
    ///
    /// # Errors
    /// A file can't be read, isn't PEM, lacks what it should hold, or the two don't belong together.
    pub fn from_pem_files(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let chain = read_chain(certificate)?;
        let private = read_key(key)?;
        let certified = CertifiedKey::from_der(chain, private, &tls::provider());
        let certified = certified.map_err(|source| match source {
            TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => Error::KeyMismatch {
                certificate: certificate.into(),
                key: key.into(),
            },
            source => Error::Identity {
                certificate: certificate.into(),
                key: key.into(),
                source,
            },
        })?;
        Ok(Self {
            certified: Arc::new(certified),
        })
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(path)?;
    let chain = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| Error::Pem {
            path: path.into(),
            source,
        })?;
    if chain.is_empty() {
        return Err(Error::NoCertificate { path: path.into() });
    }
    Ok(chain)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|source| match source {
        pem::Error::NoItemsFound => Error::NoKey { path: path.into() },
        source => Error::Pem {
            path: path.into(),
            source,
        },
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::ReadPem {
        path: path.into(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Pem {
        dir: tempfile::TempDir,
    }

    impl Pem {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for name in ["a", "b"] {
                let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
                let file = |kind: &str| dir.path().join(format!("{name}.{kind}"));
                std::fs::write(file("crt"), made.cert.pem()).unwrap();
                std::fs::write(file("key"), made.signing_key.serialize_pem()).unwrap();
            }
            std::fs::write(dir.path().join("text"), "no PEM").unwrap();
            std::fs::write(
                dir.path().join("broken"),
                "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
            )
            .unwrap();
            Self { dir }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn error(&self, certificate: &str, key: &str) -> Error {
            Identity::from_pem_files(&self.path(certificate), &self.path(key)).unwrap_err()
        }
    }

    #[test]
    fn a_pair_that_belongs_together_is_accepted() {
        let pem = Pem::new();
        Identity::from_pem_files(&pem.path("a.crt"), &pem.path("a.key")).unwrap();
    }

    #[test]
    fn each_fault_has_its_own_error() {
        let pem = Pem::new();
        assert!(matches!(
            pem.error("a.crt", "b.key"),
            Error::KeyMismatch { .. }
        ));
        assert!(matches!(pem.error("none", "a.key"), Error::ReadPem { .. }));
        assert!(matches!(
            pem.error("text", "a.key"),
            Error::NoCertificate { .. }
        ));
        assert!(matches!(
            pem.error("a.key", "a.key"),
            Error::NoCertificate { .. }
        ));
        assert!(matches!(pem.error("a.crt", "a.crt"), Error::NoKey { .. }));
        assert!(matches!(pem.error("broken", "a.key"), Error::Pem { .. }));
    }
}
