//! A congestion controller that counts: wraps the engine's own and keeps what that does not tell,
//! the bytes acknowledged and the latest round-trip time.
//!
//! The engine builds one controller per path, so that the counts start anew when a peer moves.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{
    BbrConfig, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig,
};

use crate::Congestion;

/// Builds [`Meter`]s around the controllers of one algorithm.
pub(crate) struct MeterFactory {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
}

impl MeterFactory {
    pub(crate) fn new(congestion: Congestion) -> Self {
        let inner: Arc<dyn ControllerFactory + Send + Sync> = match congestion {
            Congestion::Cubic => Arc::new(CubicConfig::default()),
            Congestion::NewReno => Arc::new(NewRenoConfig::default()),
            Congestion::Bbr => Arc::new(BbrConfig::default()),
        };
        Self { inner }
    }
}

impl ControllerFactory for MeterFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::clone(&self.inner).build(now, current_mtu);
        Box::new(Meter {
            inner,
            reading: Reading::default(),
        })
    }
}

/// What a [`Meter`] has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Bytes of ack-eliciting packets acknowledged on this path.
    pub(crate) bytes_acked: u64,
    /// Latest sample, with the peer's acknowledgement delay; `None` before the first.
    pub(crate) latest_rtt: Option<Duration>,
}

impl Reading {
    /// The reading of the controller in use. A copy of it is taken apart, since the engine shows
    /// controllers by a trait that can't be cast down in place; meant for now and then.
    pub(crate) fn of(controller: &dyn Controller) -> Reading {
        let copy = controller.clone_box().into_any().downcast::<Meter>();
        copy.map_or_else(|_| Reading::default(), |meter| meter.reading)
    }
}

struct Meter {
    inner: Box<dyn Controller>,
    reading: Reading,
}

impl Controller for Meter {
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
        self.reading.bytes_acked += bytes;
        self.reading.latest_rtt = Some(now.saturating_duration_since(sent));
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

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Meter {
            inner: self.inner.clone_box(),
            reading: self.reading,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
