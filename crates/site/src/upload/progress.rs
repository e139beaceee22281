//! The time for which a slow client is waited.

use altway_units::LeastRate;
use std::time::Duration;

/// The time that a client may still be waited for: used up by waiting, earned by what it sends, and never more than at
/// the beginning.
///
/// So an upload may last for days as long as it moves, and one that stops ends soon, however fast it was before. Time
/// that the server takes itself, for its disk, is none that the client has used.
#[derive(Debug, Clone)]
pub(crate) struct WaitBudget {
    slowest: LeastRate,
    left: Duration,
}

impl WaitBudget {
    pub(crate) fn new(slowest: LeastRate) -> Self {
        let left = slowest.after();
        Self { slowest, left }
    }

    /// Returns the time that is left.
    pub(crate) fn left(&self) -> Duration {
        self.left
    }

    /// Uses time up: the client was waited for.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }

    /// Earns time: the client has sent something.
    pub(crate) fn received(&mut self, bytes: usize) {
        let rate = u128::from(self.slowest.per_second().as_bytes().max(1));
        let nanos = bytes as u128 * 1_000_000_000 / rate;
        let earned = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.left = self.left.saturating_add(earned).min(self.slowest.after());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn progress() -> WaitBudget {
        WaitBudget::new("1KB/s after 10s".parse().unwrap())
    }

    #[test]
    fn a_client_at_the_rate_is_waited_for_without_end() {
        let mut progress = progress();
        for _ in 0..100_000 {
            progress.waited(SECOND);
            progress.received(1_000);
            assert_eq!(progress.left(), 10 * SECOND);
        }
    }

    #[test]
    fn one_below_it_uses_its_time_up() {
        let mut progress = progress();
        let mut seconds = 0;
        while progress.left() >= SECOND {
            progress.waited(SECOND);
            progress.received(500);
            seconds += 1;
        }
        assert_eq!(seconds, 19, "half of each second is lost");
    }

    #[test]
    fn what_was_sent_fast_does_not_pay_for_silence() {
        let mut progress = progress();
        progress.received(usize::MAX);
        assert_eq!(progress.left(), 10 * SECOND);
        progress.waited(10 * SECOND - Duration::from_nanos(1));
        assert!(!progress.left().is_zero());
        progress.waited(Duration::from_nanos(1));
        assert!(progress.left().is_zero());
    }
}
