//! The least rate of a transfer.

use crate::text::as_text;
use crate::{DataSize, ParseError, duration};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const QUANTITY: &str = "least rate";
const EXAMPLE: &str = "1kB/s after 10s";
const RANGE: &str = "1B or more in a time of 1ms to 1000h";

/// The most of [`LeastRate::after`].
const LONGEST: Duration = Duration::from_secs(3_600_000);

/// The least rate of a transfer, which is looked at over spans of a time: what has moved in one must be as much as
/// the rate gives in it. So the first span is also a grace before which nothing is asked.
///
/// Text form: `1kB/s after 10s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeastRate {
    per_second: DataSize,
    after: Duration,
    /// Bytes that must move in `after`; 1 or more.
    bytes: u64,
}

impl LeastRate {
    /// Makes a rate of so many bytes a second, looked at over spans of `after`; `None` where a span asks for less than a byte or
    /// for more than 2^64, or is shorter than a millisecond or longer than 1,000 hours.
    ///
    /// ```
    /// use altway_units::{DataSize, LeastRate};
    /// use std::time::Duration;
    ///
    /// let rate = LeastRate::new(DataSize::from_bytes(1_000), Duration::from_secs(10));
    /// assert_eq!(rate.map(LeastRate::bytes), Some(10_000));
    /// ```
    #[must_use]
    pub fn new(per_second: DataSize, after: Duration) -> Option<Self> {
        if after < Duration::from_millis(1) || after > LONGEST {
            return None;
        }
        let nanos = u128::from(per_second.as_bytes()).checked_mul(after.as_nanos())?;
        let bytes = u64::try_from(nanos / 1_000_000_000).ok()?;
        (bytes > 0).then_some(Self {
            per_second,
            after,
            bytes,
        })
    }

    /// Returns the rate, in bytes a second.
    #[must_use]
    pub fn per_second(self) -> DataSize {
        self.per_second
    }

    /// Returns the time over which the rate is looked at.
    #[must_use]
    pub fn after(self) -> Duration {
        self.after
    }

    /// Returns what must move in that time, in bytes; 1 or more.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.bytes
    }
}

impl fmt::Display for LeastRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = duration::format(self.after);
        f.pad(&format!("{}/s after {after}", self.per_second))
    }
}

impl FromStr for LeastRate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let parts = text.split_once("/s after ");
        let (rate, after) = parts.ok_or_else(|| ParseError::NoNumber {
            text: text.into(),
            quantity: QUANTITY,
            example: EXAMPLE,
        })?;
        let rate = Self::new(rate.parse()?, duration::parse(after)?);
        rate.ok_or_else(|| ParseError::Range {
            text: text.into(),
            quantity: QUANTITY,
            range: RANGE,
        })
    }
}

as_text!(LeastRate);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_rates_parse_what_they_print() {
        for (text, bytes) in [
            ("1KB/s after 10s", 10_000),
            ("17B/s after 1min", 1_020),
            ("1MiB/s after 500ms", 524_288),
        ] {
            let rate: LeastRate = text.parse().unwrap();
            assert_eq!(rate.to_string(), text);
            assert_eq!(rate.bytes(), bytes, "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in [
            "",
            "1kB/s",
            "1kB after 10s",
            "1k/s after 10s",
            "1kB/s after 10",
            "0B/s after 10s",
            "1B/s after 1ms",
            "1kB/s after 0s",
            "1kB/s after 1001h",
        ] {
            assert!(text.parse::<LeastRate>().is_err(), "{text}");
        }
    }
}
