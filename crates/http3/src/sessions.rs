//! Sessions that a client keeps for its next connections: tickets of TLS, the settings that came with
//! them, and tokens for its address.
//!
//! RFC 9114 section 7.2.4.2: with 0-RTT, "the initial value of each server setting is the value used in
//! the previous session", so the two are kept together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use altway_quic::TokenCache;
use rustc_hash::FxHashMap;
use rustls::NamedGroup;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;

use crate::settings::Settings;

/// Servers that are remembered.
const MAX_SERVERS: usize = 32;

/// Tickets of one server that are kept, as in the store below.
const MAX_TICKETS: usize = 8;

/// Sessions with servers that clients remember, for early data ([`ClientConfig::early_data`]). Clones
/// share them, also between endpoints and threads.
///
/// Up to 8 tickets of each of 32 servers, by the name that was connected to; each is used once
/// (RFC 8446 appendix C.4), and by clients of the very same certificate verifier only: their TLS
/// configurations must be clones of one. And the tokens by which a server knows a client's address
/// again ([`TokenCache`]): without one it answers early data with three times what came, and no more
/// before the next round trip.
///
/// [`ClientConfig::early_data`]: crate::ClientConfig::early_data
#[derive(Clone, Debug)]
pub struct Sessions(Arc<Store>);

#[derive(Debug)]
struct Store {
    tickets: ClientSessionMemoryCache,
    tokens: TokenCache,
    servers: Mutex<FxHashMap<ServerName<'static>, ServerState>>,
}

/// State of a server beside its tickets.
#[derive(Clone, Copy, Debug, Default)]
struct ServerState {
    tickets: usize,
    settings: Option<Settings>,
}

impl Sessions {
    /// Makes sessions of which nothing is remembered yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Store {
            tickets: ClientSessionMemoryCache::new(MAX_SERVERS * MAX_TICKETS),
            tokens: TokenCache::new(),
            servers: Mutex::default(),
        }))
    }

    /// Returns true if the next connection to a server can be a resumed one.
    #[must_use]
    pub fn has_ticket(&self, server_name: &str) -> bool {
        ServerName::try_from(server_name)
            .is_ok_and(|name| self.0.servers().get(&name).is_some_and(|it| it.tickets > 0))
    }

    pub(crate) fn store(&self) -> Arc<dyn ClientSessionStore> {
        Arc::clone(&self.0) as _
    }

    pub(crate) fn tokens(&self) -> TokenCache {
        self.0.tokens.clone()
    }

    /// Returns the SETTINGS that a server announced when its tickets were given.
    pub(crate) fn settings(&self, server: &ServerName<'_>) -> Option<Settings> {
        self.0.servers().get(server)?.settings
    }

    /// Remembers what a server announces now. Tickets of when it announced something else are
    /// forgotten.
    pub(crate) fn remember(&self, server: &ServerName<'static>, settings: Settings) {
        let mut before = None;
        self.0
            .edit(server, |known| before = known.settings.replace(settings));
        if before.is_some_and(|before| before != settings) {
            while self.0.take_tls13_ticket(server).is_some() {}
        }
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self::new()
    }
}

impl Store {
    fn servers(&self) -> MutexGuard<'_, FxHashMap<ServerName<'static>, ServerState>> {
        // No edit can be left half done by a panic.
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn edit(&self, server: &ServerName<'static>, edit: impl FnOnce(&mut ServerState)) {
        let mut servers = self.servers();
        if servers.len() >= MAX_SERVERS && !servers.contains_key(server) {
            servers.clear();
        }
        edit(servers.entry(server.clone()).or_default());
    }
}

impl ClientSessionStore for Store {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.tickets.set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.tickets.kx_hint(server_name)
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(
        &self,
        server_name: ServerName<'static>,
        value: Tls13ClientSessionValue,
    ) {
        self.edit(&server_name, |known| {
            known.tickets = (known.tickets + 1).min(MAX_TICKETS);
        });
        self.tickets.insert_tls13_ticket(server_name, value);
    }

    fn take_tls13_ticket(
        &self,
        server_name: &ServerName<'static>,
    ) -> Option<Tls13ClientSessionValue> {
        let ticket = self.tickets.take_tls13_ticket(server_name)?;
        self.edit(server_name, |known| {
            known.tickets = known.tickets.saturating_sub(1);
        });
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_servers_than_are_remembered_make_it_forget_the_others() {
        let sessions = Sessions::new();
        let name = |n: usize| ServerName::try_from(format!("host{n}.test")).unwrap();
        for n in 0..=MAX_SERVERS {
            sessions.remember(&name(n), Settings::default());
        }
        assert_eq!(sessions.settings(&name(0)), None);
        let last = sessions.settings(&name(MAX_SERVERS));
        assert_eq!(last, Some(Settings::default()));
        assert!(!sessions.has_ticket("host0.test") && !sessions.has_ticket("no name"));
    }
}
