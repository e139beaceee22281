//! A certificate chain, its key, and what its issuer says of it.

mod names;
mod warning;

use crate::{BoxError, Error, ocsp, tls};
use altway_folder::read_file;
pub use names::CertificateNames;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys, SignatureAlgorithm, SignatureScheme};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
pub use warning::IdentityWarning;
use warning::Validity;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

/// A certificate chain with the private key that belongs to its first certificate, and an OCSP
/// response for it when one was given.
#[derive(Debug, Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
    stapled: Option<Stapled>,
    /// The chain's file.
    path: PathBuf,
    /// A warning of the key, if others could read its file when that was read.
    readable_key: Option<IdentityWarning>,
}

/// Bytes of a signature with an RSA key of 2,048 bits, the most common.
const RSA_SIGNATURE: usize = 256;

/// Bytes of a signature with any other key, at most (ECDSA with P-256).
const OTHER_SIGNATURE: usize = 72;

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
    /// A file can't be read, isn't PEM, lacks what it should contain, or the two don't belong together.
    pub fn from_pem_files(
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, Error> {
        let (certificate, key) = (certificate.as_ref(), key.as_ref());
        let (chain, _) = read(certificate)?;
        let (text, key_file) = read(key)?;
        let identity = Self::from_named_pem((certificate, &chain), (key, &text))?;
        Ok(Self {
            readable_key: warning::of_key(key, &key_file),
            ..identity
        })
    }

    /// Takes a chain (leaf first) and a key (PKCS #8, SEC1 or PKCS #1) in PEM from memory; both may be the same text.
    /// Errors call them `<chain>` and `<key>`.
    ///
    /// # Errors
    /// One of them isn't PEM, lacks what it should contain, or the two don't belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, Error> {
        Self::from_named_pem((Path::new("<chain>"), chain), (Path::new("<key>"), key))
    }

    /// Reads a chain as [`from_pem_files`](Self::from_pem_files) does, without its key: what is wrong with it, and the names
    /// that its first certificate is for, can be told where the key is not at hand.
    ///
    /// # Errors
    /// The file can't be read, isn't PEM, or has no certificate.
    pub fn check_chain(certificate: &Path) -> Result<CertificateNames, Error> {
        let (text, _) = read(certificate)?;
        let chain = parse_chain(certificate, &text)?;
        Ok(chain.first().map(CertificateNames::of).unwrap_or_default())
    }

    /// Reads a key as [`from_pem_files`](Self::from_pem_files) does, without its chain: what is wrong with it can be told
    /// where the chain can't be read either.
    ///
    /// # Errors
    /// The file can't be read, isn't PEM, or has no key that can be read without a password.
    pub fn check_key(key: &Path) -> Result<(), Error> {
        let (text, _) = read(key)?;
        parse_key(key, &text).map(drop)
    }

    /// Takes a chain and a key as [`from_pem`](Self::from_pem) does, each with the path or another name that errors and
    /// warnings call it by.
    ///
    /// # Errors
    /// As [`from_pem`](Self::from_pem).
    pub fn from_named_pem(
        (certificate, chain): (&Path, &[u8]),
        (key, text): (&Path, &[u8]),
    ) -> Result<Self, Error> {
        let chain = parse_chain(certificate, chain)?;
        let private = parse_key(key, text)?;
        check_version(certificate, &chain)?;
        let others = chain.get(1..).unwrap_or_default().to_vec();
        let certified = CertifiedKey::from_der(chain, private.clone_key(), &tls::provider());
        let certified = certified.map_err(|source| match source {
            TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                let (certificate, key) = (certificate.into(), key.into());
                match of_another(&others, &private) {
                    Some(place) => Error::ChainOrder {
                        certificate,
                        key,
                        place,
                    },
                    None => Error::KeyMismatch { certificate, key },
                }
            }
            source => Error::Identity {
                certificate: certificate.into(),
                key: key.into(),
                source: source.into(),
            },
        })?;
        Ok(Self {
            certified: Arc::new(certified),
            stapled: None,
            path: certificate.into(),
            readable_key: None,
        })
    }

    /// Returns faults that the operator should fix although the identity can be used: a key whose file others could
    /// read, certificates of the chain that at `now` are expired, not yet valid, or within 14 days of their end, and
    /// a chain that costs QUIC clients a round trip. Parses the chain each time.
    #[must_use]
    pub fn warnings(&self, now: SystemTime) -> Vec<IdentityWarning> {
        let chain = (1..).zip(&self.certified.cert);
        let dates = chain.filter_map(|(place, certificate)| {
            Validity::of(certificate)?.warning(&self.path, place, now)
        });
        let signature = match self.certified.key.algorithm() {
            SignatureAlgorithm::RSA => RSA_SIGNATURE,
            _ => OTHER_SIGNATURE,
        };
        let length = warning::of_length(&self.path, &self.certified.cert, signature);
        let key = self.readable_key.iter().cloned();
        key.chain(dates).chain(length).collect()
    }

    /// Staples the OCSP response (DER) in a file: clients that ask for it (RFC 6066 section 8) get it with the
    /// certificate, until the response expires (`nextUpdate`); from then on they get the certificate alone.
    ///
    /// The response's signature is left to clients to verify.
    ///
    /// # Errors
    /// The file can't be read or is no OCSP response; it is for another certificate than the first of the chain,
    /// doesn't say that it is good, or has expired already.
    pub fn with_ocsp_file(mut self, path: &Path) -> Result<Self, Error> {
        let bare = &self.certified;
        let leaf = bare.end_entity_cert().map_err(Error::tls)?;
        let response = ocsp::read(path, leaf, SystemTime::now())?;
        let mut certified = CertifiedKey::clone(bare);
        certified.ocsp = Some(response.der);
        self.stapled = Some(Stapled {
            certified: Arc::new(certified),
            until: response.until,
        });
        Ok(self)
    }

    /// Returns the file of the chain, as it was given, or its name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names that the server's own certificate is for; none where it can't be parsed.
    #[must_use]
    pub fn names(&self) -> CertificateNames {
        let leaf = self.certified.end_entity_cert();
        leaf.map(CertificateNames::of).unwrap_or_default()
    }

    /// The host names among them.
    pub(crate) fn dns_names(&self) -> Vec<String> {
        self.names().into_dns()
    }

    /// The last second of the server's own certificate; `None` where it can't be parsed.
    pub(crate) fn not_after(&self) -> Option<SystemTime> {
        let leaf = self.certified.end_entity_cert().ok()?;
        let (_, leaf) = X509Certificate::from_der(leaf).ok()?;
        Some(leaf.validity().not_after.to_datetime().into())
    }

    /// The kind of the private key.
    pub(crate) fn key_algorithm(&self) -> SignatureAlgorithm {
        self.certified.key.algorithm()
    }

    /// Returns true if a client that supports these signature schemes can verify the key's signatures.
    pub(crate) fn can_sign(&self, schemes: &[SignatureScheme]) -> bool {
        self.certified.key.choose_scheme(schemes).is_some()
    }

    /// Returns the certificate and key for a handshake at `now`, with the OCSP response while that is valid.
    pub(crate) fn certified(&self, now: SystemTime) -> Arc<CertifiedKey> {
        let stapled = self.stapled.as_ref();
        let fresh = stapled.filter(|stapled| stapled.until.is_none_or(|until| now < until));
        Arc::clone(fresh.map_or(&self.certified, |stapled| &stapled.certified))
    }
}

