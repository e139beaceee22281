//! How fast the path delivers: `draft-cheng-iccrg-delivery-rate-estimation`, for a congestion
//! controller that sees batches of packets and not their numbers.
//!
//! All packets of a batch leave at one instant and know the same of what was delivered before, so one
//! record stands for all of them, and the instant names it. Left to others: counting packets and
//! round trips ([`meter`](crate::meter)).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::DeliveryRate;

/// Batches that are remembered, 64 bytes each; those beyond leave no samples. With ten packets and
/// more in a batch, as a fast path has them, that is 12 MB under way.
const MAX_BATCHES: usize = 1_024;

/// Batches before an acknowledged one that may still be acknowledged: of packets further back than
/// three (RFC 9002 section 6.1.1) the engine never speaks again, and a batch has one at least.
const REORDERING: usize = 3;

/// The estimator of one path.
#[derive(Clone)]
pub(crate) struct Delivery {
    /// Bytes delivered on this path.
    delivered: u64,
    /// When the latest of them were acknowledged, or sending began anew after a silence.
    delivered_at: Instant,
    /// When the newest packet was sent that is acknowledged, or sending began anew.
    first_sent: Instant,
    /// Nothing is under way, as far as is known.
    idle: bool,
    /// When so many bytes are exceeded, everything was delivered that was sent while the application
    /// had nothing more to send.
    app_limited_until: Option<u64>,
    /// The newest packet of the acknowledgement at hand.
    newest: Option<Instant>,
    /// In the order of sending. Shared with the copies that a look at the numbers makes, so that these
    /// are cheap; no copy outlives the look, so that it is never copied itself.
    batches: Arc<VecDeque<Batch>>,
    latest: Option<Sample>,
}

/// What was known when a batch was sent.
#[derive(Clone, Copy)]
struct Batch {
    sent: Instant,
    first_sent: Instant,
    delivered: u64,
    delivered_at: Instant,
    app_limited: bool,
}

/// So much was delivered in that time.
#[derive(Clone, Copy)]
struct Sample {
    bytes: u64,
    interval: Duration,
    app_limited: bool,
}

impl Delivery {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            delivered: 0,
            delivered_at: now,
            first_sent: now,
            idle: true,
            // The hand-shake has little to say.
            app_limited_until: Some(0),
            newest: None,
            batches: Arc::default(),
            latest: None,
        }
    }

    pub(crate) fn on_sent(&mut self, now: Instant) {
        if self.idle {
            (self.first_sent, self.delivered_at) = (now, now);
            self.idle = false;
        }
        let batch = Batch {
            sent: now,
            first_sent: self.first_sent,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            app_limited: self.app_limited_until.is_some(),
        };
        let known = self.batches.back().is_some_and(|last| last.sent >= now);
        if !known && self.batches.len() < MAX_BATCHES {
            Arc::make_mut(&mut self.batches).push_back(batch);
        }
    }

    /// A packet was acknowledged.
    pub(crate) fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64) {
        self.delivered += bytes;
        self.delivered_at = now;
        self.newest = self.newest.max(Some(sent));
    }

    /// All packets of one acknowledgement were told. `app_limited`: before it came, there was nothing
    /// to send though there was room.
    pub(crate) fn on_end_acks(&mut self, in_flight: u64, app_limited: bool, min_rtt: Duration) {
        let Some(newest) = self.newest.take() else {
            return;
        };
        if self
            .app_limited_until
            .is_some_and(|until| self.delivered > until)
        {
            self.app_limited_until = None;
        }
        let after = self.batches.partition_point(|batch| batch.sent <= newest);
        let batch = after.checked_sub(1).map(|at| self.batches[at]);
        if let Some(batch) = batch.filter(|batch| batch.sent == newest) {
            self.first_sent = self.first_sent.max(newest);
            self.keep(self.sample(&batch), min_rtt);
        }
        self.forget(after.saturating_sub(1 + REORDERING), in_flight == 0);
        if app_limited {
            self.app_limited_until = Some(self.delivered + in_flight);
        }
    }

    /// The latest sample that counts.
    pub(crate) fn rate(&self) -> Option<DeliveryRate> {
        self.latest.map(|sample| DeliveryRate {
            bytes_per_second: sample.bytes_per_second(),
            app_limited: sample.app_limited,
        })
    }

    fn sample(&self, batch: &Batch) -> Sample {
        let sending = batch.sent.saturating_duration_since(batch.first_sent);
        let acknowledging = self
            .delivered_at
            .saturating_duration_since(batch.delivered_at);
        Sample {
            bytes: self.delivered - batch.delivered,
            // Acknowledgements may come in a bunch, but data can't arrive faster than it is sent.
            interval: sending.max(acknowledging),
            app_limited: batch.app_limited,
        }
    }

    /// What was delivered in less than the smallest round trip can't have been measured; and what the
    /// application held back says something only if it is more than was known.
    fn keep(&mut self, sample: Sample, min_rtt: Duration) {
        if sample.interval.is_zero() || sample.interval < min_rtt {
            return;
        }
        let slower = |latest: Sample| sample.bytes_per_second() < latest.bytes_per_second();
        if !(sample.app_limited && self.latest.is_some_and(slower)) {
            self.latest = Some(sample);
        }
    }

    fn forget(&mut self, batches: usize, all: bool) {
        /// Room that a connection keeps which sends nothing.
        const IDLE_BATCHES: usize = 4;
        self.idle = all;
        if all {
            let batches = Arc::make_mut(&mut self.batches);
            batches.clear();
            batches.shrink_to(IDLE_BATCHES);
        } else if batches > 0 {
            Arc::make_mut(&mut self.batches).drain(..batches);
        }
    }
}

