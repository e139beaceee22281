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

use super::connection::{Connection, Outcome};
use super::logging::Logging;
use super::servers::Servers;
use super::settings::engine_config;
use super::slot::Slot;
use super::{pins, transport};
use crate::budget::Budget;
use crate::connection_ids::derive;
use crate::long_header;
use crate::timers::Timers;
use crate::validation::Clock;
use crate::windows::{HeldShare, Pool};
use crate::{
    Admission, ClientConfig, ConnectionHandle, Datagram, Ecn, EndpointStatistics, Error,
    HandshakeCounts, Limits, QuicConnection, QuicEndpoint, Role, ServerConfig, Tokens, Transmit,
    Transport, Version,
};

/// Batches that one connection may send before the next one's turn. With 44 segments of 1,452
/// bytes that is 256 KB: enough to keep its state in the cache, little enough to be fair.
const BATCHES_PER_TURN: u8 = 4;

/// Connections whose time-outs are handled in one call, if so many are due. A crowd that came together would otherwise
/// be given up together, at some ten microseconds each, before anybody else has a turn.
const TIME_OUTS_PER_CALL: usize = 64;

/// Answers that need no connection (version negotiation, Retry, refusal, stateless reset) waiting to
/// be sent. More are dropped: peers repeat themselves.
const MAX_ANSWERS: usize = 256;

/// An endpoint whose connections are quinn-proto's.
pub struct Endpoint<S = ()> {
    quic: quinn_proto::Endpoint,
    /// Set in the client role.
    client: Option<quinn_proto::ClientConfig>,
    /// Set in the server role.
    servers: Option<Servers>,
    /// Version of new connections: a client's own; a server's is that of the last long header received, by which the
    /// engine parses.
    version: Version,
    clock: Option<Arc<Clock>>,
    logging: Option<Logging>,
    limits: Limits,
    /// Pool of windows. `None`: every window has its full size from the start.
    pool: Option<Pool>,
    handshake_timeout: Duration,
    max_segments: usize,
    /// Connections by the QUIC endpoint's handle, which it assigns densely.
    slots: Vec<Option<Box<Slot<S>>>>,
    /// Slots that may have events.
    awake: VecDeque<usize>,
    /// Slots that may have datagrams to send.
    sending: VecDeque<usize>,
    timers: Timers,
    answers: VecDeque<(Transmit, Vec<u8>)>,
    /// Connections whose client has not shown that it receives at its address.
    unvalidated: usize,
    retries: u64,
    handshakes: HandshakeCounts,
    shutting_down: bool,
    ignoring: bool,
}

impl<S> QuicEndpoint for Endpoint<S> {
    type Connection = Connection;
    type State = S;

    fn server(config: &ServerConfig, seed: [u8; 32]) -> Result<Self, Error> {
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

    fn client(config: &ClientConfig, seed: [u8; 32]) -> Result<Self, Error> {
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

    fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        server_name: &str,
        state: S,
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
        self.insert(handle.0, connection, now, Budget::UNLIMITED, None, state);
        Ok(ConnectionHandle(handle.0))
    }

    fn handle_datagram_by(
        &mut self,
        now: Instant,
        datagram: Datagram<'_>,
        admit: impl FnOnce(SocketAddr, bool) -> Admission<S>,
    ) {
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
        // For quinn-proto to decrypt in place. It keeps slices of what it holds, a byte of a stream perhaps, which
        // are counted by the datagram: so each has an allocation of its own, which nobody else fills.
        let mut data = BytesMut::from(payload);
        let shared = pins::share(&mut data);
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
                    slot.connection.pin(shared, payload.len());
                    self.mark(handle.0);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.accept(now, &datagram, incoming, answer, admit);
            }
            Some(DatagramEvent::Response(transmit)) => self.answer(&transmit, answer),
            None => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for _ in 0..TIME_OUTS_PER_CALL {
            let Some(index) = self.timers.pop(now) else {
                return;
            };
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

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.timers.next()
    }

    fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
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
            self.arm(index);
            self.settle_slot(index);
        }
        None
    }

    fn active(&mut self) -> Option<ConnectionHandle> {
        self.awake.front().copied().map(ConnectionHandle)
    }

    fn settle(&mut self) {
        let Some(index) = self.awake.pop_front() else {
            return;
        };
        if let Some(Some(slot)) = self.slots.get_mut(index) {
            slot.awake = false;
            // Else its time-out is known once it has sent what it has.
            if !slot.sending {
                self.arm(index);
            }
            self.settle_slot(index);
            self.count_windows(index);
        }
    }

    fn entry(&mut self, handle: ConnectionHandle) -> Option<(&mut Connection, &mut S)> {
        self.mark(handle.0);
        let slot = self.slots.get_mut(handle.0)?.as_mut()?;
        Some((&mut slot.connection, &mut slot.state))
    }

    fn writer(&mut self, handle: ConnectionHandle) -> Option<(&mut Connection, &mut S)> {
        self.mark_sending(handle.0);
        let slot = self.slots.get_mut(handle.0)?.as_mut()?;
        Some((&mut slot.connection, &mut slot.state))
    }

    fn state(&mut self, handle: ConnectionHandle) -> Option<&mut S> {
        let slot = self.slots.get_mut(handle.0)?.as_mut()?;
        Some(&mut slot.state)
    }

    fn states(&self) -> impl Iterator<Item = (ConnectionHandle, &S)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((ConnectionHandle(index), &slot.as_ref()?.state)))
    }

    fn shutdown(&mut self) {
        self.shutting_down = true;
    }

    fn ignore_new_connections(&mut self, ignore: bool) {
        self.ignoring = ignore;
    }

    fn open_connections(&self) -> usize {
        self.slots
            .iter()
            .flatten()
            .filter(|slot| !slot.connection.is_closed())
            .count()
    }

    fn is_idle(&self) -> bool {
        self.answers.is_empty()
            && self
                .slots
                .iter()
                .flatten()
                .all(|slot| slot.connection.is_idle())
    }

    fn statistics(&self) -> EndpointStatistics {
        EndpointStatistics {
            connections: self.quic.open_connections(),
            unvalidated: self.unvalidated,
            retries: self.retries,
            handshakes: self.handshakes,
            held_bytes: self.pool.as_ref().map_or(0, Pool::held),
            max_held_bytes: self.pool.as_ref().map_or(0, Pool::size),
        }
    }
}

