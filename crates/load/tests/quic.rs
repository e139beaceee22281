//! HTTP/3 against a server of altway's own engine that behaves, misbehaves and vanishes.
#![allow(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

mod common;

use altway_http3::{
    Code, ConnectionHandle, Datagram, Endpoint, Event, Received, ServerConfig, StreamId,
};
use altway_load::{Error, Options, Stop, Trust};
use altway_quic::{self as quic, QuicConnection, QuicEndpoint};
use altway_record::Protocol;
use bytes::Bytes;
use common::{Identity, assert_sound, count, options, requests, run};
use http::Response;
use rustls::server::StoresServerSessions;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

const PAGE: Bytes = Bytes::from_static(&[b'x'; 100_000]);

/// Behaviour of the server to a request.
#[derive(Debug, Clone, Copy)]
enum Script {
    Answer,
    Status(u16),
    Silence,
    ResetStream,
    /// A head that announces a body, and half of it; then the stream is reset.
    HalfABody,
    /// Answers so many requests of a connection, then closes it.
    CloseAfter(u64),
}

struct Server {
    socket: UdpSocket,
    endpoint: Endpoint,
    script: Script,
    /// Bodies that did not fit.
    unsent: BTreeMap<(ConnectionHandle, StreamId), Bytes>,
}

impl Server {
    async fn start(identity: &Identity, script: Script) -> (SocketAddr, JoinHandle<()>) {
        let tls = identity.server_config(&["h3"]);
        Self::start_with(script, ServerConfig::new(Arc::new(tls))).await
    }

    async fn start_with(script: Script, config: ServerConfig) -> (SocketAddr, JoinHandle<()>) {
        let (address, mut server) = Self::bind(script, config).await;
        let handle = tokio::spawn(async move {
            loop {
                server.turn().await;
            }
        });
        (address, handle)
    }

    async fn bind(script: Script, mut config: ServerConfig) -> (SocketAddr, Self) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        config.quic.transport.max_segments = 1;
        let server = Self {
            socket,
            endpoint: <Endpoint>::server(&config, [1; 32]).unwrap(),
            script,
            unsent: BTreeMap::new(),
        };
        (address, server)
    }

    async fn turn(&mut self) {
        while let Some((connection, event)) = self.endpoint.poll_event() {
            self.on_event(connection, event);
        }
        let mut buffer = Vec::new();
        while let Some(transmit) = self.endpoint.poll_transmit(Instant::now(), &mut buffer) {
            let bytes = &buffer[..transmit.size];
            let _ = self.socket.send_to(bytes, transmit.destination).await;
        }
        let due = self.endpoint.poll_timeout();
        let due = due.unwrap_or_else(|| Instant::now() + Duration::from_secs(60));
        let mut datagram = [0; 2_048];
        tokio::select! {
            received = self.socket.recv_from(&mut datagram) => {
                let (size, remote) = received.unwrap();
                let payload = &datagram[..size];
                let datagram = Datagram { remote, local_ip: None, ecn: None, payload };
                self.endpoint.handle_datagram(Instant::now(), datagram);
            }
            () = tokio::time::sleep_until(due.into()) => {
                self.endpoint.handle_timeout(Instant::now());
            }
        }
    }

    fn on_event(&mut self, connection: ConnectionHandle, event: Event) {
        match event {
            Event::Request { stream, head, .. } => {
                assert_eq!(head.uri().path(), "/page");
                self.on_request(connection, stream);
            }
            Event::Readable { stream } => {
                while let Ok(Received::Data(_)) = self
                    .endpoint
                    .with(connection, |it, quic| it.recv_data(quic, stream))
                {}
            }
            Event::Writable { stream } => self.send_rest(connection, stream),
            _ => {}
        }
    }

    fn on_request(&mut self, connection: ConnectionHandle, stream: StreamId) {
        match self.script {
            Script::Answer => self.answer(connection, stream, 200, PAGE),
            Script::Status(status) => self.answer(connection, stream, status, Bytes::new()),
            Script::Silence => {}
            Script::ResetStream => {
                let code = Code::H3_REQUEST_REJECTED;
                if let Some((it, quic, _)) = self.endpoint.connection(connection) {
                    it.reset_stream(quic, stream, code);
                }
            }
            Script::HalfABody => self.half_a_body(connection, stream),
            Script::CloseAfter(n) if stream.get() / 4 < n => {
                self.answer(connection, stream, 200, PAGE);
            }
            Script::CloseAfter(_) => {
                let code = Code::H3_INTERNAL_ERROR;
                if let Some((it, quic, _)) = self.endpoint.connection(connection) {
                    it.close(quic, code, b"enough");
                }
            }
        }
    }

    fn answer(&mut self, connection: ConnectionHandle, stream: StreamId, status: u16, body: Bytes) {
        let head = Response::builder()
            .status(status)
            .header("content-length", body.len())
            .body(())
            .unwrap();
        self.endpoint
            .with(connection, |it, quic| {
                it.send_response(quic, stream, &head, false)
            })
            .unwrap();
        self.unsent.insert((connection, stream), body);
        self.send_rest(connection, stream);
    }

    fn half_a_body(&mut self, connection: ConnectionHandle, stream: StreamId) {
        let head = Response::builder()
            .header("content-length", 20)
            .body(())
            .unwrap();
        self.endpoint
            .with(connection, |it, quic| {
                it.send_response(quic, stream, &head, false)
            })
            .unwrap();
        let mut half = PAGE.slice(..10);
        self.endpoint
            .with(connection, |it, quic| {
                it.send_data(quic, stream, &mut half, true)
            })
            .unwrap();
    }

    fn send_rest(&mut self, connection: ConnectionHandle, stream: StreamId) {
        let key = (connection, stream);
        let Some(mut body) = self.unsent.remove(&key) else {
            return;
        };
        // A client that has gone needs no answer.
        let sent = self.endpoint.with(connection, |it, quic| {
            it.send_data(quic, stream, &mut body, true)
        });
        if sent.is_ok() && !body.is_empty() {
            self.unsent.insert(key, body);
        }
    }
}

