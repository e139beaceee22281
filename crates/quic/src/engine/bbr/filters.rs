//! Filters of BBR's samples: the largest rate, the smallest round trip, how acknowledgements are aggregated.

use std::time::{Duration, Instant};

/// draft-ietf-ccwg-bbr-05 section 5.5.7.2: "The length of the BBR.min_rtt min filter window is
/// BBR.MinRTTFilterLen = 10 secs."
const MIN_RTT_FILTER: Duration = Duration::from_secs(10);

/// draft-ietf-ccwg-bbr-05 section 5.3.4.2: "each BBR flow MUST use the standard BBR.ProbeRTTInterval of 5
/// secs."
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);

/// Round trips over which aggregated acknowledgements are remembered (draft-ietf-ccwg-bbr-05 section 5.5.9).
const EXTRA_ACKED_FILTER_LEN: usize = 10;

/// The largest rate of this cycle of probing and of the one before, bytes per second
/// (draft-ietf-ccwg-bbr-05 sections 5.5.3 and 5.5.6).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxBandwidth {
    current: f64,
    before: f64,
}

impl MaxBandwidth {
    pub(super) fn get(&self) -> f64 {
        self.current.max(self.before)
    }

    /// Takes a rate in; one that the application held back counts only where it is above the largest so
    /// far (section 5.5.4).
    pub(super) fn on_sample(&mut self, rate: f64, app_limited: bool) {
        if rate >= self.get() || !app_limited {
            self.current = self.current.max(rate);
        }
    }

    /// A cycle is over, of which there was some sample.
    pub(super) fn advance(&mut self) {
        if self.current > 0.0 {
            (self.before, self.current) = (self.current, 0.0);
        }
    }
}

/// The smallest round trip of ten seconds, and of the five by which the next look at it is due
/// (draft-ietf-ccwg-bbr-05 section 5.3.4.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    smallest: Option<Duration>,
    at: Instant,
    probed: Option<Duration>,
    probed_at: Instant,
}

impl MinRtt {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            smallest: None,
            at: now,
            probed: None,
            probed_at: now,
        }
    }

    pub(super) fn get(&self) -> Option<Duration> {
        self.smallest
    }

    /// Takes a round trip in; returns true if none as small was seen for so long that the queue has to be
    /// drained for it.
    pub(super) fn on_sample(&mut self, now: Instant, rtt: Duration) -> bool {
        let is_due = now.saturating_duration_since(self.probed_at) > PROBE_RTT_INTERVAL;
        let probed = match self.probed {
            Some(probed) if rtt >= probed && !is_due => probed,
            _ => {
                self.probed_at = now;
                rtt
            }
        };
        self.probed = Some(probed);
        let is_old = now.saturating_duration_since(self.at) > MIN_RTT_FILTER;
        if self.smallest.is_none_or(|smallest| probed < smallest) || is_old {
            (self.smallest, self.at) = (self.probed, self.probed_at);
        }
        is_due
    }

    /// The queue was drained: the next look is due in five seconds.
    pub(super) fn on_probed(&mut self, now: Instant) {
        self.probed_at = now;
    }
}

/// Bytes acknowledged at a time beyond what the rate explains (draft-ietf-ccwg-bbr-05 section 5.5.9).
#[derive(Clone, Debug)]
pub(super) struct ExtraAcked {
    began: Instant,
    acked: u64,
    /// The largest of each of the last round trips, by its number.
    rounds: [u64; EXTRA_ACKED_FILTER_LEN],
    round: usize,
}

impl ExtraAcked {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            acked: 0,
            rounds: [0; EXTRA_ACKED_FILTER_LEN],
            round: 0,
        }
    }

    pub(super) fn get(&self) -> u64 {
        self.rounds.iter().copied().max().unwrap_or(0)
    }

    /// A round trip is over. In Startup only the current one counts.
    pub(super) fn begin_round(&mut self, in_startup: bool) {
        if in_startup {
            self.rounds = [0; EXTRA_ACKED_FILTER_LEN];
        }
        self.round = (self.round + 1) % EXTRA_ACKED_FILTER_LEN;
        self.rounds[self.round] = 0;
    }

    /// Sending goes on after a silence.
    pub(super) fn restart(&mut self, now: Instant) {
        self.began = now;
    }

    /// `most`: what an aggregate counts for at most.
    pub(super) fn on_ack(&mut self, now: Instant, acked: u64, rate: f64, most: u64) {
        let mut explained = now.saturating_duration_since(self.began).as_secs_f64() * rate;
        if self.acked as f64 <= explained {
            (self.acked, self.began) = (0, now);
            explained = 0.0;
        }
        self.acked = self.acked.saturating_add(acked);
        let extra = (self.acked as f64 - explained).max(0.0) as u64;
        let largest = &mut self.rounds[self.round];
        *largest = (*largest).max(extra.min(most));
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an instant to count from")]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_remembered_for_two_cycles() {
        let mut filter = MaxBandwidth::default();
        filter.on_sample(100.0, false);
        filter.advance();
        filter.on_sample(50.0, false);
        assert_eq!(filter.get(), 100.0);
        filter.advance();
        assert_eq!(filter.get(), 50.0);
        filter.advance();
        assert_eq!(filter.get(), 50.0, "a cycle without samples says nothing");
    }

    #[test]
    fn an_application_that_holds_back_raises_a_rate_and_never_lowers_it() {
        let mut filter = MaxBandwidth::default();
        filter.on_sample(100.0, false);
        filter.advance();
        filter.on_sample(10.0, true);
        filter.advance();
        assert_eq!(filter.get(), 100.0);
        filter.on_sample(200.0, true);
        assert_eq!(filter.get(), 200.0);
    }

    #[test]
    fn a_smallest_round_trip_is_due_after_five_seconds_and_forgotten_after_ten() {
        let began = Instant::now();
        let mut filter = MinRtt::new(began);
        let mut at = |second: u64, ms: u64| {
            let now = began + Duration::from_secs(second);
            let due = filter.on_sample(now, Duration::from_millis(ms));
            (due, filter.get().unwrap().as_millis())
        };
        assert_eq!(at(0, 40), (false, 40));
        assert_eq!(at(4, 60), (false, 40));
        assert_eq!(at(6, 60), (true, 40));
        assert_eq!(at(9, 50), (false, 40));
        assert_eq!(at(11, 70), (false, 50));
    }

    #[test]
    fn acknowledgements_in_bunches_are_more_than_the_rate_explains() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut extra_acked = ExtraAcked::new(began);
        // 1,000 bytes a millisecond, as the rate says.
        (1..100).for_each(|ms| extra_acked.on_ack(at(ms), 1_000, 1e6, u64::MAX));
        assert!(extra_acked.get() <= 1_000, "{}", extra_acked.get());
        // Nothing for 20 ms, and then all of it.
        extra_acked.on_ack(at(120), 20_000, 1e6, u64::MAX);
        assert!((18_000..=21_000).contains(&extra_acked.get()));
        (0..EXTRA_ACKED_FILTER_LEN).for_each(|_| extra_acked.begin_round(false));
        assert_eq!(extra_acked.get(), 0);
        extra_acked.on_ack(at(121), 1 << 40, 1e6, 5_000);
        assert_eq!(extra_acked.get(), 5_000);
    }
}
