//! The options of `altway proxy` for certificates by ACME.

use crate::hint::usage_error;
use altway_config::{
    Acme, DEFAULT_PORT, DirectoryUrl, Email, ListenAddress, Listener, Protocols, Security, SiteName,
};
use anyhow::Result;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Certificates by ACME.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Get a certificate for this host by ACME (Let's Encrypt), and renew it: by this you agree to the authority's
    /// terms of service. May be given several times. The server then listens at *:443, and at *:80 for challenges and
    /// redirects to https, unless --listen or --port says where.
    #[arg(long, value_name = "HOST", conflicts_with = "cert")]
    acme: Vec<SiteName>,
    /// Address to which the authority may write about the account.
    #[arg(long, value_name = "EMAIL", requires = "acme")]
    acme_email: Option<Email>,
    /// URL of the authority's ACME directory; for trials
    /// `https://acme-staging-v02.api.letsencrypt.org/directory` [default: that of Let's Encrypt].
    #[arg(long, value_name = "URL", requires = "acme")]
    acme_directory: Option<DirectoryUrl>,
    /// PEM file of the authorities that sign the certificate of the directory's server [default:
    /// the system's].
    #[arg(long, value_name = "FILE", requires = "acme")]
    acme_roots: Option<PathBuf>,
}

impl Options {
    /// The hosts that certificates are got for.
    pub(super) fn names(&self) -> &[SiteName] {
        &self.acme
    }

    /// The same as `[acme]`; `None` without --acme. `state`: --state-dir.
    ///
    /// # Errors
    /// There is no folder to keep certificates in.
    pub(super) fn config(&self, state: Option<&Path>) -> Result<Option<Acme>> {
        if self.acme.is_empty() {
            return Ok(None);
        }
        let folder = match state {
            Some(_) => None,
            None => Some(data_folder().ok_or_else(|| {
                usage_error(
                    "there is no folder to keep certificates in: neither XDG_DATA_HOME nor HOME is set",
                    "name one by --state-dir",
                )
            })?),
        };
        Ok(Some(Acme {
            email: self.acme_email.clone(),
            directory: self.acme_directory.clone().unwrap_or_default(),
            roots: self.acme_roots.clone(),
            folder,
            ..Acme::default()
        }))
    }

    /// The addresses to listen at. `given`: --listen or --port; `bind`: --bind.
    pub(super) fn listeners(
        &self,
        given: Option<ListenAddress>,
        bind: Option<IpAddr>,
    ) -> Vec<Listener> {
        let listener = |address, security| Listener {
            address,
            security,
            protocols: Protocols::default(),
            alt_svc_port: None,
        };
        let at = |port| ListenAddress { ip: bind, port };
        match given {
            Some(address) => vec![listener(address, Security::Tls)],
            None if self.acme.is_empty() => vec![listener(at(DEFAULT_PORT), Security::Tls)],
            None => vec![
                listener(at(443), Security::Tls),
                listener(at(80), Security::Redirect),
            ],
        }
    }
}

/// `altway/acme` in the user's folder for data (XDG Base Directory Specification).
fn data_folder() -> Option<PathBuf> {
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let share = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    Some(share?.join("altway/acme"))
}
