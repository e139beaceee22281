//! How much a peer may ask for that leads nowhere: a token bucket for each kind of flood.

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
pub(crate) struct Exhausted;

/// What is left to spend. Asks for the time only when it would run out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    rate: Rate,
    left: u32,
    filled: Instant,
}

impl Budget {
    pub(crate) fn new(rate: Rate, now: Instant) -> Self {
        Self {
            rate,
            left: rate.burst,
            filled: now,
        }
    }

    /// Takes one token.
    pub(crate) fn spend(&mut self, now: Instant) -> Result<(), Exhausted> {
        if self.left == 0 {
            self.refill(now);
        }
        self.left = self.left.checked_sub(1).ok_or(Exhausted)?;
        Ok(())
    }

    /// Work that led somewhere pays back.
    pub(crate) fn earn(&mut self, tokens: u32) {
        self.left = self.left.saturating_add(tokens).min(self.rate.burst);
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_millis();
        let tokens = passed * u128::from(self.rate.per_second) / 1000;
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        if tokens > 0 {
            self.filled = now;
            self.left = tokens.min(self.rate.burst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let start = Instant::now();
        let rate = Rate {
            burst: 3,
            per_second: 10,
        };
        let mut budget = Budget::new(rate, start);
        let spend = |budget: &mut Budget, at: u64| {
            let mut spent = 0;
            while budget.spend(start + Duration::from_millis(at)).is_ok() {
                spent += 1;
            }
            spent
        };
        assert_eq!(spend(&mut budget, 0), 3);
        assert_eq!(spend(&mut budget, 99), 0);
        assert_eq!(spend(&mut budget, 100), 1);
        assert_eq!(spend(&mut budget, 10_000), 3, "no more than the burst");
        budget.earn(2);
        assert_eq!(spend(&mut budget, 10_000), 2);
    }
}
