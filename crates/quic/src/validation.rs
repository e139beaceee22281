//! Address validation before a hand-shake (RFC 9000 section 8.1): when a client must first show that
//! it receives at the address that it seems to have, and the tokens that show it.
//!
//! A client that shows a token of Retry or NEW_TOKEN costs no round trip more, and the endpoint may
//! send it as much as it likes. Any other client is answered up to three times what it sent
//! ([`budget`](crate::budget)), or by Retry once [`Retry`] says so.
//!
//! Every validated path gets [`NEW_TOKENS`] tokens for later connections. One lives for
//! [`NEW_TOKEN_LIFETIME`], holds for the client's IP address, and counts once.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::hkdf;
use quinn_proto::{BloomTokenLog, TimeSource, ValidationTokenConfig};

use crate::{Error, Version};

/// Tokens that a client gets for later connections whenever its address has been validated: one, of some
/// 60 bytes, as a client has one connection at a time, and is given another on the next. Each has a key of
/// its own, which is a fiftieth of a hand-shake to derive.
const NEW_TOKENS: u32 = 1;

/// How long they count: a day holds who comes back for another page, and keeps the log of those that
/// were used short.
const NEW_TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a token of Retry counts, which a client sends back at once: "servers SHOULD ensure that
/// tokens sent in Retry packets are only accepted for a short time" (RFC 9000 section 8.1.4).
const RETRY_TOKEN_LIFETIME: Duration = Duration::from_secs(15);

/// Memory for remembering which tokens of NEW_TOKEN were used; shared by a server's endpoints.
const LOG_BYTES: usize = 1 << 20;

/// Tokens used in a lifetime for which that memory is laid out: then one of a thousand is taken for
/// used without having been. It counts for nothing then, which is the worst that more of them do.
const LOG_TOKENS: u64 = 250_000;

/// When an endpoint answers a client's first packet by Retry (RFC 9000 section 8.1.2), which costs
/// the client a round trip and the endpoint no memory. Written `always`, `never`, or as a number.
/// Default: beyond 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Every client that shows no token.
    Always,
    /// Those that come while so many hand-shakes are in progress with clients whose address isn't
    /// validated. They hold some 50 KB each.
    Beyond(usize),
    /// No client: only [`Limits::max_connections`](crate::Limits::max_connections) holds against
    /// clients that don't exist, and while these fill it no other is let in.
    Never,
}

impl Retry {
    /// Whether a client without a token has to get one first.
    pub(crate) fn is_due(self, unvalidated: usize) -> bool {
        match self {
            Self::Always => true,
            Self::Beyond(limit) => unvalidated >= limit,
            Self::Never => false,
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self::Beyond(1_000)
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.pad("always"),
            Self::Beyond(limit) => limit.fmt(f),
            Self::Never => f.pad("never"),
        }
    }
}

impl FromStr for Retry {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => text.parse().map(Self::Beyond).map_err(|_| no_retry()),
        }
    }
}

fn no_retry() -> Error {
    Error::InvalidConfig {
        field: "retry",
        expected: "always, never, or a number of hand-shakes",
    }
}

/// What endpoints share that take each other's tokens: the workers of a server. A client's next
/// datagram may come to any of them. Clones are the same.
#[derive(Clone)]
pub struct Tokens {
    /// Of [`Version::ALL`] in turn: RFC 9369 section 5 wants tokens to count for the version of the
    /// connection that they are from alone.
    keys: [Arc<hkdf::Prk>; Version::ALL.len()],
    used: Arc<BloomTokenLog>,
    epoch: Arc<OnceLock<(Instant, SystemTime)>>,
}

impl Tokens {
    /// Who knows `key` can make tokens for any address. Tokens carry a date, so that a server that
    /// keeps the key can still take them after a restart: `now` is `today`.
    #[must_use]
    pub fn new(key: [u8; 32], now: Instant, today: SystemTime) -> Self {
        Self::at(key, OnceLock::from((now, today)))
    }

    /// For one endpoint, whose time begins when the first datagram comes.
    pub(crate) fn of_one(key: [u8; 32]) -> Self {
        Self::at(key, OnceLock::new())
    }

