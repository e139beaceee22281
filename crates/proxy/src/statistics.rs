//! Counts of what a proxy has done, for its closing summary: requests and their times by protocol, and what failed; and
//! where the counts of its servers are to be had.

use altway_upstream::{Group, Reason, ServerStatistics, WeakGroup};
use http::{StatusCode, Version};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Steps of a time between one power of two of microseconds and the next: a median is right within 4 %.
const STEPS: usize = 16;

/// Powers of two that are told apart: up to 71 minutes.
const POWERS: usize = 32;

/// Counters that many threads add to.
#[derive(Debug)]
pub struct Statistics {
    protocols: [Counters; 3],
    refusals: [AtomicU64; Reason::ALL.len()],
    /// The groups that there are, by the names of their pools, the latest of a name last: it takes the place of the
    /// others when a configuration is read again, though they have requests still. As many as are alive.
    groups: Mutex<Vec<(String, WeakGroup)>>,
}

#[derive(Debug)]
struct Counters {
    requests: AtomicU64,
    /// Responses with status 500 and above, of upstreams and of the proxy.
    errors: AtomicU64,
    /// Responses that were not sent to their end.
    cut_off: AtomicU64,
    /// The time from the request's head to the response's.
    heads: Times,
    /// The time from the request's head to the response's end.
    wholes: Times,
}

#[derive(Debug)]
struct Times(Box<[AtomicU64]>);

/// The figures at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Figures over HTTP/1.1, HTTP/2 and HTTP/3, in this order.
    pub protocols: [ProtocolStatistics; 3],
    /// Requests that no server has answered, by reason; reasons without any are left out.
    pub refusals: Vec<(Reason, u64)>,
}

/// The figures of one protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ProtocolStatistics {
    /// Requests.
    pub requests: u64,
    /// Responses with a status of 500 or above.
    pub errors: u64,
    /// Responses that were not sent completely, because client or server broke off.
    pub cut_off: u64,
    /// Median time from the head of a request to the head of its response; `None` without any.
    pub median_head: Option<Duration>,
    /// Median time from the head of a request to the end of its response; `None` without any.
    pub median_whole: Option<Duration>,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            protocols: std::array::from_fn(|_| Counters {
                requests: AtomicU64::new(0),
                errors: AtomicU64::new(0),
                cut_off: AtomicU64::new(0),
                heads: Times::new(),
                wholes: Times::new(),
            }),
            refusals: std::array::from_fn(|_| AtomicU64::new(0)),
            groups: Mutex::default(),
        }
    }
}

impl Statistics {
    pub(crate) fn request(&self, version: Version) {
        add(&self.of(version).requests);
    }

    /// `after`: `None` for answers of the proxy's own, whose times tell nothing of a server.
    pub(crate) fn head(&self, version: Version, status: StatusCode, after: Option<Duration>) {
        let counters = self.of(version);
        if let Some(after) = after {
            counters.heads.add(after);
        }
        if status.is_server_error() {
            add(&counters.errors);
        }
    }

    pub(crate) fn end(&self, version: Version, is_whole: bool, after: Duration) {
        let counters = self.of(version);
        match is_whole {
            true => counters.wholes.add(after),
            false => add(&counters.cut_off),
        }
    }

    pub(crate) fn refused(&self, reason: Reason) {
        let place = Reason::ALL.iter().position(|it| *it == reason);
        if let Some(counter) = place.and_then(|place| self.refusals.get(place)) {
            add(counter);
        }
    }

    /// Registers the figures of a group's servers under the name of a pool.
    pub(crate) fn add_group(&self, pool: &str, group: &Group) {
        let mut groups = self.groups();
        groups.retain(|(_, group)| group.upgrade().is_some());
        groups.push((pool.to_owned(), group.downgrade()));
    }

    /// The group that is in use for a pool; `None`: there is none yet.
    #[must_use]
    pub fn group(&self, pool: &str) -> Option<Group> {
        let groups = self.groups();
        let mut latest = groups.iter().rev().filter(|(name, _)| name == pool);
        latest.find_map(|(_, group)| group.upgrade())
    }

    /// The figures of the servers of all pools that are in use, with the names of their pools.
    #[must_use]
    pub fn upstreams(&self) -> Vec<(String, ServerStatistics)> {
        let groups = self.groups().clone();
        let alive = groups
            .into_iter()
            .filter_map(|(pool, group)| Some((pool, group.upgrade()?)));
        let mut latest: Vec<(String, Group)> = Vec::new();
        for (pool, group) in alive {
            latest.retain(|(name, _)| *name != pool);
            latest.push((pool, group));
        }
        let each = latest.into_iter().flat_map(|(pool, group)| {
            let servers = group.statistics().into_iter();
            servers.map(move |server| (pool.clone(), server))
        });
        each.collect()
    }

