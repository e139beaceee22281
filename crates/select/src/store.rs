//! The states of all clients and networks: sharded, bounded, fading.
//!
//! Sixty-four shards with a lock each, which is held for less than a microsecond. A shard belongs to addresses
//! of many allocations (IPv4 /16, IPv6 /32), but an allocation has only four shards: whoever holds one
//! can make the store forget a sixteenth part of it, and not the rest.

use crate::client_state::{self, ClientState};
use crate::network::{self, Neighbours, Network};
use crate::{Client, ClientClass, UnixTime};
use std::sync::{Mutex, MutexGuard, PoisonError};
use table::Table;

mod table;

const SHARDS: usize = 64;

/// Shards of an allocation.
const SHARE: u64 = 4;

/// Votes on the limits of classes that a network has in a day, and an allocation.
const NETWORK_VOTES: u8 = 6;
const ALLOCATION_VOTES: u8 = 60;

/// Class of the entries of allocations among those of networks.
const ALLOCATION: u8 = 1;

/// States of clients and networks.
#[derive(Debug)]
pub(crate) struct Store {
    shards: Vec<Mutex<Shard>>,
}

#[derive(Debug)]
struct Shard {
    clients: Table<{ client_state::SIZE }>,
    networks: Table<{ network::SIZE }>,
}

impl Store {
    /// A store of at most `clients` addresses and classes at 48 bytes each, and half as many networks at 24.
    pub(crate) fn new(clients: usize) -> Self {
        let places = clients.div_ceil(SHARDS);
        let shard = || Shard {
            clients: Table::new(places),
            networks: Table::new(places.div_ceil(2)),
        };
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect(),
        }
    }

    /// The state of `client`, as of `now`.
    pub(crate) fn known(&self, client: &Client, now: UnixTime) -> Option<ClientState> {
        let shard = self.shard(client, client.address);
        let entry = shard.clients.get(client.address, client.class.index())?;
        let mut known = ClientState::read(entry);
        if known.is_forgotten(now) {
            return None;
        }
        known.fade(now);
        Some(known)
    }

    /// Changes what is known of `client`.
    pub(crate) fn change<T>(
        &self,
        client: &Client,
        now: UnixTime,
        change: impl FnOnce(&mut ClientState) -> T,
    ) -> T {
        let mut shard = self.shard(client, client.address);
        let forgotten =
            |entry: &[u8; client_state::SIZE]| ClientState::read(entry).is_forgotten(now);
        let entry = shard
            .clients
            .entry(client.address, client.class.index(), forgotten);
        let mut known = ClientState::read(entry);
        if known.is_forgotten(now) {
            known = ClientState::default();
        }
        known.fade(now);
        let result = change(&mut known);
        known.write(entry);
        result
    }

    /// The first guess that neighbours of `client` give.
    pub(crate) fn neighbours(&self, client: &Client, now: UnixTime) -> Option<Neighbours> {
        let shard = self.shard(client, client.network);
        let network = Network::read(shard.networks.get(client.network, 0)?);
        if network.is_forgotten(now) {
            None
        } else {
            network.neighbours()
        }
    }

    pub(crate) fn change_network(
        &self,
        client: &Client,
        now: UnixTime,
        change: impl FnOnce(&mut Network),
    ) {
        self.prefix(client, (client.network, 0), now, change);
    }

    /// Counts a vote of `client` on the limit of a class, if it may vote: its network may six times a day, its allocation
    /// sixty times.
    pub(crate) fn vote(&self, client: &Client, now: UnixTime) -> bool {
        let votes = |name, most| {
            self.prefix(client, name, now, |network: &mut Network| {
                network.vote(most)
            })
        };
        votes((client.network, 0), NETWORK_VOTES)
            && votes((client.allocation, ALLOCATION), ALLOCATION_VOTES)
    }

    fn prefix<T>(
        &self,
        client: &Client,
        (hash, class): (u64, u8),
        now: UnixTime,
        change: impl FnOnce(&mut Network) -> T,
    ) -> T {
        let mut shard = self.shard(client, hash);
        let forgotten = |entry: &[u8; network::SIZE]| Network::read(entry).is_forgotten(now);
        let entry = shard.networks.entry(hash, class, forgotten);
        let mut network = Network::read(entry);
        if network.is_forgotten(now) {
            network = Network::default();
        }
        network.fade(now);
        let result = change(&mut network);
        network.write(entry);
        result
    }

    /// Number of clients.
    pub(crate) fn len(&self) -> usize {
        self.locked().map(|shard| shard.clients.len()).sum()
    }

    /// Bytes of all places, of clients and of networks.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.locked()
            .map(|shard| shard.clients.bytes() + shard.networks.bytes())
            .sum()
    }

    /// Entries of clients, then of networks, as they are.
    pub(crate) fn entries(
        &self,
        mut client: impl FnMut(usize, &[u8; client_state::SIZE]),
        mut network: impl FnMut(usize, &[u8; network::SIZE]),
    ) {
        for (number, shard) in self.locked().enumerate() {
            shard.clients.iter().for_each(|entry| client(number, entry));
            shard
                .networks
                .iter()
                .for_each(|entry| network(number, entry));
        }
    }

    /// Each client's address, class and state.
    pub(crate) fn each_client(&self, mut client: impl FnMut(u64, ClientClass, ClientState)) {
        for shard in self.locked() {
            for entry in shard.clients.iter() {
                let (address, class) = Table::name(entry);
                if let Some(class) = ClientClass::from_index(class) {
                    client(address, class, ClientState::read(entry));
                }
            }
        }
    }

    /// Takes up an entry that [`entries`](Self::entries) gave.
    pub(crate) fn restore_client(
        &self,
        shard: usize,
        entry: &[u8; client_state::SIZE],
        now: UnixTime,
    ) {
        let known = ClientState::read(entry);
        if known.is_forgotten(now) {
            return;
        }
        let mut shard = self.at(shard);
        known.write(shard.clients.restore(entry));
    }

    /// The same of a network; without its rates unless they hold under the congestion control of today.
    pub(crate) fn restore_network(
        &self,
        shard: usize,
        entry: &[u8; network::SIZE],
        rates_hold: bool,
        now: UnixTime,
    ) {
        let mut network = Network::read(entry);
        if network.is_forgotten(now) {
            return;
        }
        if !rates_hold {
            network.forget_rates();
        }
        let mut shard = self.at(shard);
        network.write(shard.networks.restore(entry));
    }

    fn shard(&self, client: &Client, hash: u64) -> MutexGuard<'_, Shard> {
        let of_allocation = client.allocation.wrapping_add((hash & (SHARE - 1)) * 17);
        self.at((of_allocation % SHARDS as u64) as usize)
    }

    /// Sums are sums, whatever happened to a thread that added to them.
    fn at(&self, number: usize) -> MutexGuard<'_, Shard> {
        self.shards[number % SHARDS]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn locked(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        (0..SHARDS).map(|number| self.at(number))
    }
}

#[cfg(test)]
mod tests;
