//! The policy's decision about a client, as one connection keeps it.

use super::service::Service;
use altway_path::PathStatistics;
use altway_policy::Decision;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A connection's path is measured, and a decision taken for it, at most once in this time.
const DECISION_AGE: Duration = Duration::from_millis(100);

/// The latest decision for a connection's client, and what the connection has measured of the path.
#[derive(Debug)]
pub(crate) struct PathDecision {
    client: IpAddr,
    own: Option<PathStatistics>,
    /// Time of the latest measurement.
    measured: Option<Instant>,
    /// The decision, and when it was taken; `None` once the path was measured anew.
    decided: Option<(Instant, Option<Decision>)>,
}

impl PathDecision {
    pub(crate) fn new(client: IpAddr) -> Self {
        Self {
            client,
            own: None,
            measured: None,
            decided: None,
        }
    }

    /// Whether the path is to be measured: to be asked when something was answered.
    pub(crate) fn is_measurement_due(&self, now: Instant) -> bool {
        !self
            .measured
            .is_some_and(|measured| is_recent(measured, now))
    }

    /// Takes in what the connection has measured of its path.
    pub(crate) fn measured(&mut self, own: Option<PathStatistics>, now: Instant) {
        self.own = own;
        self.measured = Some(now);
        self.decided = None;
    }

    /// What the policy decides; `None` where there is no HTTP/3 to offer.
    pub(crate) fn get(&mut self, service: &Service, now: Instant) -> Option<Decision> {
        match self.decided {
            Some((at, decision)) if is_recent(at, now) => decision,
            _ => {
                let decision = service.decide(self.client, self.own);
                self.decided = Some((now, decision));
                decision
            }
        }
    }
}

fn is_recent(then: Instant, now: Instant) -> bool {
    now.saturating_duration_since(then) < DECISION_AGE
}
