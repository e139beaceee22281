//! Connections begin, end and fail as they should.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use altway_http3::{
    ClientConfig, CloseReason, Code, Datagram, Endpoint, Error, Event, Received, ServerConfig,
};
use altway_quic as quic;
use bytes::Bytes;

use crate::apps::{get, pattern, post};
use crate::pair::{CLIENT, Pair, Path, SERVER};
use crate::tls;

const BRIEF: Duration = Duration::from_millis(100);

#[test]
fn a_reset_response_is_told_with_its_code() {
    let mut pair = Pair::new().connected();
    let fetch = pair.fetch(&get("/abort"), Bytes::new());
    assert_eq!(fetch.reset, Some(Code::H3_INTERNAL_ERROR));
    assert!(pair.closed.is_none());
}

#[test]
fn a_cancelled_request_is_told_with_its_code() {
    let mut pair = Pair::new().connected();
    let stream = pair.start(&get("/hang"), Bytes::new());
    pair.run_for(BRIEF);
    if let Some((it, quic, _)) = pair.client.connection(pair.connection) {
        it.reset_stream(quic, stream, Code::H3_REQUEST_CANCELLED);
    }
    pair.fetches.fetches.clear();
    pair.run_for(BRIEF);
    assert_eq!(pair.files.resets, [Code::H3_REQUEST_CANCELLED]);
    assert!(pair.server.is_idle());
    let gone = pair
        .client
        .with(pair.connection, |it, quic| it.recv_data(quic, stream));
    assert!(matches!(gone, Err(Error::UnknownStream)));
}

#[test]
fn an_upload_cut_short_is_told_even_if_nobody_reads() {
    let mut pair = Pair::new();
    pair.files.lazy = true;
    let mut pair = pair.connected();
    let stream = pair.start(&post("/echo"), pattern(5_000_000));
    pair.run_for(BRIEF);
    if let Some((it, quic, _)) = pair.client.connection(pair.connection) {
        it.reset_stream(quic, stream, Code::H3_REQUEST_CANCELLED);
    }
    pair.run_for(BRIEF);
    assert_eq!(pair.files.resets, [Code::H3_REQUEST_CANCELLED]);
}

#[test]
fn silence_times_out_on_both_sides() {
    let mut pair = Pair::new().connected();
    pair.run_for(BRIEF);
    assert!(pair.run_until(|pair| pair.closed.is_some() && !pair.server_closed.is_empty()));
    assert_eq!(pair.closed, Some(CloseReason::TimedOut));
    assert_eq!(pair.server_closed, [CloseReason::TimedOut]);
    let elapsed = pair.elapsed();
    assert!(
        (Duration::from_secs(30)..Duration::from_secs(31)).contains(&elapsed),
        "{elapsed:?}"
    );
    assert_eq!(pair.server.open_connections(), 0);
}

#[test]
fn a_black_hole_ends_in_a_time_out_and_not_in_a_hang() {
    let mut pair = Pair::new().connected();
    let stream = pair.start(&get("/bytes/10000000"), Bytes::new());
    pair.run_for(Duration::from_millis(3));
    pair.black_hole = true;
    assert!(pair.run_until(|pair| pair.closed.is_some() && !pair.server_closed.is_empty()));
    assert_eq!(pair.closed, Some(CloseReason::TimedOut));
    assert!(!pair.fetches.fetches[&stream].done);
    let void = pair
        .client
        .with(pair.connection, |it, quic| it.recv_data(quic, stream));
    assert!(matches!(void, Err(Error::UnknownConnection)));
}

#[test]
fn keep_alive_holds_a_connection_open() {
    let mut pair = Pair::with(Path::default(), |client, _| {
        client.quic.transport.keep_alive = Some(Duration::from_secs(10));
    })
    .connected();
    pair.run_for(Duration::from_secs(300));
    assert!(pair.closed.is_none());
    assert_eq!(pair.fetch(&get("/bytes/5"), Bytes::new()).body, pattern(5));
}

