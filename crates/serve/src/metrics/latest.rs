//! The latest visits, for who looks at a server: when they began and what was decided, and nothing of whom they were.

use super::{OFFERS, ProtocolMetrics};
use crate::locks::lock;
use crate::request::log::Protocol;
use crate::selection::unix_time;
use altway_select::{ClientClass, Decision, Reason, UnixTime};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::SystemTime;

/// Visits that each worker remembers, and that are told in all.
pub(super) const MAX_VISITS: usize = 16;

/// A connection, and what its first response said.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LatestVisit {
    /// Time of the response.
    pub time: UnixTime,
    /// `h1`, `h2` or `h3`.
    pub protocol: &'static str,
    /// The class of the client.
    pub class: ClientClass,
    /// The client had been offered HTTP/3 before.
    pub offered: bool,
    /// `h2` or `h3`.
    pub offer: &'static str,
    /// The kind of reason, in a word such as `predicted`.
    pub reason: &'static str,
    /// Predicted difference, ln(T3 / T2), where there was a prediction.
    pub difference: Option<f64>,
}

impl LatestVisit {
    pub(crate) fn new(
        time: SystemTime,
        protocol: Protocol,
        class: ClientClass,
        offered: bool,
        decision: &Decision,
    ) -> Self {
        let offer = OFFERS.iter().find(|(offer, _)| *offer == decision.offer);
        Self {
            time: unix_time(time),
            protocol: ProtocolMetrics::NAMES[protocol as usize],
            class,
            offered,
            offer: offer.map_or("", |(_, name)| name),
            reason: Reason::KINDS[decision.reason.kind_index()],
            difference: decision.prediction.map(|it| it.difference),
        }
    }
}

/// The latest visits of a worker. Its lock is taken once a connection, and by who asks.
#[derive(Debug)]
pub(super) struct LatestVisits(Mutex<VecDeque<LatestVisit>>);

impl Default for LatestVisits {
    fn default() -> Self {
        Self(Mutex::new(VecDeque::with_capacity(MAX_VISITS)))
    }
}

impl LatestVisits {
    pub(super) fn add(&self, visit: LatestVisit) {
        let mut visits = lock(&self.0);
        if visits.len() == MAX_VISITS {
            visits.pop_front();
        }
        visits.push_back(visit);
    }

    pub(super) fn append_to(&self, all: &mut Vec<LatestVisit>) {
        let visits = lock(&self.0);
        all.extend(visits.iter());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_select::{AltSvc, Offer};

    #[test]
    fn the_latest_are_kept() {
        let decision = Decision {
            offer: Offer::Http3,
            alt_svc: AltSvc::Omit,
            reason: Reason::Fixed,
            propensity: 1.0,
            held: false,
            prediction: None,
        };
        let visits = LatestVisits::default();
        for second in 0..40 {
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second);
            let class = ClientClass::from_index(0).unwrap();
            visits.add(LatestVisit::new(
                time,
                Protocol::Http2,
                class,
                false,
                &decision,
            ));
        }
        let mut all = Vec::new();
        visits.append_to(&mut all);
        let times: Vec<u64> = all.iter().map(|it| it.time.as_secs()).collect();
        assert_eq!(times, (24..40).collect::<Vec<u64>>());
        assert_eq!(
            (all[0].protocol, all[0].offer, all[0].reason),
            ("h2", "h3", "fixed")
        );
    }
}
