//! The certificates of `altway serve` and where they come from, at the start and at each reload.

use super::acme::{self, Demand};
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_config::{Certificate, ClientCertificates, Plan, Secret};
use altway_serve::{CertificateNames, Certificates, ClientAuth, Error, Identity, certs};
use anyhow::Result;
use std::collections::HashMap;
use std::num::NonZeroU16;
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

    /// The first of these options that was given and has a meaning with TLS alone.
    pub(super) fn given(&self) -> Option<&'static str> {
        let options = [
            ("--cert", &self.cert),
            ("--key", &self.key),
            ("--ocsp", &self.ocsp),
            ("--client-roots", &self.client_roots),
        ];
        let given = options.iter().find(|(_, path)| path.is_some());
        given.map(|(name, _)| *name)
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
#[derive(Debug, Clone, Copy)]
pub(super) enum Origin<'c> {
    /// The server begins.
    Start,
    /// The server runs, with these certificates so far.
    Reload(&'c Certificates),
}

/// The certificates of a plan as they were read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) certificates: Certificates,
    /// The faults that the operator should mend although the certificates can be used.
    warnings: Vec<String>,
    /// The first fault that kept a certificate by ACME from being read: the former one is used, if there is one.
    pub(super) unread: Option<String>,
}

impl Reading {
    /// Tells the operator what is to be mended.
    pub(super) fn tell(&self, printer: &Printer) {
        for warning in &self.warnings {
            printer.warn(warning);
        }
        if let Some(unread) = &self.unread {
            tracing::error!(
                "{unread}; it is read again soon, and a former certificate stays in use"
            );
        }
    }
}

/// Reads the certificates of all sites, or has them made. `on_demand`: told of names without one.
///
/// # Errors
/// One can't be read that does not come by ACME.
pub(super) fn certificates(
    plan: &Plan,
    origin: Origin<'_>,
    on_demand: Option<&Demand>,
    printer: &Printer,
) -> Result<Reading> {
    let (mut of_own, mut of_files) = (Vec::new(), Vec::new());
    let main = plan.config().listen.main();
    let port = main.and_then(|it| NonZeroU16::new(it.address.port));
    let own = |names: &[String]| {
        own_certificate(names, port, origin, printer).map(|it| noted(it, &mut of_own))
    };
    let mut names = HashMap::new();
    let read = |certificate: &Certificate| {
        let read = identity(certificate).map(|it| noted(it, &mut of_files))?;
        names.insert(certificate.chain.clone(), read.names());
        Ok::<_, anyhow::Error>(read)
    };
    let mut ordered = Ordered::new(plan, origin);
    let mut all = altway_site::certificates(plan, read, |name| ordered.read(name), own)?;
    if let Some(on_demand) = on_demand {
        let names = ordered.names_on_demand(plan).into_iter();
        let identities = names.filter_map(|name| ordered.read(&name));
        all = identities
            .fold(all, Certificates::with)
            .on_demand(on_demand.handshakes());
    }
    let unread = ordered.unread;
    of_files.extend(of_own);
    of_files.extend(uncovered(plan, &names));
    Ok(Reading {
        certificates: altway_site::with_client_auth(plan, all, client_auth)?,
        warnings: of_files,
        unread,
    })
}

/// Returns warnings of names of sites that none of their certificates is for. `names`: those of each chain.
fn uncovered(
    plan: &Plan,
    names: &HashMap<PathBuf, CertificateNames>,
) -> impl Iterator<Item = String> {
    plan.sites().iter().filter_map(|site| {
        let each = site.certificates.iter();
        let each = each.map(|it| names.get(&it.chain).cloned());
        let each: Option<Vec<_>> = each.collect();
        Some(altway_site::uncovered_names(site, &each?)?.to_string())
    })
}

/// Adds what is to be mended of a certificate to the warnings.
fn noted(identity: Identity, warnings: &mut Vec<String>) -> Identity {
    let each = identity.warnings(SystemTime::now());
    warnings.extend(each.iter().map(ToString::to_string));
    identity
}

