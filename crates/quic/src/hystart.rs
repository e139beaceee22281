//! HyStart++ (RFC 9406): when slow start has found the path's capacity, by the delay that it makes.
//!
//! A queue that fills makes round trips longer long before it overflows. What is seen is each round
//! trip's smallest time: of that, what the peer waits with its acknowledgements and what the path
//! varies by is no part. Slow start isn't ended at once, for a path may be slow for a moment: it grows
//! at a quarter of its pace for some rounds (conservative slow start), and at its own again when times
//! get shorter. Left to others: the window ([`cubic`](crate::engine::cubic)).

use std::time::{Duration, Instant};

/// RFC 9406 section 4.3, with its names: "MIN_RTT_THRESH = 4 msec, MAX_RTT_THRESH = 16 msec,
/// MIN_RTT_DIVISOR = 8, N_RTT_SAMPLE = 8, CSS_GROWTH_DIVISOR = 4, CSS_ROUNDS = 5".
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;

/// Decision on slow start after an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Slow start goes on.
    GoOn,
    /// Slow start ends here.
    End,
}

/// The observer of one path. It may be asked at any time, but counts in slow start only.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HyStart {
    /// Beginning of the round: packets sent from then on are acknowledged in the next one.
    round_began: Option<Instant>,
    /// The smallest round-trip time of this round, and of the one before.
    smallest: Option<Duration>,
    before: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
    /// The newest packet of the acknowledgement at hand.
    newest: Option<Instant>,
}

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// The time that was too long.
    baseline: Duration,
    /// Rounds that have begun since.
    rounds: u32,
}

impl HyStart {
    /// A packet was acknowledged.
    pub(crate) fn on_ack(&mut self, sent: Instant) {
        self.newest = self.newest.max(Some(sent));
    }

    /// All packets of one acknowledgement were told.
    pub(crate) fn on_end_acks(&mut self, now: Instant) -> Verdict {
        let Some(newest) = self.newest.take() else {
            return Verdict::GoOn;
        };
        if self.round_began.is_none_or(|began| newest >= began) {
            self.begin_round(now);
            if self.is_over() {
                return Verdict::End;
            }
        }
        let sample = now.saturating_duration_since(newest);
        let smallest = self.smallest.map_or(sample, |it| it.min(sample));
        self.smallest = Some(smallest);
        self.samples += 1;
        if self.samples >= N_RTT_SAMPLE {
            self.judge(smallest);
        }
        Verdict::GoOn
    }

    /// The divisor by which slow start is to be slowed down.
    pub(crate) fn divisor(&self) -> f64 {
        match self.conservative {
            None => 1.0,
            Some(_) => CSS_GROWTH_DIVISOR,
        }
    }

    fn begin_round(&mut self, now: Instant) {
        self.round_began = Some(now);
        self.before = self.smallest.take();
        self.samples = 0;
        if let Some(conservative) = &mut self.conservative {
            conservative.rounds += 1;
        }
    }

    fn is_over(&self) -> bool {
        let conservative = self.conservative;
        conservative.is_some_and(|conservative| conservative.rounds >= CSS_ROUNDS)
    }

    fn judge(&mut self, smallest: Duration) {
        match (self.conservative, self.before) {
            (Some(conservative), _) if smallest < conservative.baseline => self.conservative = None,
            (None, Some(before)) if smallest >= before + threshold(before) => {
                self.conservative = Some(Conservative {
                    baseline: smallest,
                    rounds: 0,
                });
            }
            _ => {}
        }
    }
}

fn threshold(before: Duration) -> Duration {
    (before / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an instant to count from")]
mod tests {
    use super::*;

    /// A sender in slow start: one packet each millisecond, acknowledged after a time of the test's
    /// choice.
    struct Sender {
        hystart: HyStart,
        began: Instant,
        ms: u64,
    }

    impl Sender {
        fn new() -> Self {
            Self {
                hystart: HyStart::default(),
                began: Instant::now(),
                ms: 1_000,
            }
        }

        /// Acknowledgements for so long, each of a round trip of `rtt`.
        fn hear(&mut self, ms: u64, rtt: u64) -> Verdict {
            let at = |ms| self.began + Duration::from_millis(ms);
            let verdicts = (self.ms..self.ms + ms).map(|ms| {
                self.hystart.on_ack(at(ms - rtt));
                self.hystart.on_end_acks(at(ms))
            });
            let verdicts: Vec<_> = verdicts.collect();
            self.ms += ms;
            let end = verdicts.contains(&Verdict::End);
            if end { Verdict::End } else { Verdict::GoOn }
        }
    }

    #[test]
    fn a_path_without_a_queue_is_left_alone() {
        let mut sender = Sender::new();
        assert_eq!(sender.hear(5_000, 100), Verdict::GoOn);
        assert_eq!(sender.hystart.divisor(), 1.0);
    }

    #[test]
    fn a_round_that_is_longer_by_an_eighth_slows_down() {
        let mut sender = Sender::new();
        sender.hear(500, 100);
        sender.hear(300, 111);
        assert_eq!(sender.hystart.divisor(), 1.0, "less than an eighth");
        let mut sender = Sender::new();
        sender.hear(500, 100);
        sender.hear(150, 113);
        assert_eq!(sender.hystart.divisor(), CSS_GROWTH_DIVISOR);
    }

    #[test]
    fn a_round_that_is_a_few_milliseconds_longer_says_nothing_of_a_short_path() {
        for (rtt, slows_down) in [(7, false), (9, true)] {
            let mut sender = Sender::new();
            sender.hear(500, 4);
            sender.hear(9, rtt);
            sender.hear(15, rtt);
            assert_eq!(sender.hystart.divisor() > 1.0, slows_down, "{rtt} ms");
        }
    }

    #[test]
    fn slow_start_ends_after_five_slow_rounds() {
        let mut sender = Sender::new();
        sender.hear(500, 100);
        assert_eq!(sender.hear(500, 130), Verdict::GoOn);
        assert_eq!(sender.hear(400, 130), Verdict::End);
    }

    #[test]
    fn a_path_that_was_slow_for_a_moment_gets_its_pace_back() {
        let mut sender = Sender::new();
        sender.hear(500, 100);
        sender.hear(200, 130);
        assert_eq!(sender.hystart.divisor(), CSS_GROWTH_DIVISOR);
        assert_eq!(sender.hear(400, 100), Verdict::GoOn);
        assert_eq!(sender.hystart.divisor(), 1.0);
    }

    #[test]
    fn one_long_sample_among_short_ones_says_nothing() {
        let mut sender = Sender::new();
        for _ in 0..100 {
            sender.hear(9, 100);
            assert_eq!(sender.hear(1, 170), Verdict::GoOn);
        }
        assert_eq!(sender.hystart.divisor(), 1.0);
    }
}
