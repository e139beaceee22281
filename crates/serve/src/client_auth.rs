//! Certificates of clients (RFC 8446 section 4.3.2): whose are asked for, by which name, and who has shown one.
//!
//! A TLS handshake asks for a certificate by the name that the client connects to, takes one that any of the server's
//! roots has signed, and goes on without one: whether it is good for a site, and whether the site goes without, is
//! found out for each request (`request/identify.rs`), the same over every protocol.

mod names;
mod verifier;

pub(crate) use names::AskedNames;
pub(crate) use verifier::{Verifier, begin_handshake, note};

use crate::{BoxError, Error, identity, tls};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientCertVerifierBuilder, WebPkiClientVerifier};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The longest subject that is told, in bytes.
const MAX_SUBJECT: usize = 512;

/// The beginning of every piece of PEM (RFC 7468 section 2).
const BEGIN: &[u8] = b"-----BEGIN ";

/// The demand that a site's clients show a certificate signed by one of these roots. Clones share it.
#[derive(Debug, Clone)]
pub struct ClientAuth(Arc<Demand>);

#[derive(Debug, Clone)]
struct Demand {
    roots: Arc<RootCertStore>,
    verifier: Arc<dyn ClientCertVerifier>,
    is_required: bool,
}

/// The certificate with which a client has authenticated itself. It is in a request's extensions if the site asks for
/// one ([`ClientAuth`]) and the client has shown one signed by the site's roots. Clones share it.
#[derive(Debug, Clone)]
pub struct ClientCertificate(Arc<Shown>);

#[derive(Debug)]
struct Shown {
    chain: Vec<CertificateDer<'static>>,
    subject: Box<str>,
    fingerprint: Box<str>,
}

/// The name and the certificates that a client has sent in its handshake.
#[derive(Debug)]
pub(crate) struct Presented {
    /// The name that it connected to (RFC 6066 section 3).
    pub(crate) name: Option<Box<str>>,
    /// The client's certificate and those that lead to a root; empty without one.
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

impl ClientAuth {
    /// Reads the roots from a PEM file. Requests of clients without a certificate are answered 403.
    ///
    /// # Errors
    /// [`Error::ReadPem`]: the file can't be read. [`Error::ClientRoot`]: it isn't PEM, or contains no certificate
    /// that can be a root.
    pub fn from_pem_file(roots: &Path) -> Result<Self, Error> {
        let no_root = |source| Error::ClientRoot {
            path: roots.into(),
            source,
        };
        let (text, _) = identity::read(roots)?;
        let mut store = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(&text) {
            let root = root.map_err(|fault| no_root(identity::pem_fault(fault)))?;
            store.add(root).map_err(|source| no_root(source.into()))?;
        }
        if store.is_empty() {
            return Err(no_root("it has no certificate".into()));
        }
        let roots = Arc::new(store);
        let verifier = trusting(&roots).build();
        let verifier = verifier.map_err(|source| no_root(source.into()))?;
        Ok(Self(Arc::new(Demand {
            roots,
            verifier,
            is_required: true,
        })))
    }

    /// Checks certificates against these files of revocation lists (RFC 5280 section 5), PEM or DER. Each authority
    /// between a certificate and its root must have a list that is currently valid; certificates of an authority
    /// without one are refused. With no file, revocation is not checked.
    ///
    /// # Errors
    /// [`Error::ReadPem`]: a file can't be read. [`Error::Revocation`]: it contains no list, or one that can't be
    /// parsed.
    pub fn with_revocation(self, files: &[PathBuf]) -> Result<Self, Error> {
        if files.is_empty() {
            return Ok(self);
        }
        let roots = &self.0.roots;
        let mut verifier = trusting(roots);
        for file in files {
            let lists = revocation_lists(file)?;
            // Alone first: it is this file that holds a list which can't be understood.
            let alone = trusting(roots).with_crls(lists.iter().cloned()).build();
            alone.map_err(|source| not_understood(file, source))?;
            verifier = verifier.with_crls(lists);
        }
        let verifier = verifier.enforce_revocation_expiration().build();
        let verifier = verifier.map_err(|source| not_understood(&files[0], source))?;
        Ok(self.with(|demand| demand.verifier = verifier))
    }

    /// Answers clients without a certificate as well.
    #[must_use]
    pub fn optional(self) -> Self {
        self.with(|demand| demand.is_required = false)
    }

    fn with(self, change: impl FnOnce(&mut Demand)) -> Self {
        // Every change makes another demand, by which names tell what to ask for.
        let mut demand = (*self.0).clone();
        change(&mut demand);
        Self(Arc::new(demand))
    }

    /// Returns true if requests of clients without a certificate are refused.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.0.is_required
    }

