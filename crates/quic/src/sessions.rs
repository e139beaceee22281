//! A server's sessions: who may resume one, and on which terms.
//!
//! Each session is kept together with the terms it was made under, and under other terms it is unknown:
//! the client then makes a full handshake. Where sessions are kept is the shell's business.
//!
//! The version is one of the terms. RFC 9369 section 5: "Servers MUST validate the originating version of
//! any session ticket or token and not accept one issued from a different version."
//!
//! Others are there for early data, which is sent on the strength of what the client remembers of an
//! earlier connection. RFC 9000 section 7.4.1: "A server MUST NOT reduce any limits or alter any values
//! that might be violated by the client with its 0-RTT data."

use std::sync::Arc;

use rustls::server::{ProducesTickets, StoresServerSessions};

/// Terms under which a session was made; its bytes begin every session.
#[derive(Clone, Debug)]
pub(crate) struct SessionContext(Vec<u8>);

impl SessionContext {
    /// `numbers`: the version, and limits that are announced to clients; `context`: what the application
    /// announces.
    pub(crate) fn new(numbers: &[u64], context: &[u8]) -> Self {
        // The count and the length make it impossible that one's terms begin with another's.
        let lengths = [numbers.len() as u64, context.len() as u64];
        let numbers = lengths.iter().chain(numbers);
        let mut terms: Vec<u8> = numbers.flat_map(|number| number.to_be_bytes()).collect();
        terms.extend_from_slice(context);
        Self(terms)
    }

    fn bind(&self, session: &[u8]) -> Vec<u8> {
        [&self.0, session].concat()
    }

    fn unbind(&self, mut session: Vec<u8>) -> Option<Vec<u8>> {
        session.starts_with(&self.0).then(|| {
            session.drain(..self.0.len());
            session
        })
    }
}

/// Sessions that the server keeps.
#[derive(Debug)]
pub(crate) struct BoundSessions {
    pub(crate) sessions: Arc<dyn StoresServerSessions>,
    pub(crate) terms: SessionContext,
}

impl StoresServerSessions for BoundSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.sessions.put(key, self.terms.bind(&value))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.terms.unbind(self.sessions.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.terms.unbind(self.sessions.take(key)?)
    }

    fn can_cache(&self) -> bool {
        self.sessions.can_cache()
    }
}

/// Sessions that clients keep.
#[derive(Debug)]
pub(crate) struct BoundTickets {
    pub(crate) tickets: Arc<dyn ProducesTickets>,
    pub(crate) terms: SessionContext,
}

impl ProducesTickets for BoundTickets {
    fn enabled(&self) -> bool {
        self.tickets.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.tickets.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.tickets.encrypt(&self.terms.bind(plain))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.terms.unbind(self.tickets.decrypt(cipher)?)
    }
}

#[cfg(test)]
mod tests {
    use rustls::server::ServerSessionMemoryCache;

    use super::*;

    #[test]
    fn a_session_is_taken_once_and_under_the_terms_it_was_made_under_only() {
        let cache = ServerSessionMemoryCache::new(10);
        let bound = |numbers: &[u64], context: &[u8]| BoundSessions {
            sessions: cache.clone(),
            terms: SessionContext::new(numbers, context),
        };
        let terms = bound(&[1, 2], b"ab");
        for other in [
            bound(&[1, 3], b"ab"),
            bound(&[1], b"ab"),
            bound(&[1, 2], b"a"),
            bound(&[1, 2], b""),
        ] {
            assert!(terms.put(vec![7], vec![8, 9]));
            assert_eq!(other.get(&[7]), None);
            assert_eq!(other.take(&[7]), None);
        }
        assert!(terms.put(vec![7], vec![8, 9]));
        assert_eq!(terms.get(&[7]), Some(vec![8, 9]));
        assert_eq!(terms.take(&[7]), Some(vec![8, 9]));
        assert_eq!(terms.take(&[7]), None);
    }

    #[test]
    fn a_ticket_counts_under_the_terms_it_was_made_under_only() {
        let tickets = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
        let bound = |numbers: &[u64]| BoundTickets {
            tickets: Arc::clone(&tickets),
            terms: SessionContext::new(numbers, b""),
        };
        let ticket = bound(&[1]).encrypt(&[8, 9]).unwrap();
        assert_eq!(bound(&[2]).decrypt(&ticket), None);
        assert_eq!(bound(&[1]).decrypt(&ticket), Some(vec![8, 9]));
    }
}
