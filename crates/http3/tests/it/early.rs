//! Requests before the handshake is done: a round trip earlier, once, and only those that do no harm.

use std::sync::Arc;
use std::time::{Duration, Instant};

use altway_http3::{
    ClientConfig, Code, ConnectionHandle, Datagram, EarlyData, Endpoint, Error, Event,
    QuicConnection, ServerConfig, Sessions,
};
use bytes::Bytes;
use http::{Method, Request};
use rustls::server::ServerSessionMemoryCache;

use crate::apps::{get, pattern, post};
use crate::misbehaviour::{HEADERS, SETTINGS, control};
use crate::pair::{CLIENT, Pair, Path, SERVER};
use crate::raw::{Raw, frame, section};
use crate::tls;

/// Each way.
const DELAY: Duration = Duration::from_millis(50);
const ROUND_TRIP: Duration = DELAY.saturating_mul(2);

fn pair(change: impl FnOnce(&mut ServerConfig)) -> Pair {
    let path = Path {
        delay: DELAY,
        ..Path::default()
    };
    Pair::with(path, |client, server| {
        client.early_data = Some(Sessions::new());
        server.quic.early_data = true;
        change(server);
    })
}

/// One whose client was there before, and comes again.
fn returning(change: impl FnOnce(&mut ServerConfig)) -> Pair {
    let mut pair = pair(change).connected();
    assert!(!pair.early);
    pair.run_for(Duration::from_secs(1));
    again(&mut pair);
    pair
}

/// Ends the connection and begins another one.
fn again(pair: &mut Pair) {
    leave(pair);
    come(pair);
}

fn leave(pair: &mut Pair) {
    if let Some((it, quic, _)) = pair.client.connection(pair.connection) {
        it.close(quic, Code::H3_NO_ERROR, b"");
    }
    pair.run_for(Duration::from_secs(10));
    (pair.early, pair.connected) = (false, false);
    pair.closed = None;
    pair.fetches.fetches.clear();
}

fn come(pair: &mut Pair) {
    let server = SERVER.parse().unwrap();
    pair.connection = pair
        .client
        .connect(pair.now, server, "localhost", ())
        .unwrap();
    pair.flight.clear();
}

/// Fetches as soon as it may; how long that took.
fn time_to_fetch(pair: &mut Pair, head: &Request<()>) -> Duration {
    let began = pair.elapsed();
    assert!(pair.run_until(|pair| pair.early || pair.connected));
    let stream = pair.start(head, Bytes::new());
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    let fetch = &pair.fetches.fetches[&stream];
    assert!(fetch.head.is_some(), "{:?}", fetch.reset);
    pair.elapsed() - began
}

#[test]
fn a_returning_client_has_its_answer_after_one_round_trip_and_a_new_one_after_two() {
    let mut pair = pair(|_| {});
    assert_eq!(time_to_fetch(&mut pair, &get("/bytes/500")), 2 * ROUND_TRIP);
    assert_eq!(pair.files.early_requests, 0);
    pair.run_for(Duration::from_secs(1));
    for visit in 1..5 {
        again(&mut pair);
        assert_eq!(time_to_fetch(&mut pair, &get("/bytes/500")), ROUND_TRIP);
        assert_eq!(pair.files.early_requests, visit);
        let done = pair.fetches.fetches.values().next().unwrap();
        assert_eq!(done.body, pattern(500));
        pair.run_for(Duration::from_secs(1));
    }
    assert!(!pair.refused && pair.closed.is_none());
}

/// More than three times what comes with its first packets, for it shows a token for its address.
#[test]
fn a_client_that_is_known_again_gets_a_window_at_once_from_any_endpoint() {
    let sessions = Sessions::new();
    let config = || {
        let mut config = ClientConfig::new(tls::client());
        config.early_data = Some(sessions.clone());
        config
    };
    let tls = config().quic.tls;
    let path = Path {
        delay: DELAY,
        ..Path::default()
    };
    let mut pair = Pair::with(path, |client, server| {
        *client = config();
        client.quic.tls = Arc::clone(&tls);
        server.quic.early_data = true;
    })
    .connected();
    pair.run_for(Duration::from_secs(1));
    for _ in 0..2 {
        leave(&mut pair);
        let mut other = config();
        other.quic.tls = Arc::clone(&tls);
        pair.client = <Endpoint>::client(&other, [9; 32]).unwrap();
        come(&mut pair);
        let time = time_to_fetch(&mut pair, &get("/bytes/9000"));
        assert_eq!((time, pair.refused), (ROUND_TRIP, false));
        pair.run_for(Duration::from_secs(1));
    }
}