impl Sample {
    fn bytes_per_second(&self) -> u64 {
        const NANOS: u128 = 1_000_000_000;
        let rate = u128::from(self.bytes) * NANOS / self.interval.as_nanos().max(1);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an instant to count from")]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// A path that takes [`RTT`] to acknowledge, and times in ms since its beginning.
    struct Path {
        delivery: Delivery,
        began: Instant,
    }

    impl Path {
        fn new() -> Self {
            let began = Instant::now();
            let delivery = Delivery::new(began);
            Self { delivery, began }
        }

        fn at(&self, ms: u64) -> Instant {
            self.began + Duration::from_millis(ms)
        }

        fn send(&mut self, ms: u64) {
            self.delivery.on_sent(self.at(ms));
        }

        /// Acknowledges 1,000 bytes sent then.
        fn ack(&mut self, ms: u64, sent: u64, in_flight: u64, app_limited: bool) {
            let (now, sent) = (self.at(ms), self.at(sent));
            self.delivery.on_ack(now, sent, 1_000);
            self.delivery.on_end_acks(in_flight, app_limited, RTT);
        }

        /// Bytes per second, and whether the application held back.
        fn rate(&self) -> Option<(u64, bool)> {
            let rate = self.delivery.rate()?;
            Some((rate.bytes_per_second, rate.app_limited))
        }

        /// Sends 1,000 bytes each 10 ms; each is acknowledged one round trip later.
        fn steady(&mut self, ms: std::ops::Range<u64>, app_limited: bool) {
            for ms in ms.step_by(10) {
                self.send(ms);
                if ms >= 100 {
                    self.ack(ms, ms - 100, 10_000, app_limited);
                }
            }
        }
    }

    #[test]
    fn a_steady_flow_has_its_own_rate() {
        let mut path = Path::new();
        path.steady(0..1_000, false);
        assert_eq!(path.rate(), Some((100_000, false)));
    }

    #[test]
    fn an_application_with_nothing_to_send_is_marked_until_what_it_sent_is_delivered() {
        let mut path = Path::new();
        path.steady(0..500, true);
        assert!(path.rate().unwrap().1);
        path.steady(500..1_000, false);
        assert_eq!(path.rate(), Some((100_000, false)));
    }

    #[test]
    fn a_slow_application_does_not_hide_what_the_path_can_do() {
        let mut path = Path::new();
        path.steady(0..1_000, false);
        path.ack(1_000, 900, 0, true);
        path.send(5_000);
        path.ack(5_100, 5_000, 0, true);
        assert_eq!(path.rate(), Some((100_000, false)));
    }

    #[test]
    fn a_bunch_of_acknowledgements_is_no_faster_than_what_was_sent() {
        let mut path = Path::new();
        path.steady(0..1_000, false);
        // What was sent from 900 ms on at 100 kB/s is acknowledged at once.
        for sent in (900..1_000).step_by(10) {
            let (now, sent) = (path.at(1_100), path.at(sent));
            path.delivery.on_ack(now, sent, 1_000);
        }
        path.delivery.on_end_acks(0, false, RTT);
        assert!(path.rate().unwrap().0 <= 100_000, "{:?}", path.rate());
    }

    #[test]
    fn silence_is_not_counted() {
        let mut path = Path::new();
        path.send(0);
        path.ack(100, 0, 0, false);
        path.send(60_000);
        path.ack(60_100, 60_000, 0, false);
        assert_eq!(path.rate().unwrap().0, 10_000);
    }

    #[test]
    fn less_than_a_round_trip_says_nothing() {
        let mut path = Path::new();
        path.send(0);
        path.ack(99, 0, 0, false);
        assert_eq!(path.rate(), None);
    }

    #[test]
    fn a_peer_that_acknowledges_nothing_costs_a_bounded_number_of_records() {
        let mut path = Path::new();
        (0..5_000).for_each(|ms| path.send(ms));
        assert_eq!(path.delivery.batches.len(), MAX_BATCHES);
        // One packet that has no record any more: everything older is gone.
        path.ack(5_000, 4_999, 1_000, false);
        assert_eq!(path.delivery.batches.len(), 1 + REORDERING);
        path.ack(5_001, 4_998, 0, false);
        assert!(path.delivery.batches.capacity() < 16);
    }
}
