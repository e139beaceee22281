//! The HTTP/3 connections of one UDP socket, in either role.
//!
//! QUIC's endpoint has the table; here its events become the application's, connection by connection.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use altway_quic::{self as quic, QuicConnection, QuicEndpoint};
use rustls::pki_types::ServerName;

use crate::connection::ResumptionState;
use crate::{
    Admission, ClientConfig, Connection, ConnectionHandle, Datagram, EndpointStatistics, Error,
    Event, PathStatistics, ServerConfig, Sessions, SharedConfig, Transmit,
};

/// Many HTTP/3 connections over one UDP socket, each with a state of the application's beside it.
///
/// After every call that takes `now` or changes something: drain [`poll_event`](Self::poll_event),
/// then [`poll_transmit`](Self::poll_transmit), then arm a timer for
/// [`poll_timeout`](Self::poll_timeout). Events are edge-triggered: each stands for a change.
///
/// Memory is bounded by [`Limits`](crate::Limits), those of QUIC, and the transport's windows; see those.
pub struct Endpoint<A = (), Q = quic::Endpoint<Slot<A>>> {
    quic: Q,
    shared_config: Arc<SharedConfig>,
    /// Client: what is remembered of servers, if early data is to be sent.
    sessions: Option<Sessions>,
    /// Connections whose compression tables may have something to say.
    changed: Vec<ConnectionHandle>,
    /// Times to look after a connection's slow exchanges, or to let it rest; in order, as all wait as long.
    sweeps: VecDeque<(Instant, ConnectionHandle)>,
    shutting_down: bool,
    seed: u64,
    /// The latest time told.
    now: Option<Instant>,
    state: std::marker::PhantomData<fn() -> A>,
}

/// State that an endpoint keeps with each connection of QUIC.
#[derive(Default)]
pub struct Slot<A> {
    /// A server's begins when the handshake is done, or with early data. Gone once its end was told.
    connection: Option<Box<Connection>>,
    /// True if the connection is in `changed`.
    changed: bool,
    /// Time of the connection's entry in `sweeps`.
    sweep: Option<Instant>,
    /// The application's.
    state: A,
}

impl<A> Slot<A> {
    fn new(state: A) -> Self {
        Self {
            connection: None,
            changed: false,
            sweep: None,
            state,
        }
    }
}

