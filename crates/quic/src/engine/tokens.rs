//! The tokens of validated addresses, as quinn-proto makes, takes and keeps them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use quinn_proto::{
    BloomTokenLog, TimeSource, TokenLog, TokenReuseError, TokenStore, ValidationTokenConfig,
};

use crate::validation::Clock;
use crate::{TokenCache, Tokens, Version};

/// Tokens that a client gets for later connections whenever its address has been validated: one, of some
/// 60 bytes, as a client has one connection at a time, and is given another on the next. Each has a key of
/// its own, which is a fiftieth of a handshake to derive.
const NEW_TOKENS: u32 = 1;

/// Lifetime of a token of NEW_TOKEN: a day covers a client that comes back for another page, and keeps the
/// log of used tokens short.
const NEW_TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Lifetime of a token of Retry, which a client sends back at once: "servers SHOULD ensure that tokens
/// sent in Retry packets are only accepted for a short time" (RFC 9000 section 8.1.4).
const RETRY_TOKEN_LIFETIME: Duration = Duration::from_secs(15);

/// Memory for remembering which tokens of NEW_TOKEN were used; shared by a server's endpoints.
const LOG_BYTES: usize = 1 << 20;

/// Tokens used in a lifetime for which that memory is laid out: then one of a thousand is taken for
/// used without having been. It counts for nothing then, which is the worst that more of them do.
const LOG_TOKENS: u64 = 250_000;

/// Makes quinn-proto issue and take these tokens on connections of a version, dated by the clock.
pub(super) fn install(
    tokens: &Tokens,
    engine: &mut quinn_proto::ServerConfig,
    version: Version,
    clock: &Arc<Clock>,
) {
    let key = Arc::clone(&tokens.keys[version.index()]);
    let mut new_tokens = ValidationTokenConfig::default();
    new_tokens
        .sent(NEW_TOKENS)
        .lifetime(NEW_TOKEN_LIFETIME)
        .log(Arc::clone(&tokens.used) as _);
    engine
        .token_key(key)
        .retry_token_lifetime(RETRY_TOKEN_LIFETIME)
        .validation_token_config(new_tokens)
        .time_source(Arc::clone(clock) as _);
}

/// Tokens of NEW_TOKEN that clients have shown: each counts once.
pub(crate) struct UsedTokens(BloomTokenLog);

impl Default for UsedTokens {
    fn default() -> Self {
        Self(BloomTokenLog::new_expected_items(LOG_BYTES, LOG_TOKENS))
    }
}

impl TokenLog for UsedTokens {
    fn check_and_insert(
        &self,
        nonce: u128,
        issued: SystemTime,
        lifetime: Duration,
    ) -> Result<(), TokenReuseError> {
        self.0.check_and_insert(nonce, issued, lifetime)
    }
}

impl TimeSource for Clock {
    fn now(&self) -> SystemTime {
        Clock::now(self)
    }
}

/// A client's tokens of one version.
pub(super) struct TokensOf(pub(super) TokenCache, pub(super) Version);

impl TokenStore for TokensOf {
    fn insert(&self, server_name: &str, token: Bytes) {
        self.0.insert(self.1, server_name, token);
    }

    fn take(&self, server_name: &str) -> Option<Bytes> {
        self.0.take(self.1, server_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_counts_for_its_version() {
        use quinn_proto::crypto::HandshakeTokenKey;
        let tokens = Tokens::of_one([42; 32]);
        let key = |version: Version| tokens.keys[version.index()].aead_from_hkdf(&[7; 16]);
        for version in Version::ALL {
            let mut token = b"an address".to_vec();
            key(version).seal(&mut token, &[]).unwrap();
            for other in Version::ALL {
                let opened = key(other).open(&mut token.clone(), &[]).is_ok();
                assert_eq!(opened, other == version);
            }
        }
    }
}
