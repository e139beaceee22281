//! Waits after failures, with jitter from a seed, and a bound on the number of orders.
#![warn(clippy::disallowed_methods)]

use fastrand::Rng;
use std::time::Duration;

/// A series of growing waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backoff {
    first: Duration,
    factor: u32,
    most: Duration,
}

/// Waiting times after a name was refused: 1, 3, 9, 27 minutes and so on, 6 hours at most. Within the first hour that
/// makes four attempts more, and authorities count five for an account and a name (Let's Encrypt).
pub(super) const OF_NAMES: Backoff = Backoff {
    first: Duration::from_secs(60),
    factor: 3,
    most: Duration::from_secs(6 * 3_600),
};

/// Waiting times after an authority was not there: 30 s, 1 minute, 2 and so on, an hour at most. An attempt costs the
/// authority one connection.
pub(super) const OF_AUTHORITY: Backoff = Backoff {
    first: Duration::from_secs(30),
    factor: 2,
    most: Duration::from_secs(3_600),
};

/// Waiting times between two looks at an order that is pending: 1, 2, 4 s and so on, a minute at
/// most.
pub(super) const OF_POLLS: Backoff = Backoff {
    first: Duration::from_secs(1),
    factor: 2,
    most: Duration::from_secs(60),
};

impl Backoff {
    /// The wait after so many failures, 1 or more; a fifth more or less, lest those that failed together come again
    /// together.
    pub(super) fn wait(self, failures: u32, rng: &mut Rng) -> Duration {
        let steps = failures.saturating_sub(1).min(32);
        let grown = self.factor.checked_pow(steps);
        let grown = grown.and_then(|factor| self.first.checked_mul(factor));
        let wait = grown.map_or(self.most, |wait| wait.min(self.most));
        wait.mul_f64(0.8 + 0.4 * rng.f64())
    }
}

/// A rate: so many at once, and as many again in a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    most: f64,
    span: Duration,
}

/// The orders that may be made. Let's Encrypt takes 300 new orders of an account in three hours.
pub(super) const ORDERS: Rate = Rate {
    most: 250.0,
    span: Duration::from_secs(3 * 3_600),
};

/// The questions whether names may have certificates: ten a second cost a program on the same machine little, and whoever
/// asks for names at random can't have more.
pub(super) const QUESTIONS: Rate = Rate {
    most: 50.0,
    span: Duration::from_secs(5),
};

/// A bucket that fills up at a [`Rate`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    rate: Rate,
    left: f64,
    at: Duration,
}

impl Budget {
    pub(super) fn new(rate: Rate, now: Duration) -> Self {
        Self {
            rate,
            left: rate.most,
            at: now,
        }
    }

    /// Takes one, if there is one left.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        self.take_leaving(0.0, now)
    }

    /// Takes one, if there are `others` left after that.
    pub(super) fn take_leaving(&mut self, others: f64, now: Duration) -> bool {
        self.fill(now);
        let is_there = self.left >= 1.0 + others;
        if is_there {
            self.left -= 1.0;
        }
        is_there
    }

    /// The time when there is one again.
    pub(super) fn ready_at(&mut self, now: Duration) -> Duration {
        self.fill(now);
        let missing = (1.0 - self.left).max(0.0);
        now + self.rate.span.mul_f64(missing / self.rate.most)
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64() / self.rate.span.as_secs_f64();
        self.left = (self.left + passed * self.rate.most).min(self.rate.most);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_bound_and_differ_by_a_fifth() {
        let rng = &mut Rng::with_seed(7);
        for (failures, minutes) in [(1, 1), (2, 3), (3, 9), (4, 27), (5, 81), (6, 243), (7, 360)] {
            let middle = Duration::from_secs(60 * minutes);
            for _ in 0..50 {
                let wait = OF_NAMES.wait(failures, rng);
                assert!(wait >= middle.mul_f64(0.8) && wait <= middle.mul_f64(1.2));
            }
        }
        let wait = OF_AUTHORITY.wait(u32::MAX, rng);
        assert!(wait <= Duration::from_secs(3_600).mul_f64(1.2));
        assert!(OF_AUTHORITY.wait(0, rng) >= Duration::from_secs(24));
    }

    #[test]
    fn a_seed_gives_the_same_waits() {
        let waits = |seed| {
            let rng = &mut Rng::with_seed(seed);
            (1..9).map(|it| OF_NAMES.wait(it, rng)).collect::<Vec<_>>()
        };
        assert_eq!(waits(3), waits(3));
        assert_ne!(waits(3), waits(4));
    }

    #[test]
    fn orders_are_as_many_as_the_bucket_has_and_come_again_with_time() {
        let mut budget = Budget::new(ORDERS, Duration::ZERO);
        let now = Duration::from_secs(5);
        assert_eq!((0..1_000).filter(|_| budget.take(now)).count(), 250);
        let next = budget.ready_at(now) - now;
        assert!((43..=44).contains(&next.as_secs()), "{next:?}");
        assert!(!budget.take(now + next / 2));
        assert!(budget.take(now + next + Duration::from_millis(1)));
        let later = now + Duration::from_secs(86_400);
        let leaving = (0..1_000).filter(|_| budget.take_leaving(50.0, later));
        assert_eq!(leaving.count(), 200);
        assert_eq!((0..1_000).filter(|_| budget.take(later)).count(), 50);
    }
}
