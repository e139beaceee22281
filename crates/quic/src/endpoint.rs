//! The connections of one UDP socket, in either role: a trait, whatever speaks QUIC behind it.
//!
//! Sockets, clocks and what to answer belong to the shell.

use std::net::SocketAddr;
use std::time::Instant;

use crate::{
    Admission, ClientConfig, ConnectionHandle, Datagram, EndpointStatistics, Error, Event,
    PathStatistics, QuicConnection, ServerConfig, Transmit,
};

/// Many QUIC connections over one UDP socket, each with a state of the application's beside it.
///
/// After every call that takes `now` or changes something: drain [`poll_event`](Self::poll_event),
/// then [`poll_transmit`](Self::poll_transmit), then arm a timer for
/// [`poll_timeout`](Self::poll_timeout).
///
/// Memory is bounded by [`Limits`](crate::Limits) and the windows of [`Transport`](crate::Transport).
pub trait QuicEndpoint: Sized {
    /// Connection of this endpoint.
    type Connection: QuicConnection;
    /// State that the application keeps with each connection, from its beginning until it is forgotten, some
    /// round trips after [`Event::Closed`]: so there is one table of connections.
    type State;

    /// An endpoint that accepts connections.
    ///
    /// `seed` drives its random choices (connection-level; TLS has its own), so that a run in
    /// virtual time can be repeated. Outside tests it must be unpredictable. The shell must forbid
    /// IP fragmentation on the socket (IP_MTU_DISCOVER), or MTU discovery finds what routers cut.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] names a field out of range; [`Error::Tls`] says why the TLS
    /// configuration can't carry QUIC.
    fn server(config: &ServerConfig, seed: [u8; 32]) -> Result<Self, Error>;

    /// An endpoint that opens connections. `seed` and errors as for [`server`](Self::server).
    ///
    /// # Errors
    /// See [`server`](Self::server).
    fn client(config: &ClientConfig, seed: [u8; 32]) -> Result<Self, Error>;

    /// Begins a connection. [`Event::Connected`] or [`Event::Closed`] tells how it went.
    ///
    /// # Errors
    /// [`Error::NotAClient`]; [`Error::ShuttingDown`] after [`shutdown`](Self::shutdown);
    /// [`Error::TooManyConnections`]; [`Error::InvalidServerName`], [`Error::InvalidAddress`].
    fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        server_name: &str,
        state: Self::State,
    ) -> Result<ConnectionHandle, Error>;

    /// Takes in one UDP datagram. A new connection for which there is room is let in.
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<'_>)
    where
        Self::State: Default,
    {
        self.handle_datagram_by(now, datagram, |_, _| Admission::default());
    }

    /// Takes in one UDP datagram. If it begins a connection for which there is room, `admit` decides about that,
    /// by its address and whether that is validated: one that is not may be forged (RFC 9000 section 8.1).
    fn handle_datagram_by(
        &mut self,
        now: Instant,
        datagram: Datagram<'_>,
        admit: impl FnOnce(SocketAddr, bool) -> Admission<Self::State>,
    );

    /// Runs what is due at `now`, for some tens of connections at most: where more are due
    /// [`poll_timeout`](Self::poll_timeout) says so. Calls too early do nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns the time to call [`handle_timeout`](Self::handle_timeout) at the latest. Valid once events and
    /// transmissions are drained. It may be too early for a connection, never too late.
    fn poll_timeout(&mut self) -> Option<Instant>;

    /// The next event of any connection.
    fn poll_event(&mut self) -> Option<(ConnectionHandle, Event)> {
        while let Some(handle) = self.active() {
            if let Some((connection, _)) = self.entry(handle)
                && let Some(event) = connection.poll_event()
            {
                return Some((handle, event));
            }
            self.settle();
        }
        None
    }

    /// The next connection that may have events, the same one until [`settle`](Self::settle): for a protocol
    /// above, which takes them from the connection itself.
    fn active(&mut self) -> Option<ConnectionHandle>;

    /// Goes on to the next connection, as all events of the active one have been taken.
    fn settle(&mut self);

    /// The next batch of datagrams to send. `buf` is cleared, and then holds [`Transmit::size`]
    /// bytes; keep it between calls. Connections take turns. The shell may pause between calls, for
    /// instance while its socket is full, and take datagrams in meanwhile.
    fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit>;

    /// An open connection, about to be changed; `None` for a handle that is void, and after the
    /// connection was closed by either side.
    fn connection(&mut self, handle: ConnectionHandle) -> Option<&mut Self::Connection> {
        let (connection, _) = self.entry(handle)?;
        (!connection.is_closed()).then_some(connection)
    }

    /// A connection that is not forgotten, also after its end, about to be changed, and its state.
    fn entry(
        &mut self,
        handle: ConnectionHandle,
    ) -> Option<(&mut Self::Connection, &mut Self::State)>;

    /// The connection and its state, as by [`entry`](Self::entry), for one that is about to be written to, and no more: it
    /// may have datagrams to send then, and has no events that it had not before.
    fn writer(
        &mut self,
        handle: ConnectionHandle,
    ) -> Option<(&mut Self::Connection, &mut Self::State)>;

    /// The state of a connection that is not forgotten.
    fn state(&mut self, handle: ConnectionHandle) -> Option<&mut Self::State>;

    /// The states of all connections that are not forgotten. Asks all, so it is meant for now and then.
    fn states(&self) -> impl Iterator<Item = (ConnectionHandle, &Self::State)>;

    /// Takes and makes no new connections from here on. Those there are go on; once
    /// [`is_idle`](Self::is_idle), close what is left.
    fn shutdown(&mut self);

    /// Leaves attempts at new connections to another endpoint that gets them as well, if `ignore`: they are
    /// neither accepted nor refused, also after [`shutdown`](Self::shutdown). False at first.
    fn ignore_new_connections(&mut self, ignore: bool);

    /// Connections that are not closed, those in handshake included. Counts them one by one.
    fn open_connections(&self) -> usize;

    /// Returns true if nothing is left to deliver or acknowledge: no bytes on their way, and no close to be
    /// reported. Asks all connections, so it is meant for the time of a shutdown.
    fn is_idle(&self) -> bool;

    /// Returns statistics of a connection's path, also while [`Event::Closed`] is being handled.
    fn path_statistics(&mut self, connection: ConnectionHandle) -> Option<PathStatistics> {
        self.entry(connection)?.0.path_statistics()
    }

    /// Counts what the endpoint holds.
    #[must_use]
    fn statistics(&self) -> EndpointStatistics;
}
