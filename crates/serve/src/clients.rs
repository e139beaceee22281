//! Shares of a worker's limits: connections, handshakes, requests and held bytes, counted for all
//! clients together and for each client prefix; and the rate of a prefix's requests.
//!
//! [`Clients::admit`] decides whether a connection is served. The [`AdmittedConnection`] that it gives lives as
//! long as the connection, is told what the connection does, and gives everything back when it is
//! dropped. When connections become scarce, those that have idled for longest are asked to end
//! ([`AdmittedConnection::evicted`], [`Clients::poll_evicted`]).
//!
//! Nothing here does I/O or asks for the time; one thread uses it. Every connection that is counted is in
//! one table of at most twice [`Limits::max_connections`] entries. Of a prefix of which none is open nothing is
//! known but that it has asked faster than its rate, for as long as that counts, of [`MAX_IDLE_PREFIXES`] prefixes.

mod order;

use crate::client_prefix::ClientPrefix;
use crate::gcra::Gcra;
use crate::held::HeldBytes;
use crate::incidents::Incident;
use crate::limits::{FEW_REQUESTS, Limits};
use crate::metrics::Gauge;
use altway_http3::{ConnectionHandle, HeldShare};
use altway_units::RequestLimit;
use lru::LruCache;
use order::{List, Order};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A handshake over TCP that has lasted for so long may lose its place to another one.
const STALLED_HANDSHAKE: Duration = Duration::from_secs(1);

/// Prefixes without a connection whose rate is remembered, in some 100 bytes each. Beyond, those that went first
/// are forgotten: whoever has that many prefixes needs no prefix twice.
const MAX_IDLE_PREFIXES: usize = 16_384;

/// Transport that a connection runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Quic,
}

/// Memory of an idle connection, between that of TCP and that of QUIC.
const CONNECTION_BYTES: usize = 20 << 10;

/// The connections of a worker and their clients. Clones are the same.
#[derive(Clone)]
pub(crate) struct Clients(Rc<Shared>);

struct Shared {
    limits: Limits,
    /// Bytes held for all clients.
    held: HeldBytes,
    table: RefCell<Table>,
    handshakes: Cell<usize>,
    requests: Gauge,
    /// The latest time that was given: what lies before it is over.
    latest: Cell<Option<Instant>>,
    record: Box<dyn Fn(IpAddr, Incident)>,
}

struct Table {
    /// Clients with connections. Hashed with a secret: the keys are the peers' choice.
    clients: HashMap<ClientPrefix, Rc<Client>>,
    /// Theoretical arrival times of the next requests of those without connections; [`MAX_IDLE_PREFIXES`] at most.
    departed: LruCache<ClientPrefix, Instant, RandomState>,
    order: Order<Weak<AdmittedConnection>>,
    /// Open connections, by transport.
    open: [usize; 2],
    /// Connections among them that have been asked to end, by transport.
    leaving: [usize; 2],
    /// QUIC connections among those, of each endpoint of the worker.
    evicted: Vec<EvictedConnections>,
}

/// The connections of an endpoint that have been asked to end.
#[derive(Default)]
struct EvictedConnections {
    /// Their handles, until they are polled.
    connections: Vec<ConnectionHandle>,
    /// The task that polls them.
    waker: Option<Waker>,
}

/// One client prefix.
struct Client {
    connections: Cell<usize>,
    handshakes: Cell<usize>,
    requests: Cell<usize>,
    held: HeldBytes,
    /// `None`: it may ask as fast as it likes.
    rate: Option<Gcra>,
    /// Theoretical arrival time of its next request.
    due: Cell<Option<Instant>>,
    /// Bytes that QUIC may still hold.
    quic: OnceCell<HeldShare>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Handshake,
    Open,
    /// Asked to end.
    Leaving,
}

/// A connection that counts.
pub(crate) struct AdmittedConnection {
    shared: Rc<Shared>,
    client: Rc<Client>,
    address: IpAddr,
    transport: Transport,
    began: Instant,
    /// Place of the connection's entry in the table's order.
    place: usize,
    phase: Cell<Phase>,
    requests: Cell<usize>,
    /// Endpoint among the worker's and handle there of a connection over QUIC, once the handshake is done.
    handle: Cell<Option<(usize, ConnectionHandle)>>,
    /// Waker of the task that waits for [`evicted`](Self::evicted).
    waker: RefCell<Option<Waker>>,
}

impl Table {
    fn evicted_of(&mut self, endpoint: usize) -> &mut EvictedConnections {
        if endpoint >= self.evicted.len() {
            self.evicted
                .resize_with(endpoint + 1, EvictedConnections::default);
        }
        &mut self.evicted[endpoint]
    }
}