#[test]
fn nobody_there_times_out() {
    let mut pair = Pair::new();
    pair.black_hole = true;
    assert!(pair.run_until(|pair| pair.closed.is_some()));
    assert_eq!(pair.closed, Some(CloseReason::TimedOut));
}

#[test]
fn an_untrusted_certificate_closes_before_anything_is_sent() {
    let mut pair = Pair::with(Path::default(), |client, _| {
        client.quic.tls = tls::distrustful_client();
    });
    assert!(pair.run_until(|pair| pair.closed.is_some()));
    match pair.closed.clone().unwrap() {
        CloseReason::Transport { reason } => {
            assert!(reason.contains("certificate"), "{reason}");
        }
        other => panic!("{other}"),
    }
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.server_connected, 0);
    assert_eq!(pair.server_closed, []);
    assert_eq!(pair.server.open_connections(), 0);
}

#[test]
fn closing_tells_both_sides_with_code_and_reason() {
    let mut pair = Pair::new().connected();
    if let Some((it, quic, _)) = pair.client.connection(pair.connection) {
        it.close(quic, Code::H3_NO_ERROR, b"done");
    }
    pair.run_for(BRIEF);
    let (code, reason) = (Code::H3_NO_ERROR, "done".to_owned());
    assert_eq!(
        pair.server_closed,
        [CloseReason::Peer {
            code,
            reason: reason.clone()
        }]
    );
    assert_eq!(pair.closed, Some(CloseReason::Local { code, reason }));
    assert!(pair.client.is_idle());
    let void = pair.client.with(pair.connection, |it, quic| {
        it.send_request(quic, &get("/"), true)
    });
    assert!(matches!(void, Err(Error::UnknownConnection)));
    assert!(
        pair.last_statistics.is_some(),
        "to be had when Closed is told"
    );
    pair.run_for(Duration::from_secs(10));
    assert!(pair.client.path_statistics(pair.connection).is_none());
}

#[test]
fn a_server_going_away_finishes_what_it_began_and_refuses_what_comes() {
    let mut pair = Pair::over(Path {
        delay: Duration::from_millis(20),
        ..Path::default()
    });
    pair = pair.connected();
    let before = pair.start(&get("/bytes/3000000"), Bytes::new());
    pair.run_for(Duration::from_millis(50));
    pair.server.shutdown();
    // On its way before the client knows.
    let during = pair.start(&get("/bytes/10"), Bytes::new());
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    assert!(pair.went_away);
    assert_eq!(pair.fetches.fetches[&before].body, pattern(3_000_000));
    assert_eq!(
        pair.fetches.fetches[&during].reset,
        Some(Code::H3_REQUEST_REJECTED)
    );
    assert_eq!(pair.files.requests, 1);
    let after = pair.client.with(pair.connection, |it, quic| {
        it.send_request(quic, &get("/"), true)
    });
    assert!(matches!(after, Err(Error::GoingAway)));
    pair.run_for(BRIEF);
    assert!(pair.server.is_idle());
    assert!(pair.closed.is_none());
}

#[test]
fn a_server_going_away_is_busy_until_the_last_byte_is_acknowledged() {
    let mut pair = Pair::over(Path {
        delay: Duration::from_millis(50),
        ..Path::default()
    });
    pair = pair.connected();
    pair.start(&get("/bytes/10"), Bytes::new());
    pair.run_for(Duration::from_millis(60));
    pair.server.shutdown();
    assert_eq!(pair.files.requests, 1);
    assert!(!pair.server.is_idle());
    pair.run_for(Duration::from_millis(200));
    assert!(pair.server.is_idle());
}

#[test]
fn a_server_going_away_takes_no_new_connections() {
    let mut pair = Pair::new();
    pair.server.shutdown();
    assert!(pair.run_until(|pair| pair.closed.is_some()));
    assert!(matches!(pair.closed, Some(CloseReason::Transport { .. })));
    assert_eq!(pair.server_connected, 0);
}

