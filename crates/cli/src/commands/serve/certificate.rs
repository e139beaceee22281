//! Where `altway serve` has its certificate from, at the start and at each SIGHUP.

use crate::hint::mistake;
use crate::printer::Printer;
use altway_config::{Certificate, Secret};
use altway_serve::{Identity, ReloadHandle, certs};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The options that name a certificate.
#[derive(Debug, clap::Args)]
pub(super) struct Files {
    /// Certificate chain, PEM, the server's own first.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["h2c", "behind_tls_proxy"])]
    cert: Option<PathBuf>,
    /// Its private key, PEM.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["h2c", "behind_tls_proxy"])]
    key: Option<PathBuf>,
    /// OCSP response for it, DER, to be stapled while it is valid.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["h2c", "behind_tls_proxy"])]
    ocsp: Option<PathBuf>,
}

impl Files {
    /// The same as a site's `certificate`.
    ///
    /// # Errors
    /// The options don't go together.
    pub(super) fn config(&self) -> Result<Option<Certificate>> {
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Ok(Some(Certificate {
                chain: cert.clone(),
                key: Secret::File(key.clone()),
                ocsp: self.ocsp.clone(),
            })),
            (None, None) if self.ocsp.is_some() => Err(mistake(
                "--ocsp needs the certificate that it is for",
                "give --cert and --key as well",
            )),
            (None, None) => Ok(None),
            (Some(_), None) => Err(mistake(
                "--cert needs its private key",
                "give --key as well",
            )),
            (None, Some(_)) => Err(mistake(
                "--key needs its certificate",
                "give --cert as well",
            )),
        }
    }
}

/// Where the certificate comes from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// Files that the operator keeps.
    Files(Certificate),
    /// altway's own store, which makes and renews it.
    Store,
}

impl Source {
    pub(super) fn new(certificate: Option<&Certificate>) -> Self {
        certificate.map_or(Self::Store, |it| Self::Files(it.clone()))
    }

    /// Reads it, or has it made, and warns of what is to be mended.
    pub(super) fn read(&self, printer: &Printer) -> Result<Identity> {
        let identity = match self {
            Self::Files(certificate) => identity(certificate)?,
            Self::Store => own_certificate(printer)?,
        };
        for warning in identity.warnings(SystemTime::now()) {
            printer.warn(&warning.to_string());
        }
        Ok(identity)
    }

    /// Reads it again and has the running server use it. What can't be read leaves the former one in
    /// use: the operator mends it, and asks again.
    pub(super) fn read_again(&self, server: &ReloadHandle, printer: &Printer) {
        match self.read(printer) {
            Ok(identity) => {
                server.replace(identity);
                printer.say("SIGHUP: the certificate was read again");
            }
            Err(error) => {
                tracing::error!("SIGHUP: the former certificate stays in use: {error:#}");
            }
        }
    }
}

/// Reads a certificate with its key and its OCSP response.
pub(crate) fn identity(certificate: &Certificate) -> Result<Identity> {
    let chain = &certificate.chain;
    let identity = match &certificate.key {
        Secret::File(key) => Identity::from_pem_files(chain, key)?,
        Secret::Credential(name) => Identity::from_pem_files(chain, &credential(name)?)?,
        Secret::Env(name) => {
            let text = std::env::var(name).map_err(|_| {
                mistake(
                    format!("the variable {name}, which holds a key, is not set, or no text"),
                    "set it for the server's process to the key in PEM",
                )
            })?;
            Identity::from_pem(chain, Path::new(&format!("${name}")), text.as_bytes())?
        }
    };
    Ok(match &certificate.ocsp {
        Some(ocsp) => identity.with_ocsp_file(ocsp)?,
        None => identity,
    })
}

/// The file of a credential of systemd.
fn credential(name: &str) -> Result<PathBuf> {
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY").ok_or_else(|| {
        mistake(
            format!("the credential `{name}` can't be had: systemd gives this process none"),
            format!("add `LoadCredential={name}:/etc/…` to the unit, or name a file"),
        )
    })?;
    Ok(Path::new(&folder).join(name))
}

/// Says how to trust the authority when it is new, and where that is told ever after.
fn own_certificate(printer: &Printer) -> Result<Identity> {
    let store = certs::Store::open_default()?;
    let leaf = store.leaf::<&str>(&[])?;
    let authority = store.authority();
    if leaf.is_new {
        printer.say("made a certificate for localhost; to trust its authority:\n");
        printer.say(&certs::trust::instructions(&authority));
    } else {
        let authority = authority.display();
        printer.say(&format!("certificate of altway's own authority, {authority} (`altway certs` tells how to trust it)"));
    }
    Ok(leaf.identity()?)
}
