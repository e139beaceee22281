//! A congestion controller that counts: wraps another one and keeps what quinn-proto does not tell, how much
//! was acknowledged, and when. It has no limit for the end of its connection.
//!
//! quinn-proto builds one controller per path, so that the count starts anew when a peer moves.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, NewRenoConfig};

use crate::Congestion;
use crate::engine::bbr::BbrFactory;
use crate::engine::cubic::CubicFactory;
use crate::initial_window::InitialWindow;
use crate::statistics::AckProgress;

/// Builds [`MeteredController`]s around the controllers of one algorithm.
pub(crate) struct MeteredControllerFactory {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
}

impl MeteredControllerFactory {
    /// Builds controllers of this kind that begin with this window.
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

impl ControllerFactory for MeteredControllerFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::clone(&self.inner).build(now, current_mtu);
        Box::new(MeteredController {
            inner,
            acked: Acked::default(),
            is_unlimited: Arc::default(),
        })
    }
}

/// Returns the acknowledged bytes of the path of this controller, which is one of ours. Meant for now and then.
pub(crate) fn acked(controller: &dyn Controller) -> Acked {
    copy(controller).map_or_else(Acked::default, |meter| meter.acked)
}

/// Lifts congestion control, and quinn-proto's pacing with it, from what this controller's connection sends from now on,
/// which is its end.
///
/// A packet with CONNECTION_CLOSE counts as in flight no more than one with ACK alone (RFC 9002 section 2), so that no
/// window holds it back (section 7). quinn-proto holds it back if there was stream data to send, and a closed
/// connection takes no acknowledgement that would open the window.
pub(crate) fn lift_limits(controller: &dyn Controller) {
    if let Some(meter) = copy(controller) {
        // A connection and its controllers are used by one thread at a time.
        meter.is_unlimited.store(true, Ordering::Relaxed);
    }
}

/// A copy of a controller of ours: quinn-proto shows controllers by a trait that can't be cast down in place.
fn copy(controller: &dyn Controller) -> Option<Box<MeteredController>> {
    controller.clone_box().into_any().downcast().ok()
}

/// Bytes of ack-eliciting packets that were acknowledged, and their progress since there was nothing left to send.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Acked {
    pub(crate) bytes: u64,
    /// The latest doublings from [`FIRST_PROGRESS`] on, older ones first.
    doublings: [Option<AckProgress>; 2],
    /// `bytes` when there was nothing left to send last.
    idle_at: u64,
    /// `bytes` with which the next doubling is reached; 0 before the first acknowledgement.
    next: u64,
    /// Nothing is in flight, and there is nothing left to send.
    is_idle: bool,
}

/// Bytes after which progress is noted for the first time.
const FIRST_PROGRESS: u64 = 16 << 10;

impl Acked {
    /// The last doubling but one: what was acknowledged by it is a quarter to a half by now.
    pub(crate) fn progress(&self) -> Option<AckProgress> {
        self.doublings[0]
    }

    fn add(&mut self, bytes: u64, now: Instant) {
        if self.is_idle || self.next == 0 {
            *self = Self {
                bytes: self.bytes,
                idle_at: self.bytes,
                next: self.bytes + FIRST_PROGRESS,
                ..Self::default()
            };
        }
        self.bytes += bytes;
        if self.bytes >= self.next {
            self.doublings.rotate_left(1);
            self.doublings[1] = Some(AckProgress {
                at: now,
                bytes_acked: self.bytes,
            });
            self.next = self.bytes + (self.bytes - self.idle_at);
        }
    }
}

struct MeteredController {
    inner: Box<dyn Controller>,
    acked: Acked,
    /// True once the connection is closed; common to all copies.
    is_unlimited: Arc<AtomicBool>,
}

impl Controller for MeteredController {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
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
        self.acked.add(bytes, now);
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        // Where everything was lost there is more to send.
        self.acked.is_idle = in_flight == 0 && app_limited;
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

    /// The window and one byte more: the engine sends a packet only while what is under way, with it,
    /// is less than this; RFC 9002 section 7 only forbids to exceed the window. It matters where
    /// windows are small: of the smallest, two packets, the engine would use one, and no second packet
    /// would tell of its loss.
    ///
    /// There is none for the end of a connection. quinn-proto does not pace under a window beyond `u32`.
    fn window(&self) -> u64 {
        if self.is_unlimited.load(Ordering::Relaxed) {
            return u64::MAX;
        }
        self.inner.window().saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(MeteredController {
            inner: self.inner.clone_box(),
            acked: self.acked,
            is_unlimited: Arc::clone(&self.is_unlimited),
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
#[allow(clippy::disallowed_methods, reason = "an instant to count from")]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn progress_is_the_moment_of_a_quarter_to_a_half_since_there_was_nothing_to_send() {
        let mut acked = Acked::default();
        let start = Instant::now();
        let kib = |acked: &Acked| {
            let it = acked.progress()?;
            Some((it.bytes_acked >> 10, (it.at - start).as_millis()))
        };
        let acknowledge = |acked: &mut Acked, from: u64, count: u64| {
            for millis in from + 1..=from + count {
                acked.add(1 << 10, start + Duration::from_millis(millis));
                acked.is_idle = false;
            }
        };
        acknowledge(&mut acked, 0, 31);
        assert_eq!(kib(&acked), None);
        acknowledge(&mut acked, 31, 1);
        assert_eq!(kib(&acked), Some((16, 16)));
        acknowledge(&mut acked, 32, 468);
        assert_eq!(kib(&acked), Some((128, 128)), "of 500");
        acked.is_idle = true;
        acknowledge(&mut acked, 1_000, 20);
        assert_eq!(kib(&acked), None);
        acknowledge(&mut acked, 1_020, 20);
        assert_eq!(kib(&acked), Some((516, 1_016)));
        assert_eq!(acked.bytes, 540 << 10);
    }
}