    fn groups(&self) -> MutexGuard<'_, Vec<(String, WeakGroup)>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The figures up to now.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let reasons = Reason::ALL.iter().zip(&self.refusals);
        let refusals = reasons.map(|(reason, count)| (*reason, get(count)));
        Summary {
            protocols: self.protocols.each_ref().map(|it| ProtocolStatistics {
                requests: get(&it.requests),
                errors: get(&it.errors),
                cut_off: get(&it.cut_off),
                median_head: it.heads.median(),
                median_whole: it.wholes.median(),
            }),
            refusals: refusals.filter(|(_, count)| *count > 0).collect(),
        }
    }

    fn of(&self, version: Version) -> &Counters {
        &self.protocols[match version {
            Version::HTTP_2 => 1,
            Version::HTTP_3 => 2,
            _ => 0,
        }]
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Times {
    fn new() -> Self {
        Self((0..POWERS * STEPS).map(|_| AtomicU64::new(0)).collect())
    }

    fn add(&self, time: Duration) {
        add(&self.0[place(time)]);
    }

    fn median(&self) -> Option<Duration> {
        let counts: Vec<_> = self.0.iter().map(get).collect();
        let all: u64 = counts.iter().sum();
        let mut seen = 0;
        let place = counts.iter().position(|count| {
            seen += count;
            seen * 2 > all
        })?;
        Some(middle(place))
    }
}

/// The bucket of a time: its power of two, and the step between that and the next.
fn place(time: Duration) -> usize {
    let micros = (time.as_micros() as u64).max(1);
    let power = micros.ilog2() as usize;
    let step = ((micros - (1 << power)) * STEPS as u64) >> power;
    (power * STEPS + step as usize).min(POWERS * STEPS - 1)
}

fn middle(place: usize) -> Duration {
    let (power, step) = (place / STEPS, place % STEPS);
    let base = (1_u64 << power) as f64;
    Duration::from_secs_f64(base * (1.0 + (step as f64 + 0.5) / STEPS as f64) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_right_within_a_few_percent() {
        for micros in [1_u64, 7, 100, 999, 12_345, 1_000_000, 60_000_000] {
            let times = Times::new();
            assert_eq!(times.median(), None);
            times.add(Duration::from_micros(1));
            for _ in 0..3 {
                times.add(Duration::from_micros(micros));
            }
            times.add(Duration::from_secs(600));
            let median = times.median().unwrap().as_secs_f64() * 1e6;
            let ratio = median / micros as f64;
            let most = if micros < 16 { 1.6 } else { 1.04 };
            assert!((1.0 / most..most).contains(&ratio), "{micros}: {median}");
        }
    }

    fn group(port: u16) -> Group {
        let server = altway_upstream::Server {
            address: altway_upstream::Address::Tcp("127.0.0.1".into(), port),
            protocol: altway_upstream::Protocol::Http1,
            tls: None,
        };
        Group::new(altway_upstream::Options::new(vec![server])).unwrap()
    }

    #[test]
    fn of_a_pool_that_was_replaced_the_latest_group_is_told_of() {
        let statistics = Statistics::default();
        let [old, new, other] = [1, 2, 3].map(group);
        statistics.add_group("a", &old);
        statistics.add_group("b", &other);
        statistics.add_group("a", &new);
        let names = || {
            let upstreams = statistics.upstreams().into_iter();
            let names = upstreams.map(|(pool, it)| format!("{pool} {}", it.server));
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(), ["b http://127.0.0.1:3", "a http://127.0.0.1:2"]);
        // It never came into use.
        drop(new);
        assert_eq!(names(), ["a http://127.0.0.1:1", "b http://127.0.0.1:3"]);
    }

    #[test]
    fn the_longest_times_have_a_place() {
        assert_eq!(place(Duration::from_secs(1 << 30)), POWERS * STEPS - 1);
        assert_eq!(place(Duration::ZERO), 0);
    }

    #[test]
    fn requests_are_counted_by_protocol_and_refusals_by_reason() {
        let statistics = Statistics::default();
        statistics.request(Version::HTTP_3);
        statistics.head(
            Version::HTTP_3,
            StatusCode::OK,
            Some(Duration::from_millis(3)),
        );
        statistics.end(Version::HTTP_3, true, Duration::from_millis(9));
        statistics.request(Version::HTTP_11);
        statistics.refused(Reason::Connect);
        statistics.head(Version::HTTP_11, StatusCode::BAD_GATEWAY, None);
        statistics.end(Version::HTTP_11, false, Duration::ZERO);
        let summary = statistics.summary();
        assert_eq!(summary.protocols.map(|it| it.requests), [1, 0, 1]);
        assert_eq!(summary.protocols.map(|it| it.errors), [1, 0, 0]);
        assert_eq!(summary.protocols.map(|it| it.cut_off), [1, 0, 0]);
        assert_eq!(summary.refusals, [(Reason::Connect, 1)]);
        assert!(summary.protocols[2].median_whole > summary.protocols[2].median_head);
    }
}
