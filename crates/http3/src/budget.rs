//! How much a peer may ask for that leads nowhere: a token bucket for each kind of flood.

use std::time::Instant;

use crate::Code;
use crate::failure::Violation;

/// A bucket's size and refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The number that may come at once.
    pub burst: u32,
    /// The number that may come in addition each second, up to the burst.
    pub per_second: u32,
}

/// What is left to spend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    rate: Rate,
    left: u32,
    filled: Instant,
    now: Instant,
    /// What is said of a peer that spent it.
    reason: &'static str,
}

impl Budget {
    pub(crate) fn new(rate: Rate, now: Instant, reason: &'static str) -> Self {
        Self {
            rate,
            left: rate.burst,
            filled: now,
            now,
            reason,
        }
    }

    /// Tells the time.
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Takes tokens; H3_EXCESSIVE_LOAD when there are not so many.
    pub(crate) fn spend(&mut self, tokens: u32) -> Result<(), Violation> {
        self.refill();
        match self.left.checked_sub(tokens) {
            Some(left) => self.left = left,
            None => return Err(Violation::new(Code::H3_EXCESSIVE_LOAD, self.reason)),
        }
        Ok(())
    }

    /// Work that led somewhere pays back.
    pub(crate) fn earn(&mut self, tokens: u32) {
        self.left = self.left.saturating_add(tokens).min(self.rate.burst);
    }

    fn refill(&mut self) {
        let passed = self.now.saturating_duration_since(self.filled).as_millis();
        let tokens = passed * u128::from(self.rate.per_second) / 1000;
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        if tokens > 0 || self.left == self.rate.burst {
            self.filled = self.now;
            self.earn(tokens);
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests need some instant to count from"
)]
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
        let mut budget = Budget::new(rate, start, "flood");
        let spend = |budget: &mut Budget, at: u64| {
            budget.set_now(start + Duration::from_millis(at));
            (0..).take_while(|_| budget.spend(1).is_ok()).count()
        };
        assert_eq!(spend(&mut budget, 500), 3, "a full bucket gets no fuller");
        assert_eq!(spend(&mut budget, 599), 0);
        assert_eq!(spend(&mut budget, 600), 1);
        assert_eq!(spend(&mut budget, 10_000), 3, "no more than the burst");
        budget.earn(2);
        assert_eq!(spend(&mut budget, 10_000), 2);
        let code = budget.spend(4).unwrap_err().code;
        assert_eq!(code, Code::H3_EXCESSIVE_LOAD);
    }
}
