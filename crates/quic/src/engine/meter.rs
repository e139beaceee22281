//! A congestion controller that counts: wraps the engine's own and keeps what that does not tell,
//! what was acknowledged, how fast, and how round-trip times stray.
//!
//! The engine builds one controller per path, so that the counts start anew when a peer moves.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, NewRenoConfig};

use crate::Congestion;
use crate::delivery::Delivery;
use crate::engine::bbr::BbrFactory;
use crate::engine::cubic::CubicFactory;
use crate::initial_window::InitialWindow;

/// Builds [`Meter`]s around the controllers of one algorithm.
pub(crate) struct MeterFactory {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
}

impl MeterFactory {
    /// Of controllers that begin with this window.
    pub(crate) fn of(congestion: Congestion, first: InitialWindow) -> Self {
        Self {
            inner: match congestion {
                Congestion::Cubic => Arc::new(CubicFactory::new(first)),
                Congestion::NewReno => Arc::new(new_reno(first)),
                Congestion::Bbr => Arc::new(BbrFactory::new(first)),
            },
        }
    }
}

/// quinn-proto's doesn't ask for the size of packets when it builds the controller.
fn new_reno(first: InitialWindow) -> NewRenoConfig {
    let mut config = NewRenoConfig::default();
    config.initial_window(first.bytes(1_200));
    config
}

impl ControllerFactory for MeterFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::clone(&self.inner).build(now, current_mtu);
        Box::new(Meter {
            inner,
            reading: Reading::new(now),
        })
    }
}

/// What a [`Meter`] has counted.
#[derive(Clone)]
pub(crate) struct Reading {
    /// Ack-eliciting packets acknowledged on this path.
    pub(crate) packets_acked: u64,
    /// Bytes in them.
    pub(crate) bytes_acked: u64,
    /// Latest sample, with the peer's acknowledgement delay; `None` before the first.
    pub(crate) latest_rtt: Option<Duration>,
    /// How fast they were delivered.
    pub(crate) delivery: Delivery,
    /// What the engine's estimator said at the latest acknowledgement: what it knew before it.
    estimated: Option<Estimate>,
    /// Whether there was an acknowledgement.
    heard: bool,
    variation: Variation,
}

/// What the engine's estimator of the round-trip time says.
#[derive(Clone, Copy)]
struct Estimate {
    smoothed: Duration,
    min: Duration,
}

impl Reading {
    /// The reading of the controller in use, which is one of ours. A copy of it is taken apart, since
    /// the engine shows controllers by a trait that can't be cast down in place; meant for now and
    /// then.
    pub(crate) fn of(controller: &dyn Controller) -> Option<Reading> {
        let copy = controller.clone_box().into_any().downcast::<Meter>();
        copy.ok().map(|meter| meter.reading)
    }

    /// The smoothed mean deviation of the round-trip time, whose smoothed value is `smoothed` by now.
    pub(crate) fn rtt_variation(&self, smoothed: Duration) -> Duration {
        let mut variation = self.variation;
        variation.on_sample(smoothed);
        variation.mean
    }

    fn new(now: Instant) -> Self {
        Self {
            packets_acked: 0,
            bytes_acked: 0,
            latest_rtt: None,
            delivery: Delivery::new(now),
            estimated: None,
            heard: false,
            variation: Variation::default(),
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, rtt: &RttEstimator) {
        self.packets_acked += 1;
        self.bytes_acked += bytes;
        self.latest_rtt = Some(now.saturating_duration_since(sent));
        self.estimated = Some(Estimate {
            smoothed: rtt.get(),
            min: rtt.min(),
        });
        self.delivery.on_ack(now, sent, bytes);
    }

    fn on_end_acks(&mut self, in_flight: u64, app_limited: bool) {
        let (Some(estimate), Some(latest)) = (self.estimated.take(), self.latest_rtt) else {
            return;
        };
        // Before the first sample the estimator has a guess of its own.
        if self.heard {
            self.variation.on_sample(estimate.smoothed);
        }
        self.heard = true;
        let min = estimate.min.min(latest);
        let _ = self.delivery.on_end_acks(in_flight, app_limited, min);
    }
}

/// The mean deviation of RFC 9002 section 5.3, which the engine has and doesn't tell, from the smoothed
/// round-trip times, which it does.
///
/// A smoothed value moves by an eighth of what the sample, less the peer's acknowledgement delay,
/// strays from it: so how far the sample strays is eight times the move.
#[derive(Clone, Copy, Default)]
struct Variation {
    smoothed: Option<Duration>,
    mean: Duration,
}

impl Variation {
    fn on_sample(&mut self, smoothed: Duration) {
        self.mean = match self.smoothed.replace(smoothed) {
            // The first sample is the smoothed value.
            None => smoothed / 2,
            Some(before) => (3 * self.mean + 8 * before.abs_diff(smoothed)) / 4,
        };
    }
}

struct Meter {
    inner: Box<dyn Controller>,
    reading: Reading,
}

impl Controller for Meter {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.reading.delivery.on_sent(now, ());
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.reading.on_ack(now, sent, bytes, rtt);
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.reading.on_end_acks(in_flight, app_limited);
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    /// One byte more than the window: the engine sends a packet only while what is under way, with it,
    /// is less than this; RFC 9002 section 7 only forbids to exceed the window. It matters where
    /// windows are small: of the smallest, two packets, the engine would use one, and no second packet
    /// would tell of its loss.
    fn window(&self) -> u64 {
        self.inner.window().saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Meter {
            inner: self.inner.clone_box(),
            reading: self.reading.clone(),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules of RFC 9002 section 5.3, in µs.
    fn expected(samples: &[u32]) -> (Vec<Duration>, Duration) {
        let us = Duration::from_micros;
        let (mut smoothed, mut mean) = (us(samples[0].into()), us(samples[0].into()) / 2);
        let mut all = vec![smoothed];
        for sample in samples[1..].iter().map(|sample| us((*sample).into())) {
            mean = (3 * mean + smoothed.abs_diff(sample)) / 4;
            smoothed = (7 * smoothed + sample) / 8;
            all.push(smoothed);
        }
        (all, mean)
    }

    #[test]
    fn the_variation_follows_from_smoothed_times() {
        let (smoothed, expected) = expected(&[40_000, 60_000, 41_000, 40_000, 90_000, 40_500]);
        let mut variation = Variation::default();
        for smoothed in smoothed {
            variation.on_sample(smoothed);
        }
        let error = variation.mean.abs_diff(expected);
        // Eight times what the division by eight cuts off.
        assert!(error < Duration::from_nanos(50), "{error:?}");
    }
}
