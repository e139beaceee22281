//! Delivery rate of the path: `draft-cheng-iccrg-delivery-rate-estimation`, for a congestion
//! controller that sees batches of packets and not their numbers.
//!
//! All packets of a batch leave at one instant and know the same of what was delivered before, so one
//! record stands for all of them, and the instant names it. Left to others: what follows from the rate
//! ([`bbr`](crate::engine::bbr)).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Batches that are remembered, 64 bytes each; those beyond leave no samples. With ten packets and
/// more in a batch, as a fast path has them, that is 12 MB under way.
const MAX_BATCHES: usize = 1_024;

/// Batches before an acknowledged one that may still be acknowledged: of packets further back than
/// three (RFC 9002 section 6.1.1) the engine never speaks again, and a batch has one at least.
const REORDERING: usize = 3;

/// The estimator of one path. `N`: what a controller notes of each batch beside.
#[derive(Clone)]
pub(crate) struct Delivery<N> {
    /// Bytes delivered on this path.
    delivered: u64,
    /// Time at which the latest of them were acknowledged, or sending began anew after a silence.
    delivered_at: Instant,
    /// Time at which the newest acknowledged packet was sent, or sending began anew.
    first_sent: Instant,
    /// True while nothing is under way, as far as is known.
    idle: bool,
    /// Value of `delivered` above which everything was delivered that was sent while the application
    /// had nothing more to send.
    app_limited_until: Option<u64>,
    /// The newest packet of the acknowledgement at hand.
    newest: Option<Instant>,
    /// Batches in the order of sending. They are shared with the copies that a look at the numbers
    /// makes, so that these are cheap; no copy outlives the look, so that they are never copied
    /// themselves.
    batches: Arc<VecDeque<Batch<N>>>,
}

/// State of the estimator when a batch was sent.
#[derive(Clone, Copy)]
struct Batch<N> {
    sent: Instant,
    first_sent: Instant,
    delivered: u64,
    delivered_at: Instant,
    app_limited: bool,
    note: N,
}

/// Sample that an acknowledgement gives, by the newest packet in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered<N> {
    /// Bytes per second; `None` where less than a smallest round trip was measured.
    pub(crate) rate: Option<u64>,
    /// Bytes delivered since the packet was sent.
    pub(crate) bytes: u64,
    /// Bytes delivered when it was sent.
    pub(crate) before: u64,
    /// The application had nothing more to send then.
    pub(crate) app_limited: bool,
    /// Note of the packet's batch.
    pub(crate) note: N,
}

/// Bytes that were delivered in a time.
#[derive(Clone, Copy)]
struct Sample {
    bytes: u64,
    interval: Duration,
}

