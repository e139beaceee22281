//! Where `altway serve` has its certificate from, at the start and at each SIGHUP.

use crate::hint::mistake;
use crate::printer::Printer;
use altway_serve::{Identity, ReloadHandle, certs};
use anyhow::Result;
use std::path::PathBuf;
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

/// Where the certificate comes from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// Files that the operator keeps.
    Files {
        cert: PathBuf,
        key: PathBuf,
        ocsp: Option<PathBuf>,
    },
    /// altway's own store, which makes and renews it.
    Store,
}

impl Source {
    /// # Errors
    /// The options don't go together.
    pub(super) fn new(files: &Files) -> Result<Self> {
        match (&files.cert, &files.key) {
            (Some(cert), Some(key)) => Ok(Self::Files {
                cert: cert.clone(),
                key: key.clone(),
                ocsp: files.ocsp.clone(),
            }),
            (None, None) if files.ocsp.is_some() => Err(mistake(
                "--ocsp needs the certificate that it is for",
                "give --cert and --key as well",
            )),
            (None, None) => Ok(Self::Store),
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

    /// Reads it, or has it made, and warns of what is to be mended.
    pub(super) fn read(&self, printer: &Printer) -> Result<Identity> {
        let identity = match self {
            Self::Files { cert, key, ocsp } => {
                let identity = Identity::from_pem_files(cert, key)?;
                match ocsp {
                    Some(ocsp) => identity.with_ocsp_file(ocsp)?,
                    None => identity,
                }
            }
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
                server.replace_certificates(identity);
                printer.say("SIGHUP: the certificate was read again");
            }
            Err(error) => {
                tracing::error!("SIGHUP: the former certificate stays in use: {error:#}");
            }
        }
    }
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
