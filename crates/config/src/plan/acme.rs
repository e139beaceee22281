//! Faults of `[acme]` and of the sites that use it.

use super::check::Check;
use crate::{Acme, AcmeChallenge, Config, Issuer, Site, SiteName};

impl Check<'_> {
    pub(super) fn acme(&mut self, config: &Config) {
        if let Some(acme) = &config.acme {
            self.acme_table(config, acme);
        }
        for (index, site) in config.sites.iter().enumerate() {
            self.issuer(config, site, &format!("site.{index}"));
        }
    }

    fn acme_table(&mut self, config: &Config, acme: &Acme) {
        self.twice(&acme.challenges, "acme", "challenges");
        if self.is_clear_text(&config.listen) {
            self.fault(
                "acme",
                "[acme] gets certificates, and the server listens in clear text only",
                "leave it out, or listen with `https`",
            );
            return;
        }
        // What was said and could not be read has its own fault, here and below.
        let has_plain_http = config.listen.has_plain_http() || self.is_set("listen.http");
        if acme.challenges.contains(&AcmeChallenge::Http01) && !has_plain_http {
            self.fault(
                "acme.challenges",
                "`http-01` is answered over `http`, at which this server does not listen",
                "give `http = [\"*:80\"]` in [listen], or take `tls-alpn-01`",
            );
        }
        let has_folder = acme.folder.is_some() || config.state.is_some();
        if !has_folder && !self.is_set("acme.folder") && !self.is_set("state") {
            self.fault(
                "acme",
                "[acme] has no folder for its account and certificates",
                "give `state` before the first table, or `folder` here",
            );
        }
        let is_wide = |site: &Site| {
            let has_wildcard = site.names.iter().any(|name| name.exact().is_none());
            site.issuer(true) == Some(Issuer::Acme) && (site.is_default || has_wildcard)
        };
        if acme.on_demand.is_some() && !config.sites.iter().any(is_wide) {
            self.fault(
                "acme.on-demand",
                "there are no names on demand: each site that has its certificates by ACME names all of its hosts",
                "give one `names = [\"*.example.org\"]`, or the default site `certificate = \"acme\"`",
            );
        }
    }

    fn issuer(&mut self, config: &Config, site: &Site, path: &str) {
        let has_acme = config.acme.is_some();
        let certificate = format!("{path}.certificate");
        let is_unread = (site.issued_by.is_none() && self.is_set(&certificate))
            || (!has_acme && self.is_set("acme"));
        if site.issuer(has_acme) != Some(Issuer::Acme) || is_unread {
            return;
        }
        if !has_acme {
            self.fault(
                &certificate,
                "the certificate is to come by ACME, and there is no [acme]",
                "add [acme], with which you agree to the authority's terms, and an `email` in it",
            );
            return;
        }
        let acme = config.acme.as_ref();
        let is_on_demand =
            acme.is_some_and(|acme| acme.on_demand.is_some()) || self.is_set("acme.on-demand");
        let takes_any = is_on_demand && site.is_default;
        if site.names.is_empty() && !takes_any && !self.is_set(&format!("{path}.names")) {
            self.fault(
                &certificate,
                "the certificate is to come by ACME, and the site has no names to order it for",
                "give `names = [\"example.org\"]`, or take `certificate = \"own\"`",
            );
        }
        for (index, name) in site.names.iter().enumerate() {
            let Some(what) = not_orderable(name) else {
                continue;
            };
            if is_on_demand && name.exact().is_none() {
                continue;
            }
            self.fault(
                &format!("{path}.names.{index}"),
                format!("`{name}` is {what}, for which no certificate can be had by the challenges of [acme]"),
                "give the site a `certificate` of files, or `certificate = \"own\"`, or leave the name out",
            );
        }
    }
}

/// The kind of a name for which no authority issues by challenges over HTTP and TLS.
fn not_orderable(name: &SiteName) -> Option<&'static str> {
    match name.exact() {
        None => Some("a wildcard"),
        Some(_) if name.is_address() => Some("an address"),
        Some(host) if host == "localhost" || host.ends_with(".localhost") => {
            Some("a name of this machine alone")
        }
        Some(_) => None,
    }
}
