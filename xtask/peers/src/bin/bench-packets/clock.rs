//! The clock that both ends share.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of the monotonic clock.
pub(crate) fn now() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Returns what the monotonic clock showed when the wall clock, by which the kernel stamps what it
/// receives, showed `wall` nanoseconds; that was just now.
pub(crate) fn monotonic(wall: u64) -> u64 {
    let ahead = nanos(clock_gettime(ClockId::Realtime)).saturating_sub(now());
    wall.saturating_sub(ahead)
}

fn nanos(time: Timespec) -> u64 {
    // Neither clock is ever negative on a machine whose year is right.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_tell_of_the_same_moment() {
        let before = now();
        let wall = nanos(clock_gettime(ClockId::Realtime));
        let told = monotonic(wall);
        let after = now();
        // The wall clock is read twice, some time apart, and may be set right meanwhile.
        let slack = 5_000_000;
        assert!(before.saturating_sub(slack) <= told && told <= after + slack);
    }
}
