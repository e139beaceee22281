//! Inputs that fuzzing found, once each (see `fuzz/`).

use altway_http2::{CloseReason, Code, Config};
use http::HeaderMap;

use crate::scripted::*;

/// A client that is shutting down and waits for the answers to some requests.
fn leaving_client(requests: usize) -> Engine {
    let mut engine = Engine::client(Config::default(), requests);
    engine.turn(|turn| {
        turn.shutdown();
    });
    engine.said();
    engine
}

#[test]
fn the_reset_of_the_last_stream_is_told_before_the_end() {
    let mut engine = leaving_client(1);
    let reset = frame(RST_STREAM, 0, 1, &Code::CANCEL.get().to_be_bytes());
    let expected = [
        Seen::Reset(1, Code::CANCEL),
        Seen::Closed(CloseReason::Finished),
    ];
    assert_eq!(engine.feed(&reset), expected);
}

#[test]
fn the_offence_of_the_last_stream_is_told_before_the_end() {
    let mut engine = leaving_client(1);
    let expected = [
        Seen::Reset(1, Code::PROTOCOL_ERROR),
        Seen::Closed(CloseReason::Finished),
    ];
    assert_eq!(engine.feed(&frame(DATA, 0, 1, b"early")), expected);
}

/// SETTINGS_MAX_HEADER_LIST_SIZE is advice (RFC 9113 section 6.5.2).
#[test]
fn trailers_above_the_limit_are_refused_but_no_offence() {
    let config = Config {
        max_header_list_size: 200,
        ..Config::default()
    };
    let mut engine = Engine::server(config);
    engine.feed(&frame(HEADERS, END_HEADERS, 1, POST));
    let large = literal("t", &"x".repeat(120)).repeat(2);
    engine.feed(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &large));
    engine.assert_reset(1, Code::CANCEL);
}

#[test]
fn a_request_that_is_too_large_can_be_answered_whatever_its_trailers() {
    let config = Config {
        max_header_list_size: 0,
        ..Config::default()
    };
    let mut engine = Engine::server(config);
    let seen = engine.feed_all(&[
        frame(HEADERS, END_HEADERS, 1, POST),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, &literal("t", "x")),
    ]);
    assert_eq!(seen, [Seen::TooLarge(1)]);
    let stream = engine.stream(1);
    let answered = engine.turn(|turn| turn.send_response(stream, 431, &HeaderMap::new(), true));
    assert_eq!(answered, Ok(()));
}

/// RFC 9113 section 6.4: "RST_STREAM frames MUST NOT be sent for a stream in the "idle" state."
#[test]
fn a_bad_priority_of_an_idle_stream_does_not_reset_it() {
    for (id, payload, code) in [
        (1, &[0; 4][..], Code::FRAME_SIZE_ERROR),
        (2, &[0; 6], Code::FRAME_SIZE_ERROR),
        (3, &[0, 0, 0, 3, 9], Code::PROTOCOL_ERROR),
    ] {
        let mut engine = Engine::server(Config::default());
        let seen = engine.feed(&frame(PRIORITY, 0, id, payload));
        assert_eq!(seen.len(), 1, "{seen:?}");
        let said = engine.said();
        assert_eq!(said.len(), 1, "GOAWAY alone: {said:?}");
        assert_eq!(said[0].kind, GOAWAY);
        assert_eq!(said[0].payload[4..8], code.get().to_be_bytes());
    }
}

/// A client may open as many streams as it likes before it knows the limit, and go on with each of
/// them until it knows that it was refused.
#[test]
fn the_body_of_any_refused_request_is_ignored() {
    let config = Config {
        max_concurrent_streams: 1,
        ..Config::default()
    };
    let mut engine = Engine::new_server(config);
    let last = 401;
    let posts = (1..=last).step_by(2);
    let heads = posts
        .clone()
        .map(|id| frame(HEADERS, END_HEADERS, id, POST));
    let bodies = posts.map(|id| frame(DATA, END_STREAM, id, b"body"));
    let mut said = vec![PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[])];
    said.extend(heads.chain(bodies));
    let expected = [Seen::Request(1, false), Seen::Data(1, 4, true)];
    assert_eq!(engine.feed_all(&said), expected);
    engine.assert_reset(3, Code::REFUSED_STREAM);
}

#[test]
fn a_shutdown_and_the_idle_time_out_at_once_end_a_connection_once() {
    let config = Config::default();
    let late = config.timeouts.idle + config.timeouts.goaway;
    let mut engine = Engine::server(config);
    engine.turn(|turn| {
        turn.shutdown();
    });
    engine.now += late;
    engine.turn(|turn| {
        turn.handle_timeout();
    });
    assert_eq!(engine.feed(&[]), [Seen::Closed(CloseReason::Finished)]);
}

/// The client sent its body before it knew of a window that is smaller than the default; then, while
/// nothing of it was released, it says that this was all.
#[test]
fn the_empty_end_of_a_body_needs_no_window() {
    let config = Config {
        stream_window: 256,
        ..Config::default()
    };
    let mut engine = Engine::new_server(config);
    let seen = engine.feed_all(&[
        PREFACE.to_vec(),
        frame(SETTINGS, 0, 0, &[]),
        frame(HEADERS, END_HEADERS, 1, POST),
        frame(DATA, 0, 1, &[0; 1000]),
        frame(SETTINGS, ACK, 0, &[]),
        frame(DATA, END_STREAM, 1, &[]),
    ]);
    let expected = [
        Seen::Request(1, false),
        Seen::Data(1, 1000, false),
        Seen::Data(1, 0, true),
    ];
    assert_eq!(seen, expected);
}