fn parse_chain(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain = CertificateDer::pem_slice_iter(text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|fault| Error::Pem {
            path: path.into(),
            source: pem_fault(fault),
        })?;
    if chain.is_empty() {
        return Err(Error::NoCertificate { path: path.into() });
    }
    Ok(chain)
}

/// Refuses a server's own certificate that is of version 1 or 2 of X.509, as TLS does: names came with version 3 (RFC 5280
/// section 4.1.2.1). One that can't be parsed is left to TLS.
fn check_version(path: &Path, chain: &[CertificateDer<'static>]) -> Result<(), Error> {
    let own = chain.first().map(|own| X509Certificate::from_der(own));
    match own {
        Some(Ok((_, own))) if own.version() != X509Version::V3 => Err(Error::CertificateVersion {
            path: path.into(),
            version: own.version().0.saturating_add(1),
        }),
        _ => Ok(()),
    }
}

/// The place in the chain of the first of these certificates, which follow the server's own, to which a key belongs.
fn of_another(
    others: &[CertificateDer<'static>],
    private: &PrivateKeyDer<'static>,
) -> Option<usize> {
    let is_of = |certificate: &CertificateDer<'static>| {
        let alone = vec![certificate.clone()];
        CertifiedKey::from_der(alone, private.clone_key(), &tls::provider()).is_ok()
    };
    others.iter().position(is_of).map(|index| index + 2)
}

fn parse_key(name: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(text).map_err(|source| match source {
        _ if is_encrypted(text) => Error::EncryptedKey { path: name.into() },
        pem::Error::NoItemsFound => Error::NoKey { path: name.into() },
        fault => Error::Pem {
            path: name.into(),
            source: pem_fault(fault),
        },
    })
}

/// Returns true if a key can be read by a password alone: PKCS #8 (RFC 7468 section 11), or PEM of old (RFC 1421).
fn is_encrypted(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
        || text.contains("\nProc-Type: 4,ENCRYPTED")
}

/// Returns the fault of a PEM file in words: the parser prints markers as lists of bytes.
pub(crate) fn pem_fault(fault: pem::Error) -> BoxError {
    match fault {
        pem::Error::MissingSectionEnd { end_marker } => {
            let marker = String::from_utf8_lossy(&end_marker);
            format!("it ends before `-----END {marker}-----`").into()
        }
        pem::Error::IllegalSectionStart { .. } => "a line with `-----BEGIN` is cut off".into(),
        fault => fault.into(),
    }
}

/// Returns a file's content, and the metadata of the very file that it is from.
pub(crate) fn read(path: &Path) -> Result<(Vec<u8>, Metadata), Error> {
    read_file(path).map_err(|source| Error::ReadPem {
        path: path.into(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;
    use time::OffsetDateTime;

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
            Identity::from_pem_files(self.path(certificate), self.path(key)).unwrap_err()
        }
    }

    #[test]
    fn a_pair_in_memory_is_accepted_and_its_faults_are_told_by_its_parts() {
        let pem = Pem::new();
        let text = |name| std::fs::read(pem.path(name)).unwrap();
        let (chain, key) = (text("a.crt"), text("a.key"));
        Identity::from_pem(&chain, &key).unwrap();
        let both = [&key[..], &chain].concat();
        Identity::from_pem(&both, &both).unwrap();
        let error = |chain: &[u8], key: &[u8]| {
            let refused = Identity::from_pem(chain, key);
            refused.unwrap_err().to_string()
        };
        assert_eq!(error(b"", &key), "`<chain>` holds no certificate");
        assert_eq!(error(&chain, &chain), "`<key>` holds no private key");
        let other = "the key `<key>` does not belong to the certificate `<chain>`";
        assert_eq!(error(&chain, &text("b.key")), other);
        let root_first = [&text("b.crt")[..], &chain].concat();
        let order =
            "the key `<key>` belongs to certificate 2 of the chain `<chain>`, not to the first";
        assert_eq!(error(&root_first, &key), order);
        assert_eq!(error(&root_first, &chain), "`<key>` holds no private key");
    }

    #[test]
    fn a_key_that_takes_a_password_is_told_from_one_that_is_broken() {
        let pem = Pem::new();
        let old = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,A6\n\nAAAA\n\
            -----END EC PRIVATE KEY-----\n";
        let new =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        for key in [old, &old.replace('\n', "\r\n"), new] {
            std::fs::write(pem.path("locked"), key).unwrap();
            let error = pem.error("a.crt", "locked");
            assert!(matches!(error, Error::EncryptedKey { .. }), "{error:?}");
        }
        assert!(matches!(pem.error("a.crt", "broken"), Error::Pem { .. }));
        assert!(matches!(pem.error("a.crt", "text"), Error::NoKey { .. }));
    }

    #[test]
    fn a_chain_can_be_checked_without_its_key() {
        let pem = Pem::new();
        Identity::check_chain(&pem.path("a.crt")).unwrap();
        let error = |name| Identity::check_chain(&pem.path(name)).unwrap_err();
        assert!(matches!(error("text"), Error::NoCertificate { .. }));
        assert!(matches!(error("broken"), Error::Pem { .. }));
        assert!(matches!(error("none"), Error::ReadPem { .. }));
    }

    #[test]
    fn a_key_can_be_checked_without_its_chain() {
        let pem = Pem::new();
        Identity::check_key(&pem.path("a.key")).unwrap();
        let error = |name| Identity::check_key(&pem.path(name)).unwrap_err();
        assert!(matches!(error("text"), Error::NoKey { .. }));
        assert!(matches!(error("none"), Error::ReadPem { .. }));
    }

    #[test]
    fn a_certificate_of_an_old_version_of_x509_is_called_so() {
        use base64::Engine as _;
        let pem = Pem::new();
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(["a".to_owned()]).unwrap();
        let der = params.self_signed(&key).unwrap().der().to_vec();
        // The version, a number that stands within a tag of its own, is one less than what it is called.
        let place = der.windows(4).position(|it| it == [0xa0, 3, 2, 1]).unwrap() + 4;
        std::fs::write(pem.path("old.key"), key.serialize_pem()).unwrap();
        for (version, refused) in [(1, true), (2, true), (3, false)] {
            let mut der = der.clone();
            der[place] = version - 1;
            let text = base64::engine::general_purpose::STANDARD.encode(der);
            let text = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
            std::fs::write(pem.path("old.crt"), text).unwrap();
            let read = Identity::from_pem_files(pem.path("old.crt"), pem.path("old.key"));
            let said = read.map(drop).map_err(|error| error.to_string());
            let expected = format!("is of version {version} of X.509, which clients refuse");
            assert_eq!(said.is_err(), refused, "{said:?}");
            assert!(said.err().is_none_or(|it| it.ends_with(&expected)));
        }
    }

    #[test]
    fn of_two_files_that_are_not_there_the_chain_is_named_first() {
        let pem = Pem::new();
        let error = pem.error("none.crt", "none.key");
        assert!(
            matches!(&error, Error::ReadPem { path, .. } if path.ends_with("none.crt")),
            "{error:?}"
        );
    }

    #[test]
    fn a_pair_that_belongs_together_is_accepted() {
        let pem = Pem::new();
        Identity::from_pem_files(pem.path("a.crt"), pem.path("a.key")).unwrap();
    }

    /// A self-signed certificate for these days after `epoch`, with the key's file of this mode.
    fn identity(epoch: OffsetDateTime, from: i64, to: i64, mode: u32) -> Identity {
        let pem = Pem::new();
        let mut params = rcgen::CertificateParams::new(["a".to_owned()]).unwrap();
        params.not_before = epoch + time::Duration::days(from);
        params.not_after = epoch + time::Duration::days(to);
        let key = rcgen::KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap();
        let (certificate, file) = (pem.path("dated.crt"), pem.path("dated.key"));
        std::fs::write(&certificate, made.pem()).unwrap();
        std::fs::write(&file, key.serialize_pem()).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        Identity::from_pem_files(&certificate, &file).unwrap()
    }

    #[test]
    fn a_certificate_is_warned_of_before_its_first_and_near_and_after_its_last_second() {
        let epoch = OffsetDateTime::UNIX_EPOCH;
        let identity = identity(epoch, 10, 100, 0o600);
        let (day, second) = (Duration::from_secs(86_400), Duration::from_secs(1));
        let warnings = |since| identity.warnings(SystemTime::UNIX_EPOCH + since);
        let is_one = |since, expected: &str| {
            let warnings = warnings(since);
            let is_it = matches!(&warnings[..], [one] if one.to_string().ends_with(expected));
            assert!(is_it, "{warnings:?}");
        };
        let early = "dated.crt` is valid from 1970-01-11 at 00:00 UTC on: clients refuse it";
        is_one(10 * day - second, early);
        assert_eq!(warnings(10 * day), []);
        assert_eq!(warnings(86 * day), []);
        let soon = "dated.crt` expires on 1970-04-11 at 00:00 UTC: renew it";
        is_one(86 * day + second, soon);
        is_one(100 * day, soon);
        let over = "dated.crt` expired on 1970-04-11 at 00:00 UTC: clients refuse it";
        is_one(100 * day + second, over);
    }

    #[test]
    fn a_key_that_others_may_read_is_warned_of_with_the_command_that_mends_it() {
        let now = OffsetDateTime::now_utc();
        for (mode, said) in [(0o644, "(mode 644)"), (0o640, "(mode 640)")] {
            let warnings = identity(now, -1, 100, mode).warnings(now.into());
            let [warning @ IdentityWarning::ReadableKey { path, .. }] = &warnings[..] else {
                panic!("{warnings:?}");
            };
            let (text, path) = (warning.to_string(), path.display());
            assert!(text.contains(said), "{text}");
            assert!(text.ends_with(&format!("chmod go-rwx '{path}'")), "{text}");
        }
        assert_eq!(identity(now, -1, 100, 0o600).warnings(now.into()), []);
    }

    #[test]
    fn every_certificate_of_the_chain_is_looked_at() {
        let pem = Pem::new();
        let own = std::fs::read_to_string(pem.path("a.crt")).unwrap();
        let mut params = rcgen::CertificateParams::new(["issuer".to_owned()]).unwrap();
        params.not_after = OffsetDateTime::UNIX_EPOCH;
        let key = rcgen::KeyPair::generate().unwrap();
        let issuer = params.self_signed(&key).unwrap();
        std::fs::write(pem.path("chain"), own + &issuer.pem()).unwrap();
        let file = std::fs::File::open(pem.path("a.key")).unwrap();
        file.set_permissions(Permissions::from_mode(0o600)).unwrap();
        let identity = Identity::from_pem_files(pem.path("chain"), pem.path("a.key"));
        let warnings = identity.unwrap().warnings(SystemTime::now());
        assert!(
            matches!(warnings[..], [IdentityWarning::Expired { place: 2, .. }]),
            "{warnings:?}"
        );
    }

    #[test]
    fn a_response_is_stapled_until_its_last_second() {
        let pem = Pem::new();
        let pair = Identity::from_pem_files(pem.path("a.crt"), pem.path("a.key"));
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

    #[test]
    fn the_fault_of_a_file_that_was_not_written_to_its_end_is_said_in_words() {
        let said = |text: &str| match parse_chain(Path::new("a.pem"), text.as_bytes()) {
            Err(Error::Pem { source, .. }) => source.to_string(),
            other => panic!("{other:?}"),
        };
        let cut_off = said("-----BEGIN CERTIFICATE-----\nMIIB\n");
        assert_eq!(cut_off, "it ends before `-----END CERTIFICATE-----`");
        let marker = said("-----BEGIN CERT\nMIIB\n");
        assert_eq!(marker, "a line with `-----BEGIN` is cut off");
    }
}
