//! Version 2 of QUIC (RFC 9369): all that version 1 does, by other numbers, and nothing that belongs to the
//! other version.

use std::sync::Arc;
use std::time::{Duration, Instant};

use altway_quic::{
    ClientConfig, CloseReason, ConnectionIds, Direction, Event, ResetKey, Retry, ServerConfig,
    Version,
};
use altway_units::Ratio;
use proptest::collection::vec;
use proptest::prelude::*;
use rustls::server::ServerSessionMemoryCache;

use crate::engine::{Endpoint, QuicConnection, QuicEndpoint};
use crate::pair::{Pair, delay, pattern};
use crate::tls;
use crate::wire::{
    client, client_address, connect, events, exchange, give, initial, pass, sent, server,
    server_address, server_with_limits,
};

/// A long header's form and type bits, the fixed bit aside, which may be greased.
const FORM_AND_TYPE: u8 = 0xb0;
const INITIAL: u8 = 0x90;
const ZERO_RTT: u8 = 0xa0;
const HANDSHAKE: u8 = 0xb0;
const RETRY: u8 = 0x80;

fn second(config: &mut ClientConfig) {
    config.version = Version::V2;
}

/// The type of a datagram's first packet, whose header must be long and name version 2.
fn type_of(datagram: &[u8]) -> u8 {
    assert_eq!(datagram[1..5], Version::V2.number().to_be_bytes());
    datagram[0] & FORM_AND_TYPE
}

fn is_long(datagram: &[u8]) -> bool {
    datagram[0] & 0x80 != 0
}

#[test]
fn both_versions_carry_bytes_both_ways_over_loss_and_changes_of_keys() {
    for version in Version::ALL {
        let link = altway_link::Config {
            loss: Ratio::from_percent(2).unwrap().into(),
            ..delay(10)
        };
        let mut pair = Pair::with(link, |client, _| client.version = version).connected();
        let bytes = pattern(500_000);
        let (up, down) = (
            pair.client.open(Direction::Unidirectional),
            pair.server.open(Direction::Unidirectional),
        );
        pair.client.send(up, bytes.clone());
        pair.server.send(down, bytes.clone());
        while pair.server.ended.is_empty() || pair.client.ended.is_empty() {
            pair.client.quic().update_keys();
            pair.run_for(Duration::from_millis(50));
            assert!(pair.elapsed() < Duration::from_secs(60), "it stands still");
        }
        assert!(pair.server.received[&up] == bytes && pair.client.received[&down] == bytes);
        for end in [&mut pair.client, &mut pair.server] {
            assert_eq!(end.quic().version(), version);
        }
    }
}

#[test]
fn every_packet_of_a_hand_shake_has_the_versions_types() {
    let pair = Pair::with(delay(10), |client, _| second(client)).connected();
    let types = |flight: &[Vec<u8>]| {
        let long = flight.iter().filter(|datagram| is_long(datagram));
        long.map(|datagram| type_of(datagram)).collect::<Vec<_>>()
    };
    let (client, server) = (types(&pair.client.flight), types(&pair.server.flight));
    for (side, types) in [("client", client), ("server", server)] {
        assert_eq!(types[0], INITIAL, "{side}");
        assert!(
            types.iter().all(|one| [INITIAL, HANDSHAKE].contains(one)),
            "{side}: {types:x?}"
        );
    }
}

#[test]
fn a_client_that_is_asked_for_its_address_shows_it() {
    let now = Instant::now();
    let mut server = server_with_limits(|limits| limits.retry = Retry::Always);
    for version in [Version::V2, Version::V1, Version::V2] {
        let mut client = client(|config| config.version = version);
        let first = initial(&mut client, now);
        give(&mut server, now, client_address(1), &first);
        let retry = &sent(&mut server, now)[0];
        assert_eq!(retry[1..5], version.number().to_be_bytes());
        if version == Version::V2 {
            assert_eq!(type_of(retry), RETRY);
        }
        give(&mut client, now, server_address(), retry);
        let heard = exchange(&mut client, client_address(1), &mut server, now);
        assert!(heard.contains(&Event::Connected), "{heard:?}");
    }
    assert_eq!(server.statistics().retries, 3);
}

#[test]
fn a_retry_that_was_meddled_with_is_no_answer() {
    let now = Instant::now();
    let mut server = server_with_limits(|limits| limits.retry = Retry::Always);
    for breaks in [false, true] {
        let mut client = client(second);
        let first = initial(&mut client, now);
        give(&mut server, now, client_address(1), &first);
        let mut retry = sent(&mut server, now).remove(0);
        *retry.last_mut().unwrap() ^= u8::from(breaks);
        give(&mut client, now, server_address(), &retry);
        assert_eq!(sent(&mut client, now).is_empty(), breaks);
    }
}

#[test]
fn a_client_that_comes_back_is_not_asked_again() {
    let now = Instant::now();
    let mut server = server_with_limits(|limits| limits.retry = Retry::Always);
    let mut client = client(second);
    for retries in [1, 1] {
        connect(&mut client, now);
        exchange(&mut client, client_address(1), &mut server, now);
        assert_eq!(server.statistics().retries, retries);
    }
}

/// A pair whose client has a ticket of a first connection of one version, and begins its second one by
/// another, with the same memory.
fn returning(first: Version, second: Version) -> Pair {
    let memory = tls::client();
    let client = |version| {
        let mut config = ClientConfig::new(Arc::clone(&memory));
        config.early_data = true;
        config.version = version;
        config
    };
    let (before, after) = (client(first), client(second));
    let mut pair = Pair::with(delay(50), |client, server| {
        *client = before;
        server.early_data = true;
        server.tls = tls::server_with(ServerSessionMemoryCache::new(100));
    })
    .connected();
    pair.run_for(Duration::from_millis(500));
    pair.client.quic().close(0, b"");
    pair.run_for(Duration::from_secs(10));
    pair.client.endpoint = Endpoint::client(&after, [5; 32]).unwrap();
    pair.begin_anew();
    pair
}