/// The certificates by ACME of a plan. Of these there is nothing to mend by hand.
struct Ordered<'c> {
    folder: Option<altway_acme::Folder>,
    /// The certificates in use, by their files.
    former: HashMap<&'c Path, &'c Identity>,
    unread: Option<String>,
}

impl<'c> Ordered<'c> {
    fn new(plan: &Plan, origin: Origin<'c>) -> Self {
        let former = match origin {
            Origin::Start => HashMap::new(),
            Origin::Reload(former) => former.iter().map(|it| (it.path(), it)).collect(),
        };
        Self {
            folder: acme::folder(plan),
            former,
            unread: None,
        }
    }

    /// The certificate of a name, or the former one where its file is there and can't be read: what keeps it from that
    /// may pass, as a lack of descriptors does.
    fn read(&mut self, name: &str) -> Option<Identity> {
        let folder = self.folder.as_ref()?;
        let file = folder.certificate(name);
        match read_ordered(folder, name, &file) {
            Ok(identity) => identity,
            Err(error) => {
                self.note(&error.into());
                self.former.get(&*file).copied().cloned()
            }
        }
    }

    /// The names on demand that have a certificate, or the former ones where they can't be listed.
    fn names_on_demand(&mut self, plan: &Plan) -> Vec<String> {
        acme::names_on_demand(plan).unwrap_or_else(|error| {
            self.note(&error.into());
            acme::names_on_demand_of(plan, self.former.keys().copied())
        })
    }

    fn note(&mut self, error: &anyhow::Error) {
        self.unread.get_or_insert_with(|| format!("{error:#}"));
    }
}

/// Reads a certificate by ACME; `None`: there is none.
fn read_ordered(
    folder: &altway_acme::Folder,
    name: &str,
    file: &Path,
) -> Result<Option<Identity>, Error> {
    let text = folder
        .read_certificate(name)
        .map_err(|source| Error::ReadPem {
            path: file.into(),
            source,
        })?;
    let identity = text.map(|text| {
        let text = text.as_bytes();
        Identity::from_named_pem((file, text), (file, text))
    });
    identity.transpose()
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
    altway_folder::read_text_file(&file).map_err(|error| {
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

/// Returns the name of a credential that systemd gives to the service, and not to this process.
pub(crate) fn credential_of_service(secret: &Secret) -> Option<&str> {
    let is_service = std::env::var_os("CREDENTIALS_DIRECTORY").is_some();
    match secret {
        Secret::Credential(name) if !is_service => Some(name),
        _ => None,
    }
}

/// Reads a certificate with its key and its OCSP response.
pub(crate) fn identity(certificate: &Certificate) -> Result<Identity> {
    let chain = &certificate.chain;
    let identity = match &certificate.key {
        Secret::File(key) => Identity::from_pem_files(chain, key)?,
        Secret::Credential(name) => Identity::from_pem_files(chain, credential(name)?)?,
        Secret::Env(name) => {
            let text = std::env::var(name).map_err(|_| {
                usage_error(
                    format!("the variable {name}, which holds a key, is not set, or no text"),
                    "set it for the server's process to the key in PEM",
                )
            })?;
            let key = format!("${name}");
            let read = altway_folder::read_file(chain).map_err(|source| Error::ReadPem {
                path: chain.clone(),
                source,
            });
            Identity::from_named_pem((chain, &read?.0), (Path::new(&key), text.as_bytes()))?
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
fn own_certificate(
    names: &[String],
    port: Option<NonZeroU16>,
    origin: Origin<'_>,
    printer: &Printer,
) -> Result<Identity> {
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
        printer.say(&certs::trust::instructions(&authority, port));
    } else if matches!(origin, Origin::Start) {
        let authority = authority.display();
        printer.say(&format!("certificate of altway's own authority, {authority} (`altway certs` tells how to trust it)"));
    }
    Ok(leaf.identity()?)
}
