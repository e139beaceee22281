//! Certificates that a server gets by itself, by ACME (RFC 8555): `[acme]`, and which sites have theirs by it.

use crate::{AcmeProfile, AskUrl, DirectoryUrl, Email, Plan, Secret, Site, SiteName};
use altway_document::words;
use std::collections::{BTreeMap, BTreeSet};
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
    /// Names that come at run time; `None`: certificates are those of the sites' names alone.
    pub on_demand: Option<AcmeOnDemand>,
    /// Folder of the account and the certificates; `None`: `acme` in the configuration's `state`.
    pub folder: Option<PathBuf>,
    /// PEM file of the authorities that sign the certificate of the directory's server; `None`: the system's.
    pub roots: Option<PathBuf>,
    /// The account that the authority's operator has given out (RFC 8555 section 7.3.4).
    pub external_account: Option<ExternalAccount>,
}

/// Certificates for names that no site names, once a client asks for one: `on-demand`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeOnDemand {
    /// Asked before each order whether the name may have a certificate.
    pub ask: AskUrl,
    /// The most names that have one.
    pub names: u32,
}

impl AcmeOnDemand {
    /// The default of [`names`](Self::names).
    pub const NAMES: u32 = 1_000;

    /// The most of [`names`](Self::names).
    pub const MOST_NAMES: u32 = 10_000;
}

/// The names that are had on demand: those of a wildcard or of the default site, where their certificates come by ACME,
/// and that no site names exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OnDemandNames {
    exact: BTreeSet<String>,
    /// The part after `*.`, and whether the site's certificates come by ACME.
    wildcards: BTreeMap<String, bool>,
    others: bool,
}

impl OnDemandNames {
    /// Returns true if the certificate of a host's name, in lower case, is had on demand.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        let parent = name.split_once('.').map(|(_, parent)| parent);
        let wildcard = parent.and_then(|parent| self.wildcards.get(parent));
        !self.exact.contains(name) && wildcard.copied().unwrap_or(self.others)
    }
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
    /// The names for which certificates are to be ordered, in the order of the sites; wildcards are none.
    #[must_use]
    pub fn acme_names(&self) -> Vec<String> {
        let has_acme = self.config().acme.is_some();
        let sites = self.sites().iter();
        let sites = sites.filter(|site| site.issuer(has_acme) == Some(Issuer::Acme));
        let names = sites.flat_map(|site| &site.names);
        names.filter_map(SiteName::exact).collect()
    }

    /// The names that are had on demand; `None`: none is.
    #[must_use]
    pub fn on_demand_names(&self) -> Option<OnDemandNames> {
        self.config().acme.as_ref()?.on_demand.as_ref()?;
        let mut names = OnDemandNames::default();
        for site in self.sites() {
            let is_acme = site.issuer(true) == Some(Issuer::Acme);
            names
                .exact
                .extend(site.names.iter().filter_map(SiteName::exact));
            let wildcards = site.names.iter().filter_map(SiteName::wildcard);
            let wildcards = wildcards.map(|parent| (parent.to_owned(), is_acme));
            names.wildcards.extend(wildcards);
            names.others |= site.is_default && is_acme;
        }
        Some(names)
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

#[cfg(test)]
mod tests {
    use crate::{NoFiles, Plan, read};

    fn plan(text: &str) -> Plan {
        let text = format!("state = \"/tmp\"\n[acme]\n{text}");
        read("a.toml", &text, &mut NoFiles).unwrap_or_else(|it| panic!("{it}"))
    }

    const DEMAND: &str = "on-demand = { ask = \"http://127.0.0.1:1/\" }\n";

    fn site(keys: &str) -> String {
        format!("[[site]]\n{keys}\nroute = [{{ respond = {{ status = 204 }} }}]\n")
    }

    #[test]
    fn names_on_demand_are_those_of_wildcards_and_the_default_site_by_acme() {
        let sites = [
            "names = [\"a.example\", \"*.b.example\"]",
            "names = [\"*.c.example\", \"x.b.example\"]\ncertificate = \"own\"",
            "default = true\ncertificate = \"acme\"",
        ];
        let all = plan(&(DEMAND.to_owned() + &sites.map(site).concat()));
        assert_eq!(all.acme_names(), ["a.example"]);
        let names = all.on_demand_names().unwrap();
        for (name, is_covered) in [
            ("a.example", false),
            ("y.b.example", true),
            ("x.b.example", false),
            ("y.c.example", false),
            ("y.z.b.example", true),
            ("other.test", true),
        ] {
            assert_eq!(names.covers(name), is_covered, "{name}");
        }
        let some = plan(&(DEMAND.to_owned() + &site(sites[0])));
        let names = some.on_demand_names().unwrap();
        assert!(names.covers("y.b.example") && !names.covers("other.test"));
        let none = plan(&site("names = [\"a.example\"]"));
        assert_eq!(none.on_demand_names(), None);
    }
}
