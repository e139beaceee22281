//! A QUIC connection on its own UDP socket: datagrams and time into the endpoint, datagrams out.
//!
//! The socket is connected, so datagrams of strangers stay out, and a port where nobody listens
//! is told at once by ICMP. What the datagrams mean is left to the endpoint, and what its events
//! mean to `quic`.

use altway_http3::{ClientConfig, Code, ConnectionHandle, Endpoint, Event, Received, StreamId};
use altway_socket::{SendOutcome, Settings, Timer, Udp, WatchedUdp};
use http::Request;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

/// Bytes of datagrams that the kernel holds until this process reads them: 8 MiB are 67 ms at 1
/// Gbit/s. Without privilege the system's `net.core.rmem_max` limits it.
const RECEIVE_BUFFER: usize = 8 << 20;

/// Messages taken with one call, each of many datagrams: half of what a server takes, for a client
/// may have a thousand sockets with a buffer each.
const MESSAGES: usize = 4;

/// Datagrams sent with one call. A client sends requests and acknowledgements: few and small.
const MAX_SEGMENTS: usize = 8;

/// A client's connection and the socket under it.
pub(crate) struct Driver {
    udp: Udp<WatchedUdp>,
    timer: Timer,
    endpoint: Endpoint,
    connection: ConnectionHandle,
}

impl Driver {
    /// Makes the socket and begins the handshake; [`Driver::turn`] carries it on.
    pub(crate) fn connect(
        mut config: ClientConfig,
        seed: [u8; 32],
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Self, ConnectError> {
        let udp = connect(remote)?;
        config.quic.transport.max_segments = udp.max_segments().clamp(1, MAX_SEGMENTS);
        let mut endpoint = <Endpoint>::client(&config, seed)?;
        let connection = endpoint.connect(Instant::now(), remote, server_name, ())?;
        Ok(Self {
            udp,
            timer: Timer::new()?,
            endpoint,
            connection,
        })
    }

    /// The connection's next event.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event().map(|(_, event)| event)
    }

    /// Sends a request without a body.
    pub(crate) fn request(&mut self, head: &Request<()>) -> Result<StreamId, altway_http3::Error> {
        self.endpoint.with(self.connection, |it, quic| {
            it.send_request(quic, head, true)
        })
    }

    /// Reads on in a response.
    pub(crate) fn read(&mut self, stream: StreamId) -> Result<Received, altway_http3::Error> {
        self.endpoint
            .with(self.connection, |it, quic| it.recv_data(quic, stream))
    }

    /// Gives a request up.
    pub(crate) fn cancel(&mut self, stream: StreamId) {
        // Else it has ended with its connection.
        if let Some((it, quic, _)) = self.endpoint.connection(self.connection) {
            it.reset_stream(quic, stream, Code::H3_REQUEST_CANCELLED);
        }
    }

    /// Sends what there is to send, then waits for datagrams, for the endpoint's next time-out or
    /// for `until`, whichever comes first, or returns a little earlier, and tells the endpoint. Drain
    /// the events afterwards. May be dropped while it waits.
    ///
    /// # Errors
    /// The kernel says that there is nobody, or no way, at the other end.
    pub(crate) async fn turn(&mut self, until: Option<Instant>) -> io::Result<()> {
        let progress = self.flush()?;
        let wake = [until, self.endpoint.poll_timeout()];
        let wake = wake.into_iter().flatten().min();
        self.timer.arm(wake, Instant::now())?;
        let socket = self.udp.socket();
        let readable = tokio::select! {
            biased;
            ready = socket.inbound() => ready.map(|()| true)?,
            ready = socket.writable(), if progress == SendOutcome::Blocked => ready.map(|()| false)?,
            () = self.timer.expired() => false,
            () = tokio::task::yield_now(), if progress == SendOutcome::More => false,
        };
        if readable {
            self.check()?;
            self.receive()?;
        }
        self.handle_timeout();
        Ok(())
    }

    /// Sends what there is to send, as far as the socket takes it.
    fn flush(&mut self) -> io::Result<SendOutcome> {
        let now = Instant::now();
        self.udp
            .send(|batch| self.endpoint.poll_transmit(now, batch))
    }

    /// Takes what has arrived.
    fn receive(&mut self) -> io::Result<()> {
        let now = Instant::now();
        self.udp
            .receive(|datagram| self.endpoint.handle_datagram(now, datagram))
    }

    /// Returns the error that ICMP reported, if it is final; else forgets it.
    fn check(&self) -> io::Result<()> {
        match self.udp.socket().take_error()? {
            Some(error) if altway_socket::is_final(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn handle_timeout(&mut self) {
        let now = Instant::now();
        if self.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
    }
}

/// Closes the connection, as far as the socket takes it, whoever drops it; what closed it before is told to the server, too. A server
/// would hold it until its idle time-out, or half of a handshake until it gives up (RFC 9000 section 10.2).
impl Drop for Driver {
    fn drop(&mut self) {
        if let Some((it, quic, _)) = self.endpoint.connection(self.connection) {
            it.close(quic, Code::H3_NO_ERROR, b"");
        }
        let _ = self.flush();
    }
}

/// Reason why a connection could not even begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Socket(#[from] io::Error),
    #[error(transparent)]
    Endpoint(#[from] altway_http3::Error),
}

fn connect(remote: SocketAddr) -> io::Result<Udp<WatchedUdp>> {
    let settings = Settings {
        messages: MESSAGES,
        ..Settings::default()
    };
    Udp::new(WatchedUdp::connect(remote, RECEIVE_BUFFER)?, settings)
}