    /// Has the engine make and take these tokens on connections of a version, dated by the clock.
    pub(crate) fn install(
        &self,
        engine: &mut quinn_proto::ServerConfig,
        version: Version,
        clock: &Arc<Clock>,
    ) {
        let key = Arc::clone(&self.keys[version.index()]);
        let mut new_tokens = ValidationTokenConfig::default();
        new_tokens
            .sent(NEW_TOKENS)
            .lifetime(NEW_TOKEN_LIFETIME)
            .log(Arc::clone(&self.used) as _);
        engine
            .token_key(key)
            .retry_token_lifetime(RETRY_TOKEN_LIFETIME)
            .validation_token_config(new_tokens)
            .time_source(Arc::clone(clock) as _);
    }

    /// The clock of an endpoint.
    pub(crate) fn clock(&self) -> Clock {
        Clock {
            epoch: Arc::clone(&self.epoch),
            nanoseconds: AtomicU64::new(0),
        }
    }

    fn at(key: [u8; 32], epoch: OnceLock<(Instant, SystemTime)>) -> Self {
        let key_of = |version| {
            let salt: &[u8] = match version {
                Version::V1 => b"",
                Version::V2 => b"QUIC version 2",
            };
            Arc::new(hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(&key))
        };
        Self {
            keys: Version::ALL.map(key_of),
            used: Arc::new(BloomTokenLog::new_expected_items(LOG_BYTES, LOG_TOKENS)),
            epoch: Arc::new(epoch),
        }
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(..)")
    }
}

/// The date, by the time that the endpoint was told last.
pub(crate) struct Clock {
    epoch: Arc<OnceLock<(Instant, SystemTime)>>,
    /// Since the epoch.
    nanoseconds: AtomicU64,
}

impl Clock {
    pub(crate) fn set(&self, now: Instant) {
        let (epoch, _) = self.epoch.get_or_init(|| (now, SystemTime::UNIX_EPOCH));
        let passed = now.saturating_duration_since(*epoch).as_nanos();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        // The endpoint that sets it and the engine that asks are one thread.
        self.nanoseconds.store(passed, Ordering::Relaxed);
    }
}

impl TimeSource for Clock {
    fn now(&self) -> SystemTime {
        let today = self.epoch.get().map(|(_, today)| *today);
        let passed = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
        today.unwrap_or(SystemTime::UNIX_EPOCH) + passed
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests need some instant to count from"
)]
mod tests {
    use super::*;

    #[test]
    fn retry_is_due_from_the_threshold_on() {
        for (retry, below, at) in [
            (Retry::Always, true, true),
            (Retry::Beyond(5), false, true),
            (Retry::Never, false, false),
        ] {
            assert_eq!(retry.is_due(4), below, "{retry}");
            assert_eq!(retry.is_due(5), at, "{retry}");
        }
        assert!(Retry::Beyond(0).is_due(0));
    }

    #[test]
    fn retry_reads_what_it_prints() {
        for retry in [
            Retry::Always,
            Retry::Never,
            Retry::Beyond(0),
            Retry::default(),
        ] {
            assert_eq!(retry.to_string().parse::<Retry>().unwrap(), retry);
        }
        for text in ["", "sometimes", "-1", "1.5", "Always"] {
            let error = text.parse::<Retry>().unwrap_err().to_string();
            assert!(error.starts_with("retry is out of range"), "{text}");
        }
    }

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

    #[test]
    fn tokens_do_not_print_their_key() {
        assert_eq!(format!("{:?}", Tokens::of_one([42; 32])), "Tokens(..)");
    }

    #[test]
    fn the_date_follows_the_time_that_is_told() {
        let (now, today) = (Instant::now(), SystemTime::UNIX_EPOCH + NEW_TOKEN_LIFETIME);
        let clock = Tokens::new([1; 32], now, today).clock();
        assert_eq!(clock.now(), today);
        let hour = Duration::from_secs(3600);
        clock.set(now + hour);
        assert_eq!(clock.now(), today + hour);
        // Another endpoint of the same server may have been started after its first datagram came.
        clock.set(now.checked_sub(hour).unwrap_or(now));
        assert_eq!(clock.now(), today);
    }
}
