//! The servers behind a proxy, as `/status` and `/metrics` tell of them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads the figures of all servers behind proxies. Called on the admin thread.
pub type Upstreams = Arc<dyn Fn() -> Vec<UpstreamStatus> + Send + Sync>;

/// The figures of a server behind a proxy, since the server began or its configuration was last read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpstreamStatus {
    /// The server's group: the site and the path of the route.
    pub pool: String,
    /// The server, as it is configured.
    pub server: String,
    /// True if the server is given requests.
    pub healthy: bool,
    /// Requests that it was given, those that were sent again included.
    pub requests: u64,
    /// Requests that are not answered, or not to the end of the response.
    pub in_progress: u64,
    /// Counts of requests to which it has given no response, by reason.
    pub failures: BTreeMap<String, u64>,
    /// Requests that were sent again, to it or to another, after it had failed.
    pub retries: u64,
    /// Times that it was left alone for its failures, or found down by a check.
    pub ejections: u64,
    /// Upper bounds in milliseconds of the buckets of `latency`.
    pub latency_bounds_ms: Vec<u64>,
    /// Counts of times from requests to the heads of their responses, each without those of the bound before; the last
    /// is of longer ones.
    pub latency: Vec<u64>,
    /// The sum of these times, in seconds.
    pub latency_sum_s: f64,
    /// Connections that there are.
    pub open_connections: u64,
    /// Connections that wait for a request.
    pub idle_connections: u64,
}

impl UpstreamStatus {
    /// The smallest bound, in milliseconds, that half of the times are within; `None`: none was counted, or half of them
    /// are longer than all bounds.
    #[must_use]
    pub fn median_bound_ms(&self) -> Option<u64> {
        let all: u64 = self.latency.iter().sum();
        let mut seen = 0;
        let place = self.latency.iter().position(|count| {
            seen += count;
            all > 0 && seen * 2 >= all
        })?;
        self.latency_bounds_ms.get(place).copied()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn upstream() -> UpstreamStatus {
        UpstreamStatus {
            pool: "a.example/".into(),
            server: "http://10.0.0.1:80".into(),
            healthy: true,
            requests: 7,
            in_progress: 1,
            failures: BTreeMap::from([("connect".into(), 2)]),
            retries: 1,
            ejections: 0,
            latency_bounds_ms: vec![5, 10],
            latency: vec![1, 2, 1],
            latency_sum_s: 0.5,
            open_connections: 3,
            idle_connections: 2,
        }
    }

    #[test]
    fn half_of_the_times_are_within_the_median_s_bound() {
        let mut upstream = upstream();
        assert_eq!(upstream.median_bound_ms(), Some(10));
        upstream.latency = vec![0, 0, 1];
        assert_eq!(upstream.median_bound_ms(), None);
        upstream.latency = vec![0, 0, 0];
        assert_eq!(upstream.median_bound_ms(), None);
    }
}
