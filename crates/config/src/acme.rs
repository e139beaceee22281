//! Certificates that a server gets by itself, by ACME (RFC 8555): `[acme]`, and which sites have theirs by it.

use crate::{AcmeProfile, DirectoryUrl, Email, Plan, Secret, Site};
use altway_document::words;
use std::path::PathBuf;

/// The account at a certificate authority, and how names are shown to be this server's: `[acme]`. Whoever writes it agrees
/// to the authority's terms of service (RFC 8555 section 7.3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acme {
    /// An address for the authority's mail; `None`: it has none.
    pub email: Option<Email>,
    /// The authority.
    pub directory: DirectoryUrl,
    /// The authority's profile of certificates; `None`: its default.
    pub profile: Option<AcmeProfile>,
    /// The challenges that may be taken, the first one first; none: those that the listeners can answer.
    pub challenges: Vec<AcmeChallenge>,
    /// Folder of the account and the certificates; `None`: `acme` in the configuration's `state`.
    pub folder: Option<PathBuf>,
    /// PEM file of the authorities that sign the certificate of the directory's server; `None`: the system's.
    pub roots: Option<PathBuf>,
    /// The account that the authority's operator has given out (RFC 8555 section 7.3.4).
    pub external_account: Option<ExternalAccount>,
}

/// An account outside of ACME that an ACME account is bound to: `external-account`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The key identifier that the authority has given.
    pub id: String,
    /// The place of the MAC key, in base64url.
    pub key: Secret,
}

words! {
    /// A way in which a name is shown to be this server's.
    AcmeChallenge, "a challenge" {
        /// RFC 8555 section 8.3, over the clear text of `http` at port 80.
        Http01 = "http-01",
        /// RFC 8737, in a handshake of `https` at port 443.
        TlsAlpn01 = "tls-alpn-01",
    }
}

words! {
    /// The origin of a site's certificates, where they are not given as files.
    Issuer, "an origin of certificates" {
        /// The authority of `[acme]`.
        Acme = "acme",
        /// altway's own authority, on this machine.
        Own = "own",
    }
}

impl Site {
    /// The origin of the site's certificates; `None`: files. `has_acme`: there is `[acme]`, which sites with names use
    /// that say nothing else.
    #[must_use]
    pub fn issuer(&self, has_acme: bool) -> Option<Issuer> {
        if !self.certificates.is_empty() {
            return None;
        }
        let usual = match has_acme && !self.names.is_empty() {
            true => Issuer::Acme,
            false => Issuer::Own,
        };
        Some(self.issued_by.unwrap_or(usual))
    }
}

impl Plan {
    /// The names for which certificates are to be ordered, in the order of the sites.
    #[must_use]
    pub fn acme_names(&self) -> Vec<String> {
        let has_acme = self.config().acme.is_some();
        let sites = self.sites().iter();
        let sites = sites.filter(|site| site.issuer(has_acme) == Some(Issuer::Acme));
        let names = sites.flat_map(|site| &site.names);
        names.map(ToString::to_string).collect()
    }

    /// The folder of the ACME account and its certificates; `None` without `[acme]`.
    #[must_use]
    pub fn acme_folder(&self) -> Option<PathBuf> {
        let config = self.config();
        let acme = config.acme.as_ref()?;
        let in_state = || Some(config.state.as_ref()?.join("acme"));
        acme.folder.clone().or_else(in_state)
    }

    /// The challenges that are taken, the first one first; none without `[acme]`.
    #[must_use]
    pub fn acme_challenges(&self) -> Vec<AcmeChallenge> {
        let Some(acme) = &self.config().acme else {
            return Vec::new();
        };
        if !acme.challenges.is_empty() {
            return acme.challenges.clone();
        }
        let has_http = self.config().listen.has_plain_http();
        let http = has_http.then_some(AcmeChallenge::Http01);
        http.into_iter().chain([AcmeChallenge::TlsAlpn01]).collect()
    }
}