    /// # Errors
    /// None of the roots has signed it, or not for now.
    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let verifier = &self.0.verifier;
        verifier
            .verify_client_cert(leaf, intermediates, now)
            .map(drop)
    }

    /// The certificate of a chain that was proven to be its client's; `None` where it is not good for this.
    pub(crate) fn accept(
        &self,
        chain: &[CertificateDer<'static>],
        now: UnixTime,
    ) -> Option<ClientCertificate> {
        let (leaf, intermediates) = chain.split_first()?;
        match self.verify(leaf, intermediates, now) {
            Ok(()) => Some(ClientCertificate::of(chain)),
            Err(error) => {
                tracing::debug!(%error, "a client's certificate is not good for its site");
                None
            }
        }
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl ClientCertificate {
    fn of(chain: &[CertificateDer<'static>]) -> Self {
        let leaf = &chain[0];
        let subject = match X509Certificate::from_der(leaf) {
            Ok((_, certificate)) => bounded(certificate.subject().to_string()),
            Err(_) => Box::default(),
        };
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, leaf);
        let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        Self(Arc::new(Shown {
            chain: chain.to_vec(),
            subject,
            fingerprint: hex.collect::<String>().into(),
        }))
    }

    /// Returns the certificate's subject, like `CN=alice, O=Example`: 512 bytes at most. It can have any characters
    /// that its issuer chose.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// The SHA-256 digest of the certificate in hexadecimal: 64 digits in lower case.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.0.fingerprint
    }

    /// The certificate itself (DER).
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.0.chain[0]
    }

    /// The certificates (DER) that the client has sent along, each having signed the one before it.
    pub fn intermediates(&self) -> impl Iterator<Item = &[u8]> {
        self.0.chain[1..].iter().map(|it| &**it)
    }
}

impl Presented {
    pub(crate) fn new(name: Option<&str>, chain: &[CertificateDer<'_>]) -> Self {
        Self {
            name: name.map(Into::into),
            chain: chain.iter().map(|it| it.clone().into_owned()).collect(),
        }
    }

    /// Reads the name and the certificates of a connection's TLS.
    pub(crate) fn of(tls: &rustls::ServerConnection) -> Self {
        Self::new(
            tls.server_name(),
            tls.peer_certificates().unwrap_or_default(),
        )
    }
}

impl fmt::Display for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.subject())
    }
}

/// The lists of a file: PEM, or one as it is.
fn revocation_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, Error> {
    let (content, _) = identity::read(path)?;
    if !content.windows(BEGIN.len()).any(|it| it == BEGIN) {
        return Ok(vec![content.into()]);
    }
    let lists = CertificateRevocationListDer::pem_slice_iter(&content);
    let lists: Result<Vec<_>, _> = lists.collect();
    let lists = lists.map_err(|fault| not_understood(path, identity::pem_fault(fault)))?;
    match lists.is_empty() {
        true => Err(not_understood(path, "it is PEM without a list")),
        false => Ok(lists),
    }
}

fn not_understood(path: &Path, source: impl Into<BoxError>) -> Error {
    Error::Revocation {
        path: path.into(),
        source: source.into(),
    }
}

/// Returns the builder of a verifier of certificates that these roots have signed.
fn trusting(roots: &Arc<RootCertStore>) -> ClientCertVerifierBuilder {
    let provider = Arc::new(tls::provider());
    WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider)
}

/// The first [`MAX_SUBJECT`] bytes, without a character that is cut in two.
fn bounded(mut text: String) -> Box<str> {
    text.truncate(text.floor_char_boundary(MAX_SUBJECT));
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_bounded_between_characters() {
        let long = format!("{}é", "x".repeat(MAX_SUBJECT - 1));
        assert_eq!(bounded(long).len(), MAX_SUBJECT - 1);
        assert_eq!(&*bounded("CN=é".into()), "CN=é");
    }

    #[test]
    fn roots_that_are_none_are_named_with_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("roots.pem");
        let error = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let error = ClientAuth::from_pem_file(&path).unwrap_err().to_string();
            assert!(error.contains("roots.pem"), "{error}");
            error
        };
        error("");
        let begin = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(error(begin).contains("root"));
        std::fs::remove_file(&path).unwrap();
        assert!(ClientAuth::from_pem_file(&path).is_err());
    }

    #[test]
    fn lists_that_are_none_are_named_with_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = crate::certs::Store::open(folder.path().join("certs")).unwrap();
        store.leaf(&["a.example"]).unwrap();
        let roots = store.authority();
        let path = folder.path().join("revoked");
        let auth = || ClientAuth::from_pem_file(&roots).unwrap();
        assert!(auth().with_revocation(&[]).is_ok());
        let begin = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
        let other = std::fs::read_to_string(&roots).unwrap();
        for content in ["", "nothing", begin, &other] {
            std::fs::write(&path, content).unwrap();
            let error = auth().with_revocation(std::slice::from_ref(&path));
            let error = error.unwrap_err().to_string();
            assert!(error.contains("revoked`"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(auth().with_revocation(&[path]).is_err());
    }
}
