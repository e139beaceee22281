//! Counts of what servers did: each worker has its own for each server, and they are summed when somebody asks.

use crate::retry::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets of [`Latency`] in milliseconds: those that OpenTelemetry's semantic conventions give for
/// `http.client.request.duration`. What is longer is counted as well.
pub const LATENCY_BUCKETS_MS: [u64; 14] = [
    5, 10, 25, 50, 75, 100, 250, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000,
];

/// The names of failures, in the order of [`ServerStatistics::failures`]: no connection; a connection that ended before
/// the response; a pooled one that the server had closed, of which requests see nothing as a rule; no response in time;
/// what is no response; a request that the server took back unhandled.
pub const FAILURES: [&str; 6] = [
    "connect",
    "closed",
    "closed_idle",
    "timeout",
    "malformed",
    "refused",
];

/// The figures of one server, over all workers, since a group first had it ([`Group::after`](crate::Group::after)).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStatistics {
    /// The server, as a configuration names it.
    pub server: String,
    /// True if it is given requests.
    pub is_available: bool,
    /// Requests that it was given, those that were sent again included.
    pub requests: u64,
    /// Requests that it has not responded to, or not to the end of the response.
    pub in_progress: usize,
    /// Requests to which it has given no response, by [`FAILURES`].
    pub failures: [u64; FAILURES.len()],
    /// Requests that were sent again, to it or to another, after it had failed.
    pub retries: u64,
    /// Times that it was left alone for its failures, or found down by a check.
    pub ejections: u64,
    /// Times from requests to the heads of their responses.
    pub latency: Latency,
    /// Connections that there are.
    pub open_connections: u64,
    /// Connections without a request, which wait for one.
    pub idle_connections: u64,
}

/// A histogram of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Latency {
    /// Counts by the bound, of [`LATENCY_BUCKETS_MS`], that they are within and the one before not; the last is of what
    /// is longer.
    pub buckets: [u64; LATENCY_BUCKETS_MS.len() + 1],
    /// The sum of all times.
    pub sum: Duration,
}

/// The counters of one worker for one server.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    failures: [AtomicU64; FAILURES.len()],
    retries: AtomicU64,
    buckets: [AtomicU64; LATENCY_BUCKETS_MS.len() + 1],
    micros: AtomicU64,
    opened: AtomicU64,
    closed: AtomicU64,
}

/// A connection that counts as open until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<Counters>);

impl Counters {
    pub(crate) fn request(&self) {
        add(&self.requests, 1);
    }

    /// `is_reused`: the connection had carried requests before.
    pub(crate) fn failed(&self, failure: Failure, is_reused: bool) {
        let place = match failure {
            Failure::Connect => 0,
            Failure::Connection if !is_reused => 1,
            Failure::Connection => 2,
            Failure::TimedOut => 3,
            Failure::Malformed | Failure::OtherVersion => 4,
            Failure::Unprocessed => 5,
        };
        add(&self.failures[place], 1);
    }

    pub(crate) fn retried(&self) {
        add(&self.retries, 1);
    }

    /// The head of a response has come `after` its request.
    pub(crate) fn responded(&self, after: Duration) {
        let within = |bound: &u64| after <= Duration::from_millis(*bound);
        let place = LATENCY_BUCKETS_MS.iter().position(within);
        add(&self.buckets[place.unwrap_or(LATENCY_BUCKETS_MS.len())], 1);
        let micros = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        add(&self.micros, micros);
    }

    pub(crate) fn open(self: &Arc<Self>) -> OpenConnection {
        add(&self.opened, 1);
        OpenConnection(Arc::clone(self))
    }

    /// Adds what was counted to `sum`, in which nothing of this worker is yet.
    pub(crate) fn add_to(&self, sum: &mut ServerStatistics) {
        sum.requests += get(&self.requests);
        sum.retries += get(&self.retries);
        for (sum, count) in sum.failures.iter_mut().zip(&self.failures) {
            *sum += get(count);
        }
        for (sum, count) in sum.latency.buckets.iter_mut().zip(&self.buckets) {
            *sum += get(count);
        }
        sum.latency.sum += Duration::from_micros(get(&self.micros));
        // A connection may be closed between the two.
        let closed = get(&self.closed);
        sum.open_connections += get(&self.opened).saturating_sub(closed);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        add(&self.0.closed, 1);
    }
}

fn add(count: &AtomicU64, number: u64) {
    count.fetch_add(number, Ordering::Relaxed);
}

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl ServerStatistics {
    /// The figures of a server of which nothing is counted.
    pub(crate) fn of_nothing(server: String, is_available: bool) -> Self {
        Self {
            server,
            is_available,
            requests: 0,
            in_progress: 0,
            failures: [0; FAILURES.len()],
            retries: 0,
            ejections: 0,
            latency: Latency::default(),
            open_connections: 0,
            idle_connections: 0,
        }
    }
}

impl Latency {
    /// Returns how many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_count_adds_up() {
        let workers = [Arc::<Counters>::default(), Arc::default()];
        let open: Vec<_> = workers.iter().map(Counters::open).collect();
        drop(workers[0].open());
        for worker in &workers {
            worker.request();
            worker.failed(Failure::Connection, true);
            worker.failed(Failure::Connect, false);
            worker.retried();
            worker.responded(Duration::from_millis(5));
            worker.responded(Duration::from_secs(60));
        }
        let mut sum = ServerStatistics::of_nothing("http://a:1".into(), true);
        workers.iter().for_each(|it| it.add_to(&mut sum));
        assert_eq!((sum.requests, sum.retries), (2, 2));
        assert_eq!(sum.failures, [2, 0, 2, 0, 0, 0]);
        assert_eq!((sum.latency.buckets[0], sum.latency.buckets[14]), (2, 2));
        assert_eq!(sum.latency.count(), 4);
        assert_eq!(sum.latency.sum, Duration::from_millis(120_010));
        assert_eq!(sum.open_connections, 2);
        drop(open);
        let mut sum = ServerStatistics::of_nothing("http://a:1".into(), true);
        workers.iter().for_each(|it| it.add_to(&mut sum));
        assert_eq!(sum.open_connections, 0);
    }
}
