//! Sessions of TLS that the server keeps itself, for early data.
//!
//! A ticket that holds its session can be used as often as somebody has a copy of it. One that only
//! names a session is good once (RFC 8446 section 8.1): whoever sends a first flight again names a
//! session that is gone. All workers share them, so that this holds whichever worker the copy comes
//! to. They live in memory alone, so nothing from before a restart is early data after it.

use crate::locks::lock;
use lru::LruCache;
use rustls::server::StoresServerSessions;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard};

/// Sessions that are kept, of some 300 bytes each: 10 MB. A handshake makes one. Beyond, the oldest
/// are forgotten, and their clients make a full handshake.
pub(crate) const MAX_SESSIONS: NonZeroUsize = NonZeroUsize::new(32_768).expect("not zero");

/// Sessions by the names that clients know them by.
pub(crate) struct Sessions(Mutex<LruCache<Vec<u8>, Vec<u8>>>);

impl Sessions {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MAX_SESSIONS)))
    }

    fn sessions(&self) -> MutexGuard<'_, LruCache<Vec<u8>, Vec<u8>>> {
        lock(&self.0)
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.sessions().push(key, value);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.sessions().peek(key).cloned()
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.sessions().pop(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// Prints none of the secrets in it.
impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: usize) -> Vec<u8> {
        n.to_be_bytes().to_vec()
    }

    #[test]
    fn a_session_is_good_once() {
        let sessions = Sessions::new();
        assert!(sessions.can_cache() && sessions.put(name(1), vec![7]));
        assert_eq!(sessions.get(&name(1)), Some(vec![7]));
        assert_eq!(sessions.take(&name(1)), Some(vec![7]));
        assert_eq!(sessions.take(&name(1)), None);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let sessions = Sessions::new();
        for n in 0..=MAX_SESSIONS.get() {
            sessions.put(name(n), vec![7]);
        }
        assert_eq!(sessions.take(&name(0)), None);
        assert!(sessions.take(&name(1)).is_some());
        assert!(sessions.take(&name(MAX_SESSIONS.get())).is_some());
        assert!(!format!("{sessions:?}").contains('7'));
    }
}
