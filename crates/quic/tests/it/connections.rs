//! Connections begin, end and fail as they should.

use std::time::{Duration, Instant};

use altway_quic::{
    ClientConfig, CloseReason, Congestion, ConnectionHandle, Direction, Error, Role, ServerConfig,
};

use crate::engine::{Endpoint, QuicConnection, QuicEndpoint};
use crate::pair::{End, Pair, SERVER, delay, pattern};
use crate::tls;

const BRIEF: Duration = Duration::from_millis(100);

fn client(change: impl FnOnce(&mut ClientConfig)) -> Endpoint {
    let mut config = ClientConfig::new(tls::client());
    change(&mut config);
    Endpoint::client(&config, [1; 32]).unwrap()
}

#[test]
fn a_hand_shake_takes_one_round_trip_and_each_side_knows_its_role() {
    let mut pair = Pair::over(delay(50));
    assert!(pair.client.quic().is_handshaking());
    let mut pair = pair.connected();
    assert_eq!(pair.client.quic().role(), Role::Client);
    assert_eq!(pair.server.quic().role(), Role::Server);
    assert!(!pair.client.quic().is_handshaking());
    let (handle, endpoint) = (pair.client.connection.unwrap(), &mut pair.client.endpoint);
    let statistics = endpoint.path_statistics(handle).unwrap();
    assert_eq!(statistics.handshake, Some(Duration::from_millis(100)));
}

#[test]
fn a_connection_that_is_only_written_to_has_datagrams_to_send_and_no_events() {
    let mut pair = Pair::new().connected();
    let stream = pair.client.open(Direction::Unidirectional);
    pair.run_for(BRIEF);
    let (handle, now) = (pair.client.connection.unwrap(), pair.now());
    let endpoint = &mut pair.client.endpoint;
    assert_eq!(endpoint.active(), None);
    let (connection, ()) = endpoint.writer(handle).unwrap();
    assert_eq!(connection.write_copy(stream, b"bytes").unwrap(), 5);
    assert_eq!(endpoint.active(), None);
    assert!(endpoint.poll_transmit(now, &mut Vec::new()).is_some());
    assert!(endpoint.entry(handle).is_some());
    assert_eq!(endpoint.active(), Some(handle));
}

#[test]
fn closing_tells_both_sides_once_with_code_and_reason() {
    let mut pair = Pair::new().connected();
    pair.client.quic().close(5, b"done");
    pair.run_for(BRIEF);
    let (code, reason) = (5, "done".to_owned());
    assert_eq!(
        pair.server.closed,
        Some(CloseReason::Peer {
            code,
            reason: reason.clone()
        })
    );
    assert_eq!(
        pair.client.closed,
        Some(CloseReason::Local { code, reason })
    );
    let handle = pair.client.connection.unwrap();
    assert!(pair.client.endpoint.connection(handle).is_none());
    assert!(pair.client.endpoint.is_idle());
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.client.endpoint.path_statistics(handle), None);
}

#[test]
fn a_close_is_not_answered_and_forgotten_after_a_while() {
    let mut pair = Pair::new().connected();
    pair.run_for(BRIEF);
    let sent = pair.server.flight.len();
    pair.client.quic().close(5, b"done");
    pair.run_for(Duration::from_millis(10));
    assert!(pair.server.closed.is_some());
    let held = |pair: &Pair| pair.server.endpoint.statistics().connections;
    assert_eq!(held(&pair), 1, "what is late is still known");
    pair.run_for(Duration::from_secs(10));
    assert_eq!((pair.server.flight.len(), held(&pair)), (sent, 0));
}

/// The end with this role, and its peer.
fn ends(pair: &mut Pair, role: Role) -> [&mut End; 2] {
    let Pair { client, server, .. } = pair;
    match role {
        Role::Client => [client, server],
        Role::Server => [server, client],
    }
}

