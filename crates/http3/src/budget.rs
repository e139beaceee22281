//! Budgets of floods: what a peer may ask for that leads nowhere, and the error of one that asks
//! for more.

use std::time::Instant;

use altway_fields::Rate;

use crate::Code;
use crate::failure::Violation;

/// Tokens left to spend on one kind of flood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    left: altway_fields::Budget,
    now: Instant,
    /// Reason in the error of a peer that spent them.
    reason: &'static str,
}

impl Budget {
    pub(crate) fn new(rate: Rate, now: Instant, reason: &'static str) -> Self {
        Self {
            left: altway_fields::Budget::new(rate, now),
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
        let spent = self.left.spend(tokens, self.now);
        spent.map_err(|_| Violation::new(Code::H3_EXCESSIVE_LOAD, self.reason))
    }

    /// Work that led somewhere pays back.
    pub(crate) fn earn(&mut self, tokens: u32) {
        self.left.earn(tokens);
    }
}
