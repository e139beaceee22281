//! One UDP socket's worth of HTTP/3 connections, in either role.
//!
//! QUIC is `altway-quic`'s: here its events become the application's, connection by connection, and
//! the application's calls find their connection.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use altway_fields::Priority;
use altway_quic as quic;
use bytes::Bytes;
use http::HeaderMap;
use rustls::pki_types::ServerName;

use crate::connection::{Connection, Memory, Terms};
use crate::{
    ClientConfig, Code, ConnectionHandle, Datagram, Deliveries, EndpointStatistics, Error, Event,
    PathStatistics, Received, Role, ServerConfig, Sessions, StreamId, Transmit,
};

/// How long a connection without exchanges keeps what only saves time.
const REST: Duration = Duration::from_secs(1);

/// Many HTTP/3 connections over one UDP socket.
///
/// After every call that takes `now` or changes something: drain [`poll_event`](Self::poll_event),
/// then [`poll_transmit`](Self::poll_transmit), then arm a timer for
/// [`poll_timeout`](Self::poll_timeout). Events are edge-triggered: each stands for a change.
///
/// Memory is bounded by [`Limits`](crate::Limits), the transport's windows and QUIC's stream limits;
/// see those.
pub struct Endpoint {
    quic: quic::Endpoint,
    terms: Arc<Terms>,
    /// Client: what is remembered of servers, if early data is to be sent.
    sessions: Option<Sessions>,
    /// By QUIC's handle, which is dense. A server's begin when their hand-shake is done, or with early
    /// data.
    slots: Vec<Option<Box<Slot>>>,
    /// Slots that may have events for the application.
    awake: VecDeque<usize>,
    /// Slots that may have streams that can be written to.
    eager: VecDeque<usize>,
    /// Slots whose compression tables may have something to say.
    changed: Vec<usize>,
    /// When to look after which slot's slow exchanges, or let it rest; in order, as all wait as long.
    sweeps: VecDeque<(Instant, usize)>,
    /// What the connection had delivered whose end was told last.
    ended: Option<(ConnectionHandle, Deliveries)>,
    shutting_down: bool,
    seed: u64,
    /// The latest time told.
    now: Option<Instant>,
}

struct Slot {
    connection: Connection,
    /// Whether it is in `awake`.
    awake: bool,
    /// Whether it is in `eager`.
    eager: bool,
    /// Whether it is in `changed`.
    changed: bool,
    /// Its entry in `sweeps` that counts.
    sweep: Option<Instant>,
}

impl Endpoint {
    /// An endpoint that accepts connections.
    ///
    /// `seed` drives its random choices (connection-level; TLS has its own), so that a run in
    /// virtual time can be repeated. Outside tests it must be unpredictable. The shell must forbid
    /// IP fragmentation on the socket (IP_MTU_DISCOVER), or MTU discovery finds what routers cut.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] names a field out of range, [`Error::Quic`] one of QUIC's; or says
    /// why the TLS configuration can't carry QUIC.
    pub fn server(config: ServerConfig, seed: [u8; 32]) -> Result<Self, Error> {
        config.limits.check()?;
        let quic = quic::Endpoint::server(&config.quic(), seed)?;
        let settings = config.limits.settings(config.extended_connect);
        let terms = Terms {
            role: Role::Server,
            limits: config.limits,
            settings,
        };
        Ok(Self::new(quic, terms, None, seed))
    }

    /// An endpoint that opens connections. `seed` and errors as for [`server`](Self::server).
    ///
    /// # Errors
    /// See [`server`](Self::server).
    pub fn client(config: ClientConfig, seed: [u8; 32]) -> Result<Self, Error> {
        config.limits.check()?;
        let quic = quic::Endpoint::client(&config.quic(), seed)?;
        let settings = config.limits.settings(false);
        let terms = Terms {
            role: Role::Client,
            limits: config.limits,
            settings,
        };
        Ok(Self::new(quic, terms, config.early_data, seed))
    }

    /// Begins a connection. [`Event::Connected`] or [`Event::Closed`] tells how it went.
    ///
    /// # Errors
    /// [`Error::Quic`] with what stands in the way, for instance [`quic::Error::NotAClient`],
    /// [`quic::Error::TooManyConnections`] or [`quic::Error::InvalidServerName`];
    /// [`Error::GoingAway`] after [`shutdown`](Self::shutdown).
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<ConnectionHandle, Error> {
        if self.shutting_down {
            return Err(Error::GoingAway);
        }
        self.now = Some(now);
        let handle = self.quic.connect(now, remote, server_name)?;
        let server = ServerName::try_from(server_name).map(|name| name.to_owned());
        let memory = self.sessions.clone().zip(server.ok());
        let memory = memory.map(|(sessions, server)| Memory { sessions, server });
        self.insert(handle, memory, now);
        Ok(handle)
    }