impl<N: Copy> Delivery<N> {
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
        }
    }

    /// Records that packets leave now; of several notes at one instant the latest counts.
    pub(crate) fn on_sent(&mut self, now: Instant, note: N) {
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
            note,
        };
        let batches = Arc::make_mut(&mut self.batches);
        let has_room = batches.len() < MAX_BATCHES;
        match batches.back_mut() {
            Some(last) if last.sent >= now => last.note = note,
            _ if has_room => batches.push_back(batch),
            _ => {}
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
    pub(crate) fn on_end_acks(
        &mut self,
        in_flight: u64,
        app_limited: bool,
        min_rtt: Duration,
    ) -> Option<Delivered<N>> {
        let newest = self.newest.take()?;
        if self
            .app_limited_until
            .is_some_and(|until| self.delivered > until)
        {
            self.app_limited_until = None;
        }
        let after = self.batches.partition_point(|batch| batch.sent <= newest);
        let batch = after.checked_sub(1).map(|at| self.batches[at]);
        let batch = batch.filter(|batch| batch.sent == newest);
        let shown = batch.map(|batch| {
            self.first_sent = self.first_sent.max(newest);
            let sample = self.sample(&batch);
            Delivered {
                rate: sample.lasted(min_rtt).then(|| sample.bytes_per_second()),
                bytes: sample.bytes,
                before: batch.delivered,
                app_limited: batch.app_limited,
                note: batch.note,
            }
        });
        self.forget(after.saturating_sub(1 + REORDERING), in_flight == 0);
        if app_limited {
            self.limit(in_flight);
        }
        shown
    }

    /// Marks what is under way now as limited by the application: it doesn't show what the path can
    /// do.
    pub(crate) fn limit(&mut self, in_flight: u64) {
        self.app_limited_until = Some(self.delivered + in_flight);
    }

    /// Bytes delivered on this path.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns true if what is sent now is limited by the application.
    pub(crate) fn is_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }

    /// Returns the record of the batch sent then, or of the first after it: its note, and true if the
    /// application had nothing more to send.
    pub(crate) fn noted(&self, sent: Instant) -> Option<(N, bool)> {
        let at = self.batches.partition_point(|batch| batch.sent < sent);
        let batch = self.batches.get(at)?;
        Some((batch.note, batch.app_limited))
    }

    fn sample(&self, batch: &Batch<N>) -> Sample {
        let sending = batch.sent.saturating_duration_since(batch.first_sent);
        let acknowledging = self
            .delivered_at
            .saturating_duration_since(batch.delivered_at);
        Sample {
            bytes: self.delivered - batch.delivered,
            // Acknowledgements may come in a bunch, but data can't arrive faster than it is sent.
            interval: sending.max(acknowledging),
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
    /// Returns true if the sample took as long as the smallest round trip: in less, nothing can have
    /// been measured.
    fn lasted(&self, min_rtt: Duration) -> bool {
        !self.interval.is_zero() && self.interval >= min_rtt
    }

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
        delivery: Delivery<()>,
        began: Instant,
        /// Bytes per second, and whether the application held back, of the latest sample.
        rate: Option<(u64, bool)>,
    }

    impl Path {
        fn new() -> Self {
            let began = Instant::now();
            let delivery = Delivery::new(began);
            let rate = None;
            Self {
                delivery,
                began,
                rate,
            }
        }

        fn at(&self, ms: u64) -> Instant {
            self.began + Duration::from_millis(ms)
        }

        fn send(&mut self, ms: u64) {
            self.delivery.on_sent(self.at(ms), ());
        }

        /// Acknowledges 1,000 bytes sent then.
        fn ack(&mut self, ms: u64, sent: u64, in_flight: u64, app_limited: bool) {
            let (now, sent) = (self.at(ms), self.at(sent));
            self.delivery.on_ack(now, sent, 1_000);
            self.end_acks(in_flight, app_limited);
        }

        fn end_acks(&mut self, in_flight: u64, app_limited: bool) {
            let shown = self.delivery.on_end_acks(in_flight, app_limited, RTT);
            let shown = shown.and_then(|it| Some((it.rate?, it.app_limited)));
            self.rate = shown.or(self.rate);
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
        assert_eq!(path.rate, Some((100_000, false)));
    }

    #[test]
    fn an_application_with_nothing_to_send_is_marked_until_what_it_sent_is_delivered() {
        let mut path = Path::new();
        path.steady(0..500, true);
        assert!(path.rate.unwrap().1);
        path.steady(500..1_000, false);
        assert_eq!(path.rate, Some((100_000, false)));
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
        path.end_acks(0, false);
        assert!(path.rate.unwrap().0 <= 100_000, "{:?}", path.rate);
    }

    #[test]
    fn silence_is_not_counted() {
        let mut path = Path::new();
        path.send(0);
        path.ack(100, 0, 0, false);
        path.send(60_000);
        path.ack(60_100, 60_000, 0, false);
        assert_eq!(path.rate.unwrap().0, 10_000);
    }

    #[test]
    fn less_than_a_round_trip_says_nothing() {
        let mut path = Path::new();
        path.send(0);
        path.ack(99, 0, 0, false);
        assert_eq!(path.rate, None);
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