async fn against(script: Script) -> (Options, JoinHandle<()>, Identity) {
    let identity = Identity::new();
    let (server, handle) = Server::start(&identity, script).await;
    let mut options = options("https", Protocol::H3, server);
    options.trust = identity.trust();
    options.timeout = Duration::from_secs(40);
    (options, handle, identity)
}

#[tokio::test]
async fn one_request_opens_one_connection() {
    let (options, _server, _identity) = against(Script::Answer).await;
    let (records, summary) = run(&options).await;
    assert_eq!(records.len(), 1);
    assert_sound(&records, Protocol::H3, PAGE.len() as u64);
    let summary = summary.unwrap();
    assert_eq!(
        (summary.requests, summary.failed, summary.connections),
        (1, 0, 1)
    );
}

#[tokio::test]
async fn requests_are_exactly_n_over_all_connections_and_streams() {
    let (mut options, _server, _identity) = against(Script::Answer).await;
    options.connections = count(3);
    options.stop = requests(100);
    let options = options.with_streams(count(7)).unwrap();
    let (records, summary) = run(&options).await;
    assert_eq!(records.len(), 100);
    assert_sound(&records, Protocol::H3, PAGE.len() as u64);
    assert_eq!(summary.unwrap().connections, 3);
}

#[tokio::test]
async fn more_streams_than_the_server_allows_wait_their_turn() {
    let (mut options, _server, _identity) = against(Script::Answer).await;
    options.stop = requests(1_000);
    let options = options.with_streams(count(600)).unwrap();
    let (records, summary) = run(&options).await;
    assert_eq!(records.len(), 1_000);
    assert_sound(&records, Protocol::H3, PAGE.len() as u64);
    assert_eq!(summary.unwrap().connections, 1);
}

#[tokio::test]
async fn a_status_is_a_fact_and_no_error() {
    let (options, _server, _identity) = against(Script::Status(500)).await;
    let (records, summary) = run(&options).await;
    assert_eq!((records[0].status, &records[0].error), (Some(500), &None));
    assert_eq!(summary.unwrap().statuses[&500], 1);
}

