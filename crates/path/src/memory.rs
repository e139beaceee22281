//! Path statistics in this process's memory.

use crate::{PathStatistics, Prefix, Sample, Store};
use altway_units::Ratio;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How much a [`MemoryStore`] keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryStoreConfig {
    /// The most prefixes to keep; one more drops the one that was silent longest. About 200 bytes
    /// each. Default 65,536.
    pub max_prefixes: usize,
    /// Samples older than this are forgotten; those older than half of it may be. Default 10 min.
    pub max_age: Duration,
}

impl Default for MemoryStoreConfig {
    fn default() -> Self {
        Self {
            max_prefixes: 65_536,
            max_age: Duration::from_secs(600),
        }
    }
}

/// A bounded [`Store`] in memory. Ordered maps, for a hash of hostile keys would need a seed; both
/// operations cost O(log n).
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    config: MemoryStoreConfig,
    paths: BTreeMap<Prefix, Path>,
    /// The same prefixes by the time of their newest sample, for the eviction.
    by_age: BTreeSet<(Duration, Prefix)>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(config: MemoryStoreConfig) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// How many prefixes it holds, aged ones included; at most
    /// [`MemoryStoreConfig::max_prefixes`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    fn make_room(&mut self) {
        while self.paths.len() > self.config.max_prefixes {
            let Some((_, oldest)) = self.by_age.pop_first() else {
                return;
            };
            self.paths.remove(&oldest);
        }
    }
}

impl Store for MemoryStore {
    fn record(&mut self, prefix: Prefix, sample: &Sample) {
        let path = self
            .paths
            .entry(prefix)
            .or_insert_with(|| Path::new(sample));
        self.by_age.remove(&(path.updated, prefix));
        path.add(sample, self.config.max_age);
        self.by_age.insert((path.updated, prefix));
        self.make_room();
    }

    fn get(&self, prefix: Prefix, now: Duration) -> Option<PathStatistics> {
        self.paths
            .get(&prefix)?
            .statistics(now, self.config.max_age)
    }
}

/// One prefix: two windows of half the maximum age each. When the newer is full it becomes the
/// older, so that an old minimum or an old loss leaves in time without a list of samples.
#[derive(Debug, Clone)]
struct Path {
    newer: Window,
    older: Option<Window>,
    updated: Duration,
}

impl Path {
    fn new(sample: &Sample) -> Self {
        Self {
            newer: Window::starting(sample.at),
            older: None,
            updated: sample.at,
        }
    }

    fn add(&mut self, sample: &Sample, max_age: Duration) {
        if sample.at >= self.newer.start + max_age / 2 {
            let full = std::mem::replace(&mut self.newer, Window::starting(sample.at));
            self.older = Some(full);
        }
        self.newer.add(sample);
        self.updated = self.updated.max(sample.at);
    }

    fn statistics(&self, now: Duration, max_age: Duration) -> Option<PathStatistics> {
        let recent = |window: &&Window| now.saturating_sub(window.newest) <= max_age;
        let sum = [Some(&self.newer), self.older.as_ref()]
            .into_iter()
            .flatten()
            .filter(recent)
            .fold(None, |sum: Option<Window>, window| {
                Some(sum.map_or(*window, |sum| sum.join(window)))
            })?;
        Some(PathStatistics {
            min_rtt: sum.min_rtt,
            loss: Ratio::of(sum.packets_lost, sum.packets_sent).unwrap_or(Ratio::ZERO),
            packets: sum.packets_sent,
            updated: self.updated,
        })
    }
}

/// The sum of the samples of a span of time.
#[derive(Debug, Clone, Copy)]
struct Window {
    start: Duration,
    newest: Duration,
    min_rtt: Duration,
    packets_sent: u64,
    packets_lost: u64,
}

impl Window {
    fn starting(start: Duration) -> Self {
        Self {
            start,
            newest: start,
            min_rtt: Duration::MAX,
            packets_sent: 0,
            packets_lost: 0,
        }
    }

    fn add(&mut self, sample: &Sample) {
        self.newest = self.newest.max(sample.at);
        self.min_rtt = self.min_rtt.min(sample.min_rtt);
        self.packets_sent = self.packets_sent.saturating_add(sample.packets_sent);
        self.packets_lost = self.packets_lost.saturating_add(sample.packets_lost);
    }