    /// Takes in one UDP datagram.
    pub fn handle_datagram(&mut self, now: Instant, datagram: Datagram<'_>) {
        self.now = Some(now);
        self.quic.handle_datagram(now, datagram);
    }

    /// Runs what is due at `now`. Calls too early do nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = Some(now);
        self.quic.handle_timeout(now);
        while let Some((at, index)) = self.sweeps.front().copied()
            && at <= now
        {
            self.sweeps.pop_front();
            self.sweep(at, index, now);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest. Valid once events and
    /// transmissions are drained. It may be too early for a connection, never too late.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let sweep = self.sweeps.front().map(|(at, _)| *at);
        [self.quic.poll_timeout(), sweep]
            .into_iter()
            .flatten()
            .min()
    }

    /// The next event of any connection.
    pub fn poll_event(&mut self) -> Option<(ConnectionHandle, Event)> {
        loop {
            if let Some(event) = self.next_event() {
                return Some(event);
            }
            match self.quic.poll_event() {
                Some((handle, event)) => self.on_quic_event(handle, event),
                None => return self.next_writable(),
            }
        }
    }

    /// The next batch of datagrams to send. `buf` is cleared, and then holds [`Transmit::size`]
    /// bytes; keep it between calls. Connections take turns. The shell may pause between calls, for
    /// instance while its socket is full, and take datagrams in meanwhile.
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.flush_tables();
        self.quic.poll_transmit(now, buf)
    }

    /// Client: opens a stream and sends a request's head, whose URI must be absolute. `end`: there
    /// is no body.
    ///
    /// # Errors
    /// [`Error::StreamsExhausted`]: wait for [`Event::StreamsAvailable`]; this is also the answer
    /// before [`Event::Connected`], but for requests that [`Event::EarlyData`] allows.
    /// [`Error::UnknownConnection`] also when the connection has ended, though [`Event::Closed`] is
    /// still to come. [`Error::GoingAway`] after GOAWAY from either side.
    /// [`Error::InvalidMessage`], [`Error::HeadTooLarge`], [`Error::WrongRole`].
    pub fn send_request(
        &mut self,
        connection: ConnectionHandle,
        head: &http::Request<()>,
        end: bool,
    ) -> Result<StreamId, Error> {
        let (connection, quic) = self.open(connection)?;
        connection.send_request(quic, head, end)
    }

    /// Server: sends a response's head. `end`: there is no body. Interim responses (1xx) may come
    /// before the final one, with `end` false.
    ///
    /// # Errors
    /// [`Error::UnknownStream`] if the exchange is over, [`Error::OutOfOrder`] for a second final
    /// head, [`Error::InvalidMessage`], [`Error::HeadTooLarge`], [`Error::UnknownConnection`],
    /// [`Error::WrongRole`].
    pub fn send_response(
        &mut self,
        connection: ConnectionHandle,
        stream: StreamId,
        head: &http::Response<()>,
        end: bool,
    ) -> Result<(), Error> {
        let (connection, quic) = self.open(connection)?;
        connection.send_response(quic, stream, head, end)
    }

    /// Server: sends a response's final head, and body bytes behind it: takes as many as fit from the
    /// front of `data`, as [`send_data`](Self::send_data) does, which sends what is left. `end` counts
    /// once `data` is empty.
    ///
    /// For responses that are the same again and again: a head that is sent once more, as the same
    /// `Arc`, is not encoded anew as long as the peer's table allows.
    ///
    /// # Errors
    /// As [`send_response`](Self::send_response) and [`send_data`](Self::send_data).
    pub fn send_message(
        &mut self,
        connection: ConnectionHandle,
        stream: StreamId,
        head: &Arc<http::Response<()>>,
        data: &mut Bytes,
        end: bool,
    ) -> Result<(), Error> {
        let (connection, quic) = self.open(connection)?;
        connection.send_message(quic, stream, head, data, end)
    }

    /// Sends trailers, and with them the end of a message whose body was sent without. Where there is no
    /// field to send, the end alone.
    ///
    /// # Errors
    /// As [`send_data`](Self::send_data); [`Error::HeadTooLarge`].
    pub fn send_trailers(
        &mut self,
        connection: ConnectionHandle,
        stream: StreamId,
        fields: &HeaderMap,
    ) -> Result<(), Error> {
        let (connection, quic) = self.open(connection)?;
        connection.send_trailers(quic, stream, fields)
    }

    /// Client: wishes another priority for a response than the request's Priority field said
    /// (PRIORITY_UPDATE, RFC 9218).
    ///
    /// # Errors
    /// [`Error::UnknownStream`] if the exchange is over; [`Error::OutOfOrder`] when 4 KiB of such
    /// wishes wait already; [`Error::UnknownConnection`], [`Error::WrongRole`].
    pub fn send_priority(
        &mut self,
        connection: ConnectionHandle,
        stream: StreamId,
        priority: Priority,
    ) -> Result<(), Error> {
        let (connection, quic) = self.open(connection)?;
        connection.send_priority(quic, stream, priority)
    }

    /// Client: whether the server takes extended CONNECT (RFC 9220). False before its settings
    /// came.
    pub fn peer_takes_extended_connect(&self, connection: ConnectionHandle) -> bool {
        let slot = self.slots.get(connection.0).and_then(Option::as_ref);
        slot.is_some_and(|slot| slot.connection.peer_takes_extended_connect())
    }

    /// Sends body bytes: takes as many as fit from the front of `data`, without copying. If any are
    /// left, wait for [`Event::Writable`] and call again with at least these bytes. `end` counts
    /// once `data` is empty.
    ///
    /// A server's stream is also done with reading once the peer has acknowledged all of the
    /// response: [`Event::Readable`](crate::Event::Readable) tells an application that waits for more.
    ///
    /// # Errors
    /// [`Error::UnknownStream`] if the exchange is over or the peer stopped it,
    /// [`Error::OutOfOrder`] before the head, after the end, or at an end short of what an earlier
    /// call began to send; [`Error::UnknownConnection`].
    pub fn send_data(
        &mut self,
        connection: ConnectionHandle,
        stream: StreamId,
        data: &mut Bytes,
        end: bool,
    ) -> Result<(), Error> {
        let (connection, quic) = self.open(connection)?;
        connection.send_data(quic, stream, data, end)
    }

    /// Reads body bytes, and the trailers behind them. Reading gives the peer credit to send on; not
    /// reading holds it back.
    ///
    /// # Errors
    /// [`Error::StreamReset`] if the exchange failed; this tells it, no event follows.
    /// [`Error::UnknownStream`] after the end or a reset, [`Error::UnknownConnection`].
    pub fn recv_data(
        &mut self,
        connection: ConnectionHandle,
        stream: StreamId,
    ) -> Result<Received, Error> {
        let (connection, quic) = self.open(connection)?;
        connection.recv_data(quic, stream)
    }

    /// Gives an exchange up in both directions (RESET_STREAM and STOP_SENDING). No event follows.
    /// Without effect on what is over already.
    pub fn reset_stream(&mut self, connection: ConnectionHandle, stream: StreamId, code: Code) {
        if let Ok((connection, quic)) = self.open(connection) {
            connection.reset_stream(quic, stream, code);
        }
    }

    /// Wants no more of the peer's body (STOP_SENDING); what this side sends goes on. A server that
    /// needs no body says so with H3_NO_ERROR: then up to [`Limits::max_unwanted`](crate::Limits::max_unwanted)
    /// bytes of it are dropped first, for as long as [`Limits::linger`](crate::Limits::linger) lets them,
    /// as some clients lose a response that STOP_SENDING accompanies. Without effect on what is over already.
    pub fn stop_reading(&mut self, connection: ConnectionHandle, stream: StreamId, code: Code) {
        if let Ok((connection, quic)) = self.open(connection) {
            connection.stop_reading(quic, stream, code);
        }
    }

    /// Begins a graceful shutdown: GOAWAY on every connection, no new connections, no new requests;
    /// those in progress go on. Once [`is_idle`](Self::is_idle), close what is left.
    pub fn shutdown(&mut self, _now: Instant) {
        self.shutting_down = true;
        self.quic.shutdown();
        for index in 0..self.slots.len() {
            if let Ok((connection, quic)) = self.open(ConnectionHandle(index)) {
                connection.shutdown(quic);
            }
        }
    }

    /// Whether attempts at new connections are left to another endpoint that gets them as well:
    /// they are neither accepted nor refused, also after [`shutdown`](Self::shutdown). At first they
    /// are not.
    pub fn ignore_new_connections(&mut self, ignore: bool) {
        self.quic.ignore_new_connections(ignore);
    }

    /// Server: asks `admit` about each new connection, as
    /// [`quic::Endpoint::set_admission`](altway_quic::Endpoint::set_admission) does.
    pub fn set_admission(&mut self, admit: quic::Admit) {
        self.quic.set_admission(admit);
    }

    /// Returns what `admit` gave a connection to keep.
    #[must_use]
    pub fn guard(&self, connection: ConnectionHandle) -> Option<&quic::Guard> {
        self.quic.guard(connection)
    }

    /// Begins the graceful end of one connection: GOAWAY, and no new requests; those in progress go on.
    /// Once it has none, [`close`](Self::close) it.
    pub fn go_away(&mut self, connection: ConnectionHandle) {
        if let Ok((connection, quic)) = self.open(connection) {
            connection.shutdown(quic);
        }
    }

    /// Whether no exchange of a connection is in progress, as far as this side knows; so also where there
    /// is no such connection.
    #[must_use]
    pub fn is_at_rest(&self, connection: ConnectionHandle) -> bool {
        let slot = self.slots.get(connection.0).and_then(Option::as_ref);
        slot.is_none_or(|slot| slot.connection.is_idle())
    }

    /// Closes a connection at once; [`Event::Closed`] follows.
    pub fn close(
        &mut self,
        _now: Instant,
        connection: ConnectionHandle,
        code: Code,
        reason: &[u8],
    ) {
        if let Ok((connection, quic)) = self.open(connection) {
            connection.close(quic, code, reason);
        }
    }

    /// Connections that are not closed, those in hand-shake included. Counts them one by one.
    pub fn open_connections(&self) -> usize {
        self.quic.open_connections()
    }

    /// Whether nothing is left to deliver or acknowledge: no exchange in progress, and no close to
    /// be told. Asks all connections, so it is meant for the time of a shutdown.
    pub fn is_idle(&self) -> bool {
        let mut slots = self.slots.iter().flatten();
        self.quic.is_idle() && slots.all(|slot| slot.connection.is_idle())
    }

    /// What is known of a connection's path; `None` before the first round trip, and for a handle
    /// that is void. It still answers while [`Event::Closed`] is being handled, for a last look.
    /// Not free: meant for now and then.
    pub fn path_statistics(&mut self, connection: ConnectionHandle) -> Option<PathStatistics> {
        self.quic.path_statistics(connection)
    }

    /// Counts what QUIC holds.
    #[must_use]
    pub fn statistics(&self) -> EndpointStatistics {
        self.quic.statistics()
    }

    /// The address of a connection's peer, as it is now; `None` for a handle that is void. Before
    /// [`Event::Connected`] it may be borrowed.
    pub fn remote_address(&mut self, connection: ConnectionHandle) -> Option<SocketAddr> {
        let connection = self.quic.connection(connection)?;
        Some(connection.remote_address())
    }

    /// Returns what a connection's peer has shown of itself in the handshake: the name that it connected to, and its
    /// certificates; `None` for a handle that is void.
    pub fn peer_identity(&mut self, connection: ConnectionHandle) -> Option<quic::PeerIdentity> {
        let connection = self.quic.connection(connection)?;
        Some(connection.peer_identity())
    }

    /// Server: the responses of a connection that have arrived; of none for a handle that is void. It
    /// still answers while [`Event::Closed`] is being handled.
    pub fn deliveries(&self, connection: ConnectionHandle) -> Deliveries {
        let slot = self.slots.get(connection.0).and_then(Option::as_ref);
        let ended = self.ended.filter(|(handle, _)| *handle == connection);
        match (slot, ended) {
            (Some(slot), _) => slot.connection.deliveries(),
            (None, Some((_, deliveries))) => deliveries,
            (None, None) => Deliveries::default(),
        }
    }

    fn new(quic: quic::Endpoint, terms: Terms, sessions: Option<Sessions>, seed: [u8; 32]) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = seed;
        Self {
            quic,
            terms: Arc::new(terms),
            sessions,
            slots: Vec::new(),
            awake: VecDeque::new(),
            eager: VecDeque::new(),
            changed: Vec::new(),
            sweeps: VecDeque::new(),
            ended: None,
            shutting_down: false,
            seed: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            now: None,
        }
    }

    /// The connection behind a handle, about to be changed.
    fn open(
        &mut self,
        handle: ConnectionHandle,
    ) -> Result<(&mut Connection, &mut quic::Connection), Error> {
        self.wake(handle.0);
        let slot = self.slots.get_mut(handle.0).and_then(Option::as_mut);
        let both = slot.zip(self.quic.connection(handle));
        both.map(|(slot, quic)| (&mut slot.connection, quic))
            .ok_or(Error::UnknownConnection)
    }

    /// Notes that a connection may have events.
    fn wake(&mut self, index: usize) {
        let Some(Some(slot)) = self.slots.get_mut(index) else {
            return;
        };
        if !std::mem::replace(&mut slot.awake, true) {
            self.awake.push_back(index);
        }
        if !std::mem::replace(&mut slot.eager, true) {
            self.eager.push_back(index);
        }
        if !std::mem::replace(&mut slot.changed, true) {
            self.changed.push(index);
        }
    }

    /// Has connections that were changed say what their compression tables have to say.
    fn flush_tables(&mut self) {
        while let Some(index) = self.changed.pop() {
            if let Some(Some(slot)) = self.slots.get_mut(index) {
                slot.changed = false;
                if let Some(quic) = self.quic.connection(ConnectionHandle(index)) {
                    slot.connection.flush_tables(quic);
                }
            }
        }
    }

    /// The next event that waits for the application.
    fn next_event(&mut self) -> Option<(ConnectionHandle, Event)> {
        while let Some(index) = self.awake.front().copied() {
            if let Some(Some(slot)) = self.slots.get_mut(index) {
                if let Some(event) = slot.connection.poll_event() {
                    if let Event::Closed { .. } = event {
                        self.ended = Some((ConnectionHandle(index), slot.connection.deliveries()));
                        self.slots[index] = None;
                    }
                    return Some((ConnectionHandle(index), event));
                }
                slot.awake = false;
            }
            self.awake.pop_front();
            self.schedule_sweep(index);
        }
        None
    }

    /// The next stream that takes bytes again.
    fn next_writable(&mut self) -> Option<(ConnectionHandle, Event)> {
        while let Some(index) = self.eager.front().copied() {
            if let Some(Some(slot)) = self.slots.get_mut(index) {
                if let Some(event) = slot.connection.poll_writable() {
                    return Some((ConnectionHandle(index), event));
                }
                slot.eager = false;
            }
            self.eager.pop_front();
        }
        None
    }

    fn on_quic_event(&mut self, handle: ConnectionHandle, event: quic::Event) {
        let now = self.now.expect("there are no events before the first time");
        let begins = matches!(event, quic::Event::EarlyData | quic::Event::Connected);
        if begins && !self.slots.get(handle.0).is_some_and(Option::is_some) {
            self.insert(handle, None, now);
        }
        self.wake(handle.0);
        let Some(Some(slot)) = self.slots.get_mut(handle.0) else {
            return;
        };
        match (event, self.quic.connection(handle)) {
            (quic::Event::Closed { reason }, _) => slot.connection.on_closed(reason),
            (event, Some(quic)) => slot.connection.on_quic_event(quic, &event, now),
            // Closed by an earlier event's handling: all that is still to be told is that.
            (_, None) => {}
        }
    }

    fn insert(&mut self, handle: ConnectionHandle, memory: Option<Memory>, now: Instant) {
        if self.slots.len() <= handle.0 {
            self.slots.resize_with(handle.0 + 1, || None);
        }
        self.seed = self.seed.wrapping_add(1);
        let mut connection = Connection::new(&self.terms, memory, self.seed, now);
        if self.shutting_down {
            connection.refuse_requests();
        }
        let slot = Slot {
            connection,
            awake: false,
            eager: false,
            changed: false,
            sweep: None,
        };
        self.slots[handle.0] = Some(Box::new(slot));
    }

    /// Sees to it that a connection that has exchanges is looked after.
    fn schedule_sweep(&mut self, index: usize) {
        if let (Some(Some(slot)), Some(now)) = (self.slots.get_mut(index), self.now)
            && slot.sweep.is_none()
            && !slot.connection.is_idle()
        {
            let at = now + (self.terms.limits.stall / 4).min(REST);
            slot.sweep = Some(at);
            self.sweeps.push_back((at, index));
        }
    }

    fn sweep(&mut self, at: Instant, index: usize, now: Instant) {
        let handle = ConnectionHandle(index);
        if let Some(Some(slot)) = self.slots.get_mut(index)
            // Else the entry was of an earlier connection.
            && slot.sweep == Some(at)
        {
            slot.sweep = None;
            if let Some(quic) = self.quic.connection(handle) {
                slot.connection.sweep(quic, now);
            }
            self.wake(index);
        }
    }
}
