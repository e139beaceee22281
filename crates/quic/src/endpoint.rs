//! One UDP socket's worth of connections, in either role.
//!
//! The endpoint keeps lists of the connections that have something to say, so that a turn costs
//! what changed and not what exists. Sockets, clocks and what to answer belong to the shell.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{
    ConnectError, DatagramEvent, EndpointConfig, Incoming, RandomConnectionIdGenerator,
};

use crate::admission::{Admission, Admit, Guard};
use crate::budget::Budget;
use crate::connection::Connection;
use crate::connection_ids::{derive, engine_config};
use crate::long_header;
use crate::qlog::Logging;
use crate::servers::Servers;
use crate::slot::Slot;
use crate::timers::Timers;
use crate::transport;
use crate::validation::Clock;
use crate::windows::Pool;
use crate::{
    ClientConfig, ConnectionHandle, Datagram, Ecn, EndpointStatistics, Error, Event, Limits,
    PathStatistics, Role, ServerConfig, Tokens, Transmit, Transport, Version,
};

/// Batches that one connection may send before the next one's turn. With 44 segments of 1,452
/// bytes that is 256 KB: enough to keep its state in the cache, little enough to be fair.
const BATCHES_PER_TURN: u8 = 4;

/// Answers that need no connection (version negotiation, Retry, refusal, stateless reset) waiting to
/// be sent. More are dropped: peers repeat themselves.
const MAX_ANSWERS: usize = 256;

/// Many QUIC connections over one UDP socket.
///
/// After every call that takes `now` or changes something: drain [`poll_event`](Self::poll_event),
/// then [`poll_transmit`](Self::poll_transmit), then arm a timer for
/// [`poll_timeout`](Self::poll_timeout).
///
/// Memory is bounded by [`Limits`](crate::Limits) and the windows of [`Transport`](crate::Transport).
pub struct Endpoint {
    quic: quinn_proto::Endpoint,
    /// Set in the client role.
    client: Option<quinn_proto::ClientConfig>,
    /// Set in the server role.
    servers: Option<Servers>,
    /// Of new connections: a client's own; a server's is that of the last long header that came, by which
    /// the engine takes what comes.
    version: Version,
    clock: Option<Arc<Clock>>,
    logging: Option<Logging>,
    limits: Limits,
    /// Of windows. `None`: they are whole.
    pool: Option<Pool>,
    handshake_timeout: Duration,
    max_segments: usize,
    /// By the QUIC endpoint's handle, which it assigns densely.
    slots: Vec<Option<Box<Slot>>>,
    /// Slots that may have events.
    awake: VecDeque<usize>,
    /// Slots that may have datagrams to send.
    sending: VecDeque<usize>,
    timers: Timers,
    answers: VecDeque<(Transmit, Vec<u8>)>,
    /// Slots that are.
    unvalidated: usize,
    retries: u64,
    shutting_down: bool,
    ignoring: bool,
    /// `None`: every connection for which there is room.
    admit: Option<Admit>,
}

impl Endpoint {
    /// An endpoint that accepts connections.
    ///
    /// `seed` drives its random choices (connection-level; TLS has its own), so that a run in
    /// virtual time can be repeated. Outside tests it must be unpredictable. The shell must forbid
    /// IP fragmentation on the socket (IP_MTU_DISCOVER), or MTU discovery finds what routers cut.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] names a field out of range; [`Error::Tls`] says why the TLS
    /// configuration can't carry QUIC.
    pub fn server(config: &ServerConfig, seed: [u8; 32]) -> Result<Self, Error> {
        let own = || Tokens::of_one(derive(seed, b"tokens"));
        let tokens = config.tokens.clone().unwrap_or_else(own);
        let clock = Arc::new(tokens.clock());
        let servers = Servers::new(config, &tokens, &clock)?;
        let engine = engine_config(&Version::ALL, config.connection_ids, config.reset_key, seed);
        let mut endpoint = Self::new(engine, Some(servers), &config.transport, &config.limits);
        endpoint.clock = Some(clock);
        endpoint.logging = config.qlog.clone().map(|qlog| Logging {
            qlog,
            transport: config.transport.clone(),
            limits: config.limits.clone(),
            role: Role::Server,
        });
        Ok(endpoint)
    }