#[test]
fn early_data_arrives_with_the_first_packets() {
    let mut pair = returning(Version::V2, Version::V2);
    let (began, sent) = (pair.elapsed(), pair.client.flight.len());
    assert!(pair.run_until(|pair| pair.client.early));
    let stream = pair.client.open(Direction::Bidirectional);
    pair.client.send(stream, pattern(3000));
    assert!(pair.run_until(|pair| pair.server.ended == [stream]));
    assert_eq!(pair.elapsed() - began, Duration::from_millis(50));
    assert_eq!(pair.server.received[&stream], pattern(3000));
    assert!(pair.server.early && !pair.server.connected);
    let early = &pair.client.flight[sent..];
    assert!(early.iter().any(|datagram| type_of(datagram) == ZERO_RTT));
    assert!(!pair.connected().client.refused);
}

/// RFC 9369 section 5.
#[test]
fn what_is_remembered_of_one_version_is_not_used_for_another() {
    for (first, second) in [(Version::V1, Version::V2), (Version::V2, Version::V1)] {
        let pair = returning(first, second).connected();
        assert!(!pair.client.early && !pair.client.refused && !pair.server.early);
        let pair = returning(first, first).connected();
        assert!(pair.client.early, "the ticket was there");
    }
}

#[test]
fn a_server_that_has_lost_all_says_so() {
    let config = || {
        let mut config = ServerConfig::new(tls::server());
        config.reset_key = Some(ResetKey([9; 32]));
        config.connection_ids = Some(ConnectionIds::default());
        config
    };
    let mut pair = Pair::with(delay(10), |client, server| {
        second(client);
        *server = config();
    })
    .connected();
    pair.run_for(Duration::from_secs(1));
    pair.server.endpoint = Endpoint::server(&config(), [3; 32]).unwrap();
    let stream = pair.client.open(Direction::Unidirectional);
    pair.client.send(stream, pattern(1000));
    assert!(pair.run_until(|pair| pair.client.closed.is_some()));
    assert_eq!(pair.client.closed, Some(CloseReason::Reset));
}

#[test]
fn a_full_server_refuses_by_the_clients_version() {
    let now = Instant::now();
    let mut server = server(|_| {});
    server.shutdown();
    let mut client = client(second);
    connect(&mut client, now);
    let heard = exchange(&mut client, client_address(1), &mut server, now);
    assert!(
        matches!(
            &heard[..],
            [Event::Closed {
                reason: CloseReason::Transport { .. }
            }]
        ),
        "{heard:?}"
    );
}

/// A Handshake packet of its own shows that its sender receives: a long flight waits for no time-out.
#[test]
fn a_long_flight_takes_round_trips_and_no_time_outs() {
    let mut pair = Pair::with(delay(50), |client, server| {
        second(client);
        server.tls = tls::server_with_chain(30);
    });
    assert!(pair.run_until(|pair| pair.client.connected));
    let took = pair.elapsed();
    assert!(took <= Duration::from_millis(310), "{took:?}");
}

#[test]
fn a_silent_client_is_sent_three_times_its_first_datagram_at_most() {
    let now = Instant::now();
    let mut server = server(|config| config.tls = tls::server_with_chain(30));
    let first = initial(&mut client(second), now);
    give(&mut server, now, client_address(1), &first);
    let said = pass(&mut server, now, Duration::from_secs(60));
    let left: usize = said.iter().map(|(_, payload)| payload.len()).sum();
    assert!(left > 2 * first.len() && left <= 3 * first.len(), "{left}");
}

#[test]
fn clients_of_both_versions_share_an_endpoint() {
    let now = Instant::now();
    let mut server = server(|_| {});
    let mut clients = Version::ALL.map(|version| client(|config| config.version = version));
    // Their packets come in turns.
    let firsts = clients.each_mut().map(|client| initial(client, now));
    for (number, first) in (0..).zip(&firsts) {
        give(&mut server, now, client_address(number), first);
    }
    for _ in 0..3 {
        for answer in sent(&mut server, now) {
            for client in &mut clients {
                give(client, now, server_address(), &answer);
            }
        }
        for (number, client) in (0..).zip(&mut clients) {
            for datagram in sent(client, now) {
                give(&mut server, now, client_address(number), &datagram);
            }
        }
        events(&mut server);
    }
    for client in &mut clients {
        assert!(events(client).contains(&Event::Connected));
    }
    assert_eq!(server.statistics().connections, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is made of a first datagram harms nobody: the endpoint serves the next client.
    #[test]
    fn a_datagram_that_was_meddled_with_does_no_harm(
        flips in vec((0..1200_usize, any::<u8>()), 0..8),
        cut in 0..1200_usize,
        noise in vec(any::<u8>(), 0..100),
    ) {
        let now = Instant::now();
        let mut server = server(|_| {});
        let mut datagram = initial(&mut client(second), now);
        for (at, bits) in flips {
            datagram[at] ^= bits;
        }
        datagram.truncate(1200 - cut);
        datagram.extend(noise);
        datagram.resize(1200, 0);
        give(&mut server, now, client_address(1), &datagram);
        sent(&mut server, now);
        let mut client = client(second);
        give(&mut client, now, server_address(), &datagram);
        connect(&mut client, now);
        let heard = exchange(&mut client, client_address(2), &mut server, now);
        prop_assert!(heard.contains(&Event::Connected), "{:?}", heard);
    }
}
