//! Clients whose address changes: an address that nobody has shown to receive at is sent three times what
//! came from there at most (RFC 9000 sections 8.1 and 9.3), and who really moves is served on.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use altway_quic::Direction;

use crate::engine::{Endpoint, QuicConnection, QuicEndpoint};
use crate::pair::{Pair, delay, pattern};
use crate::wire::{client, client_address, connect, events, exchange, give, sent, server};

/// Begins a connection at this address; whether the server has as much to send as it may.
fn established(at: SocketAddr, busy: bool) -> (Endpoint, Endpoint, Instant) {
    let now = Instant::now();
    let mut client = client(|_| {});
    let mut server = server(|config| {
        config.transport.loopback_mtu = Some(65_488);
        config.limits.max_unidirectional_streams = 100;
    });
    let handle = connect(&mut client, now);
    exchange(&mut client, at, &mut server, now);
    let stream = client
        .connection(handle)
        .unwrap()
        .open(Direction::Bidirectional)
        .unwrap();
    let mut request = [pattern(1)];
    client
        .connection(handle)
        .unwrap()
        .write(stream, &mut request)
        .unwrap();
    for datagram in sent(&mut client, now) {
        give(&mut server, now, at, &datagram);
    }
    let (handle, _) = server.poll_event().unwrap();
    events(&mut server);
    if busy {
        let mut response = [pattern(1_000_000)];
        let mut connection = server.connection(handle);
        let connection = connection.as_mut().unwrap();
        connection.write(stream, &mut response).unwrap();
    }
    (client, server, now)
}

/// Bytes that an endpoint sends now, by address.
fn count(server: &mut Endpoint, now: Instant, to: &mut HashMap<SocketAddr, usize>) {
    let mut buf = Vec::new();
    while let Some(transmit) = server.poll_transmit(now, &mut buf) {
        *to.entry(transmit.destination).or_default() += transmit.size;
    }
}

/// Sends packets of one connection as from addresses that are not the client's. Bytes sent to those.
fn check_forged(home: SocketAddr, busy: bool, forged: impl Fn(u32) -> SocketAddr) -> usize {
    let (mut client, mut server, mut now) = established(home, busy);
    let (mut came, mut left) = (HashMap::new(), HashMap::new());
    count(&mut server, now, &mut HashMap::new());
    let handle = altway_quic::ConnectionHandle(0);
    for number in 0..60 {
        let from = forged(number / 2);
        let stream = client
            .connection(handle)
            .unwrap()
            .open(Direction::Unidirectional);
        // Some pay for a PATH_CHALLENGE of 1,200 bytes, others don't.
        let mut bytes = [pattern(if number % 4 == 0 { 400 } else { 1 })];
        client
            .connection(handle)
            .unwrap()
            .write(stream.unwrap(), &mut bytes)
            .unwrap();
        for datagram in sent(&mut client, now) {
            *came.entry(from).or_default() += datagram.len();
            give(&mut server, now, from, &datagram);
        }
        for _ in 0..5 {
            events(&mut server);
            count(&mut server, now, &mut left);
            now += Duration::from_millis(20);
            server.handle_timeout(now);
        }
    }
    left.remove(&home);
    let total = left.values().sum();
    for (to, bytes) in left {
        let paid: usize = came.get(&to).copied().unwrap_or(0);
        assert!(bytes <= 3 * paid, "{bytes} bytes to {to} for {paid}");
    }
    total
}

#[test]
fn forged_addresses_are_sent_three_times_what_came_from_there_at_most() {
    let home = client_address(0);
    for busy in [false, true] {
        let to_others = check_forged(home, busy, |number| client_address(1 + number));
        assert!(to_others > 0, "nobody was asked by PATH_CHALLENGE");
        check_forged(home, busy, |number| {
            (home.ip(), 2_000 + u16::try_from(number).unwrap()).into()
        });
    }
}

#[test]
fn a_small_packet_has_a_small_path_challenge_sent_to_its_address_and_a_whole_one_to_the_former() {
    for busy in [false, true] {
        let home = client_address(0);
        let (mut client, mut server, now) = established(home, busy);
        count(&mut server, now, &mut HashMap::new());
        let handle = altway_quic::ConnectionHandle(0);
        let opened = client
            .connection(handle)
            .unwrap()
            .open(Direction::Unidirectional);
        let mut bytes = [pattern(1)];
        let written = client
            .connection(handle)
            .unwrap()
            .write(opened.unwrap(), &mut bytes);
        assert!(written.unwrap());
        let small = sent(&mut client, now).remove(0);
        let forged = client_address(1);
        give(&mut server, now, forged, &small);
        events(&mut server);
        let mut left = HashMap::new();
        count(&mut server, now, &mut left);
        let expected = HashMap::from([(home, 1_200), (forged, 3 * small.len())]);
        assert_eq!(left, expected, "{} bytes came, busy: {busy}", small.len());
    }
}

