//! `altway config check`: the words, then what they name.

use crate::commands::policy::read_surface;
use crate::commands::serve::acme;
use crate::commands::serve::certificate::{client_auth, credential_of_service, identity};
use crate::commands::serve::error_pages;
use crate::commands::serve::limits::{Spelling, bounds, of_upstreams};
use crate::commands::serve::loops;
use crate::commands::serve::privileges::Account;
use crate::commands::serve::setup::ticket_keys;
use crate::commands::serve::writable::{Obstacle, obstacles, try_own_authority};
use crate::config_file::{extent, fault, load, refused};
use crate::hint::{self, usage_error};
use crate::printer::Printer;
use altway_config::{
    Action, Certificate, Fault, Issuer, Places, Plan, Proxy, Secret, Site, UrlPath,
};
use altway_serve::{CertificateNames, Files, Identity, certs};
use anyhow::{Error, Result};
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::SystemTime;

pub(super) fn run(file: &Path, only_syntax: bool, printer: &Printer) -> Result<()> {
    let (plan, places) = load(file)?;
    if !only_syntax {
        let mut opened = Opened::new(&places);
        opened.is_start = false;
        opened.limits(&plan, printer);
        let _ = opened.keep("user", Account::named(plan.config()));
        opened.read(&plan);
        opened.loops(&plan);
        opened.written(&plan);
        for warning in &opened.warnings {
            printer.warn(warning);
        }
        let name = file.display().to_string();
        let faults = places.none_of(opened.faults);
        faults.map_err(|faults| refused(&name, faults))?;
    }
    printer.say(&format!("{} is right: {}", file.display(), extent(&plan)));
    Ok(())
}

/// The error of a plan that can't be used: all that is wrong with what it names and a reload reads, each with its place in
/// the file. `error` itself, where that is nothing.
pub(crate) fn with_places(error: Error, plan: &Plan, places: &Places, file: &Path) -> Error {
    let mut opened = Opened::new(places);
    opened.read(plan);
    match places.none_of(opened.faults) {
        Ok(()) => error,
        Err(faults) => refused(&file.display().to_string(), faults),
    }
}

/// The faults of what a plan names, and what should be mended beside them.
struct Opened<'p> {
    places: &'p Places,
    /// The process is the one that serves: it has the credentials that systemd gives to the service.
    is_start: bool,
    faults: Vec<Fault>,
    warnings: Vec<String>,
}

