//! A connection of QUIC with its UDP socket: datagrams and time into the engine, datagrams out.

use crate::backlog::MAX_BACKLOG;
use altway_http3::{
    ClientConfig, Code, ConnectionHandle, Endpoint, Error, Event, Received, StreamId,
};
use altway_socket::{SendOutcome, Settings, Timer, Udp, WatchedUdp};
use bytes::Bytes;
use http::{HeaderMap, Request};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Datagrams of a server that the kernel holds, in bytes. Without privilege the system's `net.core.rmem_max` limits it.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Datagrams taken with one call, and sent with one.
const MESSAGES: usize = 8;

/// Time after which a server is asked whether it is there: sooner than it closes what idles.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Time without a sign of the server after which it is gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes that a stream may be ahead of its reader.
pub(super) const STREAM_WINDOW: u64 = 256 << 10;

/// Bytes that a connection may be ahead of its readers.
const CONNECTION_WINDOW: u64 = 4 << 20;
const _: () = assert!(2 * MAX_BACKLOG as u64 <= CONNECTION_WINDOW);

/// A connection and the socket under it, which is connected: datagrams of others stay out.
pub(super) struct Link {
    udp: Udp<WatchedUdp>,
    timer: Timer,
    endpoint: Endpoint,
    connection: ConnectionHandle,
}

impl Link {
    /// Makes the socket and begins the handshake, which [`Self::turn`] carries on. `pause`: the longest of a response.
    pub(super) fn connect(
        tls: std::sync::Arc<rustls::ClientConfig>,
        remote: SocketAddr,
        name: &str,
        pause: Duration,
    ) -> io::Result<Self> {
        let udp = connect(remote)?;
        let mut seed = [0; 32];
        let filled = tls.crypto_provider().secure_random.fill(&mut seed);
        filled.map_err(|error| io::Error::other(rustls::Error::from(error)))?;
        let mut config = ClientConfig::new(tls);
        config.quic.transport.max_segments = udp.max_segments().clamp(1, MESSAGES);
        config.quic.transport.keep_alive = Some(KEEP_ALIVE);
        config.quic.transport.idle_timeout = IDLE_TIMEOUT;
        config.quic.transport.stream_receive_window = Some(STREAM_WINDOW);
        config.quic.transport.receive_window = Some(CONNECTION_WINDOW);
        // Its socket is its own, by which it is known.
        config.quic.empty_connection_ids = true;
        // Of a stream of events little moves; who waits for it knows how long.
        config.limits.stall = pause.max(Duration::from_millis(1));
        config.limits.stall_bytes = 1;
        let mut endpoint = <Endpoint>::client(&config, seed).map_err(io::Error::other)?;
        let connection = endpoint.connect(Instant::now(), remote, name, ());
        Ok(Self {
            udp,
            timer: Timer::new()?,
            endpoint,
            connection: connection.map_err(io::Error::other)?,
        })
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event().map(|(_, event)| event)
    }

    pub(super) fn request(&mut self, head: &Request<()>, end: bool) -> Result<StreamId, Error> {
        self.endpoint
            .with(self.connection, |it, quic| it.send_request(quic, head, end))
    }

    /// Returns whether the server takes extended CONNECT (RFC 9220), as far as its settings have
    /// arrived.
    pub(super) fn takes_tunnels(&mut self) -> bool {
        let connection = self.endpoint.connection(self.connection);
        connection.is_some_and(|(it, ..)| it.peer_takes_extended_connect())
    }

    pub(super) fn send(
        &mut self,
        stream: StreamId,
        data: &mut Bytes,
        end: bool,
    ) -> Result<(), Error> {
        self.endpoint.with(self.connection, |it, quic| {
            it.send_data(quic, stream, data, end)
        })
    }

    pub(super) fn send_trailers(
        &mut self,
        stream: StreamId,
        fields: &HeaderMap,
    ) -> Result<(), Error> {
        self.endpoint.with(self.connection, |it, quic| {
            it.send_trailers(quic, stream, fields)
        })
    }

    pub(super) fn receive(&mut self, stream: StreamId) -> Result<Received, Error> {
        self.endpoint
            .with(self.connection, |it, quic| it.recv_data(quic, stream))
    }

    /// Gives an exchange up that nobody waits for; without effect on one that is over.
    pub(super) fn cancel(&mut self, stream: StreamId) {
        let code = Code::H3_REQUEST_CANCELLED;
        if let Some((it, quic, _)) = self.endpoint.connection(self.connection) {
            it.reset_stream(quic, stream, code);
        }
    }

    /// Sends what there is to send, then waits for datagrams or for the next time-out, and tells the engine; events are
    /// to be drained afterwards. May be dropped while it waits.
    ///
    /// # Errors
    /// The kernel says that there is nobody, or no way, at the other end.
    pub(super) async fn turn(&mut self) -> io::Result<()> {
        let progress = self.flush()?;
        let due = self.endpoint.poll_timeout();
        self.timer.arm(due, Instant::now())?;
        let socket = self.udp.socket();
        let is_readable = tokio::select! {
            biased;
            ready = socket.inbound() => ready.map(|()| true)?,
            ready = socket.writable(), if progress == SendOutcome::Blocked => ready.map(|()| false)?,
            () = self.timer.expired() => false,
            () = tokio::task::yield_now(), if progress == SendOutcome::More => false,
        };
        if is_readable {
            match self.udp.socket().take_error()? {
                Some(error) if altway_socket::is_final(&error) => return Err(error),
                _ => {}
            }
            let now = Instant::now();
            let endpoint = &mut self.endpoint;
            self.udp
                .receive(|datagram| endpoint.handle_datagram(now, datagram))?;
        }
        let now = Instant::now();
        if self.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<SendOutcome> {
        let now = Instant::now();
        let endpoint = &mut self.endpoint;
        self.udp.send(|batch| endpoint.poll_transmit(now, batch))
    }
}

/// Says goodbye, as far as the socket takes it, whoever drops it: a runtime that ends, too. The server would hold the
/// connection, and the requests that run over it, until its idle time-out.
impl Drop for Link {
    fn drop(&mut self) {
        if let Some((it, quic, _)) = self.endpoint.connection(self.connection) {
            it.close(quic, Code::H3_NO_ERROR, b"");
        }
        let _ = self.flush();
    }
}

fn connect(remote: SocketAddr) -> io::Result<Udp<WatchedUdp>> {
    let settings = Settings {
        messages: MESSAGES,
        ..Settings::default()
    };
    Udp::new(WatchedUdp::connect(remote, RECEIVE_BUFFER)?, settings)
}
