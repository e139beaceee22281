//! A certificate chain, its key, and what its issuer says of it.

use crate::{Error, ocsp, tls};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// A certificate chain with the private key that belongs to its first certificate, and an OCSP
/// response for it when one was given.
#[derive(Debug, Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
    stapled: Option<Stapled>,
}

/// The same certificate with an OCSP response.
#[derive(Debug, Clone)]
struct Stapled {
    certified: Arc<CertifiedKey>,
    /// `None`: for ever.
    until: Option<SystemTime>,
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
            stapled: None,
        })
    }

    /// Staples the OCSP response (DER) that a file holds: clients that ask for it (RFC 6066
    /// section 8) get it with the certificate, until the response's time is over (`nextUpdate`);
    /// from then on they get the certificate alone.
    ///
    /// The response's signature is left to clients to verify.
    ///
    /// # Errors
    /// The file can't be read or is no OCSP response; it is for another certificate than the first
    /// of the chain, doesn't call it good, or its time is over already.
    pub fn with_ocsp_file(mut self, path: &Path) -> Result<Self, Error> {
        let bare = &self.certified;
        let leaf = bare.end_entity_cert()?;
        let response = ocsp::read(path, leaf, SystemTime::now())?;
        let mut certified = CertifiedKey::clone(bare);
        certified.ocsp = Some(response.der);
        self.stapled = Some(Stapled {
            certified: Arc::new(certified),
            until: response.until,
        });
        Ok(self)
    }

    /// What a hand-shake at `now` uses.
    pub(crate) fn certified(&self, now: SystemTime) -> Arc<CertifiedKey> {
        let stapled = self.stapled.as_ref();
        let fresh = stapled.filter(|stapled| stapled.until.is_none_or(|until| now < until));
        Arc::clone(fresh.map_or(&self.certified, |stapled| &stapled.certified))
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
    use std::time::Duration;

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
    fn a_response_is_stapled_until_its_last_second() {
        let pem = Pem::new();
        let pair = Identity::from_pem_files(&pem.path("a.crt"), &pem.path("a.key"));
        let bare = pair.unwrap();
        let now = SystemTime::now();
        assert_eq!(bare.certified(now).ocsp, None);
        let mut certified = CertifiedKey::clone(&bare.certified);
        certified.ocsp = Some(vec![1]);
        let certified = Arc::new(certified);
        let stapled = |until| Identity {
            stapled: Some(Stapled {
                certified: Arc::clone(&certified),
                until,
            }),
            ..bare.clone()
        };
        let second = Duration::from_secs(1);
        assert!(stapled(None).certified(now).ocsp.is_some());
        assert!(stapled(Some(now + second)).certified(now).ocsp.is_some());
        assert!(stapled(Some(now)).certified(now).ocsp.is_none());
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
