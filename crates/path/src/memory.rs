//! Path statistics in this process's memory.

use crate::prefix::{ALLOCATION, CLIENT, NETWORK};
use crate::{PathStatistics, Sample, Store};
use altway_units::Ratio;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// Fewer clients than this say nothing of their network: with three, one of them can't move the median
/// beyond what another one measured.
const MIN_NEIGHBOURS: usize = 3;

/// Limits of a [`MemoryStore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryStoreConfig {
    /// The most clients to keep (IPv4 addresses, IPv6 /64s); one more drops the one that was silent
    /// longest. About 400 bytes each. Default 32,768.
    pub max_clients: usize,
    /// The most clients of one network (IPv4 /24, IPv6 /48); one more drops the one of them that was
    /// silent longest. The cost of a decision grows with it. Default 16.
    pub max_clients_per_network: usize,
    /// The most clients of one allocation (IPv4 /16, IPv6 /32), so that nobody who holds one can make
    /// the store forget all others. Default 2,048.
    pub max_clients_per_allocation: usize,
    /// Samples older than this are forgotten; those older than half of it may be. Default 10 min.
    pub max_age: Duration,
}

impl Default for MemoryStoreConfig {
    fn default() -> Self {
        Self {
            max_clients: 32_768,
            max_clients_per_network: 16,
            max_clients_per_allocation: 2_048,
            max_age: Duration::from_secs(600),
        }
    }
}

/// A bounded [`Store`] in memory. Ordered maps, for a hash of hostile keys would need a seed; all
/// operations cost O(log n).
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    config: MemoryStoreConfig,
    /// By the first address of each client: those of a network stand side by side.
    paths: BTreeMap<IpAddr, Path>,
    /// The same clients by the time of their newest sample, for the eviction.
    by_age: BTreeSet<(Duration, IpAddr)>,
    /// The same for each allocation.
    allocations: BTreeMap<IpAddr, BTreeSet<(Duration, IpAddr)>>,
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

    /// How many clients it holds, aged ones included; at most [`MemoryStoreConfig::max_clients`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    fn note(&mut self, client: IpAddr, updated: Duration) {
        self.by_age.insert((updated, client));
        let allocation = self.allocations.entry(ALLOCATION.first(client));
        allocation.or_default().insert((updated, client));
    }

    fn unnote(&mut self, client: IpAddr, updated: Duration) {
        self.by_age.remove(&(updated, client));
        let first = ALLOCATION.first(client);
        if let Some(allocation) = self.allocations.get_mut(&first) {
            allocation.remove(&(updated, client));
            if allocation.is_empty() {
                self.allocations.remove(&first);
            }
        }
    }

    fn forget(&mut self, client: IpAddr) {
        if let Some(path) = self.paths.remove(&client) {
            self.unnote(client, path.updated);
        }
    }

    /// Forgets others where `client` is one too many: first in its network, then in its allocation,
    /// then anywhere.
    fn make_room(&mut self, client: IpAddr) {
        let config = self.config;
        let network = || self.paths.range(NETWORK.range(client));
        if network().count() > config.max_clients_per_network {
            let oldest = network().min_by_key(|(_, path)| path.updated);
            let oldest = oldest.map(|(client, _)| *client);
            oldest.into_iter().for_each(|oldest| self.forget(oldest));
        }
        let allocation = self.allocations.get(&ALLOCATION.first(client));
        let crowded = allocation.filter(|it| it.len() > config.max_clients_per_allocation);
        if let Some((_, oldest)) = crowded.and_then(BTreeSet::first).copied() {
            self.forget(oldest);
        }
        while self.paths.len() > config.max_clients
            && let Some((_, oldest)) = self.by_age.first().copied()
        {
            self.forget(oldest);
        }
    }
}

impl Store for MemoryStore {
    fn record(&mut self, client: IpAddr, sample: &Sample) {
        let client = CLIENT.first(client);
        let max_age = self.config.max_age;
        let path = self
            .paths
            .entry(client)
            .or_insert_with(|| Path::new(sample));
        let before = path.updated;
        path.add(sample, max_age);
        let updated = path.updated;
        self.unnote(client, before);
        self.note(client, updated);
        self.make_room(client);
    }

    fn client(&self, client: IpAddr, now: Duration) -> Option<PathStatistics> {
        let path = self.paths.get(&CLIENT.first(client))?;
        path.statistics(now, self.config.max_age)
    }

    fn neighbours(&self, client: IpAddr, now: Duration) -> Option<PathStatistics> {
        let own = CLIENT.first(client);
        let others = self
            .paths
            .range(NETWORK.range(client))
            .filter(|(other, _)| **other != own)
            .filter_map(|(_, path)| path.statistics(now, self.config.max_age));
        median(&others.collect::<Vec<_>>())
    }
}

/// The middle of what clients measured, quantity by quantity, each client counting once however much it
/// measured; `None` for too few of them.
fn median(clients: &[PathStatistics]) -> Option<PathStatistics> {
    if clients.len() < MIN_NEIGHBOURS {
        return None;
    }
    Some(PathStatistics {
        min_rtt: middle(clients, |it| it.min_rtt)?,
        loss: middle(clients, |it| it.loss)?,
        packets: middle(clients, |it| it.packets)?,
        updated: clients.iter().map(|it| it.updated).max()?,
    })
}

/// The lower of the two middle ones of an even number.
fn middle<T: Ord>(clients: &[PathStatistics], of: impl Fn(&PathStatistics) -> T) -> Option<T> {
    let mut all: Vec<T> = clients.iter().map(of).collect();
    all.sort_unstable();
    let middle = all.len().checked_sub(1)? / 2;
    Some(all.swap_remove(middle))
}

/// One client: two windows of half the maximum age each. When the newer is full it becomes the
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
mod tests;
