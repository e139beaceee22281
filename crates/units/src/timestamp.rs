//! Points in time that need no clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds since an origin that the caller chose: the start of a simulation, or the machine's
/// monotonic clock. 2^64 ns are 584 years, so arithmetic saturates instead of failing.
///
/// Printed as hours, minutes and seconds: `0:00:01.000001`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin.
    pub const ZERO: Self = Self(0);

    /// `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

/// Saturates after 584 years.
impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(later.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

/// The time from `earlier` to `self`; zero when `earlier` is in fact later.
impl Sub for Timestamp {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
        write!(
            f,
            "{hours}:{minutes:02}:{:02}.{:06}",
            seconds % 60,
            nanos / 1_000
        )?;
        if !nanos.is_multiple_of(1_000) {
            write!(f, "{:03}", nanos % 1_000)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_microseconds_and_nanoseconds_when_there_are_any() {
        assert_eq!(
            Timestamp::from_nanos(1_000_001_000).to_string(),
            "0:00:01.000001"
        );
        assert_eq!(
            Timestamp::from_nanos(3_661_000_000_007).to_string(),
            "1:01:01.000000007"
        );
    }

    #[test]
    fn arithmetic_saturates() {
        let end = Timestamp::from_nanos(u64::MAX);
        assert_eq!(end + Duration::from_secs(1), end);
        assert_eq!(Timestamp::ZERO - end, Duration::ZERO);
    }
}
