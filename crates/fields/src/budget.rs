//! Budgets of floods: a token bucket for each kind of request of a peer that leads nowhere.

use std::time::Instant;

/// A bucket's size and refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The number that may come at once.
    pub burst: u32,
    /// The number that may come in addition each second, up to the burst.
    pub per_second: u32,
}

/// The bucket is empty: the peer asks for too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

/// A bucket, full at first. In any time it gives out no more than its burst and what its rate brings in that time,
/// beside what is [earned](Self::earn).
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    rate: Rate,
    left: u32,
    /// The time at which what the rate has brought was last added, or the bucket was last known to be full.
    filled: Instant,
}

impl Budget {
    /// A full bucket.
    #[must_use]
    pub fn new(rate: Rate, now: Instant) -> Self {
        Self {
            rate,
            left: rate.burst,
            filled: now,
        }
    }

    /// Takes so many tokens. Reckons with the rate only when they would run out.
    ///
    /// # Errors
    /// There are not so many: none is taken.
    pub fn spend(&mut self, tokens: u32, now: Instant) -> Result<(), Exhausted> {
        if self.left == self.rate.burst {
            self.filled = now;
        }
        if self.left < tokens {
            self.refill(now);
        }
        self.left = self.left.checked_sub(tokens).ok_or(Exhausted)?;
        Ok(())
    }

    /// Work that led somewhere pays back so many tokens, up to the burst.
    pub fn earn(&mut self, tokens: u32) {
        self.left = self.left.saturating_add(tokens).min(self.rate.burst);
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_millis();
        let tokens = passed * u128::from(self.rate.per_second) / 1000;
        if tokens > 0 {
            self.filled = now;
            self.earn(u32::try_from(tokens).unwrap_or(u32::MAX));
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests need some instant to count from"
)]
mod tests {
    use super::*;
    use std::time::Duration;

    const RATE: Rate = Rate {
        burst: 3,
        per_second: 10,
    };

    /// Spends one by one what is left after so many milliseconds; how many.
    fn spend(budget: &mut Budget, start: Instant, millis: u64) -> usize {
        let now = start + Duration::from_millis(millis);
        (0..).take_while(|_| budget.spend(1, now).is_ok()).count()
    }

    #[test]
    fn a_burst_then_the_rate() {
        let start = Instant::now();
        let mut budget = Budget::new(RATE, start);
        assert_eq!(
            spend(&mut budget, start, 500),
            3,
            "a full one gets no fuller"
        );
        assert_eq!(spend(&mut budget, start, 599), 0);
        assert_eq!(spend(&mut budget, start, 600), 1);
        assert_eq!(
            spend(&mut budget, start, 10_000),
            3,
            "no more than the burst"
        );
    }

    #[test]
    fn what_is_earned_can_be_spent_up_to_the_burst() {
        let start = Instant::now();
        let mut budget = Budget::new(RATE, start);
        assert_eq!(spend(&mut budget, start, 0), 3);
        budget.earn(2);
        assert_eq!(budget.spend(3, start), Err(Exhausted));
        assert_eq!(spend(&mut budget, start, 0), 2);
        budget.earn(9);
        assert_eq!(budget.spend(4, start), Err(Exhausted));
        assert_eq!(spend(&mut budget, start, 0), 3);
    }

    #[test]
    fn no_second_brings_more_than_a_burst_and_the_rate() {
        let start = Instant::now();
        let mut budget = Budget::new(RATE, start);
        let spent: usize = (0..=1_000)
            .map(|millis| spend(&mut budget, start, millis))
            .sum();
        assert!((12..=13).contains(&spent), "{spent}");
    }
}
