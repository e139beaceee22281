//! A blocking client of QUIC that knows no rule of HTTP/3, and sends in early data what ours would not.

use super::Running;
use super::TIME_LIMIT;
use altway_quic::{
    ClientConfig, Connection, ConnectionHandle, Datagram, Direction, Endpoint, Event,
    QuicConnection, QuicEndpoint, Read, StreamId,
};
use bytes::Bytes;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One connection after the other; sessions are kept from one to the next.
pub(crate) struct Raw<'a> {
    server: &'a Running,
    endpoint: Endpoint,
    connection: ConnectionHandle,
    socket: UdpSocket,
}

impl<'a> Raw<'a> {
    /// A first connection, whose handshake is done and which has a ticket for the next.
    pub(crate) fn new(server: &'a Running) -> Self {
        let mut config = ClientConfig::new(Arc::new(server.site.client_tls(&[b"h3"])));
        config.early_data = true;
        let mut endpoint = <Endpoint>::client(&config, [7; 32]).unwrap();
        let connection = endpoint.connect(Instant::now(), server.address, "localhost", ());
        let mut raw = Self {
            server,
            endpoint,
            connection: connection.unwrap(),
            socket: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
        };
        raw.wait(|event| matches!(event, Event::Connected).then_some(()));
        // The tickets follow on the heels of the handshake.
        let settled = Instant::now() + Duration::from_millis(200);
        while Instant::now() < settled {
            raw.turn();
        }
        raw
    }

    /// Another connection, on which streams can be used at once.
    pub(crate) fn come_again(&mut self) {
        self.connected().close(0x100, b"");
        let began = self
            .endpoint
            .connect(Instant::now(), self.server.address, "localhost", ());
        self.connection = began.unwrap();
        self.wait(|event| matches!(event, Event::EarlyData).then_some(()));
    }

    /// Opens a stream for a whole request, without a look at what it is.
    pub(crate) fn ask(&mut self, bytes: &[u8]) -> StreamId {
        let stream = self.begin(bytes);
        self.connected().finish(stream).unwrap();
        stream
    }

    /// Opens a stream for the beginning of a request.
    pub(crate) fn begin(&mut self, bytes: &[u8]) -> StreamId {
        let connection = self.connected();
        let stream = connection.open(Direction::Bidirectional).unwrap();
        let mut chunks = [Bytes::copy_from_slice(bytes)];
        assert!(connection.write(stream, &mut chunks).unwrap());
        stream
    }

    /// Reads the stream up to its end.
    pub(crate) fn answer(&mut self, stream: StreamId) -> Vec<u8> {
        let answer = self.answer_or_reset(stream);
        answer.unwrap_or_else(|code| panic!("reset: {code}"))
    }

    /// The same, or the code of a reset.
    pub(crate) fn answer_or_reset(&mut self, stream: StreamId) -> Result<Vec<u8>, u64> {
        let mut bytes = Vec::new();
        loop {
            match self.connected().read(stream) {
                Read::Data(piece) => bytes.extend_from_slice(&piece),
                Read::End => return Ok(bytes),
                Read::Pending => self.wait(|event| match event {
                    Event::Readable { stream: readable } => (readable == stream).then_some(()),
                    _ => None,
                }),
                Read::Reset(code) => return Err(code),
            }
        }
    }

    fn connected(&mut self) -> &mut Connection {
        self.endpoint.connection(self.connection).unwrap()
    }

    fn wait<T>(&mut self, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
        let give_up = Instant::now() + TIME_LIMIT;
        loop {
            while let Some((connection, event)) = self.endpoint.poll_event() {
                if connection == self.connection
                    && let Some(found) = wanted(event)
                {
                    return found;
                }
            }
            assert!(Instant::now() < give_up, "within the time limit");
            self.turn();
        }
    }

    /// Sends what there is to send, and waits for a datagram, though not for long.
    fn turn(&mut self) {
        let mut batch = Vec::new();
        while let Some(transmit) = self.endpoint.poll_transmit(Instant::now(), &mut batch) {
            let size = transmit.segment_size.unwrap_or(transmit.size);
            for datagram in batch[..transmit.size].chunks(size) {
                // A failure is a loss.
                let _ = self.socket.send_to(datagram, transmit.destination);
            }
        }
        let wait = Duration::from_millis(5);
        self.socket.set_read_timeout(Some(wait)).unwrap();
        let mut buffer = [0; 65_535];
        if let Ok((size, remote)) = self.socket.recv_from(&mut buffer) {
            let datagram = Datagram {
                remote,
                local_ip: None,
                ecn: None,
                payload: &buffer[..size],
            };
            self.endpoint.handle_datagram(Instant::now(), datagram);
        }
        self.endpoint.handle_timeout(Instant::now());
    }
}
