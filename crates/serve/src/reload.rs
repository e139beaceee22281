//! The certificate in use, and its replacement while the server runs.

use crate::Identity;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

/// Replaces the certificate of a server; can be used from any thread, before, while and after the
/// server runs, and dropped without consequence.
///
/// Connections that are there go on. Session tickets stay valid: a client that resumes a session
/// (RFC 8446 section 2.2) is shown no certificate, neither the former nor the new one, until the
/// ticket's keys are forgotten after twelve hours. A private key that leaked opens no ticket; if the
/// server's memory may have been read, restart it, for the ticket keys live there alone.
#[derive(Debug, Clone)]
pub struct ReloadHandle {
    current: Arc<RwLock<Identity>>,
}

impl ReloadHandle {
    pub(crate) fn new(identity: Identity) -> Self {
        Self {
            current: Arc::new(RwLock::new(identity)),
        }
    }

    /// From now on hand-shakes, over TCP and QUIC, use `identity`.
    pub fn replace(&self, identity: Identity) {
        // A panic in another thread can't leave an assignment half done.
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = identity;
    }
}

/// The same certificate for every server name, so that a server can be reached by address.
#[derive(Debug)]
pub(crate) struct Resolver(pub(crate) ReloadHandle);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self
            .0
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        Some(current.certified(SystemTime::now()))
    }
}
