//! The selector's knowledge as bytes: for the next process, or for a file that its caller writes.
//!
//! The bytes end with a keyed hash of all others, so that damage is noticed and nobody without the secret can
//! write them. Still every number is checked or cut to its range when it is read.

use crate::classes::State;
use crate::client_state;
use crate::cusum::{self, Cusum};
use crate::mix::Mix;
use crate::network;
use crate::secret::Domain;
use crate::selector::SLOTS;
use crate::{ClientClass, Congestion, Host, Secret, Selector, UnixTime};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

const MAGIC: &[u8; 8] = b"altwsel\n";
const VERSION: u32 = 3;

/// The version before, which had no hosts.
const WITHOUT_HOSTS: u32 = 2;

/// Hosts that a snapshot may have.
const MAX_HOSTS: u64 = 4_096;

/// A host as a snapshot has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptHost {
    slot: u8,
    mix: Mix,
}

/// Reasons why bytes are no snapshot for this selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// No snapshot, or a truncated one.
    #[error("not a snapshot of path statistics, or an incomplete one")]
    Format,
    /// Another version of altway made it.
    #[error("snapshot of version {found}, where {VERSION} is expected")]
    Version {
        /// Version in the bytes.
        found: u32,
    },
    /// A snapshot under another secret: its addresses mean nothing here.
    #[error("snapshot under another secret")]
    Secret,
    /// Damaged bytes.
    #[error("snapshot whose checksum does not match")]
    Checksum,
}