impl<S> Endpoint<S> {
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
            handshakes: HandshakeCounts::default(),
            shutting_down: false,
            ignoring: false,
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
        self.mark_sending(index);
    }

    /// Notes that a connection may have datagrams.
    fn mark_sending(&mut self, index: usize) {
        if let Some(Some(slot)) = self.slots.get_mut(index)
            && !std::mem::replace(&mut slot.sending, true)
        {
            self.sending.push_back(index);
        }
    }

    /// Arms a connection's timer.
    fn arm(&mut self, index: usize) {
        let Some(Some(slot)) = self.slots.get_mut(index) else {
            return;
        };
        match slot.poll_timeout() {
            // All that is left is to let late packets come and to forget it.
            Some(at) if slot.connection.is_closed() => self.timers.postpone(index, at),
            Some(at) => self.timers.arm(index, at),
            None => {}
        }
    }

    /// Passes on what the connection has for the QUIC endpoint, and forgets it if it is over for good.
    fn settle_slot(&mut self, index: usize) {
        let Some(Some(slot)) = self.slots.get_mut(index) else {
            return;
        };
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
        if slot.uncounted
            && let Some(outcome) = slot.connection.outcome()
        {
            slot.uncounted = false;
            *count_of(&mut self.handshakes, outcome) += 1;
        }
        if slot.unvalidated && (is_drained || slot.connection.is_validated()) {
            slot.unvalidated = false;
            self.unvalidated -= 1;
        }
        if is_drained {
            self.timers.disarm(index);
            self.slots[index] = None;
        }
    }

    /// Counts what waits to be read, and makes the windows small again where nothing can be in them: events alone
    /// change either.
    fn count_windows(&mut self, index: usize) {
        if let Some(Some(slot)) = self.slots.get_mut(index) {
            slot.connection.shrink_if_idle();
            if slot.connection.count_pins() {
                self.mark(index);
            }
        }
    }

    fn insert(
        &mut self,
        index: usize,
        quic: quinn_proto::Connection,
        now: Instant,
        budget: Budget,
        share: Option<HeldShare>,
        state: S,
    ) {
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        let give_up = now + self.handshake_timeout;
        let windows = self.pool.as_ref().map(|pool| pool.windows(share));
        let connection = Connection::new(quic, self.version, now, give_up, budget, windows);
        let unvalidated = !connection.is_validated();
        self.unvalidated += usize::from(unvalidated);
        let slot = Slot::new(connection, state, unvalidated);
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
        admit: impl FnOnce(SocketAddr, bool) -> Admission<S>,
    ) {
        if self.ignoring {
            return self.quic.ignore(incoming);
        }
        if self.shutting_down || self.is_full() {
            return self.refuse(incoming, answer);
        }
        let is_validated = incoming.remote_address_validated();
        if !is_validated && self.limits.retry.is_due(self.unvalidated) {
            return self.retry(incoming, answer);
        }
        let (state, share) = match admit(incoming.remote_address(), is_validated) {
            Admission::Accept { state, share } => (state, share),
            Admission::Retry if !is_validated => return self.retry(incoming, answer),
            Admission::Retry | Admission::Refuse => {
                return self.refuse(incoming, answer);
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
            Ok((handle, quic)) => self.insert(handle.0, quic, now, budget, share, state),
            Err(error) => {
                tracing::debug!(cause = %error.cause, "connection attempt failed");
                self.handshakes.failed += 1;
                if let Some(transmit) = error.response {
                    self.answer(&transmit, answer);
                }
            }
        }
    }

    fn refuse(&mut self, incoming: Incoming, mut answer: Vec<u8>) {
        self.handshakes.refused += 1;
        let transmit = self.quic.refuse(incoming, &mut answer);
        self.answer(&transmit, answer);
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

fn count_of(counts: &mut HandshakeCounts, outcome: Outcome) -> &mut u64 {
    match outcome {
        Outcome::Completed => &mut counts.completed,
        Outcome::Failed => &mut counts.failed,
        Outcome::TimedOut => &mut counts.timed_out,
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
