//! A QUIC connection by quinn-proto on a socket of its own. What it wants to send can be withheld or
//! sent from elsewhere; its windows are what the caller likes; no congestion holds it back.

use std::any::Any;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::congestion::{Controller, ControllerFactory};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, StreamEvent, StreamId, TransportConfig, VarInt,
};

use super::keys::{KeyCapturingConfig, KeySlot};
use super::packet::Sealer;
use crate::server::Target;

/// Time to wait for a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// The number of the first packet that is made by hand: beyond those of quinn-proto, and near enough that
/// four bytes of it suffice.
const FIRST_MADE: u64 = 1 << 24;

/// A connection.
pub struct Quic {
    socket: UdpSocket,
    target: Target,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    /// The connection itself, for its streams.
    pub connection: Connection,
    place: KeySlot,
    /// The server's first connection ID.
    server_id: Vec<u8>,
    connected: bool,
    lost: Option<ConnectionError>,
    /// Bytes received in datagrams.
    received: u64,
}

impl Quic {
    /// Connects from `from`; each stream's receive window is `window`.
    ///
    /// # Errors
    /// No handshake within 3 s.
    pub fn connect(target: &Target, from: IpAddr, window: u32) -> io::Result<Self> {
        let mut quic = Self::start(target, from, window)?;
        let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
        while !quic.connected && quic.lost.is_none() && Instant::now() < deadline {
            quic.drive(Duration::from_millis(50), |quic| quic.connected);
        }
        match quic.connected {
            true => Ok(quic),
            false => Err(io::Error::other(format!("no handshake: {:?}", quic.lost))),
        }
    }

    /// The same, before anything is sent.
    ///
    /// # Errors
    /// No socket can be had.
    pub fn start(target: &Target, from: IpAddr, window: u32) -> io::Result<Self> {
        let socket = UdpSocket::bind((from, 0))?;
        socket.connect(target.address)?;
        let place = KeySlot::default();
        let inner = QuicClientConfig::try_from(target.tls(b"h3")).map_err(io::Error::other)?;
        let mut config = ClientConfig::new(Arc::new(KeyCapturingConfig {
            inner: Arc::new(inner),
            place: Arc::clone(&place),
        }));
        config.transport_config(Arc::new(transport(window)));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let connected = endpoint.connect(Instant::now(), config, target.address, "localhost");
        let (handle, connection) = connected.map_err(io::Error::other)?;
        Ok(Self {
            socket,
            target: target.clone(),
            endpoint,
            handle,
            connection,
            place,
            server_id: Vec::new(),
            connected: false,
            lost: None,
            received: 0,
        })
    }

    /// Sends, receives and fires timers for `time`, or until `enough`.
    pub fn drive(&mut self, time: Duration, mut enough: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + time;
        loop {
            self.flush();
            if enough(self) || self.lost.is_some() {
                return;
            }
            let now = Instant::now();
            if now >= deadline {
                return;
            }
            let until = self
                .connection
                .poll_timeout()
                .unwrap_or(deadline)
                .min(deadline);
            let wait = until.saturating_duration_since(now);
            if self.receive(wait.max(Duration::from_millis(1))) {
                self.turn();
            }
            let now = Instant::now();
            if self.connection.poll_timeout().is_some_and(|due| due <= now) {
                self.connection.handle_timeout(now);
            }
        }
    }

    /// Takes what has arrived and sends what there is, without waiting.
    pub fn turn(&mut self) {
        while self.receive(Duration::ZERO) {}
        let now = Instant::now();
        if self.connection.poll_timeout().is_some_and(|due| due <= now) {
            self.connection.handle_timeout(now);
        }
        self.flush();
    }

    /// Sends what there is to send.
    pub fn flush(&mut self) {
        for datagram in self.transmits() {
            let _ = self.socket.send(&datagram);
        }
    }

    /// The datagrams that there are to send: it is for the caller to send them.
    pub fn transmits(&mut self) -> Vec<Vec<u8>> {
        let (mut datagrams, mut buf) = (Vec::new(), Vec::new());
        while self
            .connection
            .poll_transmit(Instant::now(), 1, &mut buf)
            .is_some()
        {
            datagrams.push(std::mem::take(&mut buf));
        }
        self.settle();
        datagrams
    }

    /// Takes one datagram, if one comes within `wait`.
    fn receive(&mut self, wait: Duration) -> bool {
        let blocking = !wait.is_zero();
        let set = match blocking {
            true => self
                .socket
                .set_nonblocking(false)
                .and_then(|()| self.socket.set_read_timeout(Some(wait))),
            false => self.socket.set_nonblocking(true),
        };
        let mut buf = [0; 65_536];
        let received = set.and_then(|()| self.socket.recv(&mut buf));
        if !blocking {
            let _ = self.socket.set_nonblocking(false);
        }
        let Ok(len) = received else { return false };
        self.on_datagram(&buf[..len]);
        true
    }