impl<A, Q: QuicEndpoint<State = Slot<A>>> Endpoint<A, Q> {
    /// An endpoint that accepts connections. `seed` as for [`QuicEndpoint::server`].
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] names a field out of range, [`Error::Quic`] one of QUIC's; or says
    /// why the TLS configuration can't carry QUIC.
    pub fn server(config: &ServerConfig, seed: [u8; 32]) -> Result<Self, Error> {
        let shared_config = SharedConfig::server(config)?;
        Ok(Self::new(
            Q::server(&config.over(), seed)?,
            shared_config,
            None,
            seed,
        ))
    }

    /// An endpoint that opens connections. `seed` and errors as for [`server`](Self::server).
    ///
    /// # Errors
    /// See [`server`](Self::server).
    pub fn client(config: &ClientConfig, seed: [u8; 32]) -> Result<Self, Error> {
        let shared_config = SharedConfig::client(config)?;
        let quic = Q::client(&config.over(), seed)?;
        Ok(Self::new(
            quic,
            shared_config,
            config.early_data.clone(),
            seed,
        ))
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
        state: A,
    ) -> Result<ConnectionHandle, Error> {
        if self.shutting_down {
            return Err(Error::GoingAway);
        }
        self.now = Some(now);
        let server = ServerName::try_from(server_name).map(|name| name.to_owned());
        let resumption = self.sessions.clone().zip(server.ok());
        self.seed = self.seed.wrapping_add(1);
        let mut connection = Connection::new(&self.shared_config, self.seed, now);
        connection
            .remember(resumption.map(|(sessions, server)| ResumptionState { sessions, server }));
        let mut slot = Slot::new(state);
        slot.connection = Some(Box::new(connection));
        Ok(self.quic.connect(now, remote, server_name, slot)?)
    }

    /// Takes in one UDP datagram. A new connection for which there is room is let in.
    pub fn handle_datagram(&mut self, now: Instant, datagram: Datagram<'_>)
    where
        A: Default,
    {
        self.handle_datagram_by(now, datagram, |_, _| Admission::default());
    }

    /// Takes in one UDP datagram. If it begins a connection for which there is room, `admit` decides about that, as
    /// for [`QuicEndpoint::handle_datagram_by`].
    pub fn handle_datagram_by(
        &mut self,
        now: Instant,
        datagram: Datagram<'_>,
        admit: impl FnOnce(SocketAddr, bool) -> Admission<A>,
    ) {
        self.now = Some(now);
        let admit = |remote, validated| admit(remote, validated).map(Slot::new);
        self.quic.handle_datagram_by(now, datagram, admit);
    }

    /// Runs what is due at `now`, in part if much is: [`poll_timeout`](Self::poll_timeout) says so then. Calls too
    /// early do nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = Some(now);
        self.quic.handle_timeout(now);
        while let Some((at, handle)) = self.sweeps.front().copied()
            && at <= now
        {
            self.sweeps.pop_front();
            // Else the entry was of an earlier connection.
            if let Some((quic, slot)) = self.quic.entry(handle)
                && slot.sweep == Some(at)
            {
                slot.sweep = None;
                if let Some(connection) = &mut slot.connection {
                    connection.handle_timeout(quic, now);
                }
                note_change(&mut self.changed, handle, slot);
            }
        }
    }

    /// Returns the time to call [`handle_timeout`](Self::handle_timeout) at the latest. Valid once events and
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
        while let Some(handle) = self.quic.active() {
            if let Some(event) = self.next_event(handle) {
                return Some((handle, event));
            }
            self.quic.settle();
        }
        None
    }

    /// The next batch of datagrams to send. `buf` is cleared, and then holds [`Transmit::size`]
    /// bytes; keep it between calls. Connections take turns. The shell may pause between calls, for
    /// instance while its socket is full, and take datagrams in meanwhile.
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(handle) = self.changed.pop() {
            // To be lent as an entry is to have events looked for in the next turn, of which there are none.
            if let Some((quic, slot)) = self.quic.writer(handle) {
                slot.changed = false;
                if let Some(connection) = &mut slot.connection {
                    connection.flush(quic);
                }
            }
        }
        self.quic.poll_transmit(now, buf)
    }

    /// An open connection, about to be changed, the QUIC connection to lend it, and the application's state.
    /// `None` for a handle that is void, and after the connection was closed by either side, though
    /// [`Event::Closed`] may be still to come.
    pub fn connection(
        &mut self,
        handle: ConnectionHandle,
    ) -> Option<(&mut Connection, &mut Q::Connection, &mut A)> {
        let (quic, slot) = self.quic.entry(handle)?;
        note_change(&mut self.changed, handle, slot);
        let connection = slot.connection.as_mut().filter(|_| !quic.is_closed())?;
        Some((connection, quic, &mut slot.state))
    }

    /// Calls `act` with an [open connection](Self::connection).
    ///
    /// # Errors
    /// [`Error::UnknownConnection`]: there is none. Else what `act` says.
    pub fn with<T>(
        &mut self,
        handle: ConnectionHandle,
        act: impl FnOnce(&mut Connection, &mut Q::Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (connection, quic, _) = self.connection(handle).ok_or(Error::UnknownConnection)?;
        act(connection, quic)
    }

    /// The application's state of a connection, from its first packet until QUIC forgets it, some round trips
    /// after [`Event::Closed`].
    pub fn state(&mut self, handle: ConnectionHandle) -> Option<&mut A> {
        Some(&mut self.quic.state(handle)?.state)
    }

    /// All such states. Asks all connections, so it is meant for now and then.
    pub fn states(&self) -> impl Iterator<Item = (ConnectionHandle, &A)> {
        let states = self.quic.states();
        states.map(|(handle, slot)| (handle, &slot.state))
    }

    /// Begins a graceful shutdown: GOAWAY on every connection, no new connections, no new requests;
    /// those in progress go on. Once [`is_idle`](Self::is_idle), close what is left.
    pub fn shutdown(&mut self) {
        self.shutting_down = true;
        self.quic.shutdown();
        let all: Vec<_> = self.quic.states().map(|(handle, _)| handle).collect();
        for handle in all {
            if let Some((connection, quic, _)) = self.connection(handle) {
                connection.shutdown(quic);
            }
        }
    }

    /// Leaves attempts at new connections to another endpoint that gets them as well, if `ignore`: they are neither
    /// accepted nor refused, also after [`shutdown`](Self::shutdown). False at first.
    pub fn ignore_new_connections(&mut self, ignore: bool) {
        self.quic.ignore_new_connections(ignore);
    }

    /// Connections that are not closed, those in handshake included. Counts them one by one.
    pub fn open_connections(&self) -> usize {
        self.quic.open_connections()
    }

    /// Returns true if nothing is left to deliver or acknowledge: no exchange in progress, and no close to be
    /// reported. Asks all connections, so it is meant for the time of a shutdown.
    pub fn is_idle(&self) -> bool {
        let mut slots = self.quic.states();
        slots.all(|(_, slot)| slot.connection.as_ref().is_none_or(|it| it.is_idle()))
            && self.quic.is_idle()
    }

    /// Returns statistics of a connection's path, as [`QuicEndpoint::path_statistics`] does.
    pub fn path_statistics(&mut self, connection: ConnectionHandle) -> Option<PathStatistics> {
        self.quic.path_statistics(connection)
    }

    /// Counts what QUIC holds.
    #[must_use]
    pub fn statistics(&self) -> EndpointStatistics {
        self.quic.statistics()
    }

    fn new(
        quic: Q,
        shared_config: SharedConfig,
        sessions: Option<Sessions>,
        seed: [u8; 32],
    ) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = seed;
        Self {
            quic,
            shared_config: Arc::new(shared_config),
            sessions,
            changed: Vec::new(),
            sweeps: VecDeque::new(),
            shutting_down: false,
            seed: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            now: None,
            state: std::marker::PhantomData,
        }
    }

    /// The next event of a connection: what waits for the application, what QUIC's next event leads to, and
    /// when there is neither, a stream that takes bytes again.
    fn next_event(&mut self, handle: ConnectionHandle) -> Option<Event> {
        let now = self.now.expect("there are no events before the first time");
        loop {
            let (quic, slot) = self.quic.entry(handle)?;
            if let Some(connection) = &mut slot.connection
                && let Some(event) = connection.poll_event()
            {
                if let Event::Closed { .. } = event {
                    slot.connection = None;
                }
                return Some(event);
            }
            let Some(event) = quic.poll_event() else {
                let connection = slot.connection.as_mut()?;
                if let Some(event) = connection.poll_writable() {
                    return Some(event);
                }
                if let Some(at) = connection.poll_timeout(now)
                    && slot.sweep.is_none()
                {
                    slot.sweep = Some(at);
                    self.sweeps.push_back((at, handle));
                }
                return None;
            };
            let connection = slot.connection.get_or_insert_with(|| {
                self.seed = self.seed.wrapping_add(1);
                let mut connection = Connection::new(&self.shared_config, self.seed, now);
                if self.shutting_down {
                    connection.shutdown(quic);
                }
                Box::new(connection)
            });
            connection.on_quic_event(quic, event, now);
            note_change(&mut self.changed, handle, slot);
        }
    }
}

/// Notes that a connection's tables may have something to say.
fn note_change<A>(
    changed: &mut Vec<ConnectionHandle>,
    handle: ConnectionHandle,
    slot: &mut Slot<A>,
) {
    if !std::mem::replace(&mut slot.changed, true) {
        changed.push(handle);
    }
}
