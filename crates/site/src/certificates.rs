//! The certificates that sites name, read from where they say.

use altway_config::{Certificate, Plan, Secret, Site};
use altway_serve::{Certificates, Error, Identity, certs};
use std::path::{Path, PathBuf};

/// A certificate that can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A certificate or key can't be used.
    #[error(transparent)]
    Identity(#[from] Error),
    /// A variable of the environment that a key is to be in is not set.
    #[error("the key of `{chain}` is to be in ${variable}, which is not set")]
    NoVariable {
        /// The certificate's file.
        chain: PathBuf,
        /// The variable.
        variable: String,
    },
    /// systemd has given no credentials.
    #[error(
        "the key of `{chain}` is the credential `{name}`, but $CREDENTIALS_DIRECTORY is not set"
    )]
    NoCredentials {
        /// The certificate's file.
        chain: PathBuf,
        /// The credential.
        name: String,
    },
}

/// Reads the certificates of all sites, those of the default site first. A site that names none has one of altway's
/// own authority, for its names and localhost, which `store` makes where it is not there yet.
///
/// Where no site is the default one, clients that ask for a name that no certificate is for are shown none
/// ([`Certificates::strict`]).
///
/// # Errors
/// A certificate or a key can't be read, or the two don't belong together.
pub fn certificates(
    plan: &Plan,
    store: impl FnOnce() -> Result<certs::Store, Error>,
) -> Result<Certificates, CertificateError> {
    let default = plan.sites().iter().find(|site| site.is_default);
    let others = plan.sites().iter().filter(|site| !site.is_default);
    let sites = default.into_iter().chain(others);
    let (mut identities, mut own_names, mut is_own_first) = (Vec::new(), Vec::new(), false);
    for site in sites {
        if site.certificates.is_empty() {
            is_own_first |= identities.is_empty();
            own_names.extend(names_of(site));
        }
        for certificate in &site.certificates {
            identities.push(read(certificate)?);
        }
    }
    if is_own_first || !own_names.is_empty() {
        let leaf = store()?.leaf(&own_names)?;
        let place = if is_own_first { 0 } else { identities.len() };
        identities.insert(place, leaf.identity()?);
    }
    let mut identities = identities.into_iter();
    // A plan has one site at least, and each has a certificate or one of ours.
    let first = identities.next().ok_or(Error::NoDataDirectory)?;
    let all = identities.fold(Certificates::new(first), Certificates::with);
    Ok(if default.is_some() { all } else { all.strict() })
}

/// The names of a site as certificates write them: addresses without brackets.
fn names_of(site: &Site) -> impl Iterator<Item = String> {
    let plain = |name: String| name.trim_matches(['[', ']']).to_owned();
    site.names.iter().map(move |name| plain(name.to_string()))
}

fn read(certificate: &Certificate) -> Result<Identity, CertificateError> {
    let chain = &certificate.chain;
    let identity = match &certificate.key {
        Secret::File(key) => Identity::from_pem_files(chain, key)?,
        Secret::Env(variable) => {
            let no_variable = || CertificateError::NoVariable {
                chain: chain.clone(),
                variable: variable.clone(),
            };
            let key = std::env::var(variable).map_err(|_| no_variable())?;
            Identity::from_pem(chain, &key, variable)?
        }
        Secret::Credential(name) => {
            let no_credentials = || CertificateError::NoCredentials {
                chain: chain.clone(),
                name: name.clone(),
            };
            let folder = std::env::var_os("CREDENTIALS_DIRECTORY").ok_or_else(no_credentials)?;
            Identity::from_pem_files(chain, &Path::new(&folder).join(name))?
        }
    };
    Ok(match &certificate.ocsp {
        Some(ocsp) => identity.with_ocsp_file(ocsp)?,
        None => identity,
    })
}
