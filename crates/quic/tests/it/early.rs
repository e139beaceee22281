//! Early data: sent with the first packets, taken once, refused without harm.

use std::sync::Arc;
use std::time::Duration;

use altway_quic::{ClientConfig, Datagram, Direction, Error, ServerConfig, StreamId};
use rustls::server::ServerSessionMemoryCache;

use crate::engine::{Endpoint, QuicConnection, QuicEndpoint};
use crate::pair::{CLIENT, Pair, delay, pattern};
use crate::tls;

fn allow(client: &mut ClientConfig, server: &mut ServerConfig) {
    client.early_data = true;
    server.early_data = true;
}

/// A pair whose client has a ticket of its first connection, and begins its second.
fn returning(change: impl FnOnce(&mut ClientConfig, &mut ServerConfig)) -> Pair {
    let mut pair = Pair::with(delay(50), |client, server| {
        allow(client, server);
        change(client, server);
    });
    let told = pair.run_until(|pair| pair.client.connected && pair.server.connected);
    assert!(told && !pair.client.early && !pair.server.early);
    pair.run_for(Duration::from_millis(500));
    pair.reconnect();
    pair
}

/// Sends as soon as it may; the stream, and how long the server took to have it all.
fn send(pair: &mut Pair, len: usize) -> (StreamId, Duration) {
    let began = pair.elapsed();
    assert!(pair.run_until(|pair| pair.client.early || pair.client.connected));
    let stream = pair.client.open(Direction::Bidirectional);
    pair.client.send(stream, pattern(len));
    assert!(pair.run_until(|pair| pair.server.ended.contains(&stream)));
    assert_eq!(pair.server.received[&stream], pattern(len));
    (stream, pair.elapsed() - began)
}

#[test]
fn early_data_arrives_with_the_first_packets() {
    let mut pair = returning(|_, _| {});
    let (_, took) = send(&mut pair, 1000);
    assert_eq!(took, Duration::from_millis(50), "half a round trip");
    assert!(pair.server.early && !pair.server.connected);
    let mut pair = pair.connected();
    assert!(!pair.client.refused);
    assert_eq!(pair.server.quic().remote_address(), CLIENT.parse().unwrap());
}

#[test]
fn a_first_connection_and_one_without_leave_sends_after_the_hand_shake() {
    for (client, server) in [(false, true), (true, false), (false, false)] {
        let mut pair = returning(|ours, theirs| {
            ours.early_data = client;
            theirs.early_data = server;
        });
        let (_, took) = send(&mut pair, 1000);
        assert_eq!(took, Duration::from_millis(150));
        assert!(!pair.client.early && !pair.server.early);
    }
}

#[test]
fn refused_early_data_is_told_before_the_end_of_the_hand_shake_and_can_be_sent_anew() {
    let mut pair = returning(|_, _| {});
    // A server that has forgotten its sessions.
    let mut forgetful = ServerConfig::new(tls::server());
    forgetful.early_data = true;
    pair.server.endpoint = Endpoint::server(&forgetful, [3; 32]).unwrap();
    assert!(pair.run_until(|pair| pair.client.early));
    let stream = pair.client.open(Direction::Bidirectional);
    pair.client.send(stream, pattern(1000));
    assert!(pair.run_until(|pair| pair.client.refused));
    assert!(pair.client.connected && !pair.server.early);
    assert!(pair.client.quic().write(stream, &mut [pattern(1)]).is_err());
    let again = pair.client.open(Direction::Bidirectional);
    assert_eq!(again, stream, "their numbers are free again");
    pair.client.send(again, pattern(1000));
    assert!(pair.run_until(|pair| pair.server.ended.contains(&again)));
    assert_eq!(pair.server.received[&again], pattern(1000));
}

#[test]
fn a_first_flight_that_is_sent_again_is_early_data_for_nobody() {
    let sessions = ServerSessionMemoryCache::new(100);
    let mut shared = ServerConfig::new(tls::server_with(sessions));
    shared.early_data = true;
    let server = shared.clone();
    let mut pair = returning(move |_, config| *config = server);
    let before = pair.client.flight.len();
    send(&mut pair, 1000);
    let flight = pair.client.flight[before..].to_vec();
    // To another worker of the same server, and to the same one once the connection is forgotten.
    let other = Endpoint::server(&shared, [4; 32]).unwrap();
    let same = {
        pair = pair.connected();
        pair.reconnect();
        pair.server.endpoint
    };
    for mut endpoint in [other, same] {
        for payload in &flight {
            let datagram = Datagram {
                remote: "10.9.9.9:9".parse().unwrap(),
                local_ip: None,
                ecn: None,
                payload,
            };
            endpoint.handle_datagram(std::time::Instant::now(), datagram);
        }
        assert_eq!(endpoint.open_connections(), 1, "a hand-shake begins");
        let told = endpoint.poll_event();
        assert!(told.is_none(), "{told:?}");
    }
}

#[test]
fn sessions_made_under_other_promises_are_not_resumed() {
    let sessions = ServerSessionMemoryCache::new(100);
    let server = |change: fn(&mut ServerConfig)| {
        let mut config = ServerConfig::new(tls::server_with(Arc::clone(&sessions) as _));
        config.early_data = true;
        config.session_context = b"before".to_vec();
        change(&mut config);
        config
    };
    for (change, refused) in [
        ((|_| {}) as fn(&mut ServerConfig), false),
        (|config| config.session_context = b"after".to_vec(), true),
        (|config| config.limits.max_bidirectional_streams = 3, true),
    ] {
        let first = server(|_| {});
        let mut pair = returning(move |_, config| *config = first);
        pair.server.endpoint = Endpoint::server(&server(change), [3; 32]).unwrap();
        let pair = pair.connected();
        assert_eq!(
            (pair.client.refused, pair.server.early),
            (refused, !refused)
        );
    }
}

#[test]
fn early_data_needs_sessions_that_the_server_keeps_itself() {
    let mut config = ServerConfig::new(tls::server_with_tickets());
    assert!(Endpoint::server(&config, [1; 32]).is_ok());
    config.early_data = true;
    let refused = Endpoint::server(&config, [1; 32]);
    assert!(matches!(
        refused,
        Err(Error::InvalidConfig {
            field: "early_data",
            ..
        })
    ));
}
