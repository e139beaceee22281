//! Turns the transports' ever-growing counters into samples for the path store.

use altway_path::{MemoryStore, PathStatistics, Prefix, Sample, Store, Transport};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is known of all clients' paths, shared by the workers. One mutex: it is held for some
/// hundred nanoseconds a request, so a few cores don't contend for it.
#[derive(Debug)]
pub(crate) struct Paths {
    store: Mutex<MemoryStore>,
    started: Instant,
}

impl Paths {
    pub(crate) fn new() -> Self {
        Self {
            store: Mutex::default(),
            started: Instant::now(),
        }
    }

    /// What is known of the path to `client` now.
    pub(crate) fn get(&self, client: IpAddr) -> Option<PathStatistics> {
        self.lock().get(client.into(), self.started.elapsed())
    }

    fn record(&self, client: Prefix, sample: &Sample) {
        self.lock().record(client, sample);
    }

    /// Statistics stay useful whatever happened to a thread that wrote them.
    fn lock(&self) -> MutexGuard<'_, MemoryStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's counters since its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counters {
    /// `None` before the first measurement.
    pub(crate) min_rtt: Option<Duration>,
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
}

/// One connection: remembers what it has reported, so that nothing counts twice.
#[derive(Debug)]
pub(crate) struct Meter {
    client: Prefix,
    transport: Transport,
    reported: Counters,
}

impl Meter {
    pub(crate) fn new(client: IpAddr, transport: Transport) -> Self {
        Self {
            client: client.into(),
            transport,
            reported: Counters::default(),
        }
    }

    /// Reports what is new in `counters` to `paths`; nothing before the first round trip.
    pub(crate) fn observe(&mut self, counters: Counters, paths: &Paths) {
        let Some(min_rtt) = counters.min_rtt else {
            return;
        };
        if counters == self.reported {
            return;
        }
        let sample = Sample {
            transport: self.transport,
            at: paths.started.elapsed(),
            min_rtt,
            packets_sent: new(counters.packets_sent, self.reported.packets_sent),
            packets_lost: new(counters.packets_lost, self.reported.packets_lost),
        };
        self.reported = counters;
        paths.record(self.client, &sample);
    }
}

/// What came since; nothing when a counter was reset (a QUIC path that migrated).
fn new(now: u64, before: u64) -> u64 {
    now.saturating_sub(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn counters(sent: u64, lost: u64) -> Counters {
        Counters {
            min_rtt: Some(Duration::from_millis(3)),
            packets_sent: sent,
            packets_lost: lost,
        }
    }

    #[test]
    fn counts_each_packet_once() {
        let paths = Paths::new();
        let mut meter = Meter::new(CLIENT, Transport::Tcp);
        for (sent, lost) in [(100, 1), (100, 1), (200, 2)] {
            meter.observe(counters(sent, lost), &paths);
        }
        let path = paths.get(CLIENT).unwrap();
        assert_eq!((path.packets, path.loss.to_string().as_str()), (200, "1%"));
    }

    #[test]
    fn says_nothing_before_the_first_round_trip() {
        let paths = Paths::new();
        let mut meter = Meter::new(CLIENT, Transport::Tcp);
        let unmeasured = Counters {
            min_rtt: None,
            ..counters(2, 0)
        };
        meter.observe(unmeasured, &paths);
        assert_eq!(paths.get(CLIENT), None);
    }
}
