//! What a client keeps of addresses once validated: the tokens of NEW_TOKEN, for its next connections
//! (RFC 9000 section 8.1.3). What servers do with them is in [`validation`](crate::validation).

use std::fmt;
use std::sync::Arc;

use quinn_proto::{TokenMemoryCache, TokenStore};

use crate::Version;

/// Servers whose tokens a client keeps for its next connections there, those used last; and tokens of
/// each, of some 60 bytes.
const SERVERS: u32 = 256;
const TOKENS_PER_SERVER: usize = 2;

/// Tokens that servers gave a client, so that its next connections are not asked for its address, nor
/// held to three times what they sent while a server doubts it. Clones are the same, also between
/// endpoints and threads.
///
/// Up to 2 tokens of each of 256 servers, by the name that was connected to; each is shown once.
/// They tell a server that two connections are of one client, as session tickets do.
#[derive(Clone)]
pub struct TokenCache([Arc<TokenMemoryCache>; Version::ALL.len()]);

impl TokenCache {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self(Version::ALL.map(|_| Arc::new(TokenMemoryCache::new(SERVERS, TOKENS_PER_SERVER))))
    }

    /// RFC 9369 section 5: "Clients MUST NOT use a session ticket or token from a QUIC version 1
    /// connection to initiate a QUIC version 2 connection, and vice versa."
    pub(crate) fn of(&self, version: Version) -> Arc<dyn TokenStore> {
        Arc::clone(&self.0[version.index()]) as _
    }
}

impl Default for TokenCache {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenCache")
    }
}
