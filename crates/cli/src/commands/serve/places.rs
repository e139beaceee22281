//! The files and folders that a server reaches for while it runs, as its plan names them.

use altway_admin::Address;
use altway_config::{Action, Certificate, Issuer, Plan, Secret};
use altway_serve::certs::Store;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The use that a server makes of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// A folder whose files it serves.
    Folder,
    /// A file that it reads, again at each reload: a certificate, a key, the configuration.
    Secret,
    /// A folder that it stores uploads in.
    Store,
    /// A folder of its own, which is made where it is missing.
    Keep,
    /// The same with folders in it that are its own as well.
    KeepAll,
    /// A log, which may be opened again.
    Append,
    /// A Unix socket that it makes.
    BindSockets,
}

/// All that a plan names.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Places of the plan's sites, which a reload may change.
    of_sites: Vec<(PathBuf, Use)>,
    /// Places that hold for the process.
    of_server: Vec<(PathBuf, Use)>,
    /// The folder of altway's own authority, which is read with every reload; none where no site needs it.
    of_authority: Option<PathBuf>,
    /// True if names are looked up, and certificates of others trusted.
    pub(super) asks_others: bool,
}

impl Places {
    /// `file`: of the configuration; `admin`: the admin socket's address.
    pub(super) fn of(plan: &Plan, file: Option<&Path>, admin: Option<&Address>) -> Self {
        let config = plan.config();
        let mut places = Self::default();
        let mut server = |path: Option<&PathBuf>, usage| {
            let path = path.filter(|path| *path != Path::new("-"));
            places
                .of_server
                .extend(path.map(|path| (path.clone(), usage)));
        };
        server(config.state.as_ref(), Use::Keep);
        server(config.log.access.as_ref(), Use::Append);
        server(config.log.selection.as_ref(), Use::Append);
        server(config.log.keylog.as_ref(), Use::Append);
        server(config.log.qlog.as_ref(), Use::Keep);
        server(config.takeover.as_ref(), Use::BindSockets);
        if let Some(Address::Unix(path)) = admin {
            server(Some(path), Use::BindSockets);
        }
        if let Some(file) = file {
            server(Some(&file.to_path_buf()), Use::Secret);
        }
        for key in &config.ticket_keys {
            server(Some(key), Use::Secret);
        }
        if let Some(acme) = &config.acme {
            server(plan.acme_folder().as_ref(), Use::KeepAll);
            let account = acme.external_account.as_ref();
            let key = account.and_then(|account| match &account.key {
                Secret::File(key) => Some(key),
                Secret::Credential(_) | Secret::Env(_) => None,
            });
            let read_again = acme.roots.iter().chain(key);
            read_again.for_each(|file| places.secret(file.clone()));
            places.asks_others = true;
        }
        for site in plan.sites() {
            places.site(site);
        }
        places
    }

    fn site(&mut self, site: &altway_config::Site) {
        for certificate in &site.certificates {
            self.certificate(certificate);
        }
        if let Some(clients) = &site.client_certificates {
            self.secret(clients.roots.clone());
            let lists = clients.revocation.iter();
            lists.for_each(|it| self.secret(it.clone()));
        }
        if let Some(file) = site.policy.file() {
            self.secret(PathBuf::from(file));
        }
        for route in &site.routes {
            match &route.action {
                Action::Files(files) => self.of_sites.push((files.root.clone(), Use::Folder)),
                Action::Upload(upload) => self.of_sites.push((upload.folder.clone(), Use::Store)),
                Action::Proxy(proxy) => {
                    self.asks_others = true;
                    proxy.roots.iter().for_each(|it| self.secret(it.clone()));
                    let shown = proxy.client_certificate.as_ref();
                    shown.into_iter().for_each(|it| self.certificate(it));
                }
                _ => {}
            }
        }
    }

    fn certificate(&mut self, certificate: &Certificate) {
        self.secret(certificate.chain.clone());
        match &certificate.key {
            Secret::File(key) => self.secret(key.clone()),
            Secret::Credential(name) => {
                let folder = std::env::var_os("CREDENTIALS_DIRECTORY");
                let file = folder.map(|folder| Path::new(&folder).join(name));
                file.into_iter().for_each(|file| self.secret(file));
            }
            Secret::Env(_) => {}
        }
        certificate
            .ocsp
            .iter()
            .for_each(|it| self.secret(it.clone()));
    }

    fn secret(&mut self, file: PathBuf) {
        self.of_sites.push((file, Use::Secret));
    }

    /// The folder of altway's own authority, where a site has no certificate of its own. None where a served folder is
    /// missing: then nothing will be served, and nothing is to be made for it.
    pub(super) fn own_authority(&self, plan: &Plan) -> Option<Store> {
        // What can't be had is said when the certificate is made.
        self.needs_authority(plan).then(Store::open_default)?.ok()
    }

    fn needs_authority(&self, plan: &Plan) -> bool {
        let has_acme = plan.config().acme.is_some();
        let is_own = |site: &altway_config::Site| site.issuer(has_acme) == Some(Issuer::Own);
        let needs = plan.sites().iter().any(is_own);
        let is_clear = plan.config().listen.is_clear_text();
        let is_missing = |(path, usage): (&Path, Use)| usage == Use::Folder && !path.is_dir();
        needs && !is_clear && !self.of_sites().any(is_missing)
    }

    /// Notes the folder of altway's own authority, if the plan needs it.
    pub(super) fn with_authority(mut self, plan: &Plan) -> Self {
        let needs = self.needs_authority(plan);
        self.of_authority = needs.then(Store::default_dir).flatten();
        self
    }

    /// All that is read or used again while the server runs, once.
    pub(super) fn used_again(&self) -> BTreeSet<(&Path, Use)> {
        let authority = self.of_authority.as_deref();
        let authority = authority.map(|folder| (folder, Use::Secret));
        self.all().chain(authority).collect()
    }

    /// Places of the plan's sites, which a reload may change.
    pub(super) fn of_sites(&self) -> impl Iterator<Item = (&Path, Use)> {
        self.of_sites.iter().map(|(path, usage)| (&**path, *usage))
    }

    /// Places that hold for the process.
    pub(super) fn of_server(&self) -> impl Iterator<Item = (&Path, Use)> {
        self.of_server.iter().map(|(path, usage)| (&**path, *usage))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&Path, Use)> {
        self.of_server().chain(self.of_sites())
    }
}
