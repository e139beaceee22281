//! A server's sessions for early data: who may resume one, and on which terms.
//!
//! Early data is sent on the strength of what the client remembers of an earlier connection. RFC 9000
//! section 7.4.1: "A server MUST NOT reduce any limits or alter any values that might be violated by
//! the client with its 0-RTT data." So each session is kept together with the terms it was made
//! under, and under other terms it is unknown: the client then makes a full hand-shake. Where sessions
//! are kept is the shell's business.

use std::sync::Arc;

use rustls::server::StoresServerSessions;

/// Sessions of endpoints that make their clients the same promises.
#[derive(Debug)]
pub(crate) struct BoundSessions {
    sessions: Arc<dyn StoresServerSessions>,
    /// What was promised; every value in `sessions` begins with it.
    terms: Vec<u8>,
}

impl BoundSessions {
    /// `numbers`: limits that are announced to clients; `context`: what the application announces.
    pub(crate) fn new(
        sessions: Arc<dyn StoresServerSessions>,
        numbers: &[u64],
        context: &[u8],
    ) -> Self {
        // The count and the length make it impossible that one's terms begin with another's.
        let lengths = [numbers.len() as u64, context.len() as u64];
        let numbers = lengths.iter().chain(numbers);
        let mut terms: Vec<u8> = numbers.flat_map(|number| number.to_be_bytes()).collect();
        terms.extend_from_slice(context);
        Self { sessions, terms }
    }

    fn unbind(&self, mut value: Vec<u8>) -> Option<Vec<u8>> {
        value.starts_with(&self.terms).then(|| {
            value.drain(..self.terms.len());
            value
        })
    }
}

impl StoresServerSessions for BoundSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.sessions.put(key, [&self.terms[..], &value].concat())
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.unbind(self.sessions.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.unbind(self.sessions.take(key)?)
    }

    fn can_cache(&self) -> bool {
        self.sessions.can_cache()
    }
}

#[cfg(test)]
mod tests {
    use rustls::server::ServerSessionMemoryCache;

    use super::*;

    #[test]
    fn a_session_is_taken_once_and_under_the_terms_it_was_made_under_only() {
        let cache = ServerSessionMemoryCache::new(10);
        let bound =
            |numbers: &[u64], context: &[u8]| BoundSessions::new(cache.clone(), numbers, context);
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
}
