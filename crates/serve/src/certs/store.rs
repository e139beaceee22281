//! The directory that holds the authority and the leaf.

mod rsa_chain;
mod supplied_chain;

use super::file_error;
use super::names::Names;
use crate::{Error, Identity};
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

pub use supplied_chain::SuppliedChain;

const AUTHORITY: &str = "ca.pem";
const AUTHORITY_KEY: &str = "ca.key";
const LEAF: &str = "leaf.pem";
const LEAF_KEY: &str = "leaf.key";

const AUTHORITY_NAME: &str = "altway local CA";

const AUTHORITY_LIFE: Duration = Duration::days(3650);

/// Browsers refuse leaves that live longer than 398 days; some count the first and the last.
const LEAF_LIFE: Duration = Duration::days(396);

/// A leaf with less than this left is renewed.
const RENEWAL: Duration = Duration::days(30);

/// Certificates are valid from an hour ago, for clocks that are slow.
const BACKDATED: Duration = Duration::hours(1);

/// The folder in which the authority and its leaf are kept.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
}

/// A certificate for a server, with its key.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Leaf {
    /// The chain, leaf first, as PEM.
    pub certificate: PathBuf,
    /// The private key as PEM.
    pub key: PathBuf,
    /// Host names and addresses it is for, sorted.
    pub names: Vec<String>,
    /// Last second of the certificate's validity.
    pub not_after: SystemTime,
    /// Base64 of the SHA-256 of its public key (SPKI), as Chromium's
    /// `--ignore-certificate-errors-spki-list` wants it.
    pub spki_sha256: String,
    /// True if the certificate was made just now.
    pub is_new: bool,
}

impl Leaf {
    /// A leaf that was there before, in these files.
    fn of(parsed: &X509Certificate<'_>, certificate: PathBuf, key: PathBuf) -> Self {
        let digest = digest::digest(&digest::SHA256, parsed.public_key().raw);
        Self {
            certificate,
            key,
            names: Names::listed(alternatives(parsed)).to_vec(),
            not_after: parsed.validity().not_after.to_datetime().into(),
            spki_sha256: STANDARD.encode(digest),
            is_new: false,
        }
    }

    /// The certificate and its key, ready to serve with.
    ///
    /// # Errors
    /// The files were changed meanwhile.
    pub fn identity(&self) -> Result<Identity, Error> {
        Identity::from_pem_files(&self.certificate, &self.key)
    }

    /// Returns the day of [`not_after`](Self::not_after) in UTC, as `2027-12-31`.
    #[must_use]
    pub fn expires_on(&self) -> String {
        OffsetDateTime::from(self.not_after).date().to_string()
    }
}