#[test]
fn a_server_without_early_data_answers_after_two_round_trips() {
    let mut pair = returning(|server| server.quic.early_data = false);
    assert_eq!(time_to_fetch(&mut pair, &get("/bytes/500")), 2 * ROUND_TRIP);
    assert!(!pair.early && pair.files.early_requests == 0);
}

#[test]
fn refused_requests_are_sent_again_by_themselves_on_the_same_streams() {
    let mut pair = returning(|_| {});
    // A server that was restarted knows no sessions any more.
    let mut restarted = ServerConfig::new(tls::server());
    restarted.quic.early_data = true;
    pair.server = <Endpoint>::server(&restarted, [3; 32]).unwrap();
    let began = pair.elapsed();
    assert!(pair.run_until(|pair| pair.early));
    let streams =
        [500, 600, 700].map(|len| pair.start(&get(&format!("/bytes/{len}")), Bytes::new()));
    let code = Code::H3_REQUEST_CANCELLED;
    if let Some((it, quic, _)) = pair.client.connection(pair.connection) {
        it.reset_stream(quic, streams[1], code);
    }
    pair.fetches.fetches.remove(&streams[1]);
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    assert_eq!(pair.elapsed() - began, 2 * ROUND_TRIP, "it costs nothing");
    assert!(pair.refused && pair.connected);
    assert_eq!(pair.files.early_requests, 0);
    for (stream, len) in [(streams[0], 500), (streams[2], 700)] {
        assert_eq!(pair.fetches.fetches[&stream].body, pattern(len));
    }
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.fetch(&get("/bytes/9"), Bytes::new()).body, pattern(9));
}

#[test]
fn a_server_that_allows_fewer_requests_than_before_has_the_others_rejected() {
    let mut pair = returning(|_| {});
    let mut restarted = ServerConfig::new(tls::server());
    restarted.limits.max_concurrent_requests = 1;
    pair.server = <Endpoint>::server(&restarted, [3; 32]).unwrap();
    assert!(pair.run_until(|pair| pair.early));
    let streams = [0, 1].map(|_| pair.start(&get("/bytes/5"), Bytes::new()));
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    let fetches = &pair.fetches.fetches;
    assert_eq!(fetches[&streams[0]].body, pattern(5));
    let rejected = Some(Code::H3_REQUEST_REJECTED);
    assert_eq!(fetches[&streams[1]].reset, rejected);
}

#[test]
fn a_client_keeps_what_could_do_harm_until_the_hand_shake_is_done() {
    let mut pair = returning(|_| {});
    assert!(pair.run_until(|pair| pair.early));
    for (head, end) in [(post("/echo"), true), (get("/"), false)] {
        let early = pair.client.with(pair.connection, |it, quic| {
            it.send_request(quic, &head, end)
        });
        assert!(matches!(early, Err(Error::StreamsExhausted)));
    }
    assert!(pair.run_until(|pair| pair.connected && pair.fetches.streams_available));
    let body = Bytes::from_static(b"whole");
    assert_eq!(pair.fetch(&post("/echo"), body).body, b"whole");
    assert_eq!(pair.files.early_requests, 0);
}

#[test]
fn a_first_flight_that_is_sent_again_is_handled_once() {
    let sessions = ServerSessionMemoryCache::new(100);
    let mut tls = rustls::ServerConfig::clone(&tls::server());
    tls.session_storage = sessions;
    let mut shared = ServerConfig::new(Arc::new(tls));
    shared.quic.early_data = true;
    let first = shared.clone();
    let mut pair = returning(move |server| *server = first);
    assert_eq!(time_to_fetch(&mut pair, &get("/bytes/5")), ROUND_TRIP);
    assert_eq!((pair.files.requests, pair.files.early_requests), (1, 1));
    let flight = pair.flight.clone();
    // While the connection lasts, from the same address and another one.
    for remote in [CLIENT, "10.9.9.9:9"] {
        replay(&mut pair.server, remote, &flight, pair.now);
        pair.run_for(Duration::from_secs(1));
    }
    assert_eq!(pair.files.requests, 1);
    // Once it is over; and to another worker of the same server.
    again(&mut pair);
    let mut other = <Endpoint>::server(&shared, [4; 32]).unwrap();
    for endpoint in [&mut pair.server, &mut other] {
        let open = endpoint.open_connections();
        replay(endpoint, "10.9.9.9:9", &flight, pair.now);
        assert_eq!(endpoint.open_connections(), open + 1, "it says hello");
        let told = endpoint.poll_event();
        assert!(told.is_none(), "{told:?}");
    }
}

