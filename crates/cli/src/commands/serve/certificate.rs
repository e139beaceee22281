//! The certificates of `altway serve` and where they come from, at the start and at each reload.

use super::acme::{self, Demand};
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_config::{Certificate, ClientCertificates, Plan, Secret};
use altway_serve::{Certificates, ClientAuth, Identity, certs};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The options that name a certificate.
#[derive(Debug, clap::Args)]
pub(super) struct Files {
    /// Certificate chain, PEM, the server's own first.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["h2c", "behind_tls_proxy"])]
    cert: Option<PathBuf>,
    /// The certificate's private key, PEM.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["h2c", "behind_tls_proxy"])]
    key: Option<PathBuf>,
    /// OCSP response for the certificate, DER, to be stapled while it is valid.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["h2c", "behind_tls_proxy"])]
    ocsp: Option<PathBuf>,
    /// Require a certificate of each client, signed by one of the authorities in this file (PEM); clients without one
    /// are answered 403.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["h2c", "behind_tls_proxy"])]
    client_roots: Option<PathBuf>,
    /// List of certificates that these authorities have revoked (CRL), PEM or DER; may be given several
    /// times.
    #[arg(long, value_name = "FILE", requires = "client_roots")]
    client_revocation: Vec<PathBuf>,
    /// Answer clients without a certificate as well.
    #[arg(long, requires = "client_roots")]
    client_certificate_optional: bool,
}

impl Files {
    /// The same as a site's `client-certificates`.
    pub(super) fn client_certificates(&self) -> Option<ClientCertificates> {
        Some(ClientCertificates {
            roots: self.client_roots.clone()?,
            revocation: self.client_revocation.clone(),
            required: !self.client_certificate_optional,
        })
    }

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
            (None, None) if self.ocsp.is_some() => Err(usage_error(
                "--ocsp needs the certificate that it is for",
                "give --cert and --key as well",
            )),
            (None, None) => Ok(None),
            (Some(_), None) => Err(usage_error(
                "--cert needs its private key",
                "give --key as well",
            )),
            (None, Some(_)) => Err(usage_error(
                "--key needs its certificate",
                "give --cert as well",
            )),
        }
    }
}

/// The occasion on which certificates are read: what is said of them differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The server begins.
    Start,
    /// The server runs.
    Reload,
}

/// Reads the certificates of all sites, or has them made, and warns of what is to be mended. `on_demand`: told of names
/// without one.
///
/// # Errors
/// One can't be read.
pub(super) fn certificates(
    plan: &Plan,
    origin: Origin,
    on_demand: Option<&Demand>,
    printer: &Printer,
) -> Result<Certificates> {
    let warned = |identity: Identity| {
        for warning in identity.warnings(SystemTime::now()) {
            printer.warn(&warning.to_string());
        }
        identity
    };
    let own = |names: &[String]| own_certificate(names, origin, printer).map(warned);
    let read = |certificate: &Certificate| identity(certificate).map(warned);
    let folder = acme::folder(plan);
    // Of these there is nothing to mend by hand.
    let ordered = |name: &str| {
        let file = folder.as_ref()?.certificate(name);
        Identity::from_pem_files(&file, &file).ok()
    };
    let mut all = altway_site::certificates(plan, read, ordered, own)?;
    if let Some(on_demand) = on_demand {
        let names = acme::names_on_demand(plan).into_iter();
        let ordered = names.filter_map(|name| ordered(&name));
        all = ordered
            .fold(all, Certificates::with)
            .on_demand(on_demand.handshakes());
    }
    altway_site::with_client_auth(plan, all, client_auth)
}

/// The text of a secret. `what`: the secret in words.
pub(crate) fn secret_text(secret: &Secret, what: &str) -> Result<String> {
    let file = match secret {
        Secret::File(file) => file.clone(),
        Secret::Credential(name) => credential(name)?,
        Secret::Env(name) => {
            return std::env::var(name).map_err(|_| {
                usage_error(
                    format!("the variable {name}, which holds {what}, is not set, or no text"),
                    "set it for the server's process",
                )
            });
        }
    };
    std::fs::read_to_string(&file).map_err(|error| {
        usage_error(
            format!(
                "cannot read `{}`, which holds {what}: {error}",
                file.display()
            ),
            "name a file that this user may read",
        )
    })
}

/// Reads what clients are asked for.
pub(crate) fn client_auth(of: &ClientCertificates) -> Result<ClientAuth> {
    let auth = ClientAuth::from_pem_file(&of.roots)?.with_revocation(&of.revocation)?;
    Ok(if of.required { auth } else { auth.optional() })
}

/// Reads a certificate with its key and its OCSP response.
pub(crate) fn identity(certificate: &Certificate) -> Result<Identity> {
    let chain = &certificate.chain;
    let identity = match &certificate.key {
        Secret::File(key) => Identity::from_pem_files(chain, key)?,
        Secret::Credential(name) => Identity::from_pem_files(chain, &credential(name)?)?,
        Secret::Env(name) => {
            let text = std::env::var(name).map_err(|_| {
                usage_error(
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
        usage_error(
            format!("the credential `{name}` can't be had: systemd gives this process none"),
            format!("add `LoadCredential={name}:/etc/…` to the unit, or name a file"),
        )
    })?;
    Ok(Path::new(&folder).join(name))
}

/// Says how to trust the authority when it is new, and where that is told ever after.
fn own_certificate(names: &[String], origin: Origin, printer: &Printer) -> Result<Identity> {
    let store = certs::Store::open_default()?;
    let leaf = store.leaf(names)?;
    let authority = store.authority();
    if leaf.is_new {
        let others = names.iter().filter(|name| *name != "localhost");
        let names: Vec<_> = ["localhost"]
            .into_iter()
            .chain(others.map(String::as_str))
            .collect();
        let names = names.join(", ");
        printer.say(&format!(
            "made a certificate for {names}; to trust its authority:\n"
        ));
        printer.say(&certs::trust::instructions(&authority));
    } else if origin == Origin::Start {
        let authority = authority.display();
        printer.say(&format!("certificate of altway's own authority, {authority} (`altway certs` tells how to trust it)"));
    }
    Ok(leaf.identity()?)
}