#[tokio::test]
async fn a_reset_stream_is_an_error_and_the_connection_goes_on() {
    let (mut options, _server, _identity) = against(Script::ResetStream).await;
    options.stop = requests(5);
    let (records, summary) = run(&options).await;
    let error = records[4].error.as_deref();
    assert_eq!(error, Some("stream reset: H3_REQUEST_REJECTED"));
    let summary = summary.unwrap();
    assert_eq!(
        (summary.requests, summary.failed, summary.connections),
        (5, 5, 1)
    );
}

#[tokio::test]
async fn a_truncated_body_is_an_error() {
    let (mut options, _server, _identity) = against(Script::HalfABody).await;
    options.stop = requests(2);
    let (records, summary) = run(&options).await;
    assert_eq!((records.len(), summary.unwrap().failed), (2, 2));
    assert_eq!((records[1].status, records[1].bytes), (Some(200), 10));
}

#[tokio::test]
async fn a_server_that_never_answers_times_out_every_request() {
    let (mut options, _server, _identity) = against(Script::Silence).await;
    options.timeout = Duration::from_secs(1);
    options.stop = requests(4);
    let (records, summary) = run(&options.with_streams(count(2)).unwrap()).await;
    assert_eq!(records.len(), 4);
    for record in &records {
        assert_eq!(record.error.as_deref(), Some("timed out after 1s"));
        assert!(
            (1_000_000..30_000_000).contains(&record.total_us),
            "{record:?}"
        );
    }
    assert_eq!(summary.unwrap().connections, 1);
}

#[tokio::test]
async fn a_connection_that_the_server_closes_is_opened_anew() {
    let (mut options, _server, _identity) = against(Script::CloseAfter(2)).await;
    options.stop = requests(9);
    let (records, summary) = run(&options).await;
    let errors: Vec<_> = records
        .iter()
        .filter_map(|record| record.error.as_deref())
        .collect();
    assert_eq!(
        errors,
        ["connection lost: closed by peer: H3_INTERNAL_ERROR: enough"; 3]
    );
    assert_eq!((records.len(), summary.unwrap().connections), (9, 3));
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_told_at_once() {
    let (options, server, _identity) = against(Script::Answer).await;
    server.abort();
    let _ = server.await;
    let (records, summary) = run(&options).await;
    let error = records[0].error.as_ref().unwrap();
    assert!(
        error.to_lowercase().contains("connection refused"),
        "{error}"
    );
    assert!(matches!(summary, Err(Error::NeverConnected { .. })));
}

#[tokio::test]
async fn a_certificate_of_another_ca_is_refused() {
    let (mut options, _server, _identity) = against(Script::Answer).await;
    let other = Identity::new();
    options.trust = other.trust();
    let (records, _) = run(&options).await;
    let error = records[0].error.as_ref().unwrap();
    assert!(error.starts_with("QUIC handshake failed"), "{error}");
    options.trust = Trust::Insecure;
    assert_sound(&run(&options).await.0, Protocol::H3, PAGE.len() as u64);
}

#[tokio::test]
async fn a_server_is_told_that_its_certificate_was_refused() {
    let (identity, other) = (Identity::new(), Identity::new());
    let config = ServerConfig::new(Arc::new(identity.server_config(&["h3"])));
    let (address, mut server) = Server::bind(Script::Answer, config).await;
    let mut options = options("https", Protocol::H3, address);
    options.trust = other.trust();
    let heard = async {
        while server.endpoint.statistics().handshakes.failed == 0 {
            server.turn().await;
        }
    };
    // Without a word it would give up after ten seconds.
    let heard = tokio::time::timeout(Duration::from_secs(5), heard);
    let ((records, _), heard) = tokio::join!(run(&options), heard);
    assert!(records[0].error.is_some());
    heard.unwrap();
}

#[tokio::test]
async fn a_silent_address_times_out_and_falls_back_to_nothing() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut options = options("https", Protocol::H3, silent.local_addr().unwrap());
    options.trust = Trust::Insecure;
    options.timeout = Duration::from_millis(100);
    let (records, summary) = run(&options).await;
    assert_eq!(records[0].error.as_deref(), Some("timed out after 100ms"));
    assert_eq!(records[0].protocol_used, None);
    assert!(matches!(summary, Err(Error::NeverConnected { .. })));
}