impl Selector {
    /// Everything that is known, with the slots and the pages of these hosts, 4,096 of them at most. About 49 bytes a client, 25 a
    /// network, and some hundred a host.
    #[must_use]
    pub fn snapshot<'a>(
        &self,
        hosts: impl IntoIterator<Item = &'a Host>,
        now: UnixTime,
    ) -> Vec<u8> {
        let mut to = MAGIC.to_vec();
        to.extend(VERSION.to_le_bytes());
        to.extend(identity(&self.secret).to_le_bytes());
        to.extend(self.congestion.map(to_byte));
        to.extend(now.as_secs().to_le_bytes());
        let visits = *self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = visits.whole_week.unwrap_or(u64::MAX);
        for number in [
            visits.total,
            visits.week,
            visits.this_week,
            whole,
            visits.is_whole.into(),
        ] {
            to.extend(number.to_le_bytes());
        }
        for class in ClientClass::all() {
            write_class(&mut to, &self.classes.state(class));
        }
        let (mut clients, mut networks) = (Vec::new(), Vec::new());
        let add = |to: &mut Vec<u8>, shard: usize, entry: &[u8]| {
            to.push(shard as u8);
            to.extend_from_slice(entry);
        };
        self.store.entries(
            |shard, entry| add(&mut clients, shard, entry),
            |shard, entry| add(&mut networks, shard, entry),
        );
        to.extend(((clients.len() / (client_state::SIZE + 1)) as u64).to_le_bytes());
        to.extend(clients);
        to.extend(((networks.len() / (network::SIZE + 1)) as u64).to_le_bytes());
        to.extend(networks);
        self.write_hosts(&mut to, hosts);
        to.extend(checksum(&self.secret, &to).to_le_bytes());
        to
    }

    /// Restores what [`snapshot`](Self::snapshot) returned; a host's pages are then there for [`recall`](Self::recall). What
    /// is too old by now is left out; entries beyond what this selector keeps replace each other. Where it was learnt under other congestion control than this
    /// selector's, clients' rates stay as lower bounds, networks' go, and classes begin nearly anew.
    ///
    /// # Errors
    /// The bytes are no snapshot of this version under this secret. Then nothing has changed.
    pub fn restore(&self, bytes: &[u8], now: UnixTime) -> Result<(), SnapshotError> {
        let (version, body) = self.checked(bytes)?;
        let mut from = Reader(body);
        let snapshot = Parts::read(&mut from, version, self).ok_or(SnapshotError::Format)?;
        *self.visits.lock().unwrap_or_else(PoisonError::into_inner) = snapshot.visits;
        let holds = snapshot.congestion == self.congestion;
        for (class, mut state) in ClientClass::all().zip(snapshot.classes) {
            if !holds {
                state.set_other_congestion();
            }
            *self.classes.state(class) = state;
        }
        for (shard, entry) in snapshot.clients {
            self.store.restore_client(shard.into(), entry, now);
        }
        for (shard, entry) in snapshot.networks {
            self.store.restore_network(shard.into(), entry, holds, now);
        }
        *self
            .kept_hosts
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = snapshot.hosts;
        Ok(())
    }

    /// Lets a host that has counted no page yet go on with those that a [restored](Self::restore) snapshot had of its
    /// name.
    pub fn recall(&self, host: &Host) {
        let Some(kept) = self.kept_host(host.name()) else {
            return;
        };
        let mut mix = host.mix.lock().unwrap_or_else(PoisonError::into_inner);
        if mix.is_empty() {
            *mix = kept.mix;
        }
    }

    /// The host that a request for `name` was decided for by whoever made the [restored](Self::restore) snapshot, in its slot and
    /// with its pages: that of the name, that of `*.` and what follows its first label, or that of all others.
    #[must_use]
    pub fn host_of_snapshot(&self, name: &str) -> Host {
        let above = name.split_once('.').map(|(_, above)| format!("*.{above}"));
        let names = [Some(name), above.as_deref(), Some("")];
        let mut names = names.into_iter().flatten();
        let found = names.find_map(|name| Some((name, self.kept_host(name)?)));
        let Some((name, kept)) = found else {
            return Host::new(name);
        };
        let mut host = Host::new(name);
        host.slot = kept.slot;
        host.mix = Mutex::new(kept.mix);
        host
    }

    fn kept_host(&self, name: &str) -> Option<KeptHost> {
        let hosts = self.kept_hosts.lock();
        let hosts = hosts.unwrap_or_else(PoisonError::into_inner);
        hosts.get(&self.host_key(name)).cloned()
    }

    fn host_key(&self, name: &str) -> u64 {
        let name = name.to_ascii_lowercase();
        self.secret.hash(Domain::Host, &[name.as_bytes()])
    }

    /// Writes hosts; of those with one name, as with another policy, the mix with the most pages and the slot of the latest,
    /// but for those without a name, of which the first is that of all others.
    fn write_hosts<'a>(&self, to: &mut Vec<u8>, hosts: impl IntoIterator<Item = &'a Host>) {
        let mut kept_hosts: BTreeMap<u64, KeptHost> = BTreeMap::new();
        for host in hosts {
            let key = self.host_key(host.name());
            let is_new = !kept_hosts.contains_key(&key);
            if is_new && kept_hosts.len() as u64 == MAX_HOSTS {
                continue;
            }
            let kept = kept_hosts.entry(key).or_default();
            if is_new || !host.name().is_empty() {
                kept.slot = host.slot;
            }
            let mix = host.mix.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.mix.pages() < mix.pages() {
                kept.mix.clone_from(&mix);
            }
        }
        to.extend((kept_hosts.len() as u64).to_le_bytes());
        for (key, KeptHost { slot, mix }) in kept_hosts {
            to.extend(key.to_le_bytes());
            to.push(slot);
            mix.write(to);
        }
    }

    /// The version, and the bytes between the head and the checksum.
    fn checked<'a>(&self, bytes: &'a [u8]) -> Result<(u32, &'a [u8]), SnapshotError> {
        let (all, sum) = bytes.split_last_chunk::<8>().ok_or(SnapshotError::Format)?;
        let mut from = Reader(all);
        if from.take::<8>() != Some(MAGIC) {
            return Err(SnapshotError::Format);
        }
        let found = from
            .take()
            .map(|it| u32::from_le_bytes(*it))
            .ok_or(SnapshotError::Format)?;
        if !matches!(found, WITHOUT_HOSTS | VERSION) {
            return Err(SnapshotError::Version { found });
        }
        if from.u64() != Some(identity(&self.secret)) {
            return Err(SnapshotError::Secret);
        }
        if checksum(&self.secret, all) != u64::from_le_bytes(*sum) {
            return Err(SnapshotError::Checksum);
        }
        Ok((found, from.0))
    }
}

/// Congestion control of TCP and of QUIC under which a snapshot was made. As the rest of it, it can be trusted only
/// after [`Selector::restore`] has verified the checksum. `None` for bytes that are no snapshot of this version.
#[must_use]
pub fn snapshot_congestion(bytes: &[u8]) -> Option<[Congestion; 2]> {
    let mut from = Reader(bytes);
    let is_ours = from.take::<8>()? == MAGIC
        && matches!(u32::from_le_bytes(*from.take()?), WITHOUT_HOSTS | VERSION);
    let _identity = from.u64()?;
    is_ours.then(|| from.congestion())?
}

fn to_byte(congestion: Congestion) -> u8 {
    match congestion {
        Congestion::LossBased => 0,
        Congestion::RateBased => 1,
    }
}

