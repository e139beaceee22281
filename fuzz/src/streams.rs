//! HTTP/3 against a peer that speaks QUIC and says anything on its streams.
//!
//! Whatever it says, the engine must not panic, must tell its application a sound story, must close
//! with a code of HTTP/3 or QPACK if it closes, and must be idle once the peer has gone.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use altway_http3::{self as http3, Code, Event, Received, StreamId};
use altway_quic::{self as quic, ConnectionHandle, Direction, QuicConnection, QuicEndpoint, Read};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};

use crate::input::Input;
use crate::quic::{address, client_tls, hear, next_time, said, server_tls};

/// The peer's HEADERS frames that are right: `GET https://a/`, `POST https://a/`, `200`.
const GET: &[u8] = &[1, 7, 0, 0, 0xd1, 0xd7, 0x50, 1, b'a'];
const POST: &[u8] = &[1, 8, 0, 0, 0xd4, 0xd7, 0xc1, 0x50, 1, b'a'];
const OK: &[u8] = &[1, 3, 0, 0, 0xd9];

/// The engine, and the peer that torments it.
struct Pair {
    engine: http3::Endpoint,
    peer: quic::Endpoint,
    engine_is_server: bool,
    handle: ConnectionHandle,
    peers_handle: ConnectionHandle,
    now: Instant,
    /// The peer's streams.
    streams: Vec<StreamId>,
    /// Streams that the engine's application knows of, and may still use.
    known: Vec<StreamId>,
    told: HashSet<StreamId>,
    closed: bool,
}

/// The first byte says who is who and whether the peer begins as it should; then operations of two
/// bytes each, some with more behind them.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let mode = input.byte();
    let mut pair = Pair::connected(mode & 1 == 0);
    if mode & 2 != 0 {
        pair.open(Direction::Unidirectional, &[0, 4, 0]);
    }
    while !input.is_empty() && !pair.closed {
        let (what, which) = (input.byte(), input.byte());
        pair.act(what, which, &mut input);
        pair.settle();
    }
    pair.finish();
}

impl Pair {
    fn connected(engine_is_server: bool) -> Self {
        let now = Instant::now();
        let (engine, peer) = if engine_is_server {
            let mut config = http3::ServerConfig::new(server_tls());
            config.extended_connect = true;
            let client = quic::ClientConfig::new(client_tls());
            (
                <http3::Endpoint>::server(&config, [1; 32]).expect("good"),
                <quic::Endpoint>::client(&client, [2; 32]).expect("good"),
            )
        } else {
            let config = http3::ClientConfig::new(client_tls());
            let server = quic::ServerConfig::new(server_tls());
            (
                <http3::Endpoint>::client(&config, [1; 32]).expect("good"),
                <quic::Endpoint>::server(&server, [2; 32]).expect("good"),
            )
        };
        let mut pair = Self {
            engine,
            peer,
            engine_is_server,
            handle: ConnectionHandle(0),
            peers_handle: ConnectionHandle(0),
            now,
            streams: Vec::new(),
            known: Vec::new(),
            told: HashSet::new(),
            closed: false,
        };
        let begun = match engine_is_server {
            true => pair.peer.connect(now, address(1), "localhost", ()).is_ok(),
            false => pair
                .engine
                .connect(now, address(2), "localhost", ())
                .is_ok(),
        };
        assert!(begun);
        pair.settle();
        pair
    }

    fn act(&mut self, what: u8, which: u8, input: &mut Input<'_>) {
        let bytes = match what & 0x10 {
            0 => &[],
            _ => {
                let len = input.byte();
                input.take(len.into())
            }
        };
        let stream = self
            .streams
            .get(usize::from(which) % self.streams.len().max(1));
        let stream = stream.copied();
        match what % 16 {
            0 => self.open(Direction::Unidirectional, &[&[which % 5], bytes].concat()),
            1 => self.open(Direction::Bidirectional, bytes),
            2 => self.open(Direction::Bidirectional, &[GET, bytes].concat()),
            3 => self.open(Direction::Bidirectional, &[POST, bytes].concat()),
            4 => self.with_peer(stream, |peer, id| {
                let _ = peer.write(id, &mut [Bytes::copy_from_slice(bytes)]);
            }),
            5 => self.with_peer(stream, |peer, id| {
                let _ = peer.write(id, &mut [[OK, bytes].concat().into()]);
            }),
            6 => self.with_peer(stream, |peer, id| drop(peer.finish(id))),
            7 => self.with_peer(stream, |peer, id| peer.reset(id, which.into())),
            8 => self.with_peer(stream, |peer, id| peer.stop(id, which.into())),
            9 => self.pass_time(which),
            _ => self.act_as_application(what % 16, which),
        }
    }

