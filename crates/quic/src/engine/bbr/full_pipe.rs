//! Detection of a full pipe: a rate that is being raised no longer rises (draft-ietf-ccwg-bbr-05
//! section 5.3.1.2).

/// Growth of the rate in a round trip that counts.
const GROWTH: f64 = 1.25;

/// Round trips without it after which the pipe is full.
const ROUNDS: u32 = 3;

/// The estimator of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    rate: f64,
    rounds: u32,
    is_now: bool,
    was_ever: bool,
}

impl FullPipe {
    /// The rate doesn't rise any more, since the last start.
    pub(super) fn is_now(&self) -> bool {
        self.is_now
    }

    /// Returns true if the pipe was full once on this path.
    pub(super) fn was_ever(&self) -> bool {
        self.was_ever
    }

    /// Looks for a plateau above this rate.
    pub(super) fn start(&mut self, rate: f64) {
        (self.rate, self.rounds, self.is_now) = (rate, 0, false);
    }

    /// Notes that something else shows that it is full.
    pub(super) fn declare(&mut self) {
        self.was_ever = true;
    }

    /// A round trip began with this sample, which the application didn't limit.
    pub(super) fn on_round(&mut self, rate: f64) {
        if self.is_now {
            return;
        }
        if rate >= self.rate * GROWTH {
            return self.start(rate);
        }
        self.rounds += 1;
        self.is_now = self.rounds >= ROUNDS;
        self.was_ever |= self.is_now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rounds_without_a_quarter_more_fill_the_pipe() {
        let mut full = FullPipe::default();
        for rate in [100.0, 200.0, 240.0, 240.0, 300.0, 310.0, 310.0] {
            full.on_round(rate);
            assert!(!full.is_now());
        }
        full.on_round(310.0);
        assert!(full.is_now() && full.was_ever());
        full.start(310.0);
        assert!(!full.is_now() && full.was_ever());
    }
}