/// A snapshot that has been read whole.
struct Parts<'a> {
    congestion: [Congestion; 2],
    visits: crate::visits::Visits,
    classes: Vec<State>,
    clients: Vec<(u8, &'a [u8; client_state::SIZE])>,
    networks: Vec<(u8, &'a [u8; network::SIZE])>,
    hosts: BTreeMap<u64, KeptHost>,
}

impl<'a> Parts<'a> {
    fn read(from: &mut Reader<'a>, version: u32, selector: &Selector) -> Option<Self> {
        let congestion = from.congestion()?;
        let _made = from.u64()?;
        let visits = crate::visits::Visits {
            total: from.u64()?,
            week: from.u64()?,
            this_week: from.u64()?,
            whole_week: Some(from.u64()?).filter(|it| *it != u64::MAX),
            is_whole: from.u64()? == 1,
        };
        let mut classes = Vec::new();
        for class in ClientClass::all() {
            let mut state = selector.classes.state(class).clone();
            read_class(from, &mut state)?;
            classes.push(state);
        }
        let clients = from.entries()?;
        let networks = from.entries()?;
        let hosts = match version {
            WITHOUT_HOSTS => BTreeMap::new(),
            _ => read_hosts(from)?,
        };
        from.0.is_empty().then_some(Self {
            congestion,
            visits,
            classes,
            clients,
            networks,
            hosts,
        })
    }
}

fn read_hosts(from: &mut Reader<'_>) -> Option<BTreeMap<u64, KeptHost>> {
    let count = from.u64().filter(|count| *count <= MAX_HOSTS)?;
    let mut read = || {
        let (key, [slot]) = (from.u64()?, *from.take()?);
        let mix = Mix::read(from)?;
        (slot < SLOTS).then_some((key, KeptHost { slot, mix }))
    };
    (0..count).map(|_| read()).collect()
}

fn write_class(to: &mut Vec<u8>, state: &State) {
    for vote in state.grid.votes() {
        to.extend(vote.to_le_bytes());
    }
    for voted_networks in state.voted_networks {
        to.extend(voted_networks.to_le_bytes());
    }
    to.extend(state.day.to_le_bytes());
    to.extend(state.alarmed.to_le_bytes());
    for number in state
        .held
        .as_flattened()
        .iter()
        .chain(&state.cusum.numbers())
    {
        to.extend(number.to_le_bytes());
    }
}

fn read_class(from: &mut Reader<'_>, state: &mut State) -> Option<()> {
    let mut votes = vec![0.0; state.grid.votes().len()];
    for vote in &mut votes {
        *vote = f32::from_le_bytes(*from.take()?);
    }
    if !state.grid.restore(&votes) {
        return None;
    }
    for voted_networks in &mut state.voted_networks {
        *voted_networks = from.u64()?;
    }
    state.day = u16::from_le_bytes(*from.take()?);
    state.alarmed = u16::from_le_bytes(*from.take()?);
    for arm in &mut state.held {
        let [pages, sum] = [from.f64()?, from.f64()?];
        let sane = (0.0..1e15).contains(&pages) && sum.abs() <= 2.0 * pages;
        *arm = sane.then_some([pages, sum])?;
    }
    let mut numbers = [0.0; cusum::NUMBERS];
    for number in &mut numbers {
        *number = from.f64()?;
    }
    state.cusum = Cusum::of(numbers)?;
    state.settle();
    Some(())
}

fn identity(secret: &Secret) -> u64 {
    secret.hash(Domain::Identity, &[])
}

fn checksum(secret: &Secret, bytes: &[u8]) -> u64 {
    secret.hash(Domain::Snapshot, &[bytes])
}

/// Bytes that are read from the front.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(first)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(|it| u64::from_le_bytes(*it))
    }

    /// TCP's and QUIC's.
    fn congestion(&mut self) -> Option<[Congestion; 2]> {
        let of_byte = |byte| match byte {
            0 => Some(Congestion::LossBased),
            1 => Some(Congestion::RateBased),
            _ => None,
        };
        let [tcp, quic] = *self.take()?;
        of_byte(tcp).zip(of_byte(quic)).map(<[_; 2]>::from)
    }

    pub(crate) fn f64(&mut self) -> Option<f64> {
        self.take().map(|it| f64::from_le_bytes(*it))
    }

    /// A count, and as many entries with their shards.
    fn entries<const N: usize>(&mut self) -> Option<Vec<(u8, &'a [u8; N])>> {
        let count = self.u64()?;
        let fits = count <= (self.0.len() / (N + 1)) as u64;
        let read = |from: &mut Self| Some((from.take::<1>()?[0], from.take()?));
        fits.then_some(())?;
        (0..count).map(|_| read(self)).collect()
    }
}

#[cfg(test)]
mod tests;