    /// An endpoint that opens connections. `seed` and errors as for [`server`](Self::server).
    ///
    /// # Errors
    /// See [`server`](Self::server).
    pub fn client(config: &ClientConfig, seed: [u8; 32]) -> Result<Self, Error> {
        let quic = transport::client(config)?;
        let mut engine = engine_config(&[config.version], None, None, seed);
        let mut limits = config.limits.clone();
        if config.empty_connection_ids {
            engine.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(0)));
            limits.max_connections = limits.max_connections.min(1);
        }
        let mut endpoint = Self::new(engine, None, &config.transport, &limits);
        endpoint.client = Some(quic);
        endpoint.version = config.version;
        endpoint.logging = config.qlog.clone().map(|qlog| Logging {
            qlog,
            transport: config.transport.clone(),
            limits: config.limits.clone(),
            role: Role::Client,
        });
        Ok(endpoint)
    }

    /// Begins a connection. [`Event::Connected`] or [`Event::Closed`] tells how it went.
    ///
    /// # Errors
    /// [`Error::NotAClient`]; [`Error::ShuttingDown`] after [`shutdown`](Self::shutdown);
    /// [`Error::TooManyConnections`]; [`Error::InvalidServerName`], [`Error::InvalidAddress`].
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<ConnectionHandle, Error> {
        let config = self.client.clone();
        let config = config.ok_or(Error::NotAClient)?;
        if self.shutting_down {
            return Err(Error::ShuttingDown);
        }
        if self.is_full() {
            return Err(Error::TooManyConnections {
                limit: self.limits.max_connections,
            });
        }
        let config = match &self.logging {
            Some(logging) => logging.client(config, remote, now),
            None => config,
        };
        let (handle, connection) = self
            .quic
            .connect(now, config, remote, server_name)
            .map_err(|error| connect_error(error, server_name))?;
        self.insert(handle.0, connection, now, Budget::UNLIMITED, None);
        Ok(ConnectionHandle(handle.0))
    }

    /// Takes in one UDP datagram.
    pub fn handle_datagram(&mut self, now: Instant, datagram: Datagram<'_>) {
        let Datagram {
            remote,
            local_ip,
            ecn,
            payload,
        } = datagram;
        if let Some(clock) = &self.clock {
            clock.set(now);
        }
        let ecn = ecn.and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn.bits()));
        // For quinn-proto to decrypt in place. It keeps slices of what it holds, a byte of a stream perhaps,
        // and counts them by the datagram: so each has an allocation of its own, which nobody else fills.
        let mut data = BytesMut::from(payload);
        if let Some(version) = long_header::version_of(payload) {
            long_header::translate(&mut data);
            self.take_as(version);
        }
        let mut answer = Vec::new();
        match self
            .quic
            .handle(now, remote, local_ip, ecn, data, &mut answer)
        {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(Some(slot)) = self.slots.get_mut(handle.0) {
                    slot.connection.handle(now, &datagram, event);
                    self.mark(handle.0);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.accept(now, &datagram, incoming, answer);
            }
            Some(DatagramEvent::Response(transmit)) => self.answer(&transmit, answer),
            None => {}
        }
    }

    /// Runs what is due at `now`. Calls too early do nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(index) = self.timers.pop(now) {
            let Some(Some(slot)) = self.slots.get_mut(index) else {
                continue;
            };
            match slot.poll_timeout() {
                Some(at) if at > now => self.timers.arm(index, at),
                Some(_) => {
                    slot.connection.handle_timeout(now);
                    self.mark(index);
                }
                None => {}
            }
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest. Valid once events and
    /// transmissions are drained. It may be too early for a connection, never too late.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.timers.next()
    }

    /// The next event of any connection.
    pub fn poll_event(&mut self) -> Option<(ConnectionHandle, Event)> {
        while let Some(index) = self.awake.front().copied() {
            if let Some(Some(slot)) = self.slots.get_mut(index) {
                if let Some(event) = slot.connection.poll_event() {
                    return Some((ConnectionHandle(index), event));
                }
                slot.awake = false;
            }
            self.awake.pop_front();
            self.settle(index);
        }
        None
    }

    /// The next batch of datagrams to send. `buf` is cleared, and then holds [`Transmit::size`]
    /// bytes; keep it between calls. Connections take turns. The shell may pause between calls, for
    /// instance while its socket is full, and take datagrams in meanwhile.
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        buf.clear();
        if let Some((transmit, bytes)) = self.answers.pop_front() {
            buf.extend_from_slice(&bytes);
            return Some(transmit);
        }
        while let Some(index) = self.sending.front().copied() {
            if let Some(Some(slot)) = self.slots.get_mut(index) {
                if let Some(transmit) = slot.poll_transmit(now, self.max_segments, buf) {
                    slot.batches += 1;
                    if slot.batches >= BATCHES_PER_TURN {
                        slot.batches = 0;
                        self.sending.rotate_left(1);
                    }
                    return Some(outgoing(&transmit));
                }
                slot.sending = false;
                slot.batches = 0;
            }
            self.sending.pop_front();
            self.settle(index);
        }
        None
    }

    /// An open connection, about to be changed; `None` for a handle that is void, and after the
    /// connection was closed by either side.
    pub fn connection(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        self.mark(handle.0);
        let slot = self.slots.get_mut(handle.0)?.as_mut()?;
        (!slot.connection.is_closed()).then_some(&mut slot.connection)
    }

    /// Takes and makes no new connections from here on. Those there are go on; once
    /// [`is_idle`](Self::is_idle), close what is left.
    pub fn shutdown(&mut self) {
        self.shutting_down = true;
    }

    /// Whether attempts at new connections are left to another endpoint that gets them as well:
    /// they are neither accepted nor refused, also after [`shutdown`](Self::shutdown). At first they
    /// are not.
    pub fn ignore_new_connections(&mut self, ignore: bool) {
        self.ignoring = ignore;
    }

    /// Server: asks `admit` about each new connection for which there is room, with its address and
    /// whether that is known to be the client's own. At first every one is accepted.
    pub fn set_admission(&mut self, admit: Admit) {
        self.admit = Some(admit);
    }

    /// What [`set_admission`](Self::set_admission)'s callback gave a connection to keep, as long as the
    /// connection is not forgotten.
    #[must_use]
    pub fn guard(&self, connection: ConnectionHandle) -> Option<&Guard> {
        let slot = self.slots.get(connection.0)?.as_ref()?;
        slot.guard.as_ref()
    }

    /// Connections that are not closed, those in hand-shake included. Counts them one by one.
    pub fn open_connections(&self) -> usize {
        self.slots
            .iter()
            .flatten()
            .filter(|slot| !slot.connection.is_closed())
            .count()
    }

    /// Whether nothing is left to deliver or acknowledge: no bytes on their way, and no close
    /// to be told. Asks all connections, so it is meant for the time of a shutdown.
    pub fn is_idle(&self) -> bool {
        self.answers.is_empty()
            && self
                .slots
                .iter()
                .flatten()
                .all(|slot| slot.connection.is_idle())
    }

    /// What is known of a connection's path; `None` before the first round trip, and for a handle
    /// that is void. It still answers while [`Event::Closed`] is being handled, for a last look.
    /// Not free: meant for now and then.
    pub fn path_statistics(&mut self, connection: ConnectionHandle) -> Option<PathStatistics> {
        let slot = self.slots.get(connection.0)?.as_ref()?;
        slot.connection.path_statistics()
    }

    /// Counts what the endpoint holds.
    #[must_use]
    pub fn statistics(&self) -> EndpointStatistics {
        EndpointStatistics {
            connections: self.quic.open_connections(),
            unvalidated: self.unvalidated,
            retries: self.retries,
            held_bytes: self.pool.as_ref().map_or(0, Pool::held),
            max_held_bytes: self.pool.as_ref().map_or(0, Pool::size),
        }
    }

    fn new(
        mut config: EndpointConfig,
        servers: Option<Servers>,
        transport: &Transport,
        limits: &Limits,
    ) -> Self {
        config
            .max_udp_payload_size(transport.max_udp_payload)
            .expect("the transport was checked");
        let version = Version::default();
        let server = servers.as_ref().map(|servers| servers.of(version));
        let pool = server.is_some().then(|| transport::pool(transport, limits));
        let quic = quinn_proto::Endpoint::new(Arc::new(config), server, true, None);
        Self {
            quic,
            client: None,
            servers,
            version,
            clock: None,
            logging: None,
            limits: limits.clone(),
            pool,
            handshake_timeout: limits.handshake_timeout.unwrap_or(transport.idle_timeout),
            max_segments: transport.max_segments,
            slots: Vec::new(),
            awake: VecDeque::new(),
            sending: VecDeque::new(),
            timers: Timers::default(),
            answers: VecDeque::new(),
            unvalidated: 0,
            retries: 0,
            shutting_down: false,
            ignoring: false,
            admit: None,
        }
    }

    /// Has the engine take a new connection as one of this version.
    fn take_as(&mut self, version: Version) {
        if let Some(servers) = &self.servers
            && self.version != version
        {
            self.quic.set_server_config(Some(servers.of(version)));
            self.version = version;
        }
    }

    /// Notes that a connection may have events and datagrams.
    fn mark(&mut self, index: usize) {
        let Some(Some(slot)) = self.slots.get_mut(index) else {
            return;
        };
        if !std::mem::replace(&mut slot.awake, true) {
            self.awake.push_back(index);
        }
        if !std::mem::replace(&mut slot.sending, true) {
            self.sending.push_back(index);
        }
    }

    /// Passes on what the connection has for the QUIC endpoint, arms its timer, and forgets it if
    /// it is over for good.
    fn settle(&mut self, index: usize) {
        let Some(Some(slot)) = self.slots.get_mut(index) else {
            return;
        };
        match slot.poll_timeout() {
            // All that is left is to let late packets come and to forget it.
            Some(at) if slot.connection.is_closed() => self.timers.postpone(index, at),
            Some(at) => self.timers.arm(index, at),
            None => {}
        }
        if slot.awake {
            // Its events come first: once told that a connection is over, the QUIC endpoint gives
            // the slot to the next one.
            return;
        }
        let quic = slot.connection.engine();
        while let Some(event) = quic.poll_endpoint_events() {
            if let Some(event) = self
                .quic
                .handle_event(quinn_proto::ConnectionHandle(index), event)
            {
                quic.handle_event(event);
            }
        }
        let is_drained = quic.is_drained();
        slot.connection.narrow_if_idle();
        if slot.unvalidated && (is_drained || slot.connection.is_validated()) {
            slot.unvalidated = false;
            self.unvalidated -= 1;
        }
        if is_drained {
            self.timers.disarm(index);
            self.slots[index] = None;
        }
    }

    fn insert(
        &mut self,
        index: usize,
        quic: quinn_proto::Connection,
        now: Instant,
        budget: Budget,
        guard: Option<Guard>,
    ) {
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        let give_up = now + self.handshake_timeout;
        let share = guard.as_ref().and_then(|guard| guard.share.clone());
        let windows = self.pool.as_ref().map(|pool| pool.windows(share));
        let connection = Connection::new(quic, self.version, now, give_up, budget, windows);
        let unvalidated = !connection.is_validated();
        self.unvalidated += usize::from(unvalidated);
        let slot = Slot::new(connection, guard, unvalidated);
        self.slots[index] = Some(Box::new(slot));
        self.mark(index);
    }

    /// `datagram`: the one that the incoming connection came with.
    fn accept(
        &mut self,
        now: Instant,
        datagram: &Datagram<'_>,
        incoming: Incoming,
        mut answer: Vec<u8>,
    ) {
        if self.ignoring {
            return self.quic.ignore(incoming);
        }
        if self.shutting_down || self.is_full() {
            let transmit = self.quic.refuse(incoming, &mut answer);
            return self.answer(&transmit, answer);
        }
        let is_validated = incoming.remote_address_validated();
        if !is_validated && self.limits.retry.is_due(self.unvalidated) {
            return self.retry(incoming, answer);
        }
        let guard = match self.admit(&incoming) {
            Admission::Accept(guard) => guard,
            Admission::Retry if !is_validated => return self.retry(incoming, answer),
            Admission::Retry | Admission::Refuse => {
                let transmit = self.quic.refuse(incoming, &mut answer);
                return self.answer(&transmit, answer);
            }
        };
        let mut budget = if is_validated {
            Budget::UNLIMITED
        } else {
            Budget::EMPTY
        };
        budget.on_received(datagram.payload.len());
        let config = self.config_of(&incoming, now);
        match self.quic.accept(incoming, now, &mut answer, config) {
            Ok((handle, quic)) => self.insert(handle.0, quic, now, budget, Some(guard)),
            Err(error) => {
                tracing::debug!(cause = %error.cause, "connection attempt failed");
                if let Some(transmit) = error.response {
                    self.answer(&transmit, answer);
                }
            }
        }
    }

    fn admit(&mut self, incoming: &Incoming) -> Admission {
        let (remote, validated) = (
            incoming.remote_address(),
            incoming.remote_address_validated(),
        );
        match &mut self.admit {
            Some(admit) => admit(remote, validated),
            None => Admission::Accept(Guard::default()),
        }
    }

    fn retry(&mut self, incoming: Incoming, mut answer: Vec<u8>) {
        let remote = incoming.remote_address();
        let retry = self.quic.retry(incoming, &mut answer);
        let transmit = retry.expect("whose address isn't validated was not answered by Retry yet");
        tracing::debug!(%remote, "a client has to validate its address");
        self.retries += 1;
        if self.version == Version::V2 {
            // No key seals it that would put the type right.
            answer[0] = long_header::to_version_2(answer[0]);
        }
        self.answer(&transmit, answer);
    }

    /// The configuration of a connection that begins now, if it has one of its own.
    fn config_of(
        &self,
        incoming: &Incoming,
        now: Instant,
    ) -> Option<Arc<quinn_proto::ServerConfig>> {
        let (servers, remote) = (self.servers.as_ref()?, incoming.remote_address());
        let logging = self.logging.as_ref();
        let log = logging.and_then(|it| it.transport(incoming.orig_dst_cid(), remote, now));
        match log {
            Some(transport) => Some(servers.over(self.version, &transport)),
            None => servers.of_client(self.version, remote),
        }
    }

    fn answer(&mut self, transmit: &quinn_proto::Transmit, mut bytes: Vec<u8>) {
        if self.answers.len() < MAX_ANSWERS {
            bytes.truncate(transmit.size);
            self.answers.push_back((outgoing(transmit), bytes));
        }
    }

    fn is_full(&self) -> bool {
        self.quic.open_connections() >= self.limits.max_connections
    }
}

fn outgoing(transmit: &quinn_proto::Transmit) -> Transmit {
    Transmit {
        destination: transmit.destination,
        local_ip: transmit.src_ip,
        ecn: transmit.ecn.and_then(|ecn| Ecn::from_bits(ecn as u8)),
        segment_size: transmit.segment_size,
        size: transmit.size,
    }
}

fn connect_error(error: ConnectError, server_name: &str) -> Error {
    match error {
        ConnectError::InvalidServerName(_) => Error::InvalidServerName {
            name: server_name.to_owned(),
        },
        ConnectError::InvalidRemoteAddress(address) => Error::InvalidAddress { address },
        other => Error::Connect {
            reason: other.to_string(),
        },
    }
}
