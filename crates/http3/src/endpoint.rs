//! One UDP socket's worth of HTTP/3 connections, in either role.
//!
//! QUIC is `altway-quic`'s: here its events become the application's, connection by connection, and
//! the application's calls find their connection.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use altway_quic as quic;
use bytes::Bytes;

use crate::connection::Connection;
use crate::{
    ClientConfig, Code, ConnectionHandle, Datagram, Error, Event, Limits, PathStatistics, Received,
    Role, ServerConfig, StreamId, Transmit,
};

/// Many HTTP/3 connections over one UDP socket.
///
/// After every call that takes `now` or changes something: drain [`poll_event`](Self::poll_event),
/// then [`poll_transmit`](Self::poll_transmit), then arm a timer for
/// [`poll_timeout`](Self::poll_timeout). Events are edge-triggered: each stands for a change.
///
/// Memory is bounded by [`Limits`], the transport's windows and QUIC's stream limits; see those.
pub struct Endpoint {
    quic: quic::Endpoint,
    role: Role,
    limits: Limits,
    /// By QUIC's handle, which is dense. A server's begin when their hand-shake is done.
    slots: Vec<Option<Box<Slot>>>,
    /// Slots that may have events for the application.
    awake: VecDeque<usize>,
    shutting_down: bool,
}

struct Slot {
    connection: Connection,
    /// Whether it is in `awake`.
    awake: bool,
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
        Ok(Self::new(quic, Role::Server, config.limits))
    }

    /// An endpoint that opens connections. `seed` and errors as for [`server`](Self::server).
    ///
    /// # Errors
    /// See [`server`](Self::server).
    pub fn client(config: ClientConfig, seed: [u8; 32]) -> Result<Self, Error> {
        config.limits.check()?;
        let quic = quic::Endpoint::client(&config.quic(), seed)?;
        Ok(Self::new(quic, Role::Client, config.limits))
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
        let handle = self.quic.connect(now, remote, server_name)?;
        self.insert(handle);
        Ok(handle)
    }

    /// Takes in one UDP datagram.
    pub fn handle_datagram(&mut self, now: Instant, datagram: Datagram<'_>) {
        self.quic.handle_datagram(now, datagram);
    }

    /// Runs what is due at `now`. Calls too early do nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.quic.handle_timeout(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest. Valid once events and
    /// transmissions are drained. It may be too early for a connection, never too late.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.quic.poll_timeout()
    }

    /// The next event of any connection.
    pub fn poll_event(&mut self) -> Option<(ConnectionHandle, Event)> {
        loop {
            if let Some(event) = self.next_event() {
                return Some(event);
            }
            let (handle, event) = self.quic.poll_event()?;
            self.on_quic_event(handle, event);
        }
    }

    /// The next batch of datagrams to send. `buf` is cleared, and then holds [`Transmit::size`]
    /// bytes; keep it between calls. Connections take turns. The shell may pause between calls, for
    /// instance while its socket is full, and take datagrams in meanwhile.
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.quic.poll_transmit(now, buf)
    }

    /// Client: opens a stream and sends a request's head, whose URI must be absolute. `end`: there
    /// is no body.
    ///
    /// # Errors
    /// [`Error::StreamsExhausted`]: wait for [`Event::StreamsAvailable`]; this is also the answer
    /// before [`Event::Connected`]. [`Error::GoingAway`] after GOAWAY from either side.
    /// [`Error::InvalidMessage`], [`Error::HeadTooLarge`], [`Error::UnknownConnection`],
    /// [`Error::WrongRole`].
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

    /// Sends body bytes: takes as many as fit from the front of `data`, without copying. If any are
    /// left, wait for [`Event::Writable`] and call again with at least these bytes. `end` counts
    /// once `data` is empty.
    ///
    /// A server's stream is also done with reading once the peer has acknowledged all of the
    /// response.
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

    /// Reads body bytes. Reading gives the peer credit to send on; not reading holds it back.
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
    /// needs no body says so with H3_NO_ERROR. Without effect on what is over already.
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

    fn new(quic: quic::Endpoint, role: Role, limits: Limits) -> Self {
        Self {
            quic,
            role,
            limits,
            slots: Vec::new(),
            awake: VecDeque::new(),
            shutting_down: false,
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
        if let Some(Some(slot)) = self.slots.get_mut(index)
            && !std::mem::replace(&mut slot.awake, true)
        {
            self.awake.push_back(index);
        }
    }

    /// The next event that waits for the application.
    fn next_event(&mut self) -> Option<(ConnectionHandle, Event)> {
        while let Some(index) = self.awake.front().copied() {
            if let Some(Some(slot)) = self.slots.get_mut(index) {
                if let Some(event) = slot.connection.poll_event() {
                    if let Event::Closed { .. } = event {
                        self.slots[index] = None;
                    }
                    return Some((ConnectionHandle(index), event));
                }
                slot.awake = false;
            }
            self.awake.pop_front();
        }
        None
    }

    fn on_quic_event(&mut self, handle: ConnectionHandle, event: quic::Event) {
        if event == quic::Event::Connected && self.role == Role::Server {
            self.insert(handle);
        }
        self.wake(handle.0);
        let Some(Some(slot)) = self.slots.get_mut(handle.0) else {
            return;
        };
        match (event, self.quic.connection(handle)) {
            (quic::Event::Closed { reason }, _) => slot.connection.on_closed(reason),
            (event, Some(quic)) => slot.connection.on_quic_event(quic, &event),
            // Closed by an earlier event's handling: all that is still to be told is that.
            (_, None) => {}
        }
    }

    fn insert(&mut self, handle: ConnectionHandle) {
        if self.slots.len() <= handle.0 {
            self.slots.resize_with(handle.0 + 1, || None);
        }
        let mut connection = Connection::new(self.role, self.limits.clone());
        if self.shutting_down {
            connection.refuse_requests();
        }
        let slot = Slot {
            connection,
            awake: false,
        };
        self.slots[handle.0] = Some(Box::new(slot));
    }
}
