//! Address validation before a handshake (RFC 9000 section 8.1): when a client must first show that
//! it receives at the address that it seems to have, and the tokens that show it.
//!
//! A client that shows a token of Retry or NEW_TOKEN costs no round trip more, and the endpoint may
//! send it as much as it likes. Any other client is answered up to three times what it sent
//! ([`budget`](crate::budget)), or by Retry once [`Retry`] says so.
//!
//! Every validated path gets a token for later connections. It lives for a day, holds for the client's IP
//! address, and counts once.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::hkdf;

use crate::engine::UsedTokens;
use crate::{Error, Version};

/// Condition under which an endpoint answers a client's first packet by Retry (RFC 9000 section 8.1.2),
/// which costs the client a round trip and the endpoint no memory. Written `always`, `never`, or as a
/// number. Default: beyond 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Every client that shows no token.
    Always,
    /// Clients that come while so many handshakes are in progress with clients whose address isn't
    /// validated. They hold some 50 KB each.
    Beyond(usize),
    /// No client: only [`Limits::max_connections`](crate::Limits::max_connections) holds against
    /// clients that don't exist, and while these fill it no other is let in.
    Never,
}

impl Retry {
    /// Returns true if a client without a token has to get one first.
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

/// Keys and used tokens that endpoints share which take each other's tokens: the workers of a server. A
/// client's next datagram may come to any of them. Clones are the same.
#[derive(Clone)]
pub struct Tokens {
    /// Keys of [`Version::ALL`] in turn: RFC 9369 section 5 wants tokens to count for the version of the
    /// connection that they are from alone.
    pub(crate) keys: [Arc<hkdf::Prk>; Version::ALL.len()],
    /// Tokens of NEW_TOKEN that were shown.
    pub(crate) used: Arc<UsedTokens>,
    epoch: Arc<OnceLock<(Instant, SystemTime)>>,
}

impl Tokens {
    /// Creates the tokens of `key`, with which anybody can make tokens for any address. Tokens carry a
    /// date, so that a server that keeps the key can still take them after a restart: `now` is `today`.
    #[must_use]
    pub fn new(key: [u8; 32], now: Instant, today: SystemTime) -> Self {
        Self::at(key, OnceLock::from((now, today)))
    }

    /// Tokens of a single endpoint, whose time begins when the first datagram comes.
    pub(crate) fn of_one(key: [u8; 32]) -> Self {
        Self::at(key, OnceLock::new())
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
            used: Arc::new(UsedTokens::default()),
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
    /// Nanoseconds since the epoch.
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

    pub(crate) fn now(&self) -> SystemTime {
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
    fn tokens_do_not_print_their_key() {
        assert_eq!(format!("{:?}", Tokens::of_one([42; 32])), "Tokens(..)");
    }

    #[test]
    fn the_date_follows_the_time_that_is_told() {
        let hour = Duration::from_secs(3600);
        let (now, today) = (Instant::now(), SystemTime::UNIX_EPOCH + 24 * hour);
        let clock = Tokens::new([1; 32], now, today).clock();
        assert_eq!(clock.now(), today);
        clock.set(now + hour);
        assert_eq!(clock.now(), today + hour);
        // Another endpoint of the same server may have been started after its first datagram came.
        clock.set(now.checked_sub(hour).unwrap_or(now));
        assert_eq!(clock.now(), today);
    }
}