impl Store {
    /// Opens `dir`, which is made if missing, readable by its owner only. Makes the authority (for ten years) if it
    /// is missing.
    ///
    /// # Errors
    /// The directory can't be used; the authority has lost its key.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, Error> {
        let store = Self { dir: dir.into() };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&store.dir)
            .map_err(file_error("create", &store.dir))?;
        store.ensure_authority()?;
        Ok(store)
    }

    /// Opens the user's own store: `certs` in altway's data directory (`$XDG_DATA_HOME/altway`,
    /// `~/.local/share/altway`).
    ///
    /// # Errors
    /// As [`Store::open`]; the user has no home.
    pub fn open_default() -> Result<Self, Error> {
        Self::open(Self::default_dir().ok_or(Error::NoDataDirectory)?)
    }

    /// Returns the folder that [`open_default`](Self::open_default) opens, whether it is there or not; `None`: this user has
    /// none.
    #[must_use]
    pub fn default_dir() -> Option<PathBuf> {
        let data = data_dir(|name| std::env::var_os(name))?;
        Some(data.join("altway/certs"))
    }

    /// Returns the folder's path.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of the authority's certificate, as PEM, which clients have to trust.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.dir.join(AUTHORITY)
    }

    /// A leaf for localhost, 127.0.0.1, ::1 and `names` (hosts, `*.` and a host, addresses): the existing one if it
    /// covers them and is valid for 30 more days, else a new one (396 days) for these and the former one's names.
    ///
    /// # Errors
    /// A name is invalid; a file can't be read or written; the authority expires too soon.
    pub fn leaf<S: AsRef<str>>(&self, names: &[S]) -> Result<Leaf, Error> {
        let wanted = Names::new(names)?;
        let former = self.read_leaf().ok();
        let soon = SystemTime::from(OffsetDateTime::now_utc() + RENEWAL);
        match former {
            Some((leaf, names)) if names.covers(&wanted) && leaf.not_after > soon => Ok(leaf),
            Some((_, names)) => self.make_leaf(&wanted.with(&names)),
            None => self.make_leaf(&wanted),
        }
    }

    /// Key before certificate, neither ever overwritten: whatever interrupts this, and however many
    /// processes do it at once, a certificate that someone may trust already keeps its key.
    fn ensure_authority(&self) -> Result<(), Error> {
        let (certificate, key) = (self.authority(), self.dir.join(AUTHORITY_KEY));
        match (certificate.exists(), key.exists()) {
            (true, true) => return Ok(()),
            (true, false) => return Err(Error::AuthorityKeyMissing { certificate, key }),
            (false, true) => {}
            (false, false) => {
                let pem = KeyPair::generate()
                    .map_err(Error::generate)?
                    .serialize_pem();
                write_once(&key, &pem)?;
            }
        }
        let made = authority_params()
            .self_signed(&self.authority_key()?)
            .map_err(Error::generate)?;
        write_once(&certificate, &made.pem())
    }

    fn authority_key(&self) -> Result<KeyPair, Error> {
        let path = self.dir.join(AUTHORITY_KEY);
        KeyPair::from_pem(&read(&path)?).map_err(|error| damaged(&path, &error))
    }

    fn make_leaf(&self, names: &Names) -> Result<Leaf, Error> {
        let key = KeyPair::generate().map_err(Error::generate)?;
        let made = self.sign(names, &key)?;
        replace(&self.dir.join(LEAF_KEY), &key.serialize_pem())?;
        replace(&self.dir.join(LEAF), &made.pem())?;
        let (leaf, _) = self.read_leaf()?;
        Ok(Leaf {
            is_new: true,
            ..leaf
        })
    }

    fn sign(&self, names: &Names, key: &KeyPair) -> Result<Certificate, Error> {
        let params = leaf_params(names)?;
        let path = self.authority();
        let pem = read(&path)?;
        let der = certificate(&path, &pem)?;
        let authority = parse(&path, &der)?;
        if authority.validity().not_after.to_datetime() < params.not_after {
            return Err(Error::AuthorityExpired { certificate: path });
        }
        let issuer =
            Issuer::from_ca_cert_pem(&pem, self.authority_key()?).map_err(Error::generate)?;
        params.signed_by(key, &issuer).map_err(Error::generate)
    }

    /// The leaf that is there, if it is whole, ours, and belongs to its key.
    fn read_leaf(&self) -> Result<(Leaf, Names), Error> {
        let (path, key) = (self.dir.join(LEAF), self.dir.join(LEAF_KEY));
        Identity::from_pem_files(&path, &key)?;
        let der = certificate(&path, &read(&path)?)?;
        let parsed = parse(&path, &der)?;
        self.verify(&parsed, &path)?;
        let names = Names::listed(alternatives(&parsed));
        Ok((Leaf::of(&parsed, path, key), names))
    }

    /// Checks that the authority of this directory has signed the leaf; a former authority's leaf is
    /// worthless.
    fn verify(&self, leaf: &X509Certificate<'_>, path: &Path) -> Result<(), Error> {
        let authority = self.authority();
        let der = certificate(&authority, &read(&authority)?)?;
        let parsed = parse(&authority, &der)?;
        leaf.verify_signature(Some(parsed.public_key()))
            .map_err(|error| damaged(path, &error))
    }
}

/// Returns the directory of a user's data (XDG Base Directory Specification: a relative path is to be
/// ignored).
fn data_dir(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, AUTHORITY_NAME);
    // It signs leaves, and no further authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, AUTHORITY_LIFE);
    params
}

fn leaf_params(names: &Names) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "altway");
    params.subject_alt_names = names.subject_alternatives()?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, LEAF_LIFE);
    Ok(params)
}

fn set_validity(params: &mut CertificateParams, life: Duration) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - BACKDATED;
    params.not_after = now + life;
}

/// The names of a certificate, spelt as [`Names`] spells them.
fn alternatives(certificate: &X509Certificate<'_>) -> Vec<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let names = extension.map(|extension| extension.value.general_names.as_slice());
    let names = names.unwrap_or_default().iter();
    names.filter_map(alternative).collect()
}

fn alternative(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(host) => Some((*host).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(std::net::IpAddr::from);
            let v6 = || <[u8; 16]>::try_from(*bytes).map(std::net::IpAddr::from);
            v4.or_else(|_| v6()).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

fn certificate(path: &Path, pem: &str) -> Result<CertificateDer<'static>, Error> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| damaged(path, &error))
}

fn parse<'a>(path: &Path, der: &'a [u8]) -> Result<X509Certificate<'a>, Error> {
    let parsed = X509Certificate::from_der(der);
    parsed
        .map(|(_, certificate)| certificate)
        .map_err(|error| damaged(path, &error))
}

fn damaged(path: &Path, reason: &dyn std::fmt::Display) -> Error {
    Error::CertificateDamaged {
        path: path.into(),
        reason: reason.to_string(),
    }
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(file_error("read", path))
}

/// Writes a file that nobody but the owner reads, whole or not at all. Leaves a file that is there
/// as it is.
fn write_once(path: &Path, text: &str) -> Result<(), Error> {
    match beside(path, text)?.persist_noclobber(path) {
        Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result
            .map(drop)
            .map_err(|failed| file_error("write", path)(failed.error)),
    }
}

/// Writes a file that nobody but the owner reads, whole or not at all.
fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let written = beside(path, text)?.persist(path);
    written
        .map(drop)
        .map_err(|failed| file_error("write", path)(failed.error))
}

fn beside(path: &Path, text: &str) -> Result<tempfile::NamedTempFile, Error> {
    let dir = path.parent().expect("a file of the store has a directory");
    // Mode 0600 by default.
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    write().map_err(file_error("write", path))
}

#[cfg(test)]
mod tests;