#[test]
fn going_away_during_the_hand_shake_lets_no_request_in() {
    let mut pair = Pair::new();
    pair.run_for(Duration::from_millis(1));
    assert_eq!(pair.server.open_connections(), 1);
    pair.server.shutdown();
    let mut pair = pair.connected();
    let stream = pair.start(&get("/bytes/1"), Bytes::new());
    pair.run_for(BRIEF);
    assert_eq!(
        pair.fetches.fetches[&stream].reset,
        Some(Code::H3_REQUEST_REJECTED)
    );
    assert_eq!(pair.files.requests, 0);
}

#[test]
fn a_client_going_away_sends_no_more() {
    let mut pair = Pair::new().connected();
    let stream = pair.start(&get("/bytes/1000000"), Bytes::new());
    pair.client.shutdown();
    let refused = pair.client.with(pair.connection, |it, quic| {
        it.send_request(quic, &get("/"), true)
    });
    assert!(matches!(refused, Err(Error::GoingAway)));
    let refused = pair
        .client
        .connect(pair.now, SERVER.parse().unwrap(), "localhost", ());
    assert!(matches!(refused, Err(Error::GoingAway)));
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    assert_eq!(pair.fetches.fetches[&stream].body.len(), 1_000_000);
}

#[test]
fn the_connection_limit_refuses_the_next_one() {
    let config = |limit| {
        let mut config = ClientConfig::new(tls::client());
        config.quic.limits.max_connections = limit;
        config
    };
    let now = Instant::now();
    let mut client = <Endpoint>::client(&config(1), [1; 32]).unwrap();
    client
        .connect(now, SERVER.parse().unwrap(), "localhost", ())
        .unwrap();
    let second = client.connect(now, SERVER.parse().unwrap(), "localhost", ());
    assert!(matches!(
        second,
        Err(Error::Quic(quic::Error::TooManyConnections { limit: 1 }))
    ));
}

#[test]
fn a_full_server_refuses() {
    let mut pair = Pair::with(Path::default(), |_, server| {
        server.quic.limits.max_connections = 1;
    });
    pair = pair.connected();
    let mut other = Pair::new();
    std::mem::swap(&mut other.server, &mut pair.server);
    assert!(other.run_until(|pair| pair.closed.is_some()));
    match other.closed.clone().unwrap() {
        CloseReason::Transport { reason } => assert!(reason.contains("refused"), "{reason}"),
        reason => panic!("{reason}"),
    }
}

#[test]
fn calls_out_of_order_are_refused_and_harm_nothing() {
    let mut pair = Pair::new().connected();
    let stream = pair.start(&post("/echo"), Bytes::from_static(b"whole"));
    let late = pair.client.with(pair.connection, |it, quic| {
        it.send_data(quic, stream, &mut pattern(1), true)
    });
    assert!(matches!(late, Err(Error::OutOfOrder { .. })));
    let early = pair
        .client
        .with(pair.connection, |it, quic| it.recv_data(quic, stream))
        .unwrap();
    assert_eq!(early, Received::Pending);
    let head = http::Response::new(());
    let role = pair.client.with(pair.connection, |it, quic| {
        it.send_response(quic, stream, &head, true)
    });
    assert!(matches!(role, Err(Error::WrongRole { .. })));
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    assert_eq!(pair.fetches.fetches[&stream].body, b"whole");
}

#[test]
fn a_connection_that_its_server_closes_with_the_hand_shake_is_no_lack_of_streams() {
    let now = Instant::now();
    let mut client = <Endpoint>::client(&ClientConfig::new(tls::client()), [1; 32]).unwrap();
    let mut server = <Endpoint>::server(&ServerConfig::new(tls::server()), [2; 32]).unwrap();
    let handle = client
        .connect(now, SERVER.parse().unwrap(), "localhost", ())
        .unwrap();
    let (ours, theirs) = (CLIENT.parse().unwrap(), SERVER.parse().unwrap());
    carry(&mut client, &mut server, ours, now);
    carry(&mut server, &mut client, theirs, now);
    // Its answer to the client's last words of the hand-shake and its end come together.
    carry(&mut client, &mut server, ours, now);
    let (other, event) = server.poll_event().unwrap();
    assert!(matches!(event, Event::Connected));
    if let Some((it, quic, _)) = server.connection(other) {
        it.close(quic, Code::H3_EXCESSIVE_LOAD, b"full");
    }
    carry(&mut server, &mut client, theirs, now);
    let event = client.poll_event();
    assert!(matches!(event, Some((_, Event::Connected))), "{event:?}");
    let refused = client.with(handle, |it, quic| it.send_request(quic, &get("/"), true));
    assert!(matches!(refused, Err(Error::UnknownConnection)));
    let Some((_, Event::Closed { reason })) = client.poll_event() else {
        panic!("the reason follows");
    };
    let expected = "closed by peer: H3_EXCESSIVE_LOAD: full";
    assert_eq!(reason.to_string(), expected);
}

