//! A client and a server of HTTP/3 between which anything happens to datagrams.
//!
//! Nobody but the two can make a datagram that either believes, so whatever the network does, neither
//! may accuse the other of breaking HTTP/3, no body may be wrong, and both come to an end.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use altway_http3::{
    ClientConfig, CloseReason, Code, ConnectionHandle, Endpoint, Event, Limits, Received,
    ServerConfig, StreamId, Version,
};
use bytes::Bytes;
use http::{Request, Response};

use crate::body;
use crate::input::Input;
use crate::quic::{address, client_tls, hear, next_time, said, server_tls};

/// Bytes of every response.
const ANSWER: usize = 20_000;

/// Datagrams on their way in one direction; more are lost.
const MAX_ON_THE_WAY: usize = 200;

struct Network {
    client: Endpoint,
    server: Endpoint,
    /// Datagrams on their way to the server, and to the client.
    ways: [VecDeque<Vec<u8>>; 2],
    /// The last octet of the client's address, which may change.
    client_host: u8,
    connection: ConnectionHandle,
    now: Instant,
    /// Bytes left of each answer.
    answers: HashMap<(ConnectionHandle, StreamId), usize>,
    received: HashMap<StreamId, usize>,
    /// Time at which each request was made.
    asked: HashMap<StreamId, Instant>,
}

/// Operations of three bytes: what, to whom, and a number; with either version of QUIC.
pub fn run(input: &[u8]) {
    for version in Version::ALL {
        run_by(version, input);
    }
}

fn run_by(version: Version, input: &[u8]) {
    let mut input = Input(input);
    let mut network = Network::new(version);
    while let Some(operation) = input.array() {
        network.act(operation);
        network.turn();
    }
    network.finish();
}

impl Network {
    fn new(version: Version) -> Self {
        let now = Instant::now();
        let server = ServerConfig::new(server_tls());
        let mut client = ClientConfig::new(client_tls());
        client.quic.version = version;
        let mut client = <Endpoint>::client(&client, [1; 32]).expect("good");
        let server = <Endpoint>::server(&server, [2; 32]).expect("good");
        let connection = client.connect(now, address(1), "localhost", ());
        let mut network = Self {
            client,
            server,
            ways: [VecDeque::new(), VecDeque::new()],
            client_host: 2,
            connection: connection.expect("a good address and name"),
            now,
            answers: HashMap::new(),
            received: HashMap::new(),
            asked: HashMap::new(),
        };
        network.turn();
        network
    }

    fn act(&mut self, [what, way, number]: [u8; 3]) {
        let way = usize::from(way % 2);
        match what % 16 {
            0..=2 => self.deliver(way, number % 16 + 1),
            3 => self.everything(),
            4 => drop(self.ways[way].pop_front()),
            5 => self.ways[way].rotate_left(usize::from(number) % self.ways[way].len().max(1)),
            6 => {
                let twice = self.ways[way].front().cloned();
                self.ways[way].extend(twice);
            }
            7 => self.change(way, |datagram| {
                let at = usize::from(number) * 7 % datagram.len().max(1);
                if let Some(byte) = datagram.get_mut(at) {
                    *byte ^= 1 << (number % 8);
                }
            }),
            8 => self.change(way, |datagram| datagram.truncate(usize::from(number) * 5)),
            9 => self.change(way, |datagram| datagram.extend([number; 40])),
            10 => self.ways[way].push_front(vec![number; usize::from(number) * 6]),
            11 => self.pass_time(Duration::from_millis(u64::from(number) * 40)),
            12 => self.request(),
            13 => {
                let ids: Vec<StreamId> = self.received.keys().copied().collect();
                if let Some(id) = ids.get(usize::from(number) % ids.len().max(1)) {
                    let code = Code::H3_REQUEST_CANCELLED;
                    if let Some((it, quic, _)) = self.client.connection(self.connection) {
                        it.reset_stream(quic, *id, code);
                    }
                    self.received.remove(id);
                }
            }
            14 => self.client_host = 2 + number % 3,
            _ => self.server.shutdown(),
        }
    }

    fn change(&mut self, way: usize, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(datagram) = self.ways[way].front_mut() {
            change(datagram);
        }
    }

    fn request(&mut self) {
        let request = Request::get("https://a/").body(()).expect("good");
        let sent = self.client.with(self.connection, |it, quic| {
            it.send_request(quic, &request, true)
        });
        if let Ok(id) = sent {
            self.received.insert(id, 0);
            self.asked.insert(id, self.now);
        }
    }

    fn deliver(&mut self, way: usize, count: u8) {
        for _ in 0..count {
            let Some(payload) = self.ways[way].pop_front() else {
                return;
            };
            match way {
                0 => hear(
                    &mut self.server,
                    self.now,
                    address(self.client_host),
                    &payload,
                ),
                _ => hear(&mut self.client, self.now, address(1), &payload),
            }
            self.turn();
        }
    }

    fn everything(&mut self) {
        while self.ways.iter().any(|way| !way.is_empty()) {
            self.deliver(0, u8::MAX);
            self.deliver(1, u8::MAX);
        }
    }