#[test]
fn loopback_and_ipv6_are_no_exceptions() {
    for home in ["127.0.0.1:1000", "[::1]:1000", "[2001:db8::1]:1000"] {
        let home: SocketAddr = home.parse().unwrap();
        for busy in [false, true] {
            check_forged(home, busy, |number| {
                (home.ip(), 2_000 + u16::try_from(number).unwrap()).into()
            });
        }
    }
}

/// The time of a transfer whose client moves when a tenth has come, and later again.
fn transfer(download: bool, addresses: &[&str]) -> Duration {
    transfer_over(Pair::over(delay(10)), download, addresses, |_| {})
}

/// `moved`: called after each move.
fn transfer_over(
    pair: Pair,
    download: bool,
    addresses: &[&str],
    moved: impl Fn(&mut Pair),
) -> Duration {
    let mut pair = pair.connected();
    let began = pair.elapsed();
    let end = if download {
        &mut pair.server
    } else {
        &mut pair.client
    };
    let stream = end.open(Direction::Unidirectional);
    end.send(stream, pattern(1_000_000));
    for address in addresses {
        pair.run_for(Duration::from_millis(60));
        pair.client.address = address.parse().unwrap();
        moved(&mut pair);
    }
    let done = |pair: &Pair| pair.client.ended.len() + pair.server.ended.len() == 1;
    assert!(pair.run_until(done), "{:?}", pair.client.closed);
    let received = if download {
        &pair.client.received
    } else {
        &pair.server.received
    };
    assert!(received[&stream] == pattern(1_000_000));
    pair.elapsed() - began
}

#[test]
fn a_client_that_moves_in_a_transfer_loses_little_time() {
    for download in [false, true] {
        let still = transfer(download, &[]);
        for moves in [
            &["10.0.0.1:1001"][..],
            &["10.0.9.9:1000"],
            &["10.0.0.1:1001", "10.0.9.9:1"],
        ] {
            let moved = transfer(download, moves);
            let more = moved.saturating_sub(still);
            assert!(
                more < Duration::from_millis(600),
                "{moves:?}: {more:?}, download: {download}"
            );
        }
    }
}

#[test]
fn an_idle_client_that_moves_is_served_on() {
    let mut pair = Pair::over(delay(10)).connected();
    pair.run_for(Duration::from_secs(2));
    pair.client.address = "10.0.0.1:1001".parse().unwrap();
    let began = pair.elapsed();
    let stream = pair.client.open(Direction::Unidirectional);
    pair.client.send(stream, pattern(1));
    assert!(pair.run_until(|pair| pair.server.ended.len() == 1 && pair.client.finished.len() == 1));
    let took = pair.elapsed() - began;
    assert!(took < Duration::from_secs(10), "{took:?}");
    let stream = pair.server.open(Direction::Unidirectional);
    pair.server.send(stream, pattern(100_000));
    assert!(pair.run_until(|pair| pair.client.ended.len() == 1));
}

#[test]
fn keys_may_change_while_a_path_is_not_validated() {
    for download in [false, true] {
        let still = transfer(download, &[]);
        for by_server in [false, true] {
            let moves = ["10.0.0.1:1001", "10.0.9.9:1"];
            let moved = transfer_over(Pair::over(delay(10)), download, &moves, |pair| {
                let end = if by_server {
                    &mut pair.server
                } else {
                    &mut pair.client
                };
                end.quic().update_keys();
                pair.run_for(Duration::from_millis(15));
                pair.server.quic().update_keys();
            });
            let more = moved.saturating_sub(still);
            assert!(
                more < Duration::from_millis(600),
                "{more:?}, download: {download}"
            );
        }
    }
}

#[test]
fn a_client_that_moves_over_a_lossy_path_gets_it_all() {
    let lossy = altway_link::Config {
        loss: altway_units::Ratio::from_percent(10).unwrap().into(),
        ..delay(10)
    };
    for seed in 0..20 {
        for download in [false, true] {
            let mut pair = Pair::seeded(seed, lossy.clone(), |_, _| {});
            // Who downloads has nothing to send again if the one PATH_CHALLENGE that its acknowledgement
            // paid for is lost.
            pair.keeps_addresses = download;
            let took = transfer_over(pair, download, &["10.0.0.1:1001"], |_| {});
            assert!(took < Duration::from_secs(20), "{took:?} with seed {seed}");
        }
    }
}
