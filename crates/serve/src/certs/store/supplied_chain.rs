//! A chain of somebody else's with its key in one PEM file, for measuring: clients are had to trust its last
//! certificate, whoever signed that.

use super::{Leaf, Store, parse, replace};
use crate::{Error, Identity, IdentityWarning, tls};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Letters of base64 in a line of PEM (RFC 7468 section 2).
const LINE: usize = 64;

/// A chain that clients can be had to trust.
#[derive(Debug, Clone)]
pub struct SuppliedChain {
    /// The leaf, by the file that was given: it holds the key too.
    pub leaf: Leaf,
    /// A host name that the leaf is for.
    pub host: String,
    /// The chain's last certificate.
    root: CertificateDer<'static>,
}

impl SuppliedChain {
    /// Reads the chain, leaf first, and its key from one PEM file, and verifies it as a client does that trusts the
    /// last certificate.
    ///
    /// # Errors
    /// The file can't be read, or lacks chain or key; the two don't belong together; the time of a certificate is over
    /// or has not come; the leaf is for no host name, or one certificate didn't sign the one before it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let now = SystemTime::now();
        let identity = Identity::from_pem_files(path, path)?;
        if let Some(warning) = identity.warnings(now).into_iter().find(keeps_from_use) {
            return Err(Error::UntrustedChain {
                path: path.into(),
                reason: warning.to_string(),
            });
        }
        let chain = identity.certified(now).cert.clone();
        let (first, last) = (&chain[0], chain[chain.len() - 1].clone());
        let leaf = Leaf::of(&parse(path, first)?, path.into(), path.into());
        let untrusted = |reason| Error::UntrustedChain {
            path: path.into(),
            reason,
        };
        let host = host(&leaf.names)
            .ok_or_else(|| untrusted("its first certificate is for no host name".into()))?;
        verify(&chain, &host).map_err(|error| {
            untrusted(format!(
                "it does not lead from its first certificate to its last: {error}"
            ))
        })?;
        Ok(Self {
            leaf,
            host,
            root: last,
        })
    }
}

impl Store {
    /// Keeps what clients are to trust so that they believe a chain, as PEM. Gives its path.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn root_of(&self, given: &SuppliedChain) -> Result<PathBuf, Error> {
        let name = given.leaf.certificate.file_name().unwrap_or_default();
        let mut file = name.to_owned();
        file.push(".root");
        let path = self.dir().join(file);
        replace(&path, &pem(&given.root))?;
        Ok(path)
    }
}

fn keeps_from_use(warning: &IdentityWarning) -> bool {
    matches!(
        warning,
        IdentityWarning::Expired { .. } | IdentityWarning::NotYetValid { .. }
    )
}

/// The first host of these names; one below a wildcard, which covers one label (RFC 9525 section 6.3).
fn host(names: &[String]) -> Option<String> {
    let mut hosts = names.iter().filter(|name| name.parse::<IpAddr>().is_err());
    let host = hosts.next()?;
    Some(match host.strip_prefix("*.") {
        Some(parent) => format!("www.{parent}"),
        None => host.clone(),
    })
}

fn verify(chain: &[CertificateDer<'_>], host: &str) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    if let Some(last) = chain.last() {
        roots.add(last.clone().into_owned())?;
    }
    let provider = Arc::new(tls::provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let host =
        ServerName::try_from(host).map_err(|error| rustls::Error::General(error.to_string()))?;
    let verified = verifier.verify_server_cert(&chain[0], &chain[1..], &host, &[], UnixTime::now());
    verified.map(drop)
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let base64 = STANDARD.encode(certificate);
    let lines = base64.as_bytes().chunks(LINE);
    let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line)).collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::pem::PemObject;
    use std::fs;
    use time::{Duration, OffsetDateTime};

    /// A file with these parts.
    fn file(folder: &tempfile::TempDir, name: &str, parts: &[&Path]) -> PathBuf {
        let text: String = parts
            .iter()
            .map(|part| fs::read_to_string(part).unwrap())
            .collect();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_chain_is_believed_by_who_trusts_its_last_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("certs")).unwrap();
        let leaf = store.rsa_chain(&["*.altway.test"]).unwrap();
        let chain = file(&folder, "own.pem", &[&leaf.certificate, &leaf.key]);
        let given = SuppliedChain::read(&chain).unwrap();
        assert_eq!(given.host, "www.altway.test");
        assert_eq!(given.leaf.spki_sha256, leaf.spki_sha256);
        let root = store.root_of(&given).unwrap();
        assert_eq!(root.file_name().unwrap(), "own.pem.root");
        let root = CertificateDer::from_pem_file(root).unwrap();
        assert_eq!(
            root,
            CertificateDer::from_pem_file(store.rsa_root()).unwrap()
        );
    }

    #[test]
    fn chains_that_no_client_believes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("certs")).unwrap();
        let (rsa, ecdsa) = (
            store.rsa_chain::<&str>(&[]).unwrap(),
            store.leaf::<&str>(&[]).unwrap(),
        );
        let error = |name: &str, parts: &[&Path]| {
            let path = file(&folder, name, parts);
            SuppliedChain::read(&path).unwrap_err().to_string()
        };
        let alone = error("alone.pem", &[&ecdsa.certificate, &ecdsa.key]);
        assert!(
            alone.contains("does not lead from its first certificate to its last"),
            "{alone}"
        );
        let other = error("other.pem", &[&rsa.certificate, &ecdsa.key]);
        assert!(
            other.contains("does not belong to the certificate"),
            "{other}"
        );
        let keyless = error("keyless.pem", &[&rsa.certificate]);
        assert!(keyless.contains("holds no private key"), "{keyless}");
        let lost = SuppliedChain::read(Path::new("lost.pem"))
            .unwrap_err()
            .to_string();
        assert!(lost.contains("lost.pem"), "{lost}");
    }

    #[test]
    fn a_chain_whose_time_is_over_is_refused_with_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["a.test".to_owned()]).unwrap();
        let now = OffsetDateTime::now_utc();
        (params.not_before, params.not_after) = (now - Duration::days(9), now - Duration::days(2));
        let path = folder.path().join("old.pem");
        let text = params.self_signed(&key).unwrap().pem() + &key.serialize_pem();
        fs::write(&path, text).unwrap();
        let error = SuppliedChain::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("old.pem") && error.contains("expired"),
            "{error}"
        );
    }
}