impl Clients {
    /// Clients that nobody counts: see [`counted`](Self::counted).
    #[cfg(test)]
    pub(crate) fn new(
        limits: &Limits,
        held: HeldBytes,
        record: impl Fn(IpAddr, Incident) + 'static,
    ) -> Self {
        Self::counted(limits, held, record, Gauge::default())
    }

    /// Clients whose held bytes count in `held` as well, and whose requests in progress `requests` tells; `record` is
    /// called for each limit that is struck.
    pub(crate) fn counted(
        limits: &Limits,
        held: HeldBytes,
        record: impl Fn(IpAddr, Incident) + 'static,
        requests: Gauge,
    ) -> Self {
        Self(Rc::new(Shared {
            limits: *limits,
            held,
            table: RefCell::new(Table {
                clients: HashMap::new(),
                departed: LruCache::unbounded_with_hasher(RandomState::new()),
                order: Order::default(),
                open: [0; 2],
                leaving: [0; 2],
                evicted: Vec::new(),
            }),
            handshakes: Cell::new(0),
            requests,
            latest: Cell::new(None),
            record: Box::new(record),
        }))
    }

    /// Counts a connection whose handshake begins at `now`; `None` when there is no room for it, for its
    /// client or at all. May ask others to end, which have idled for longest.
    pub(crate) fn admit(
        &self,
        address: IpAddr,
        transport: Transport,
        now: Instant,
    ) -> Option<Rc<AdmittedConnection>> {
        let admitted = self.try_admit(address, transport, now);
        admitted
            .map_err(|incident| (self.0.record)(address, incident))
            .ok()
    }

    /// Bytes of memory that the connections take, roughly: what they hold over TCP, and an idle connection's own.
    pub(crate) fn bytes(&self) -> usize {
        let open: usize = self.0.table.borrow().open.iter().sum();
        let own = open.saturating_mul(CONNECTION_BYTES);
        own.saturating_add(self.0.held.bytes())
    }

    /// Tells whether a client has used up half of its connections or handshakes: then forged packets could use
    /// up the rest.
    pub(crate) fn is_crowded(&self, address: IpAddr) -> bool {
        let limits = &self.0.limits;
        let table = self.0.table.borrow();
        let client = table
            .clients
            .get(&ClientPrefix::of(address, limits.client_prefix));
        client.is_some_and(|client| {
            client.connections.get() * 2 >= limits.connections_per_client()
                || client.handshakes.get() * 2 >= limits.handshakes_per_client()
        })
    }

    /// QUIC connections of an endpoint that are to end, once there are any. `endpoint`: its place among the
    /// worker's. One task may poll for each.
    pub(crate) fn poll_evicted(
        &self,
        endpoint: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Vec<ConnectionHandle>> {
        let mut table = self.0.table.borrow_mut();
        let evicted = table.evicted_of(endpoint);
        if !evicted.connections.is_empty() {
            return Poll::Ready(std::mem::take(&mut evicted.connections));
        }
        keep(&mut evicted.waker, cx);
        Poll::Pending
    }

    fn try_admit(
        &self,
        address: IpAddr,
        transport: Transport,
        now: Instant,
    ) -> Result<Rc<AdmittedConnection>, Incident> {
        let shared = &self.0;
        let limits = &shared.limits;
        let prefix = ClientPrefix::of(address, limits.client_prefix);
        shared.note_activity(now);
        let known = shared.table.borrow().clients.get(&prefix).map(Rc::clone);
        if let Some(client) = &known {
            if client.connections.get() >= limits.connections_per_client() {
                return Err(Incident::ConnectionLimit);
            }
            if client.handshakes.get() >= limits.handshakes_per_client() {
                return Err(Incident::HandshakeLimit);
            }
        }
        shared.make_room(transport);
        let open = shared.table.borrow().open[transport as usize];
        let has = known.as_ref().map_or(0, |client| client.connections.get());
        if open >= limits.max_connections || has >= limits.connections_per_client_beside(open) {
            return Err(Incident::ConnectionLimit);
        }
        if shared.handshakes.get() >= limits.max_handshakes
            && !(transport == Transport::Tcp && shared.end_stalled_handshake(now))
        {
            return Err(Incident::HandshakeLimit);
        }
        let client = known.unwrap_or_else(|| {
            let due = shared.table.borrow_mut().departed.pop(&prefix);
            Rc::new(Client::new(shared, address, due))
        });
        Ok(shared.insert(address, prefix, client, transport, now))
    }
}

impl Shared {
    fn note_activity(&self, now: Instant) {
        self.latest.set(self.latest.get().max(Some(now)));
    }

