//! A client's connection over QUIC.

use super::{Loop, drive, listen, seed, transport, udp};
use crate::costs::{Calls, Path};
use crate::error::{ConnectionFailure, Error};
use crate::options::Options;
use crate::protocol::{Exchange, Fault};
use crate::session::Session;
use altway_quic::{
    ClientConfig, CloseReason, ConnectionHandle, Direction, Endpoint, Event, QuicConnection,
    QuicEndpoint, StreamId,
};
use altway_socket::route_udp_payload;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

/// The smallest UDP payload that every QUIC path carries.
const MIN_PAYLOAD: u16 = 1_200;

/// A connection on its own socket.
pub(crate) struct Client {
    carrier: Loop,
    connection: ConnectionHandle,
    /// Open once the handshake is done.
    stream: Option<StreamId>,
}

impl Client {
    /// Begins a connection; [`Session::open`] completes it.
    pub(crate) fn connect(
        options: &Options,
        tls: rustls::ClientConfig,
        remote: SocketAddr,
    ) -> Result<Self, Error> {
        let setup = |source| Error::Setup {
            what: "a UDP socket",
            source,
        };
        let socket = connected(remote).map_err(setup)?;
        let udp = udp(socket, &options.tuning).map_err(setup)?;
        let seed = seed(tls.crypto_provider())?;
        let mut config = ClientConfig::new(Arc::new(tls));
        config.version = options.tuning.quic_version;
        let mtu = options
            .tuning
            .mtu
            .unwrap_or_else(|| route_mtu(udp.socket()));
        config.transport = transport(&options.tuning, mtu, &udp, options.silence_timeout);
        let mut endpoint = <Endpoint>::client(&config, seed)?;
        let connection = endpoint.connect(Instant::now(), remote, &options.host, ())?;
        Ok(Self {
            carrier: Loop::new(endpoint, udp, &options.tuning),
            connection,
            stream: None,
        })
    }

    /// Deals with what happened. True: there is something to read.
    fn on_events(&mut self) -> Result<bool, ConnectionFailure> {
        let mut readable = false;
        while let Some((_, event)) = self.carrier.endpoint.poll_event() {
            match event {
                Event::Readable { .. } => readable = true,
                Event::Closed {
                    reason: CloseReason::TimedOut,
                } => return Err(ConnectionFailure::Silent),
                Event::Closed { reason } => return Err(ConnectionFailure::Quic(reason)),
                Event::Connected => {
                    let connection = self.carrier.endpoint.connection(self.connection);
                    self.stream =
                        connection.and_then(|connection| connection.open(Direction::Bidirectional));
                    // A server of ours allows one stream.
                    self.stream.ok_or(ConnectionFailure::Peer(Fault::Foreign))?;
                }
                _ => {}
            }
        }
        Ok(readable)
    }
}

impl Session for Client {
    fn open(&mut self) -> Result<(), ConnectionFailure> {
        while self.stream.is_none() {
            self.carrier.turn(None)?;
            self.on_events()?;
        }
        Ok(())
    }

    fn exchange(&mut self, exchange: &mut Exchange) -> Result<(), ConnectionFailure> {
        let stream = self.stream.ok_or(ConnectionFailure::Closed)?;
        loop {
            let readable = self.on_events()?;
            let connection = self.carrier.endpoint.connection(self.connection);
            let connection = connection.ok_or(ConnectionFailure::Closed)?;
            if readable {
                listen(connection, stream, exchange)?;
            }
            if exchange.is_done() {
                return Ok(());
            }
            drive(connection, stream, exchange).map_err(io::Error::other)?;
            self.carrier.turn(None)?;
        }
    }

    fn calls(&self) -> Calls {
        self.carrier.calls()
    }

    fn path(&mut self) -> Option<Path> {
        self.carrier.path(self.connection)
    }
}

impl Drop for Client {
    /// Says goodbye, as far as the socket takes it. By then the server's last receipt is here: all is
    /// acknowledged that was sent.
    fn drop(&mut self) {
        if let Some(connection) = self.carrier.endpoint.connection(self.connection) {
            connection.close(0, b"done");
        }
        let now = Instant::now();
        let endpoint = &mut self.carrier.endpoint;
        let _ = self
            .carrier
            .udp
            .send(|batch| endpoint.poll_transmit(now, batch));
    }
}

/// Returns the UDP payload that the interface carries, in bytes; QUIC's least where it carries less
/// or nobody knows (RFC 9000 section 14).
fn route_mtu(socket: &UdpSocket) -> u16 {
    route_udp_payload(socket)
        .unwrap_or(MIN_PAYLOAD)
        .max(MIN_PAYLOAD)
}

fn connected(remote: SocketAddr) -> io::Result<UdpSocket> {
    let any = match remote {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(remote)?;
    Ok(socket)
}
