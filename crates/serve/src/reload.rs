//! Replacement of certificates, site and names while a server runs.

use crate::request::content::{Content, Current};
use crate::request::service::Service;
use crate::ticket_keys::{self, TicketKeys};
use crate::{Certificates, Error, HostPolicy, Site};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

/// Replaces the certificates and the site of a server; can be used from any thread, before, while and after
/// the server runs, and dropped without consequence.
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
    /// Replaces the certificates that handshakes show from now on, over TCP and QUIC. Without effect in
    /// clear text.
    ///
    /// Connections that are there go on. Session tickets stay valid: a client that resumes a session
    /// (RFC 8446 section 2.2) is shown no certificate, neither the former nor the new one, until the
    /// ticket's keys are forgotten after twelve hours. A private key that leaked opens no ticket; if the
    /// server's memory may have been read, restart it, for the ticket keys live there alone.
    ///
    /// The names whose clients are asked for a certificate hold for every request from now on, on connections that are
    /// there as well.
    pub fn replace_certificates(&self, certificates: impl Into<Certificates>) {
        let Some(in_use) = &self.certificates else {
            return;
        };
        let certificates = certificates.into();
        let names = certificates.asked_names();
        self.current()
            .replace_asked_names(names.is_some().then(|| Arc::new(names.clone())));
        if let Some(selection) = self.service.selection()
            && !self.service.has_hosts
        {
            let hosts = selection.certificate_names(&certificates);
            self.current().replace_hosts(hosts);
        }
        in_use.replace(certificates);
    }

    /// Replaces the keys of session tickets: the first encrypts tickets from now on, and all of them decrypt.
    /// Without effect where the server began without [`Options::ticket_keys`](crate::Options::ticket_keys).
    pub fn replace_ticket_keys(&self, keys: TicketKeys) {
        if let Some(in_use) = &self.ticket_keys {
            in_use.replace(keys);
        }
    }

    /// Replaces the site that answers requests from now on; those that have begun are answered by the former one, whose
    /// folders are closed after that.
    ///
    /// # Errors
    /// A folder of it can't be served; then the former site stays.
    pub fn replace_site(&self, site: &Site) -> Result<(), Error> {
        self.current().replace_content(Content::open(site)?);
        Ok(())
    }

    /// Replaces the names that are decided for separately. Without effect where there is no HTTP/3 to offer, and where
    /// the server began without [`Options::hosts`](crate::Options::hosts).
    ///
    /// # Errors
    /// A surface's file can't be read, or holds something else; then the former names stay.
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
        self.replace_hosts(hosts)?;
        self.current().replace_content(content);
        if let Some(certificates) = certificates {
            self.replace_certificates(certificates);
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
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, certificates: Certificates) {
        // A panic in another thread can't leave an assignment half done.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = certificates;
    }
}

impl ResolvesServerCert for InUse {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.with(|certificates| certificates.find(&hello, SystemTime::now()))
    }
}
