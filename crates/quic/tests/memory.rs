//! Memory that a peer can have an endpoint hold: a small multiple of the bytes that came in what is held. A
//! binary of its own, as it looks at the memory of its process.
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
use std::time::Instant;

use altway_quic::{ClientConfig, Datagram, Direction, Endpoint, ServerConfig};
use bytes::Bytes;

/// Packets of a byte each that a client sends: what fits into its first congestion window.
const PACKETS: usize = 300;
const CLIENTS: u16 = 4;
const MAX_GROWTH: usize = 4 << 20;

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

/// A client whose packets of a byte come with gaps, and junk of somebody else's between them.
fn send_with_gaps(server: &mut Endpoint, now: Instant, at: SocketAddr) -> Endpoint {
    let to: SocketAddr = "10.0.0.2:443".parse().unwrap();
    let mut client = Endpoint::client(&ClientConfig::new(tls::client()), [1; 32]).unwrap();
    let handle = client.connect(now, to, "localhost").unwrap();
    for _ in 0..10 {
        sent(&mut client, now)
            .iter()
            .for_each(|it| give(server, now, at, it));
        sent(server, now)
            .iter()
            .for_each(|it| give(&mut client, now, to, it));
    }
    let stream = client
        .connection(handle)
        .unwrap()
        .open(Direction::Unidirectional)
        .unwrap();
    let junk = vec![0x41; 16_000];
    for number in 0..PACKETS {
        let mut byte = [Bytes::from_static(b"x")];
        client
            .connection(handle)
            .unwrap()
            .write(stream, &mut byte)
            .unwrap();
        let packets = sent(&mut client, now);
        assert_eq!(packets.len(), 1, "packet {number}");
        if number != 0 {
            give(server, now, at, &packets[0]);
        }
        for _ in 0..2 {
            give(server, now, "10.0.0.9:9".parse().unwrap(), &junk);
        }
        sent(server, now);
    }
    client
}

#[test]
fn a_byte_that_waits_for_those_before_it_holds_no_more_than_its_datagram() {
    let now = Instant::now();
    let mut server = Endpoint::server(&ServerConfig::new(tls::server()), [2; 32]).unwrap();
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

fn first_ip() -> std::net::IpAddr {
    [10, 0, 0, 1].into()
}
