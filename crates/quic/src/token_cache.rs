//! Tokens of NEW_TOKEN that a client keeps of addresses once validated, for its next connections (RFC
//! 9000 section 8.1.3). What servers do with them is in [`validation`](crate::validation).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::Version;

/// Servers whose tokens a client keeps for its next connections there, those heard of last; and tokens of
/// each, of some 60 bytes.
const SERVERS: usize = 256;
const TOKENS_PER_SERVER: usize = 2;

/// Tokens that servers gave a client, so that its next connections are not asked for its address, nor
/// held to three times what they sent while a server doubts it. Clones are the same, also between
/// endpoints and threads.
///
/// Up to 2 tokens of each of 256 servers, by the name that was connected to; each is shown once.
/// They tell a server that two connections are of one client, as session tickets do.
#[derive(Clone, Default)]
pub struct TokenCache(Arc<Mutex<VecDeque<Server>>>);

/// RFC 9369 section 5: "Clients MUST NOT use a session ticket or token from a QUIC version 1
/// connection to initiate a QUIC version 2 connection, and vice versa." So one server is two, by version.
struct Server {
    version: Version,
    name: String,
    tokens: VecDeque<Bytes>,
}

impl TokenCache {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps a token of a server's; the oldest makes room.
    pub(crate) fn insert(&self, version: Version, name: &str, token: Bytes) {
        let mut servers = self.servers();
        let known = servers.iter().position(|it| it.is(version, name));
        let mut server = known.and_then(|at| servers.remove(at)).unwrap_or(Server {
            version,
            name: name.to_owned(),
            tokens: VecDeque::new(),
        });
        server.tokens.push_back(token);
        if server.tokens.len() > TOKENS_PER_SERVER {
            server.tokens.pop_front();
        }
        servers.push_back(server);
        if servers.len() > SERVERS {
            servers.pop_front();
        }
    }

    /// Takes the oldest token of a server's.
    pub(crate) fn take(&self, version: Version, name: &str) -> Option<Bytes> {
        let mut servers = self.servers();
        let server = servers.iter_mut().rev().find(|it| it.is(version, name))?;
        server.tokens.pop_front()
    }

    fn servers(&self) -> MutexGuard<'_, VecDeque<Server>> {
        // Nothing that holds it can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    fn is(&self, version: Version, name: &str) -> bool {
        self.version == version && self.name == name
    }
}

impl fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenCache")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_given_once_to_their_version_up_to_two_of_each_of_the_latest_servers() {
        let cache = TokenCache::new();
        for token in [&b"1"[..], b"2", b"3"] {
            cache.insert(Version::V1, "a", Bytes::from_static(token));
        }
        assert_eq!(cache.take(Version::V2, "a"), None);
        let taken = [(); 3].map(|()| cache.take(Version::V1, "a"));
        assert_eq!(taken, [Some("2".into()), Some("3".into()), None]);
        for server in 0..=SERVERS {
            cache.insert(Version::V2, &server.to_string(), Bytes::from_static(b"t"));
        }
        assert_eq!(cache.take(Version::V2, "0"), None);
        assert!(cache.take(Version::V2, "1").is_some());
    }
}