#[test]
fn a_bad_name_or_address_is_refused() {
    let now = Instant::now();
    let mut client = <Endpoint>::client(&ClientConfig::new(tls::client()), [1; 32]).unwrap();
    let name = client.connect(now, SERVER.parse().unwrap(), "not a name", ());
    assert!(matches!(
        name,
        Err(Error::Quic(quic::Error::InvalidServerName { .. }))
    ));
    let address = client.connect(now, "10.0.0.1:0".parse().unwrap(), "localhost", ());
    assert!(matches!(
        address,
        Err(Error::Quic(quic::Error::InvalidAddress { .. }))
    ));
    let mut server = <Endpoint>::server(&ServerConfig::new(tls::server()), [1; 32]).unwrap();
    let role = server.connect(now, SERVER.parse().unwrap(), "localhost", ());
    assert!(matches!(role, Err(Error::Quic(quic::Error::NotAClient))));
}

#[test]
fn many_connections_share_a_socket_and_their_slots_come_back() {
    let mut pair = Pair::new().connected();
    for _ in 0..3 {
        if let Some((it, quic, _)) = pair.client.connection(pair.connection) {
            it.close(quic, Code::H3_NO_ERROR, b"");
        }
        pair.run_for(Duration::from_secs(10));
        assert!(pair.closed.take().is_some());
        assert_eq!(pair.client.open_connections(), 0);
        let again = pair
            .client
            .connect(pair.now, SERVER.parse().unwrap(), "localhost", ())
            .unwrap();
        assert_eq!(again, pair.connection);
        pair.connected = false;
        pair = pair.connected();
        assert_eq!(pair.fetch(&get("/bytes/7"), Bytes::new()).body, pattern(7));
    }
    assert_eq!(pair.server_connected, 4);
}

#[test]
fn events_of_a_void_handle_do_not_exist() {
    let mut client = <Endpoint>::client(&ClientConfig::new(tls::client()), [1; 32]).unwrap();
    assert!(client.poll_event().is_none());
    assert!(client.poll_timeout().is_none());
    assert!(client.is_idle());
    let handle = altway_http3::ConnectionHandle(5);
    assert!(matches!(
        client.with(handle, |it, quic| it.send_request(quic, &get("/"), true)),
        Err(Error::UnknownConnection)
    ));
    let now = Instant::now();
    let handle = client
        .connect(now, SERVER.parse().unwrap(), "localhost", ())
        .unwrap();
    if let Some((it, quic, _)) = client.connection(handle) {
        it.close(quic, Code::H3_NO_ERROR, b"");
    }
    let event = client.poll_event();
    assert!(
        matches!(event, Some((_, Event::Closed { .. }))),
        "{event:?}"
    );
}

#[test]
fn tls_without_version_1_3_is_refused_at_once() {
    let config = ServerConfig::new(tls::server_without_tls_1_3());
    assert!(matches!(
        <Endpoint>::server(&config, [1; 32]),
        Err(Error::Quic(quic::Error::Tls(_)))
    ));
}