    /// From 90 % of the connections on, asks the longest idle 1 % to end; those that were asked before
    /// count as gone.
    fn make_room(&self, transport: Transport) {
        let max = self.limits.max_connections;
        let enough = max - (max / 10).max(1);
        let (t, mut evicted) = (transport as usize, Vec::new());
        let mut table = self.table.borrow_mut();
        if table.open[t] - table.leaving[t] >= enough {
            let batch = (max / 100).max(1);
            let idle = || table.order.pop_front(List::idle(transport))?.upgrade();
            evicted.extend(std::iter::from_fn(idle).take(batch));
            table.leaving[t] += evicted.len();
        }
        drop(table);
        for connection in evicted {
            (self.record)(connection.address, Incident::EvictedConnection);
            connection.leave();
        }
    }

    /// Has the oldest handshake over TCP end, if it is too old; whether it was.
    fn end_stalled_handshake(&self, now: Instant) -> bool {
        let mut table = self.table.borrow_mut();
        let oldest = table.order.front(List::Handshakes).and_then(Weak::upgrade);
        let is_stalled = |it: &Rc<AdmittedConnection>| {
            now.saturating_duration_since(it.began) >= STALLED_HANDSHAKE
        };
        let Some(oldest) = oldest.filter(is_stalled) else {
            return false;
        };
        table.order.move_to(oldest.place, None);
        table.leaving[oldest.transport as usize] += 1;
        drop(table);
        (self.record)(oldest.address, Incident::HandshakeLimit);
        oldest.count_handshake(false);
        oldest.leave();
        true
    }

    fn insert(
        self: &Rc<Self>,
        address: IpAddr,
        prefix: ClientPrefix,
        client: Rc<Client>,
        transport: Transport,
        now: Instant,
    ) -> Rc<AdmittedConnection> {
        let mut table = self.table.borrow_mut();
        let (order, shared, one) = (&mut table.order, Rc::clone(self), Rc::clone(&client));
        let admitted = Rc::new_cyclic(|weak: &Weak<AdmittedConnection>| AdmittedConnection {
            shared,
            client: one,
            address,
            transport,
            began: now,
            place: order.insert(Weak::clone(weak)),
            phase: Cell::new(Phase::Handshake),
            requests: Cell::new(0),
            handle: Cell::new(None),
            waker: RefCell::new(None),
        });
        if transport == Transport::Tcp {
            order.move_to(admitted.place, Some(List::Handshakes));
        }
        table.open[transport as usize] += 1;
        client.connections.set(client.connections.get() + 1);
        table.clients.entry(prefix).or_insert(client);
        admitted.count_handshake(true);
        drop(table);
        admitted
    }
}

impl Client {
    fn new(shared: &Shared, address: IpAddr, due: Option<Instant>) -> Self {
        Self {
            connections: Cell::new(0),
            handshakes: Cell::new(0),
            requests: Cell::new(0),
            held: shared.held.share(shared.limits.held_bytes_per_client()),
            rate: match shared.limits.request_limit(address) {
                RequestLimit::Off => None,
                RequestLimit::Rate(rate) => Some(Gcra::new(rate)),
            },
            due: Cell::new(due),
            quic: OnceCell::new(),
        }
    }
}

impl AdmittedConnection {
    /// The handshake is done, or there is none.
    pub(crate) fn handshake_done(&self) {
        if self.phase.get() == Phase::Handshake {
            self.phase.set(Phase::Open);
            self.count_handshake(false);
            self.enqueue();
        }
    }

    /// A QUIC connection's name at its endpoint, by which [`Clients::poll_evicted`] asks it to end.
    pub(crate) fn name(&self, endpoint: usize, handle: ConnectionHandle) {
        self.handle.set(Some((endpoint, handle)));
    }

    /// Sets the number of requests in progress, and tells whether the client, and all clients, may have them. Those
    /// beyond are to be refused: they count until they are said to be gone.
    pub(crate) fn set_requests(&self, requests: usize) -> bool {
        let before = self.requests.replace(requests);
        if before != requests {
            self.count_requests(before, requests);
        }
        let limits = &self.shared.limits;
        let (all, own) = (self.shared.requests.get(), self.client.requests.get());
        // Refused ones count until they are gone: a crowd of them must not have a client's few refused.
        let few = limits.requests_per_client().min(FEW_REQUESTS);
        let fits = own <= few
            || all <= limits.max_requests && own <= limits.requests_per_client_beside(all);
        if !fits && requests > before {
            (self.shared.record)(self.address, Incident::RequestLimit);
        }
        fits
    }