fn replay(endpoint: &mut Endpoint, remote: &str, flight: &[Vec<u8>], now: Instant) {
    for payload in flight {
        let datagram = Datagram {
            remote: remote.parse().unwrap(),
            local_ip: None,
            ecn: None,
            payload,
        };
        endpoint.handle_datagram(now, datagram);
    }
}

/// A server, and a raw client that was there before and has not sent anything yet.
fn raw_returning(begin: impl FnOnce(&mut quinn_proto::Connection)) -> Raw {
    let mut client = rustls::ClientConfig::clone(&tls::client());
    client.enable_early_data = true;
    let mut server = ServerConfig::new(tls::server());
    server.quic.early_data = true;
    let transport = quinn_proto::TransportConfig::default;
    Raw::client_of(&client, &server, transport(), |quic| {
        assert!(!quic.has_0rtt());
    });
    Raw::silent_client(&client, &server, transport(), |quic| {
        assert!(quic.has_0rtt());
        begin(quic);
    })
}

/// A request of this method without a body, as far as its head goes.
fn request(method: &str) -> Vec<u8> {
    let fields = [
        (":method", method),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/"),
    ];
    frame(HEADERS, &section(&fields))
}

/// Writes to a stream, and ends it.
fn write(quic: &mut quinn_proto::Connection, dir: quinn_proto::Dir, bytes: &[u8], end: bool) {
    let id = quic.streams().open(dir).unwrap();
    let mut stream = quic.send_stream(id);
    assert_eq!(stream.write(bytes), Ok(bytes.len()));
    if end {
        stream.finish().unwrap();
    }
}

/// HEADERS with the status 425 of QPACK's static table, and the end.
const TOO_EARLY: [u8; 6] = [HEADERS, 4, 0, 0, 0xff, 70 - 63];

fn id(index: u64) -> quinn_proto::StreamId {
    quinn_proto::StreamId::new(quinn_proto::Side::Client, quinn_proto::Dir::Bi, index)
}

#[test]
fn a_server_answers_early_what_is_safe_and_425_to_what_is_not() {
    let kinds = [
        ("POST", true),
        ("GET", false),
        ("DELETE", true),
        ("GET", true),
        ("TRACE", true),
        ("HEAD", true),
        ("OPTIONS", true),
    ];
    let mut peer = raw_returning(|quic| {
        write(quic, quinn_proto::Dir::Uni, &control(&[]), false);
        for (method, end) in kinds {
            write(quic, quinn_proto::Dir::Bi, &request(method), end);
        }
    });
    peer.run();
    let (mut connected, mut told) = (false, Vec::new());
    for event in &peer.events {
        match event {
            Event::Connected => connected = true,
            Event::Request { head, end, .. } => {
                let marked = head.extensions().get::<EarlyData>().is_some();
                assert_eq!(marked, !connected);
                told.push((head.method().clone(), *end, marked));
            }
            _ => {}
        }
    }
    assert!(matches!(peer.events[0], Event::EarlyData));
    let expected = [
        (Method::GET, true, true),
        (Method::HEAD, true, true),
        (Method::OPTIONS, true, true),
        (Method::GET, false, false),
    ];
    assert_eq!(told, expected);
    for (index, (method, _)) in (0..).zip(kinds) {
        let refused = ["POST", "DELETE", "TRACE"].contains(&method);
        let answer = if refused { &TOO_EARLY[..] } else { &[] };
        assert_eq!(peer.read(id(index)).unwrap(), answer, "{method}");
    }
    assert!(peer.closed.is_none() && peer.lost.is_none());
}

#[test]
fn what_was_too_early_is_welcome_after_the_hand_shake() {
    let mut peer = raw_returning(|quic| {
        write(quic, quinn_proto::Dir::Bi, &request("POST"), false);
    });
    peer.run();
    assert_eq!(peer.read(id(0)).unwrap(), TOO_EARLY);
    (0..7).for_each(|_| peer.run());
    let no_error = Code::H3_NO_ERROR.get().try_into().unwrap();
    assert_eq!(
        peer.stopped,
        [(id(0), no_error)],
        "its body is not waited for for ever"
    );
    assert_eq!(peer.requests(), 0);
    let again = peer.bi(&request("POST"));
    peer.finish(again);
    assert_eq!((peer.requests(), peer.stream_of_request().get()), (1, 4));
}