#[test]
fn a_body_cut_shorter_than_its_frame_is_refused() {
    let mut pair = Pair::with(Path::default(), |client, _| {
        client.quic.transport.send_window = 5000;
    });
    pair = pair.connected();
    let stream = pair
        .client
        .with(pair.connection, |it, quic| {
            it.send_request(quic, &post("/echo"), false)
        })
        .unwrap();
    let mut data = pattern(10_000);
    pair.client
        .with(pair.connection, |it, quic| {
            it.send_data(quic, stream, &mut data, true)
        })
        .unwrap();
    assert!((5000..6000).contains(&data.len()), "{} left", data.len());
    // Give up on acknowledged credit coming: ask for the end without the rest.
    let cut = pair.client.with(pair.connection, |it, quic| {
        it.send_data(quic, stream, &mut Bytes::new(), true)
    });
    assert!(matches!(cut, Err(Error::OutOfOrder { .. })));
    // The rest may come in other pieces than it was announced in.
    let mut rest = data.split_to(100);
    pair.client
        .with(pair.connection, |it, quic| {
            it.send_data(quic, stream, &mut rest, false)
        })
        .unwrap();
    assert_eq!(rest.len(), 100, "the window is full");
}

#[test]
fn connections_take_turns_in_sending() {
    let now = Instant::now();
    let mut config = ServerConfig::new(tls::server());
    config.quic.transport.max_segments = 1;
    let mut server = <Endpoint>::server(&config, [2; 32]).unwrap();
    let addresses = ["10.0.0.1:1", "10.0.0.1:2"].map(|address| address.parse().unwrap());
    let mut clients = addresses.map(|_| {
        let mut client = <Endpoint>::client(&ClientConfig::new(tls::client()), [1; 32]).unwrap();
        client
            .connect(now, SERVER.parse().unwrap(), "localhost", ())
            .unwrap();
        client
    });
    let (mut requests, mut buf) = (Vec::new(), Vec::new());
    while requests.len() < 2 {
        for (client, remote) in clients.iter_mut().zip(addresses) {
            while let Some((connection, event)) = client.poll_event() {
                assert!(matches!(event, Event::Connected), "{event:?}");
                client
                    .with(connection, |it, quic| {
                        it.send_request(quic, &get("/"), true)
                    })
                    .unwrap();
            }
            carry(client, &mut server, remote, now);
        }
        while let Some((connection, event)) = server.poll_event() {
            if let Event::Request { stream, .. } = event {
                requests.push((connection, stream));
            }
        }
        while let Some(transmit) = server.poll_transmit(now, &mut buf) {
            let to = addresses
                .iter()
                .position(|to| *to == transmit.destination)
                .unwrap();
            let remote = SERVER.parse().unwrap();
            let datagram = Datagram {
                remote,
                local_ip: None,
                ecn: None,
                payload: &buf,
            };
            clients[to].handle_datagram(now, datagram);
        }
    }
    for (connection, stream) in requests {
        let head = http::Response::new(());
        server
            .with(connection, |it, quic| {
                it.send_response(quic, stream, &head, false)
            })
            .unwrap();
        server
            .with(connection, |it, quic| {
                it.send_data(quic, stream, &mut pattern(100_000), true)
            })
            .unwrap();
    }
    let mut order = Vec::new();
    while let Some(transmit) = server.poll_transmit(now, &mut buf) {
        order.push(transmit.destination);
    }
    assert!(
        order.len() >= 16,
        "{} datagrams in the first window",
        order.len()
    );
    assert!(order[..4].iter().all(|to| *to == order[0]));
    assert!(order[4..8].iter().all(|to| *to != order[0]), "{order:?}");
}

#[test]
fn an_endpoint_can_move_to_another_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<Endpoint>();
}

/// Takes all that one endpoint sends to another one.
fn carry(from: &mut Endpoint, to: &mut Endpoint, remote: SocketAddr, now: Instant) {
    let mut buf = Vec::new();
    while let Some(transmit) = from.poll_transmit(now, &mut buf) {
        for payload in buf.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
            take_in(to, remote, payload, now);
        }
    }
}

fn take_in(endpoint: &mut Endpoint, remote: SocketAddr, payload: &[u8], now: Instant) {
    endpoint.handle_datagram(
        now,
        Datagram {
            remote,
            local_ip: None,
            ecn: None,
            payload,
        },
    );
}
