//! A server's connection IDs: whose a connection is, wherever its client is; and whose no
//! connection is any more.

use std::time::Duration;

use altway_quic::{
    ClientConfig, CloseReason, ConnectionIds, Direction, Error, Generation, ResetKey, ServerConfig,
    ServerId, WorkerId,
};

use crate::engine::{Endpoint, QuicEndpoint};
use crate::pair::{Pair, delay, pattern};
use crate::tls;

/// A worker of the second process in a row.
fn worker(number: usize) -> WorkerId {
    WorkerId::new(Generation::default().next(), number).unwrap()
}

fn config(worker: WorkerId, key: u8) -> ServerConfig {
    let mut config = ServerConfig::new(tls::server());
    config.connection_ids = Some(ConnectionIds {
        server: ServerId::default(),
        worker,
    });
    config.reset_key = Some(ResetKey([key; 32]));
    config
}

fn connected() -> Pair {
    Pair::with(delay(5), |_, server| *server = config(worker(5), 1)).connected()
}

/// Sends some bytes to the server.
fn upload(pair: &mut Pair) {
    let stream = pair.client.open(Direction::Unidirectional);
    pair.client.send(stream, pattern(200_000));
    assert!(pair.run_until(|pair| pair.server.ended.contains(&stream)));
    assert_eq!(pair.server.received[&stream], pattern(200_000));
}

/// A client that moved has no other way of saying whose it is.
#[test]
fn a_clients_packets_name_its_worker_from_every_address() {
    let mut pair = connected();
    upload(&mut pair);
    // Those of the hand-shake that name none are the Initials.
    let first = pair.client.named.iter().position(Option::is_some).unwrap();
    assert!(pair.client.named[first..].contains(&Some(worker(5))));
    for port in 2000..2010 {
        pair.client.named.clear();
        pair.client.address.set_port(port);
        upload(&mut pair);
        assert!(pair.client.named.len() > 100);
        let mut named = pair.client.named.iter();
        assert!(named.all(|named| *named == Some(worker(5))));
    }
}

/// Returns the reason for which a client's connection ends when this endpoint stands in for the
/// server's.
fn end_at(config: &ServerConfig) -> Option<CloseReason> {
    let mut pair = connected();
    pair.server.endpoint = Endpoint::server(config, [9; 32]).unwrap();
    let stream = pair.client.open(Direction::Unidirectional);
    pair.client.send(stream, pattern(10_000));
    pair.run_for(Duration::from_secs(100));
    pair.client.closed
}

#[test]
fn an_endpoint_that_lost_its_state_says_so_when_it_has_kept_the_key() {
    assert_eq!(end_at(&config(worker(5), 1)), Some(CloseReason::Reset));
    assert_eq!(end_at(&config(worker(5), 2)), Some(CloseReason::TimedOut));
}

/// The connection may be well where it is.
#[test]
fn an_endpoint_does_not_end_the_connections_of_a_colleague() {
    assert_eq!(end_at(&config(worker(6), 1)), Some(CloseReason::TimedOut));
}

#[test]
fn an_endpoint_tells_the_clients_of_a_process_that_has_ended() {
    let of_successor = worker(6).generation().next();
    let of_successor = WorkerId::new(of_successor, 6).unwrap();
    assert_eq!(end_at(&config(of_successor, 1)), Some(CloseReason::Reset));
}

#[test]
fn an_endpoint_may_leave_new_connections_to_another_and_keep_its_own() {
    let mut pair = connected();
    pair.server.endpoint.shutdown();
    pair.server.endpoint.ignore_new_connections(true);
    upload(&mut pair);
    let mut pair = Pair::new();
    pair.server.endpoint.ignore_new_connections(true);
    pair.run_for(Duration::from_secs(2));
    assert!(!pair.client.connected && pair.client.closed.is_none());
    pair.server.endpoint.ignore_new_connections(false);
    assert!(pair.run_until(|pair| pair.client.connected));
}

#[test]
fn a_client_with_empty_ids_moves_and_is_found() {
    let pair = Pair::with(delay(5), |client, _| client.empty_connection_ids = true);
    let mut pair = pair.connected();
    for port in 2000..2005 {
        pair.client.address.set_port(port);
        upload(&mut pair);
        let stream = pair.server.open(Direction::Unidirectional);
        pair.server.send(stream, pattern(200_000));
        assert!(pair.run_until(|pair| pair.client.ended.contains(&stream)));
        assert_eq!(pair.client.received[&stream], pattern(200_000));
    }
}

/// Lengths of the connection IDs in the long headers that a client sends, its own and the server's.
fn id_lengths(pair: &Pair) -> (Vec<u8>, Vec<u8>) {
    let initials = pair.client.flight.iter().filter(|it| it[0] & 0x80 != 0);
    initials
        .map(|it| {
            let destination = it[5];
            (it[6 + usize::from(destination)], destination)
        })
        .unzip()
}

#[test]
fn ids_of_a_client_are_empty_if_asked_for() {
    for (empty, length) in [(true, 0), (false, 8)] {
        let pair = Pair::with(delay(5), |client, _| client.empty_connection_ids = empty);
        let (own, servers) = id_lengths(&pair.connected());
        assert!(own.iter().all(|it| *it == length), "{own:?}");
        assert!(servers.iter().all(|it| *it >= 8), "{servers:?}");
    }
}

#[test]
fn with_empty_ids_an_endpoint_has_one_connection() {
    let mut config = ClientConfig::new(tls::client());
    config.empty_connection_ids = true;
    let mut client = Endpoint::client(&config, [1; 32]).unwrap();
    let mut connect = |port: u16| {
        let server = (std::net::Ipv4Addr::LOCALHOST, port).into();
        client.connect(std::time::Instant::now(), server, "localhost", ())
    };
    assert!(connect(1).is_ok());
    let refused = connect(2).unwrap_err();
    assert!(matches!(refused, Error::TooManyConnections { limit: 1 }));
}
