//! Wall-clock time in whole seconds, which state that outlives a process needs.

use std::fmt;
use std::time::Duration;

const DAY: u64 = 86_400;

/// Seconds since 1970-01-01 00:00 UTC. The caller reads the clock; a clock that is set back makes nothing
/// here older, and nothing panics. What was noted more than a day ahead of now was noted by a clock that was wrong, and
/// counts as of today.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixTime(u64);

impl UnixTime {
    /// `seconds` after the beginning of 1970.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Seconds after the beginning of 1970.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero when `earlier` is in fact later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }

    /// Whole days since 1970; the last one that fits is in 2149.
    pub(crate) fn day(self) -> u16 {
        u16::try_from(self.0 / DAY).unwrap_or(u16::MAX)
    }

    /// Whole hours since 1970, modulo 2^16 (seven years and a half).
    pub(crate) const fn hour(self) -> u16 {
        (self.0 / 3_600) as u16
    }

    /// Seconds in 32 bits, which last until 2106.
    pub(crate) fn secs32(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    /// The number of the week, which begins on Monday 00:00 UTC.
    #[must_use]
    pub fn week(self) -> u64 {
        week_of_day(self.0 / DAY)
    }
}

/// Seconds later; saturates.
impl std::ops::Add<Duration> for UnixTime {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later.as_secs()))
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Returns true if a clock that was wrong has noted `day`: it lies ahead of `today`.
pub(crate) const fn is_ahead(day: u16, today: u16) -> bool {
    day > today.saturating_add(1)
}

/// The week of a day; 1970 began on a Thursday.
pub(crate) const fn week_of_day(day: u64) -> u64 {
    (day + 3) / 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_begins_on_monday() {
        // 2026-11-23 was a Monday.
        let monday = UnixTime::from_secs(1_795_392_000);
        let before = UnixTime::from_secs(1_795_392_000 - 1);
        assert_eq!(monday.week(), before.week() + 1);
        assert_eq!(
            (monday + Duration::from_secs(7 * DAY - 1)).week(),
            monday.week()
        );
    }

    #[test]
    fn time_that_runs_backwards_is_no_time() {
        let (now, later) = (UnixTime::from_secs(5), UnixTime::from_secs(9));
        assert_eq!(now.since(later), Duration::ZERO);
        assert_eq!(later.since(now), Duration::from_secs(4));
        assert_eq!(UnixTime::from_secs(u64::MAX).day(), u16::MAX);
    }
}