    /// Makes one call as the application of the engine.
    fn act_as_application(&mut self, what: u8, which: u8) {
        let id = self.known.get(usize::from(which) % self.known.len().max(1));
        let (engine, handle) = (&mut self.engine, self.handle);
        if what == 10 && !self.engine_is_server {
            let request = Request::get("https://a/").body(()).expect("good");
            if let Ok(id) = engine.with(handle, |it, quic| {
                it.send_request(quic, &request, which.is_multiple_of(2))
            }) {
                self.known.push(id);
                self.told.insert(id);
                self.streams.push(id);
            }
            return;
        }
        let Some(id) = id.copied() else { return };
        // All of these may be refused: the stream may be over, or the call out of order.
        match what {
            10 => drop(engine.with(handle, |it, quic| {
                it.send_response(quic, id, &Response::new(()), which > 128)
            })),
            11 => {
                let mut data = Bytes::from(vec![which; usize::from(which) * 100]);
                drop(engine.with(handle, |it, quic| {
                    it.send_data(quic, id, &mut data, which > 128)
                }));
            }
            12 => drop(engine.with(handle, |it, quic| {
                it.send_trailers(quic, id, &HeaderMap::new())
            })),
            13 => self.read(id),
            14 => {
                if let Some((it, quic, _)) = engine.connection(handle) {
                    it.reset_stream(quic, id, Code::H3_REQUEST_CANCELLED);
                }
            }
            _ => {
                if let Some((it, quic, _)) = engine.connection(handle) {
                    it.stop_reading(quic, id, Code::H3_NO_ERROR);
                }
            }
        }
    }

    fn open(&mut self, direction: Direction, bytes: &[u8]) {
        let Some(peer) = self.peer.connection(self.peers_handle) else {
            return;
        };
        if let Some(id) = peer.open(direction) {
            let _ = peer.write(id, &mut [Bytes::copy_from_slice(bytes)]);
            self.streams.push(id);
        }
    }

    fn with_peer(
        &mut self,
        stream: Option<StreamId>,
        act: impl FnOnce(&mut quic::Connection, StreamId),
    ) {
        if let (Some(id), Some(peer)) = (stream, self.peer.connection(self.peers_handle)) {
            act(peer, id);
        }
    }

    fn read(&mut self, id: StreamId) {
        loop {
            match self
                .engine
                .with(self.handle, |it, quic| it.recv_data(quic, id))
            {
                Ok(Received::Data(data)) => assert!(!data.is_empty()),
                Ok(Received::Trailers(_)) => {}
                Ok(Received::Pending | Received::End) | Err(_) => return,
            }
        }
    }

    /// Carries datagrams and events until nothing moves.
    fn settle(&mut self) {
        loop {
            let events = self.engine_events() + self.peer_events();
            let (now, engine, peer) = (self.now, &mut self.engine, &mut self.peer);
            let (ours, theirs) = (said(engine, now), said(peer, now));
            let datagrams = ours.len() + theirs.len();
            for payload in ours {
                hear(peer, now, address(1), &payload);
            }
            for payload in theirs {
                hear(engine, now, address(2), &payload);
            }
            if events + datagrams == 0 {
                return;
            }
        }
    }

    fn engine_events(&mut self) -> usize {
        let mut count = 0;
        while let Some((handle, event)) = self.engine.poll_event() {
            count += 1;
            assert!(!self.closed, "after the end: {event:?}");
            self.handle = handle;
            match event {
                Event::Request { stream, .. }
                | Event::RequestTooLarge { stream }
                | Event::RequestLate { stream } => {
                    assert!(self.engine_is_server && self.told.insert(stream));
                    self.known.push(stream);
                }
                Event::Informational { stream, .. }
                | Event::Response { stream, .. }
                | Event::Readable { stream }
                | Event::Writable { stream }
                | Event::StreamReset { stream, .. }
                | Event::SendStopped { stream, .. } => {
                    assert!(self.told.contains(&stream), "nobody told of {stream}");
                }
                Event::Closed { reason } => {
                    self.closed = true;
                    if let http3::CloseReason::Local { code, .. } = reason {
                        assert!(code.name().is_some(), "a code of no RFC: {code}");
                    }
                }
                _ => {}
            }
        }
        count
    }

    fn peer_events(&mut self) -> usize {
        let mut count = 0;
        while let Some((handle, event)) = self.peer.poll_event() {
            count += 1;
            self.peers_handle = handle;
            if let quic::Event::Opened { stream } | quic::Event::Readable { stream } = event
                && let Some(peer) = self.peer.connection(handle)
            {
                while let Read::Data(_) = peer.read(stream) {}
                self.streams.push(stream);
                self.streams.dedup();
            }
        }
        count
    }

    fn pass_time(&mut self, quarters: u8) {
        let end = self.now + Duration::from_millis(250) * quarters.into();
        while self.now < end {
            let (engine, peer) = (&mut self.engine, &mut self.peer);
            self.now = next_time(self.now, end - self.now, [engine, peer]);
            self.engine.handle_timeout(self.now);
            self.peer.handle_timeout(self.now);
            self.settle();
        }
    }

    /// The peer leaves; then nothing may be left.
    fn finish(mut self) {
        if let Some(peer) = self.peer.connection(self.peers_handle) {
            peer.close(0x100, b"");
        }
        self.settle();
        if !self.closed {
            // The peer's idle time was over first, and it left without a word.
            self.pass_time(u8::MAX);
        }
        assert!(self.closed, "the end is told");
        assert!(self.engine.is_idle());
        assert_eq!(self.engine.open_connections(), 0);
    }
}
