//! The slowest client that is waited for.

use altway_units::{DataSize, duration};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The least progress of a transfer: a rate, and how long a client may be behind it.
///
/// A client that has been behind the rate for `after` altogether is given up. Time that it is ahead is not saved up,
/// so that one that stops is given up after `after` whatever it has sent before.
///
/// Text form: `1KB/s after 30s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slowest {
    /// Bytes a second, 1 or more.
    pub rate: DataSize,
    /// How long a client may be behind, 1 ms to 1 h.
    pub after: Duration,
}

/// The longest time that a client may be behind.
const MOST: Duration = Duration::from_secs(3600);

impl Default for Slowest {
    fn default() -> Self {
        Self {
            rate: DataSize::from_bytes(1_000),
            after: Duration::from_secs(30),
        }
    }
}

impl fmt::Display for Slowest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s after {}", self.rate, duration::format(self.after))
    }
}

impl FromStr for Slowest {
    type Err = BadSlowest;

    fn from_str(text: &str) -> Result<Self, BadSlowest> {
        let bad = || BadSlowest(text.into());
        let (rate, after) = text.split_once(" after ").ok_or_else(bad)?;
        let rate = rate.trim().strip_suffix("/s").ok_or_else(bad)?;
        let rate: DataSize = rate.parse().map_err(|_| bad())?;
        let after = duration::parse(after.trim()).map_err(|_| bad())?;
        if rate == DataSize::ZERO || after < Duration::from_millis(1) || after > MOST {
            return Err(bad());
        }
        Ok(Self { rate, after })
    }
}

/// A text that says no such thing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not the slowest client: expected a rate of 1B/s or more, and a time from 1ms to 1h, like `1KB/s after 30s`",
    .0.escape_debug()
)]
pub struct BadSlowest(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_parses_what_it_prints() {
        for text in ["1KB/s after 30s", "64KiB/s after 1500ms", "1B/s after 1h"] {
            let slowest: Slowest = text.parse().unwrap();
            assert_eq!(slowest.to_string().parse(), Ok(slowest), "{text}");
        }
        assert_eq!(Slowest::default().to_string(), "1KB/s after 30s");
    }

    #[test]
    fn what_nobody_could_be_measured_by_is_refused() {
        for text in [
            "",
            "1KB/s",
            "1KB after 30s",
            "after 30s",
            "0B/s after 30s",
            "1KB/s after 0s",
            "1KB/s after 2h",
            "1kbit/s after 30s",
        ] {
            assert!(text.parse::<Slowest>().is_err(), "{text}");
        }
    }
}