#[test]
fn a_close_waits_for_no_window() {
    for congestion in [Congestion::Cubic, Congestion::NewReno, Congestion::Bbr] {
        for role in [Role::Server, Role::Client] {
            let pair = Pair::with(delay(1), |client, server| {
                client.transport.congestion = congestion;
                server.transport.congestion = congestion;
            });
            let mut pair = pair.connected();
            pair.black_hole = true;
            let [end, _] = ends(&mut pair, role);
            let stream = end.open(Direction::Unidirectional);
            end.send(stream, pattern(4 << 20));
            pair.run_for(BRIEF);
            pair.black_hole = false;
            let [end, _] = ends(&mut pair, role);
            let sent = end.flight.len();
            end.quic().close(7, b"over");
            pair.run_for(Duration::from_millis(2));
            let [end, peer] = ends(&mut pair, role);
            let (code, reason) = (7, "over".to_owned());
            let expected = Some(CloseReason::Peer { code, reason });
            assert_eq!(peer.closed, expected, "{congestion:?}, {role:?}");
            assert_eq!(end.flight.len(), sent + 1, "{congestion:?}, {role:?}");
        }
    }
}

#[test]
fn a_close_is_not_paced() {
    for congestion in [Congestion::Cubic, Congestion::NewReno, Congestion::Bbr] {
        let pair = Pair::with(delay(50), |_, it| it.transport.congestion = congestion);
        let mut pair = pair.connected();
        for _ in 0..2 {
            let stream = pair.server.open(Direction::Unidirectional);
            pair.server.send(stream, pattern(1 << 20));
            assert!(pair.run_until(|pair| pair.server.finished.contains(&stream)));
        }
        let stream = pair.server.open(Direction::Unidirectional);
        pair.server.send(stream, pattern(1 << 20));
        pair.run_for(Duration::ZERO);
        pair.server.quic().close(7, b"over");
        pair.run_for(Duration::from_millis(50));
        assert!(pair.client.closed.is_some(), "{congestion:?}");
    }
}

#[test]
fn silence_times_out_on_both_sides() {
    let mut pair = Pair::new().connected();
    assert!(pair.run_until(|pair| pair.client.closed.is_some() && pair.server.closed.is_some()));
    assert_eq!(pair.client.closed, Some(CloseReason::TimedOut));
    assert_eq!(pair.server.closed, Some(CloseReason::TimedOut));
    assert_eq!(pair.server.endpoint.open_connections(), 0);
}

#[test]
fn a_server_that_shuts_down_keeps_what_it_has_and_takes_no_more() {
    let mut pair = Pair::new().connected();
    pair.server.endpoint.shutdown();
    let stream = pair.client.open(Direction::Unidirectional);
    pair.client.send(stream, pattern(10_000));
    assert!(pair.run_until(|pair| pair.server.ended == [stream]));
    let mut late = Pair::new();
    late.server.endpoint.shutdown();
    assert!(late.run_until(|pair| pair.client.closed.is_some()));
    assert!(matches!(
        late.client.closed,
        Some(CloseReason::Transport { .. })
    ));
    assert!(!late.server.connected);
}

#[test]
fn what_cannot_be_connected_to_is_refused() {
    let now = Instant::now();
    let server = SERVER.parse().unwrap();
    let mut endpoint = client(|config| config.limits.max_connections = 1);
    let name = endpoint.connect(now, server, "not a name", ());
    assert!(matches!(name, Err(Error::InvalidServerName { .. })));
    let address = endpoint.connect(now, "10.0.0.1:0".parse().unwrap(), "localhost", ());
    assert!(matches!(address, Err(Error::InvalidAddress { .. })));
    endpoint.connect(now, server, "localhost", ()).unwrap();
    let second = endpoint.connect(now, server, "localhost", ());
    assert!(matches!(
        second,
        Err(Error::TooManyConnections { limit: 1 })
    ));
    endpoint.shutdown();
    let late = endpoint.connect(now, server, "localhost", ());
    assert!(matches!(late, Err(Error::ShuttingDown)));
    let mut endpoint = Endpoint::server(&ServerConfig::new(tls::server()), [1; 32]).unwrap();
    let role = endpoint.connect(now, server, "localhost", ());
    assert!(matches!(role, Err(Error::NotAClient)));
}

#[test]
fn a_handle_that_never_was_names_nothing() {
    let mut endpoint = client(|_| {});
    assert!(endpoint.connection(ConnectionHandle(5)).is_none());
    assert!(endpoint.poll_event().is_none());
    assert!(endpoint.poll_timeout().is_none());
    assert!(endpoint.is_idle());
}

#[test]
fn an_endpoint_can_move_to_another_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<Endpoint>();
}
