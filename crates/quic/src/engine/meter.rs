//! A congestion controller that counts: wraps another one and keeps what quinn-proto does not tell, how much
//! was acknowledged.
//!
//! quinn-proto builds one controller per path, so that the count starts anew when a peer moves.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, NewRenoConfig};

use crate::Congestion;
use crate::engine::bbr::BbrFactory;
use crate::engine::cubic::CubicFactory;
use crate::initial_window::InitialWindow;

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
            bytes_acked: 0,
        })
    }
}

/// Bytes of ack-eliciting packets that the peer has acknowledged on the path of this controller, which is one
/// of ours. A copy of it is taken apart, since quinn-proto shows controllers by a trait that can't be cast down in
/// place; meant for now and then.
pub(crate) fn bytes_acked(controller: &dyn Controller) -> u64 {
    let copy = controller
        .clone_box()
        .into_any()
        .downcast::<MeteredController>();
    copy.map_or(0, |meter| meter.bytes_acked)
}

struct MeteredController {
    inner: Box<dyn Controller>,
    bytes_acked: u64,
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
        self.bytes_acked += bytes;
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
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
    fn window(&self) -> u64 {
        self.inner.window().saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(MeteredController {
            inner: self.inner.clone_box(),
            bytes_acked: self.bytes_acked,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
