//! Memory that a peer can have an endpoint hold: a small multiple of the bytes that came in what is held, and
//! no more than the pool has. A binary of its own, as it looks at the memory of its process.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "virtual time begins at some instant, and a panic is how a test fails"
)]

#[allow(dead_code, reason = "the other tests' certificates")]
#[path = "it/tls.rs"]
mod tls;

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use altway_quic::{
    ClientConfig, ConnectionHandle, Datagram, Direction, QuicConnection, QuicEndpoint,
    ServerConfig, StreamId,
};
use bytes::Bytes;

type Endpoint = altway_quic::Endpoint;

/// Packets of a byte each that a client sends: what fits into its first congestion window.
const PACKETS: usize = 300;
const CLIENTS: u16 = 4;
const MAX_GROWTH: usize = 4 << 20;

/// Streams of a client that sends sparsely, and packets of a byte on each: what its first window has room for.
const STREAMS: usize = 100;
const PIECES: usize = 150;

/// Only one test at a time looks at the memory.
static ALONE: Mutex<()> = Mutex::new(());

/// Resident bytes of this process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

fn sent(endpoint: &mut Endpoint, now: Instant) -> Vec<Vec<u8>> {
    while endpoint.poll_event().is_some() {}
    let (mut datagrams, mut buf) = (Vec::new(), Vec::new());
    while let Some(transmit) = endpoint.poll_transmit(now, &mut buf) {
        let size = transmit.segment_size.unwrap_or(transmit.size);
        datagrams.extend(buf.chunks(size).map(<[u8]>::to_vec));
    }
    datagrams
}

fn give(endpoint: &mut Endpoint, now: Instant, remote: SocketAddr, payload: &[u8]) {
    let (local_ip, ecn) = (None, None);
    let datagram = Datagram {
        remote,
        local_ip,
        ecn,
        payload,
    };
    endpoint.handle_datagram(now, datagram);
}

/// A client that has shaken hands.
fn connected(
    server: &mut Endpoint,
    now: Instant,
    at: SocketAddr,
    config: &ClientConfig,
) -> (Endpoint, ConnectionHandle) {
    let to: SocketAddr = "10.0.0.2:443".parse().unwrap();
    let mut client = Endpoint::client(config, [1; 32]).unwrap();
    let handle = client.connect(now, to, "localhost", ()).unwrap();
    for _ in 0..10 {
        sent(&mut client, now)
            .iter()
            .for_each(|it| give(server, now, at, it));
        sent(server, now)
            .iter()
            .for_each(|it| give(&mut client, now, to, it));
    }
    (client, handle)
}

/// The datagrams of a byte on a stream.
fn byte(client: &mut Endpoint, now: Instant, on: ConnectionHandle, stream: StreamId) -> Vec<u8> {
    let mut byte = [Bytes::from_static(b"x")];
    let connection = client.connection(on).unwrap();
    connection.write(stream, &mut byte).unwrap();
    let [packet] = sent(client, now).try_into().unwrap();
    packet
}

/// A client whose packets of a byte come with gaps, and junk of somebody else's between them.
fn send_with_gaps(server: &mut Endpoint, now: Instant, at: SocketAddr) -> Endpoint {
    let config = ClientConfig::new(tls::client());
    let (mut client, handle) = connected(server, now, at, &config);
    let connection = client.connection(handle).unwrap();
    let stream = connection.open(Direction::Unidirectional).unwrap();
    let junk = vec![0x41; 16_000];
    for number in 0..PACKETS {
        let packet = byte(&mut client, now, handle, stream);
        if number != 0 {
            give(server, now, at, &packet);
        }
        for _ in 0..2 {
            give(server, now, "10.0.0.9:9".parse().unwrap(), &junk);
        }
        sent(server, now);
    }
    client
}

/// A client that leaves the first byte of each of its streams out, and sends as many as follow, each in a
/// datagram of its own. Whether the server kept the connection.
fn send_sparsely(server: &mut Endpoint, now: Instant, at: SocketAddr) -> bool {
    let mut config = ClientConfig::new(tls::client());
    config.transport.initial_window = 1_000;
    let (mut client, handle) = connected(server, now, at, &config);
    let connection = client.connection(handle).unwrap();
    let open = |_| connection.open(Direction::Bidirectional).unwrap();
    let streams: Vec<_> = (0..STREAMS).map(open).collect();
    for number in 0..=PIECES {
        for stream in &streams {
            let packet = byte(&mut client, now, handle, *stream);
            if number != 0 {
                give(server, now, at, &packet);
            }
        }
        sent(server, now);
    }
    server.states().count() == server.open_connections()
}

#[test]
fn a_byte_that_waits_for_those_before_it_holds_no_more_than_its_datagram() {
    let _alone = ALONE.lock().unwrap();
    let now = Instant::now();
    let mut server = <Endpoint>::server(&ServerConfig::new(tls::server()), [2; 32]).unwrap();
    // What the first connection needs once is there afterwards.
    let first = send_with_gaps(&mut server, now, "10.0.0.3:999".parse().unwrap());
    let before = resident();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| send_with_gaps(&mut server, now, (first_ip(), 1000 + number).into()))
        .collect();
    let growth = resident().saturating_sub(before);
    assert_eq!(server.statistics().connections, clients.len() + 1);
    drop(first);
    assert!(
        growth <= MAX_GROWTH,
        "{growth} bytes for {CLIENTS} × {PACKETS}"
    );
}

#[test]
fn pieces_of_streams_hold_no_more_than_the_pool_has() {
    let _alone = ALONE.lock().unwrap();
    let now = Instant::now();
    let server = |bytes| {
        let mut config = ServerConfig::new(tls::server());
        config.limits.max_held_bytes = bytes;
        Endpoint::server(&config, [2; 32]).unwrap()
    };
    let mut tight = server(256 << 10);
    // What a client needs itself is there afterwards.
    let first = send_sparsely(&mut tight, now, (first_ip(), 999).into());
    let before = resident();
    let kept: Vec<_> = (0..CLIENTS)
        .map(|number| send_sparsely(&mut tight, now, (first_ip(), 1000 + number).into()))
        .collect();
    let growth = resident().saturating_sub(before);
    assert!(!first && !kept.contains(&true), "{first} {kept:?}");
    assert!(growth <= 2 << 20, "{growth} bytes of {CLIENTS} clients");
    // Where there is room for it all, it is counted.
    let mut roomy = server(256 << 20);
    let before = resident();
    assert!(send_sparsely(&mut roomy, now, (first_ip(), 1000).into()));
    let growth = resident().saturating_sub(before) as u64;
    let held = roomy.statistics().held_bytes;
    let least = (STREAMS * PIECES * 40) as u64;
    assert!(held >= least, "{held} bytes counted");
    // What the client had is in between.
    assert!(growth <= 2 * held, "{growth} bytes, {held} counted");
    // Three probe time-outs later nothing is left of those that were closed.
    let later = now + Duration::from_secs(60);
    tight.handle_timeout(later);
    sent(&mut tight, later);
    let statistics = tight.statistics();
    assert_eq!((statistics.connections, statistics.held_bytes), (0, 0));
}

fn first_ip() -> std::net::IpAddr {
    [10, 0, 0, 1].into()
}
