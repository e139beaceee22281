//! Replacement of certificates, site and names while a server runs.

use crate::locks::{read, write};
use crate::request::content::{Content, Current};
use crate::request::service::Service;
use crate::ticket_keys::{self, TicketKeys};
use crate::{Certificates, Error, HostPolicy, Site};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::{Arc, RwLock};
use std::time::SystemTime;

/// Replaces the certificates and the site of a server. It can be used from any thread, before, while and after the
/// server runs; dropping it has no effect.
///
/// ```no_run
/// use altway_serve::{Identity, Options, serve};
///
/// # async fn run(app: axum::Router, every_day: std::time::Duration) -> std::io::Result<()> {
/// let files = || Identity::from_pem_files("chain.pem", "key.pem");
/// let server = serve(app, Options::tls(files()?));
/// let reload = server.reload_handle()?;
/// tokio::spawn(async move {
///     loop {
///         tokio::time::sleep(every_day).await;
///         match files() {
///             Ok(identity) => reload.replace_certificates(identity),
///             Err(error) => eprintln!("the former certificate stays: {error}"),
///         }
///     }
/// });
/// Ok(server.await?)
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ReloadHandle {
    /// `None`: clear text.
    pub(crate) certificates: Option<InUse>,
    /// `None`: the server's own.
    pub(crate) ticket_keys: Option<ticket_keys::InUse>,
    pub(crate) service: Arc<Service>,
}

/// The certificates in use.
#[derive(Debug, Clone)]
pub(crate) struct InUse(Arc<RwLock<Certificates>>);

impl ReloadHandle {
    /// Replaces the certificates for handshakes from now on, over TCP and QUIC. No effect in clear text.
    ///
    /// Existing connections go on. Session tickets stay valid: a client that resumes a session (RFC 8446 section 2.2)
    /// is shown no certificate, neither the former nor the new one, until the ticket's keys are forgotten after
    /// twelve hours. A leaked private key opens no ticket. If the server's memory may have been read, restart it: the
    /// ticket keys are only there.
    ///
    /// The names whose clients are asked for a certificate are valid for every request from now on, also on existing
    /// connections.
    pub fn replace_certificates(&self, certificates: impl Into<Certificates>) {
        let certificates = certificates.into();
        if self.certificates.is_some() {
            let names = certificates.demanded_names();
            self.current().replace_asked_names(names);
        }
        self.show(certificates);
    }

    /// Returns the certificates that handshakes are shown from now on; none in clear text.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        let in_use = self.certificates.as_ref();
        in_use.map_or_else(Certificates::default, |in_use| in_use.with(Clone::clone))
    }

    /// Replaces the certificates that handshakes show; their demands on clients hold for requests already.
    fn show(&self, certificates: Certificates) {
        let Some(in_use) = &self.certificates else {
            return;
        };
        if let Some(selection) = self.service.selection()
            && !self.service.has_hosts
        {
            let hosts = selection.certificate_names(&certificates);
            self.current().replace_hosts(hosts);
        }
        in_use.replace(certificates);
    }

    /// Replaces the keys of session tickets: the first encrypts tickets from now on, and all of them decrypt. No
    /// effect if the server started without [`Options::ticket_keys`](crate::Options::ticket_keys).
    pub fn replace_ticket_keys(&self, keys: TicketKeys) {
        if let Some(in_use) = &self.ticket_keys {
            in_use.replace(keys);
        }
    }

    /// Replaces the site that answers requests from now on. Requests that have begun are answered by the former site,
    /// whose folders are closed after that.
    ///
    /// # Errors
    /// A folder of it can't be served; then the former site stays.
    pub fn replace_site(&self, site: &Site) -> Result<(), Error> {
        self.current().replace_content(Content::open(site)?);
        Ok(())
    }

    /// Replaces the names for which decisions are made separately. No effect if there is no HTTP/3 to offer, or if
    /// the server started without [`Options::hosts`](crate::Options::hosts).
    ///
    /// # Errors
    /// A surface's file can't be read, or is no surface; then the former names stay.
    pub fn replace_hosts(&self, hosts: &[HostPolicy]) -> Result<(), Error> {
        if let Some(selection) = self.service.selection()
            && self.service.has_hosts
        {
            self.current().replace_hosts(selection.host_names(hosts)?);
        }
        Ok(())
    }

    /// Replaces all at once, as [`replace_site`](Self::replace_site), [`replace_hosts`](Self::replace_hosts) and
    /// [`replace_certificates`](Self::replace_certificates) do one by one.
    ///
    /// # Errors
    /// As theirs; then nothing is replaced.
    pub fn replace(
        &self,
        site: &Site,
        hosts: &[HostPolicy],
        certificates: Option<Certificates>,
    ) -> Result<(), Error> {
        let content = Content::open(site)?;
        let selection = self.service.selection();
        let selection = selection.filter(|_| self.service.has_hosts);
        let hosts = selection.map(|selection| selection.host_names(hosts));
        let hosts = hosts.transpose()?;
        let certificates = certificates.filter(|_| self.certificates.is_some());
        self.current()
            .replace_all(content, hosts, certificates.as_ref());
        if let Some(certificates) = certificates {
            self.show(certificates);
        }
        Ok(())
    }

    fn current(&self) -> &Current {
        &self.service.current
    }
}

impl InUse {
    pub(crate) fn new(certificates: Certificates) -> Self {
        Self(Arc::new(RwLock::new(certificates)))
    }

    /// Calls `look` with the certificates, and returns what it returns.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Certificates) -> T) -> T {
        look(&read(&self.0))
    }

    fn replace(&self, certificates: Certificates) {
        *write(&self.0) = certificates;
    }
}

impl ResolvesServerCert for InUse {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.with(|certificates| certificates.find(&hello, SystemTime::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientAuth;
    use crate::certs::Store;
    use crate::incidents::Incidents;
    use crate::metrics::ServerCounters;
    use crate::selection::HostNames;
    use std::time::Instant;

    fn handle() -> ReloadHandle {
        let content = Content::open(&Site::nothing()).unwrap();
        let service = Service {
            current: Current::new(content, HostNames::default()),
            has_hosts: false,
            selection: None,
            early_services: false,
            log: None,
            incidents: Incidents::new(crate::PrefixLengths::default(), Instant::now()),
            counters: ServerCounters::default(),
            challenges: None,
        };
        ReloadHandle {
            certificates: Some(InUse::new(Certificates::default())),
            ticket_keys: None,
            service: Arc::new(service),
        }
    }

    fn auth() -> ClientAuth {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("certs")).unwrap();
        store.leaf(&["a.example"]).unwrap();
        ClientAuth::from_pem_file(&store.authority()).unwrap()
    }

    #[test]
    fn no_request_meets_a_new_site_under_the_former_demand_for_certificates() {
        let handle = handle();
        let demanding = Certificates::default().with_client_auth(["a.example"], Some(&auth()));
        for (certificates, demands) in [(demanding, true), (Certificates::default(), false)] {
            let before = handle.current().get();
            let replaced = handle.replace(&Site::nothing(), &[], Some(certificates));
            replaced.unwrap();
            let after = handle.current().get();
            assert_eq!(after.number, before.number + 1, "in one step");
            assert_eq!(after.asked_names.is_some(), demands);
            assert!(!Arc::ptr_eq(&after.content, &before.content));
            let in_use = handle.certificates.as_ref().unwrap();
            assert_eq!(in_use.with(|it| it.asked_names().is_some()), demands);
        }
    }
}