    /// Counts a request at `now` against the client's rate.
    ///
    /// # Errors
    /// It comes too early, by so much: it is to be refused, and does not count.
    pub(crate) fn request(&self, now: Instant) -> Result<(), Duration> {
        let Some(rate) = &self.client.rate else {
            return Ok(());
        };
        self.shared.note_activity(now);
        match rate.admit(self.client.due.get(), now) {
            Ok(due) => {
                self.client.due.set(Some(due));
                Ok(())
            }
            Err(wait) => {
                (self.shared.record)(self.address, Incident::RequestRate);
                Err(wait)
            }
        }
    }

    /// The counter of what is held for the client.
    pub(crate) fn held(&self) -> HeldBytes {
        self.client.held.clone()
    }

    /// Share of held bytes that the client's QUIC connections have together.
    pub(crate) fn quic_share(&self) -> HeldShare {
        let share = self.shared.limits.quic_held_bytes_per_client();
        self.client
            .quic
            .get_or_init(|| HeldShare::new(share))
            .clone()
    }

    /// Tells whether the connection is to end, to make room for others.
    pub(crate) fn is_evicted(&self) -> bool {
        self.phase.get() == Phase::Leaving
    }

    /// Ready when the connection is to end.
    pub(crate) fn poll_evicted(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_evicted() {
            return Poll::Ready(());
        }
        keep(&mut self.waker.borrow_mut(), cx);
        Poll::Pending
    }

    /// Returns when the connection is to end.
    pub(crate) async fn evicted(&self) {
        poll_fn(|cx| self.poll_evicted(cx)).await;
    }

    #[cfg(test)]
    pub(crate) fn requests(&self) -> usize {
        self.requests.get()
    }

    fn leave(&self) {
        self.phase.set(Phase::Leaving);
        let waker = match self.handle.get() {
            Some((endpoint, handle)) => {
                let mut table = self.shared.table.borrow_mut();
                let evicted = table.evicted_of(endpoint);
                evicted.connections.push(handle);
                evicted.waker.take()
            }
            None => self.waker.take(),
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn count_requests(&self, before: usize, after: usize) {
        let all = &self.shared.requests;
        all.set(all.get() - before + after);
        replace(&self.client.requests, before, after);
        if (before == 0) != (after == 0) {
            self.enqueue();
        }
        if after < before && self.client.held.take_was_full() {
            (self.shared.record)(self.address, Incident::MemoryLimit);
        }
    }

    /// Takes its place among those that idle, behind all others, or leaves it.
    fn enqueue(&self) {
        if self.phase.get() == Phase::Open {
            let idle = (self.requests.get() == 0).then_some(List::idle(self.transport));
            let mut table = self.shared.table.borrow_mut();
            table.order.move_to(self.place, idle);
        }
    }

    fn count_handshake(&self, begins: bool) {
        let (before, after) = (usize::from(!begins), usize::from(begins));
        replace(&self.shared.handshakes, before, after);
        replace(&self.client.handshakes, before, after);
    }
}

impl fmt::Debug for AdmittedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("AdmittedConnection");
        shown.field("address", &self.address);
        shown.field("phase", &self.phase.get());
        shown.finish_non_exhaustive()
    }
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        self.set_requests(0);
        if self.phase.get() == Phase::Handshake {
            self.count_handshake(false);
        }
        let mut table = self.shared.table.borrow_mut();
        table.order.remove(self.place);
        table.open[self.transport as usize] -= 1;
        if self.phase.get() == Phase::Leaving {
            table.leaving[self.transport as usize] -= 1;
        }
        replace(&self.client.connections, 1, 0);
        if self.client.connections.get() == 0 {
            let prefix = ClientPrefix::of(self.address, self.shared.limits.client_prefix);
            table.clients.remove(&prefix);
            let owed = self.client.due.get().filter(|_| self.client.rate.is_some());
            if let Some(due) = owed.filter(|due| Some(*due) > self.shared.latest.get()) {
                if table.departed.len() >= MAX_IDLE_PREFIXES {
                    table.departed.pop_lru();
                }
                table.departed.put(prefix, due);
            }
        }
    }
}

fn replace(sum: &Cell<usize>, before: usize, after: usize) {
    sum.set(sum.get() - before + after);
}

fn keep(waker: &mut Option<Waker>, cx: &mut Context<'_>) {
    match waker {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *waker = Some(cx.waker().clone()),
    }
}

#[cfg(test)]
mod tests;
