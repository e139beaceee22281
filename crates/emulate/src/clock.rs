//! The clocks of the link: the machine's monotonic clock, and times of the wall clock in terms of it.

use altway_units::Timestamp;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

/// Returns the time of the monotonic clock.
pub(crate) fn now() -> Timestamp {
    // It counts from the machine's start.
    Timestamp::from_nanos(nanos(clock_gettime(ClockId::Monotonic)))
}

/// Tells times of the wall clock, which the kernel stamps packets with, in those of the monotonic one.
#[derive(Debug)]
pub(crate) struct WallClock {
    /// Time by which the wall clock is ahead, in ns.
    ahead: u64,
    /// Time at which that was looked up.
    looked_up: Timestamp,
}

impl WallClock {
    /// Time that the difference of the two clocks is taken for granted: clocks that are being set
    /// right drift apart by up to 500 ppm, in that time by 50 µs.
    const OFFSET_LIFETIME: Duration = Duration::from_millis(100);

    /// A stamp further back than this is the trace of a clock that was set, not of a packet that
    /// waited.
    const MAX_STAMP_AGE: Duration = Duration::from_millis(100);

    pub(crate) fn new() -> Self {
        Self {
            ahead: ahead(),
            looked_up: now(),
        }
    }

    /// The time `since_1970`, which lies shortly before `now`. What can't be right counts as `now`.
    pub(crate) fn monotonic(&mut self, since_1970: Duration, now: Timestamp) -> Timestamp {
        if now - self.looked_up > Self::OFFSET_LIFETIME {
            self.ahead = ahead();
            self.looked_up = now;
        }
        let wall = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
        let time = Timestamp::from_nanos(wall.saturating_sub(self.ahead));
        if time > now || now - time > Self::MAX_STAMP_AGE {
            return now;
        }
        time
    }
}

fn ahead() -> u64 {
    let wall = nanos(clock_gettime(ClockId::Realtime));
    wall.saturating_sub(now().as_nanos())
}

fn nanos(time: Timespec) -> u64 {
    // Neither of the two clocks is ever negative.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_of_the_wall_clock_is_the_same_moment() {
        let mut clock = WallClock {
            ahead: 1_000_000_000,
            looked_up: Timestamp::ZERO,
        };
        let at = |nanos| Timestamp::from_nanos(nanos);
        let now = at(90_000_000);
        let mut told = |nanos| clock.monotonic(Duration::from_nanos(nanos), now);
        assert_eq!(told(1_080_000_000), at(80_000_000));
        assert_eq!(told(1_090_000_001), now, "the future");
        assert_eq!(told(5), at(0), "before the start of the clock");
    }

    #[test]
    fn a_stamp_from_long_ago_is_the_trace_of_a_clock_that_was_set() {
        let mut clock = WallClock::new();
        let now = now();
        assert_eq!(clock.monotonic(Duration::from_secs(1), now), now);
    }
}
