//! Time-outs, shutdown and round trips, in virtual time.

use std::time::Duration;

use altway_http2::{CloseReason, Code, Config, Error};
use http::HeaderMap;

use crate::scripted::*;

#[test]
fn an_idle_connection_is_closed_gracefully() {
    let mut engine = Engine::server(Config::default());
    let idle = Config::default().timeouts.idle;
    assert_eq!(engine.wait(idle / 2), []);
    engine.feed(&frame(PING, 0, 0, &[0; 8]));
    engine.said();
    assert_eq!(engine.wait(idle / 2), [], "the ping counts");
    let seen = engine.wait(idle / 2);
    assert_eq!(seen, [Seen::Closed(CloseReason::Idle)]);
    let said = engine.said();
    assert_eq!((said.len(), said[0].kind), (1, GOAWAY));
    assert_eq!(engine.connection.poll_timeout(), None);
}

#[test]
fn a_connection_idles_from_the_end_of_its_last_stream() {
    let mut engine = Engine::server(Config::default());
    let idle = Config::default().timeouts.idle;
    engine.feed(&get(1));
    assert_eq!(engine.wait(2 * idle), []);
    let stream = engine.stream(1);
    engine
        .turn(|turn| turn.send_response(stream, 204, &HeaderMap::new(), true))
        .unwrap();
    assert_eq!(engine.wait(idle / 2), []);
    let seen = engine.wait(idle / 2);
    assert_eq!(seen, [Seen::Closed(CloseReason::Idle)]);
}

#[test]
fn a_server_says_goodbye_twice() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&get(1));
    engine.turn(|turn| {
        turn.shutdown();
    });
    let said = engine.said();
    assert_eq!(said[0].payload[..4], [0x7f, 0xff, 0xff, 0xff]);
    let ping = said.iter().find(|frame| frame.kind == PING).unwrap();
    // On its way when the first GOAWAY was said: still taken.
    assert_eq!(engine.feed(&get(3)), [Seen::Request(3, true)]);
    let seen = engine.feed(&frame(PING, ACK, 0, &ping.payload));
    assert_eq!(seen, []);
    let said = engine.said();
    assert_eq!(
        (said[0].kind, &said[0].payload[..4]),
        (GOAWAY, &[0, 0, 0, 3][..])
    );
    // Too late.
    assert_eq!(engine.feed(&get(5)), []);
    engine.assert_reset(5, Code::REFUSED_STREAM);
    for id in [1, 3] {
        let stream = engine.stream(id);
        engine
            .turn(|turn| turn.send_response(stream, 204, &HeaderMap::new(), true))
            .unwrap();
    }
    assert_eq!(engine.feed(&[]), [Seen::Closed(CloseReason::Finished)]);
}

#[test]
fn a_client_that_does_not_answer_pings_does_not_hold_the_shutdown_up() {
    let mut engine = Engine::server(Config::default());
    engine.turn(|turn| {
        turn.shutdown();
    });
    assert_eq!(engine.feed(&[]), []);
    let seen = engine.wait(Config::default().timeouts.goaway);
    assert_eq!(seen, [Seen::Closed(CloseReason::Finished)]);
}

#[test]
fn a_client_that_shuts_down_waits_for_its_responses() {
    let mut engine = Engine::client(Config::default(), 1);
    engine.turn(|turn| {
        turn.shutdown();
    });
    let request = http::Request::get("https://a.example/").body(()).unwrap();
    let refused = engine.turn(|turn| turn.send_request(&request, None, true));
    assert_eq!(refused, Err(Error::GoingAway));
    let seen = engine.feed(&frame(HEADERS, END_HEADERS | END_STREAM, 1, OK));
    let expected = [
        Seen::Response(1, 200, true),
        Seen::Closed(CloseReason::Finished),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn the_application_may_end_it_at_once() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&get(1));
    engine.turn(|turn| turn.close(Code::INTERNAL_ERROR));
    let seen = engine.feed(&get(3));
    engine.assert_ended(&seen, Code::INTERNAL_ERROR);
    assert_eq!(seen.len(), 1, "what comes later is not read");
}

#[test]
fn the_round_trip_is_that_of_settings() {
    let mut engine = Engine::new_server(Config::default());
    engine.feed(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat());
    assert_eq!(engine.connection.rtt(), None);
    engine.now += Duration::from_millis(30);
    engine.feed(&frame(SETTINGS, ACK, 0, &[]));
    assert_eq!(engine.connection.rtt(), Some(Duration::from_millis(30)));
}