impl<'p> Opened<'p> {
    fn new(places: &'p Places) -> Self {
        Self {
            places,
            is_start: true,
            faults: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Reads what a reload reads.
    fn read(&mut self, plan: &Plan) {
        self.sites(plan);
        self.own_certificate(plan);
        self.acme(plan);
        let _ = self.keep("ticket-keys", ticket_keys(plan));
    }

    /// `path`: the key that names what could not be opened.
    fn keep<T>(&mut self, path: &str, result: Result<T>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        self.faults.push(fault(self.places, path, &error));
        None
    }

    fn limits(&mut self, plan: &Plan, printer: &Printer) {
        let config = plan.config();
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let workers = config.threads.unwrap_or_else(cores);
        let workers = (workers, of_upstreams(plan, workers));
        let checked = bounds(&config.limits, workers, Spelling::Keys, printer);
        let _ = self.keep("limits", checked);
    }

    /// Makes no certificate.
    fn own_certificate(&mut self, plan: &Plan) {
        let has_acme = plan.config().acme.is_some();
        let is_own = |site: &Site| site.issuer(has_acme) == Some(Issuer::Own);
        let first = plan.sites().iter().position(is_own);
        let is_clear = plan.config().listen.is_clear_text();
        if let Some(first) = first.filter(|_| !is_clear) {
            let checked = certs::check_names(&altway_site::own_names(plan));
            let checked = checked.map_err(|error| usage_error(error.to_string(), hint::OWN_NAMES));
            let _ = self.keep(&format!("site.{first}"), checked);
            // A unit may set another place, as the one that ships does.
            if let Err(reason) = try_own_authority() {
                let place = self.place(&format!("site.{first}"));
                self.warnings.push(format!(
                    "{place}a server that this user starts has no place for altway's own certificate: {reason}"
                ));
            }
        }
    }

    /// Reads a certificate with its key, and notes what is to be mended; returns the names that it is for. A key that the
    /// service alone has is not looked at.
    fn certificate(&mut self, certificate: &Certificate, path: &str) -> Option<CertificateNames> {
        let absent = credential_of_service(&certificate.key).filter(|_| !self.is_start);
        if let Some(name) = absent {
            let place = self.place(path);
            self.warnings.push(format!(
                "{place}the key is not checked: the credential `{name}` is given to the service alone"
            ));
            let checked = Identity::check_chain(&certificate.chain).map_err(Into::into);
            return self.keep(path, checked);
        }
        let Some(read) = self.keep(path, identity(certificate)) else {
            self.second_fault(certificate, path);
            return None;
        };
        for warning in read.warnings(SystemTime::now()) {
            self.warnings.push(warning.to_string());
        }
        Some(read.names())
    }

    /// Adds what else is wrong with a certificate that could not be read: its chain and its key may both be at fault.
    fn second_fault(&mut self, certificate: &Certificate, path: &str) {
        let chain = &certificate.chain;
        let second = match &certificate.key {
            Secret::File(key) if key == chain => return,
            // The chain was read first.
            Secret::File(key) => Identity::check_key(key),
            _ => Identity::check_chain(chain).map(drop),
        };
        if let Err(error) = second {
            let second = fault(self.places, path, &error.into());
            if self.faults.last() != Some(&second) {
                self.faults.push(second);
            }
        }
    }

    /// Warns of names of a site that none of its certificates is for.
    fn certificates(&mut self, site: &Site, path: &str) {
        let each = site.certificates.iter().enumerate();
        let names: Vec<_> = each
            .map(|(index, it)| self.certificate(it, &format!("{path}.certificate.{index}")))
            .collect();
        let names: Option<Vec<_>> = names.into_iter().collect();
        let uncovered = names.and_then(|names| altway_site::uncovered_names(site, &names));
        if let Some(uncovered) = uncovered {
            let place = self.place(&format!("{path}.names"));
            self.warnings.push(format!("{place}{uncovered}"));
        }
    }

    /// Makes no folder, and asks no authority.
    fn acme(&mut self, plan: &Plan) {
        let acme = plan.config().acme.as_ref();
        let account = acme.and_then(|acme| acme.external_account.as_ref());
        let absent = account.and_then(|account| credential_of_service(&account.key));
        if let Some(name) = absent.filter(|_| !self.is_start) {
            let place = self.place("acme.external-account");
            self.warnings.push(format!(
                "{place}the account is not checked: the credential `{name}` is given to the service alone"
            ));
            return;
        }
        let settings = self
            .keep("acme.external-account", acme::settings(plan))
            .flatten();
        if let Some(settings) = settings {
            let _ = self.keep("acme.roots", settings.check().map_err(Into::into));
        }
    }

    /// Makes no file, folder or socket. Folders that systemd makes when the server starts may be missing before.
    fn written(&mut self, plan: &Plan) {
        for Obstacle {
            key,
            error,
            setting,
            ..
        } in obstacles(plan.config(), None)
        {
            match setting {
                Some(setting) => {
                    let place = self.place(key);
                    self.warnings.push(format!(
                        "{place}{error}; systemd makes it for a unit with `{setting}`"
                    ));
                }
                None => {
                    let _ = self.keep::<()>(key, Err(error));
                }
            }
        }
    }

    /// Warns of servers behind at whose address the server itself listens.
    fn loops(&mut self, plan: &Plan) {
        for (key, upstream) in loops::loops(plan) {
            let place = self.place(&key);
            self.warnings
                .push(format!("{place}{}", loops::warning(upstream)));
        }
    }

    /// The place of a key, as the beginning of a warning.
    fn place(&self, path: &str) -> String {
        let place = self.places.of(path).map(|it| format!("{it}: "));
        place.unwrap_or_default()
    }

    fn files(&mut self, files: &altway_config::Files, path: &str) {
        let opened = Files::open(&files.root).map_err(Into::into);
        let Some(folder) = self.keep(&format!("{path}.files"), opened) else {
            return;
        };
        if let Some(fallback) = files.fallback.as_ref().map(UrlPath::as_str)
            && !folder.has_file(fallback)
        {
            let path_of_file = files.root.join(fallback.trim_start_matches('/'));
            let error = altway_serve::Error::Fallback { path: path_of_file };
            let _ = self.keep::<()>(&format!("{path}.fallback"), Err(error.into()));
        }
        for (index, warning) in error_pages::missing(files, &folder) {
            let place = self.place(&format!("{path}.error-pages.{index}"));
            self.warnings.push(format!("{place}{warning}"));
        }
    }

    fn proxy(&mut self, proxy: &Proxy, path: &str) {
        let faults = altway_site::check_proxy(proxy);
        let is_usable = faults.is_empty();
        for (key, error) in faults {
            let is_of_key = matches!(error, altway_site::Error::Secret(_));
            let _ = self.keep::<()>(&format!("{path}.{key}"), Err(error.into()));
            // The chain was not looked at.
            if let Some(certificate) = proxy.client_certificate.as_ref().filter(|_| is_of_key) {
                let checked = Identity::check_chain(&certificate.chain).map_err(Into::into);
                let _ = self.keep(&format!("{path}.{key}"), checked);
            }
        }
        if let Some(certificate) = proxy.client_certificate.as_ref().filter(|_| is_usable) {
            let _ = self.certificate(certificate, &format!("{path}.client-certificate"));
        }
    }

    fn sites(&mut self, plan: &Plan) {
        for (index, site) in plan.sites().iter().enumerate() {
            let path = format!("site.{index}");
            self.certificates(site, &path);
            if let Some(clients) = &site.client_certificates {
                let key = format!("{path}.client-certificates");
                let _ = self.keep(&key, client_auth(clients));
            }
            if let Some(file) = site.policy.file() {
                let _ = self.keep(&format!("{path}.policy"), read_surface(Path::new(file)));
            }
            for (index, route) in site.routes.iter().enumerate() {
                let path = format!("{path}.route.{index}");
                match &route.action {
                    Action::Files(files) => {
                        self.files(files, &path);
                        // Which encoders there are is a matter of the build, and not of the words.
                        let options = altway_site::files_options(site, route, files);
                        let checked = options.and_then(|it| it.check()).map_err(Into::into);
                        let _ = self.keep(&format!("{path}.compress"), checked);
                    }
                    Action::Upload(upload) => {
                        let opened = altway_site::check_upload(upload).map_err(Into::into);
                        let _ = self.keep(&format!("{path}.upload.folder"), opened);
                    }
                    Action::Proxy(proxy) => self.proxy(proxy, &path),
                    _ => {}
                }
            }
        }
    }
}