#[tokio::test]
async fn a_timed_open_loop_keeps_its_rate() {
    let (mut options, _server, _identity) = against(Script::Answer).await;
    options.rate = Some(count(100));
    options.stop = Stop::Time(Duration::from_secs(1));
    let (records, summary) = run(&options.with_streams(count(20)).unwrap()).await;
    assert_sound(&records, Protocol::H3, PAGE.len() as u64);
    let mut starts: Vec<_> = records.iter().map(|record| record.start_us).collect();
    starts.sort_unstable();
    let sent = starts.len() as u64;
    assert_eq!(starts, (0..sent).map(|k| k * 10_000).collect::<Vec<_>>());
    assert_eq!(summary.unwrap().unsent, 100 - sent);
}

/// Gives tickets, and knows none of them.
#[derive(Debug)]
struct Forgetful;

impl StoresServerSessions for Forgetful {
    fn put(&self, _: Vec<u8>, _: Vec<u8>) -> bool {
        true
    }

    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn what_a_server_refuses_of_the_first_packets_is_sent_again() {
    let identity = Identity::new();
    let mut tls = identity.server_config(&["h3"]);
    tls.session_storage = Arc::new(Forgetful);
    let mut config = ServerConfig::new(Arc::new(tls));
    config.quic.early_data = true;
    let (server, _) = Server::start_with(Script::Answer, config).await;
    let options = options("https", Protocol::H3, server);
    let mut options = options.with_early_data().unwrap();
    options.trust = identity.trust();
    options.stop = requests(5);
    let (records, summary) = run(&options).await;
    assert_sound(&records, Protocol::H3, PAGE.len() as u64);
    let count = summary.unwrap().early_data.unwrap();
    assert_eq!((count.accepted, count.refused), (0, 4));
}

/// A server that closes each connection as soon as its own part of the handshake is on its way.
async fn full_server(identity: &Identity) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let tls = Arc::new(identity.server_config(&["h3"]));
    tokio::spawn(async move {
        let mut datagram = [0; 2_048];
        loop {
            let config = quic::ServerConfig::new(Arc::clone(&tls));
            let mut endpoint = <quic::Endpoint>::server(&config, [1; 32]).unwrap();
            let (size, remote) = socket.recv_from(&mut datagram).await.unwrap();
            let payload = &datagram[..size];
            let first = Datagram {
                remote,
                local_ip: None,
                ecn: None,
                payload,
            };
            let now = Instant::now();
            endpoint.handle_datagram(now, first);
            // All of it is there before the client looks.
            let (mut batches, mut buffer) = (Vec::new(), Vec::new());
            for closing in [false, true] {
                let connection = endpoint.connection(ConnectionHandle(0));
                if let Some(connection) = connection.filter(|_| closing) {
                    connection.close(Code::H3_EXCESSIVE_LOAD.get(), b"full");
                }
                while let Some(transmit) = endpoint.poll_transmit(now, &mut buffer) {
                    let size = transmit.segment_size.unwrap_or(transmit.size);
                    batches.extend(buffer.chunks(size).map(<[u8]>::to_vec));
                }
            }
            for payload in batches {
                socket.try_send_to(&payload, remote).unwrap();
            }
        }
    });
    address
}

#[tokio::test]
async fn a_connection_that_is_closed_with_its_hand_shake_was_refused_and_lacked_no_streams() {
    let identity = Identity::new();
    let server = full_server(&identity).await;
    let mut options = options("https", Protocol::H3, server);
    options.trust = identity.trust();
    let (records, summary) = run(&options).await;
    let error = records[0].error.as_deref().unwrap();
    assert!(
        error.starts_with("QUIC handshake failed: aborted by peer"),
        "{error}"
    );
    assert!(matches!(summary, Err(Error::NeverConnected { .. })));
}