    fn join(self, other: &Self) -> Self {
        Self {
            start: self.start.min(other.start),
            newest: self.newest.max(other.newest),
            min_rtt: self.min_rtt.min(other.min_rtt),
            packets_sent: self.packets_sent.saturating_add(other.packets_sent),
            packets_lost: self.packets_lost.saturating_add(other.packets_lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transport;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};

    const MAX_AGE: Duration = Duration::from_secs(600);

    fn prefix(network: u16) -> Prefix {
        let [high, low] = network.to_be_bytes();
        Prefix::from(IpAddr::from(Ipv4Addr::new(10, high, low, 1)))
    }

    fn sample(at: u64, rtt_ms: u64, sent: u64, lost: u64) -> Sample {
        Sample {
            transport: Transport::Quic,
            at: Duration::from_secs(at),
            min_rtt: Duration::from_millis(rtt_ms),
            packets_sent: sent,
            packets_lost: lost,
        }
    }

    fn small(max_prefixes: usize) -> MemoryStore {
        MemoryStore::new(MemoryStoreConfig {
            max_prefixes,
            max_age: MAX_AGE,
        })
    }

    #[test]
    fn samples_of_a_prefix_add_up() {
        let mut store = small(8);
        store.record(prefix(1), &sample(0, 30, 100, 1));
        store.record(prefix(1), &sample(1, 20, 100, 2));
        let path = store.get(prefix(1), Duration::from_secs(2)).unwrap();
        assert_eq!(path.min_rtt, Duration::from_millis(20));
        assert_eq!(path.loss, "1.5%".parse().unwrap());
        assert_eq!(path.packets, 200);
        assert_eq!(path.updated, Duration::from_secs(1));
    }

    #[test]
    fn an_unknown_prefix_has_no_statistics() {
        let mut store = small(8);
        store.record(prefix(1), &sample(0, 30, 100, 1));
        assert_eq!(store.get(prefix(2), Duration::ZERO), None);
    }

    #[test]
    fn a_path_is_known_up_to_its_maximum_age_and_not_longer() {
        let mut store = small(8);
        store.record(prefix(1), &sample(10, 30, 100, 1));
        let end = Duration::from_secs(10) + MAX_AGE;
        assert!(store.get(prefix(1), end).is_some());
        assert_eq!(store.get(prefix(1), end + Duration::from_nanos(1)), None);
    }

    #[test]
    fn an_old_minimum_leaves_while_new_samples_come() {
        let mut store = small(8);
        store.record(prefix(1), &sample(0, 5, 100, 50));
        for at in (100..=1000).step_by(100) {
            store.record(prefix(1), &sample(at, 80, 100, 0));
        }
        let path = store.get(prefix(1), Duration::from_secs(1000)).unwrap();
        assert_eq!(path.min_rtt, Duration::from_millis(80));
        assert_eq!(path.loss, Ratio::ZERO);
    }

    #[test]
    fn without_a_packet_there_is_no_loss() {
        let mut store = small(8);
        store.record(prefix(1), &sample(0, 5, 0, 0));
        let path = store.get(prefix(1), Duration::ZERO).unwrap();
        assert_eq!((path.loss, path.packets), (Ratio::ZERO, 0));
    }

    #[test]
    fn a_full_store_forgets_the_prefix_that_was_silent_longest() {
        let mut store = small(2);
        store.record(prefix(1), &sample(0, 5, 1, 0));
        store.record(prefix(2), &sample(1, 5, 1, 0));
        store.record(prefix(1), &sample(2, 5, 1, 0));
        store.record(prefix(3), &sample(3, 5, 1, 0));
        let now = Duration::from_secs(3);
        assert_eq!(store.len(), 2);
        assert!(store.get(prefix(1), now).is_some());
        assert!(store.get(prefix(2), now).is_none());
        assert!(store.get(prefix(3), now).is_some());
    }

    proptest! {
        #[test]
        fn never_exceeds_its_bound_and_its_two_maps_agree(
            samples in proptest::collection::vec((0_u16..20, 0_u64..2000, 0_u64..50, 0_u64..50), 0..200),
        ) {
            let mut store = small(7);
            for (network, at, sent, lost) in samples {
                store.record(prefix(network), &sample(at, 1, sent, lost));
                prop_assert!(store.len() <= 7);
                prop_assert_eq!(store.by_age.len(), store.paths.len());
            }
        }
    }
}