    /// Events, and what there is to send.
    fn turn(&mut self) {
        while let Some((handle, event)) = self.client.poll_event() {
            self.on_client_event(handle, event);
        }
        while let Some((handle, event)) = self.server.poll_event() {
            self.on_server_event(handle, event);
        }
        let said = [
            said(&mut self.client, self.now),
            said(&mut self.server, self.now),
        ];
        for (way, datagrams) in self.ways.iter_mut().zip(said) {
            way.extend(datagrams);
            way.truncate(MAX_ON_THE_WAY);
        }
    }

    fn on_client_event(&mut self, handle: ConnectionHandle, event: Event) {
        match event {
            Event::Readable { stream } => self.read(handle, stream),
            Event::StreamReset { stream, code } => {
                self.assert_due(stream, code);
                self.received.remove(&stream);
            }
            Event::Closed { reason } => assert_blameless(&reason),
            _ => {}
        }
    }

    /// The server resets what it never saw when it shuts down, and what the network did not let move for
    /// too long.
    fn assert_due(&self, stream: StreamId, code: Code) {
        match code {
            Code::H3_REQUEST_REJECTED => {}
            Code::H3_REQUEST_CANCELLED => {
                let waited = self.now - self.asked[&stream];
                assert!(waited >= Limits::default().stall, "after {waited:?}");
            }
            other => panic!("reset with {other}"),
        }
    }

    fn on_server_event(&mut self, handle: ConnectionHandle, event: Event) {
        match event {
            Event::Request { stream, .. } => {
                let head = Response::new(());
                if self
                    .server
                    .with(handle, |it, quic| {
                        it.send_response(quic, stream, &head, false)
                    })
                    .is_ok()
                {
                    self.answers.insert((handle, stream), 0);
                    self.answer(handle, stream);
                }
            }
            Event::Writable { stream } => self.answer(handle, stream),
            Event::StreamReset { stream, .. } => drop(self.answers.remove(&(handle, stream))),
            Event::Closed { reason } => assert_blameless(&reason),
            _ => {}
        }
    }

    fn answer(&mut self, handle: ConnectionHandle, stream: StreamId) {
        let Some(offset) = self.answers.get_mut(&(handle, stream)) else {
            return;
        };
        while *offset < ANSWER {
            let len = (ANSWER - *offset).min(body::MAX_PIECE);
            let mut piece: Bytes = body::piece(seed(stream), true, *offset, len);
            let end = *offset + len == ANSWER;
            let sent = self.server.with(handle, |it, quic| {
                it.send_data(quic, stream, &mut piece, end)
            });
            *offset += len - piece.len();
            if sent.is_err() || !piece.is_empty() {
                return;
            }
        }
    }

    fn read(&mut self, handle: ConnectionHandle, stream: StreamId) {
        let Some(offset) = self.received.get_mut(&stream) else {
            return;
        };
        loop {
            match self
                .client
                .with(handle, |it, quic| it.recv_data(quic, stream))
            {
                Ok(Received::Data(data)) => {
                    for piece in data.chunks(body::MAX_PIECE) {
                        let expected = body::piece(seed(stream), true, *offset, piece.len());
                        assert_eq!(expected, piece, "a wrong body");
                        *offset += piece.len();
                    }
                }
                Ok(Received::Trailers(_)) => panic!("no answer has trailers"),
                Ok(Received::End) => return assert_eq!(*offset, ANSWER, "a body cut short"),
                Ok(Received::Pending) | Err(_) => return,
            }
        }
    }

    fn pass_time(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let nodes = [
                &mut self.client as &mut dyn crate::quic::Node,
                &mut self.server,
            ];
            self.now = next_time(self.now, end - self.now, nodes);
            self.client.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
            self.turn();
        }
    }

    /// The network behaves from here on, and both fall silent at last: after the idle time-out, or
    /// three probe time-outs if that is more (RFC 9000 section 10.1), which grow with the round-trip
    /// times seen.
    fn finish(mut self) {
        let open = |network: &Self| {
            network.client.open_connections() + network.server.open_connections() > 0
        };
        for _ in 0..720 {
            self.everything();
            self.pass_time(Duration::from_secs(5));
            if !open(&self) {
                break;
            }
        }
        // What is closed still answers for a while.
        self.everything();
        assert_eq!(
            self.client.open_connections(),
            0,
            "a client that never ends"
        );
        assert_eq!(
            self.server.open_connections(),
            0,
            "a server that never ends"
        );
        assert!(self.client.is_idle() && self.server.is_idle());
    }
}

fn seed(stream: StreamId) -> u32 {
    u32::try_from(stream.get()).expect("few streams")
}

/// Asserts that neither side broke HTTP/3. Code 0 is the QUIC engine's own: a server gives a handshake up that
/// takes too long, which is done for the client when its last flight alone was lost.
fn assert_blameless(reason: &CloseReason) {
    if let CloseReason::Local { code, .. } | CloseReason::Peer { code, .. } = reason
        && *code != Code::new(0)
    {
        panic!("accused of {code}");
    }
}