#[test]
fn a_request_that_is_given_up_while_it_waits_is_never_told() {
    let mut peer = raw_returning(|quic| {
        write(quic, quinn_proto::Dir::Bi, &request("GET"), false);
        write(quic, quinn_proto::Dir::Bi, &request("GET"), false);
    });
    // All of this before the server's part of the hand-shake is on its way.
    peer.send_raw();
    peer.listen();
    let mut stream = peer.quic.send_stream(id(0));
    stream.reset(0x10c_u32.into()).unwrap();
    peer.send_raw();
    peer.run();
    assert_eq!(peer.requests(), 1);
    assert_eq!(peer.stream_of_request().get(), 4);
    assert_eq!(peer.reset_code(), None);
    // What came with the other one is still to be had.
    peer.write(id(1), &frame(0, b"body"));
    peer.finish(id(1));
    peer.read_all();
    assert_eq!((&peer.body[..], peer.ended), (&b"body"[..], 1));
}

/// Our client against a raw server that announces `first` on the first connection and `then` on
/// the second, on which it accepts early data.
fn changed_settings(first: &[u8], then: &[u8]) -> Raw {
    let mut server = rustls::ServerConfig::clone(&tls::server());
    server.max_early_data_size = u32::MAX;
    let mut client = ClientConfig::new(tls::client());
    client.early_data = Some(Sessions::new());
    for settings in [first, then] {
        let mut peer = Raw::server_of(&server, &client);
        let early = peer.events.iter().any(|it| matches!(it, Event::EarlyData));
        assert_eq!(early, settings == then);
        peer.uni(&[&[0x00][..], &frame(SETTINGS, settings)].concat());
        if early {
            return peer;
        }
    }
    unreachable!("the second connection sends early data")
}

#[test]
fn settings_that_promise_less_than_early_data_relied_on_are_an_error() {
    let (size, capacity) = (0x06, 0x01);
    for (first, then) in [
        (&[size, 40][..], &[size, 39][..]),
        (&[size, 40], &[]),
        (&[capacity, 40], &[capacity, 41]),
        (&[capacity, 40], &[capacity, 0]),
        (&[0x07, 2], &[0x07, 1]),
        (&[0x08, 1], &[0x08, 0]),
    ] {
        let peer = changed_settings(first, then);
        assert_eq!(peer.close_code(), Code::H3_SETTINGS_ERROR.get(), "{then:?}");
    }
    let peer = changed_settings(&[size, 40], &[size, 41, capacity, 40]);
    assert!(peer.lost.is_none() && peer.closed.is_none());
}

#[test]
fn a_server_whose_limits_have_changed_resumes_no_sessions() {
    let sessions = ServerSessionMemoryCache::new(100);
    let server = |change: fn(&mut ServerConfig)| {
        let mut tls = rustls::ServerConfig::clone(&tls::server());
        tls.session_storage = Arc::clone(&sessions) as _;
        let mut config = ServerConfig::new(Arc::new(tls));
        config.quic.early_data = true;
        change(&mut config);
        config
    };
    for (change, refused) in [
        ((|_| {}) as fn(&mut ServerConfig), false),
        (|config| config.limits.max_field_section_size -= 1, true),
        (|config| config.limits.qpack_table_capacity = 0, true),
        (|config| config.limits.max_concurrent_requests -= 1, true),
    ] {
        let before = server(|_| {});
        let mut pair = returning(move |config| *config = before);
        pair.server = <Endpoint>::server(&server(change), [3; 32]).unwrap();
        assert!(pair.run_until(|pair| pair.early));
        assert_eq!(
            time_to_fetch(&mut pair, &get("/bytes/5")) > ROUND_TRIP,
            refused
        );
        assert_eq!(pair.refused, refused);
    }
}

#[test]
fn a_client_counts_the_tickets_it_has() {
    let sessions = Sessions::new();
    let shared = sessions.clone();
    let path = Path::default();
    let mut pair = Pair::with(path, |client, server| {
        client.early_data = Some(shared);
        server.quic.early_data = true;
    });
    assert!(!sessions.has_ticket("localhost"));
    pair.run_for(Duration::from_secs(1));
    assert!(pair.connected && sessions.has_ticket("localhost"));
    assert!(!sessions.has_ticket("other.test"));
}

#[test]
fn a_server_knows_its_client_s_address_before_it_knows_its_path() {
    let mut pair = returning(|_| {});
    assert!(pair.run_until(|pair| pair.early));
    pair.start(&get("/hang"), Bytes::new());
    assert!(pair.run_until(|pair| pair.files.early_requests == 1));
    let handle = ConnectionHandle(0);
    let (_, quic, _) = pair.server.connection(handle).unwrap();
    assert_eq!(quic.remote_address(), CLIENT.parse().unwrap());
    assert!(pair.server.path_statistics(handle).is_none());
    assert!(pair.server.connection(ConnectionHandle(9)).is_none());
}