    fn on_datagram(&mut self, datagram: &[u8]) {
        self.received += datagram.len() as u64;
        if self.server_id.is_empty() {
            self.server_id = source_id(datagram).unwrap_or_default();
        }
        let mut answer = Vec::new();
        let (now, remote) = (Instant::now(), self.target.address);
        let data = BytesMut::from(datagram);
        let event = self
            .endpoint
            .handle(now, remote, None, None, data, &mut answer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while self.connection.streams().accept(dir).is_some() {}
                }
                _ => {}
            }
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }

    /// Opens a stream and writes to it; `None`: the server allows no more streams.
    pub fn open(&mut self, direction: Dir, bytes: &[u8]) -> Option<StreamId> {
        let id = self.connection.streams().open(direction)?;
        self.write(id, bytes);
        Some(id)
    }

    /// Writes to a stream as much as its windows allow.
    pub fn write(&mut self, id: StreamId, bytes: &[u8]) -> usize {
        self.connection.send_stream(id).write(bytes).unwrap_or(0)
    }

    /// Ends a stream.
    pub fn finish(&mut self, id: StreamId) {
        let _ = self.connection.send_stream(id).finish();
    }

    /// Takes `limit` bytes at most of what has arrived on a stream, and whether it is over.
    pub fn read(&mut self, id: StreamId, limit: usize) -> (Vec<u8>, bool) {
        let (mut out, mut over) = (Vec::new(), false);
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return (out, true);
        };
        while out.len() < limit {
            match chunks.next(limit - out.len()) {
                Ok(Some(chunk)) => out.extend_from_slice(&chunk.bytes),
                Err(quinn_proto::ReadError::Blocked) => break,
                Ok(None) | Err(_) => {
                    over = true;
                    break;
                }
            }
        }
        let _ = chunks.finalize();
        (out, over)
    }

    /// Returns true if the server has reset a stream, found out without reading it.
    pub fn is_reset(&mut self, id: StreamId) -> bool {
        let reset = self.connection.recv_stream(id).received_reset();
        !matches!(reset, Ok(None))
    }

    /// The reason for which the connection is over.
    #[must_use]
    pub fn lost(&self) -> Option<&ConnectionError> {
        self.lost.as_ref()
    }

    /// Number of the error with which the server closed the connection, of QUIC or of HTTP/3.
    #[must_use]
    pub fn close_code(&self) -> Option<u64> {
        match self.lost.as_ref()? {
            ConnectionError::ApplicationClosed(close) => Some(close.error_code.into_inner()),
            ConnectionError::ConnectionClosed(close) => Some(close.error_code.into()),
            _ => None,
        }
    }

    /// Bytes of UDP payload received so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The socket, to send what one likes from the connection's own address.
    #[must_use]
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// A maker of packets of this connection, which must send none by itself from now on.
    ///
    /// # Panics
    /// The handshake is not complete.
    #[must_use]
    pub fn sealer(&self) -> Sealer {
        Sealer {
            keys: self.place.get().expect("the handshake is complete").clone(),
            connection_id: self.server_id.clone(),
            next_number: FIRST_MADE,
        }
    }
}

/// The source connection ID of a packet with a long header (RFC 9000 section 17.2).
fn source_id(datagram: &[u8]) -> Option<Vec<u8>> {
    if datagram.first()? & 0x80 == 0 {
        return None;
    }
    let at = 6 + usize::from(*datagram.get(5)?);
    let len = usize::from(*datagram.get(at)?);
    datagram.get(at + 1..at + 1 + len).map(<[u8]>::to_vec)
}

fn transport(window: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(window));
    transport.mtu_discovery_config(None);
    transport.congestion_controller_factory(Arc::new(FixedWindow));
    transport.max_idle_timeout(Some(VarInt::from_u32(300_000).into()));
    transport
}

/// A window that nothing changes.
#[derive(Debug, Clone)]
struct FixedWindow;

const FIXED_WINDOW: u64 = 1 << 30;

impl ControllerFactory for FixedWindow {
    fn build(self: Arc<Self>, _now: Instant, _mtu: u16) -> Box<dyn Controller> {
        Box::new(Self)
    }
}

impl Controller for FixedWindow {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}
    fn on_mtu_update(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        FIXED_WINDOW
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
    fn initial_window(&self) -> u64 {
        FIXED_WINDOW
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
