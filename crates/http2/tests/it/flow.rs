//! Flow control both ways, and bodies under back-pressure.

use std::time::Duration;

use altway_http2::{Code, Config, Error};
use bytes::Bytes;
use http::HeaderMap;

use crate::scripted::*;

fn grant(stream: u32, by: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

fn config(stream_window: u32, connection_window: u32) -> Config {
    Config {
        stream_window,
        connection_window,
        ..Config::default()
    }
}

#[test]
fn a_body_stops_at_the_smaller_window_and_goes_on_where_it_stopped() {
    let mut engine = Engine::server(Config::default());
    engine.feed_all(&[frame(SETTINGS, 0, 0, &setting(4, 10)), get(1)]);
    let stream = engine.stream(1);
    let body = Bytes::from_static(b"0123456789abcdef");
    engine.turn(|turn| {
        turn.send_response(stream, 200, &HeaderMap::new(), false)
            .unwrap();
        assert_eq!(turn.send_data(stream, &body, true), Ok(10));
        assert_eq!(turn.next_sendable(), None);
    });
    engine.said();
    engine.feed(&grant(1, 5));
    engine.turn(|turn| {
        assert_eq!(turn.next_sendable(), Some(stream));
        assert_eq!(turn.send_data(stream, &body.slice(10..), true), Ok(5));
        assert_eq!(turn.next_sendable(), None);
    });
    engine.feed(&grant(1, 100));
    engine.turn(|turn| {
        assert_eq!(turn.next_sendable(), Some(stream));
        assert_eq!(turn.send_data(stream, &body.slice(15..), true), Ok(1));
    });
    let said = engine.said();
    let data: Vec<(&[u8], u8)> = said
        .iter()
        .filter(|frame| frame.kind == DATA)
        .map(|frame| (&frame.payload[..], frame.flags))
        .collect();
    assert_eq!(data, [(&b"abcde"[..], 0), (b"f", END_STREAM)]);
    assert_eq!(engine.connection.open_streams(), 0);
}

#[test]
fn a_shrunk_initial_window_is_worked_off_before_more_is_sent() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&get(1));
    let stream = engine.stream(1);
    let body = Bytes::from(vec![0; 1000]);
    engine.turn(|turn| {
        turn.send_response(stream, 200, &HeaderMap::new(), false)
            .unwrap();
        assert_eq!(turn.send_data(stream, &body, false), Ok(1000));
    });
    // 65,535 - 1,000 becomes 500 - 1,000.
    engine.feed_all(&[frame(SETTINGS, 0, 0, &setting(4, 500)), grant(1, 500)]);
    engine.turn(|turn| assert_eq!(turn.next_sendable(), None));
    engine.feed(&grant(1, 1));
    engine.turn(|turn| {
        assert_eq!(turn.next_sendable(), Some(stream));
        assert_eq!(turn.send_data(stream, &body, true), Ok(1));
    });
}

#[test]
fn an_application_without_data_is_not_asked_again() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&get(1));
    let stream = engine.stream(1);
    engine.turn(|turn| {
        turn.send_response(stream, 200, &HeaderMap::new(), false)
            .unwrap();
        turn.send_data(stream, &Bytes::from_static(b"a"), false)
            .unwrap();
        assert_eq!(turn.next_sendable(), Some(stream));
        assert_eq!(turn.next_sendable(), None);
        turn.send_data(stream, &Bytes::new(), true).unwrap();
    });
    let said = engine.said();
    let last = said.last().unwrap();
    assert_eq!(
        (last.kind, last.flags, last.payload.len()),
        (DATA, END_STREAM, 0)
    );
}

#[test]
fn calls_out_of_order_are_refused() {
    let mut engine = Engine::server(Config::default());
    engine.feed_all(&[get(1), frame(HEADERS, END_HEADERS, 3, POST)]);
    let (stream, open) = (engine.stream(1), engine.stream(3));
    let none = HeaderMap::new();
    engine.turn(|turn| {
        let early = turn.send_data(stream, &Bytes::new(), true);
        assert!(matches!(early, Err(Error::OutOfOrder { .. })));
        assert!(turn.send_response(stream, 101, &none, true).is_err());
        assert!(turn.send_informational(stream, 200, &none).is_err());
        turn.send_informational(stream, 103, &none).unwrap();
        turn.send_response(stream, 200, &none, true).unwrap();
        assert_eq!(
            turn.send_response(stream, 200, &none, true),
            Err(Error::UnknownStream)
        );
        turn.send_response(open, 200, &none, false).unwrap();
        let second = turn.send_response(open, 200, &none, false);
        assert!(matches!(second, Err(Error::OutOfOrder { .. })));
    });
}

#[test]
fn a_complete_response_stops_the_upload_without_error() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&frame(HEADERS, END_HEADERS, 1, POST));
    let stream = engine.stream(1);
    engine
        .turn(|turn| turn.send_response(stream, 413, &HeaderMap::new(), true))
        .unwrap();
    // The client has time to end it by itself.
    assert_eq!(engine.connection.open_streams(), 1);
    let linger = Config::default().timeouts.linger;
    assert_eq!(engine.wait(linger / 2), []);
    engine.wait(linger);
    engine.assert_reset(1, Code::NO_ERROR);
    assert_eq!(engine.feed(&frame(DATA, END_STREAM, 1, b"late")), []);
}

#[test]
fn an_upload_that_ends_after_its_response_needs_no_reset() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&frame(HEADERS, END_HEADERS, 1, POST));
    let stream = engine.stream(1);
    engine
        .turn(|turn| turn.send_response(stream, 413, &HeaderMap::new(), true))
        .unwrap();
    let seen = engine.feed(&frame(DATA, END_STREAM, 1, b"x"));
    assert_eq!(seen.len(), 1, "the application has it");
    assert_eq!(engine.connection.open_streams(), 0);
    assert!(engine.said().iter().all(|frame| frame.kind != RST_STREAM));
}

#[test]
fn data_above_the_stream_window_costs_the_stream() {
    let mut engine = Engine::server(config(10, 1 << 20));
    engine.feed_all(&[
        frame(HEADERS, END_HEADERS, 1, POST),
        frame(DATA, 0, 1, &[0; 11]),
    ]);
    engine.assert_reset(1, Code::FLOW_CONTROL_ERROR);
}

#[test]
fn data_above_the_connection_window_costs_the_connection() {
    let mut engine = Engine::server(config(1 << 20, 65_535));
    engine.feed_all(&[
        frame(HEADERS, END_HEADERS, 1, POST),
        frame(HEADERS, END_HEADERS, 3, POST),
    ]);
    let chunk = vec![0; 16_384];
    let mut seen = Vec::new();
    for stream in [1, 3, 1, 3] {
        seen = engine.feed(&frame(DATA, 0, stream, &chunk));
    }
    engine.assert_ended(&seen, Code::FLOW_CONTROL_ERROR);
}

#[test]
fn released_bytes_and_padding_open_the_windows_again() {
    let mut engine = Engine::server(config(100, 65_535));
    engine.feed(&frame(HEADERS, END_HEADERS, 1, POST));
    let stream = engine.stream(1);
    // 40 of data, 9 of padding and its length: half of the window.
    let payload = [&[9][..], &[0; 40], &[0; 9]].concat();
    let seen = engine.feed(&frame(DATA, PADDED, 1, &payload));
    assert_eq!(seen, [Seen::Data(1, 40, false)]);
    assert_eq!(engine.said(), [], "the application holds 40");
    engine.turn(|turn| turn.release(stream, 40));
    let said = engine.said();
    assert_eq!((said[0].kind, said[0].stream), (WINDOW_UPDATE, 1));
    assert_eq!(said[0].payload, 50u32.to_be_bytes());
}

#[test]
fn data_of_streams_that_are_gone_opens_the_connection_again() {
    let mut engine = Engine::server(config(1 << 20, 65_535));
    for stream in (1..200).step_by(2) {
        engine.feed(&frame(HEADERS, END_HEADERS, stream, POST));
        let id = engine.stream(stream);
        engine.turn(|turn| turn.reset_stream(id, Code::CANCEL));
        let seen = engine.feed(&frame(DATA, 0, stream, &[0; 16_384]));
        assert_eq!(seen, []);
    }
    assert!(!engine.connection.is_closed());
}

#[test]
fn content_that_is_not_as_long_as_announced_opens_the_connection_again() {
    for (length, end) in [("5", 0), ("5", END_STREAM), ("99999", END_STREAM)] {
        let mut engine = Engine::server(config(1 << 20, 65_535));
        let head = [POST, &literal("content-length", length)].concat();
        for stream in (1..200).step_by(2) {
            let seen = engine.feed_all(&[
                frame(HEADERS, END_HEADERS, stream, &head),
                frame(DATA, end, stream, &[0; 16_384]),
            ]);
            assert_eq!(seen[1..], [Seen::Reset(stream, Code::PROTOCOL_ERROR)]);
        }
        assert!(!engine.connection.is_closed());
    }
}

#[test]
fn windows_grow_while_they_are_used_up_within_two_round_trips() {
    let mut engine = Engine::new_server(config(65_535, 65_535));
    engine.feed(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat());
    engine.now += Duration::from_millis(50);
    engine.feed(&frame(SETTINGS, ACK, 0, &[]));
    engine.feed(&frame(HEADERS, END_HEADERS, 1, POST));
    let stream = engine.stream(1);
    engine.said();
    let mut granted = 0u32;
    for _ in 0..40 {
        engine.now += Duration::from_millis(5);
        engine.feed(&frame(DATA, 0, 1, &[0; 16_384]));
        engine.turn(|turn| turn.release(stream, 16_384));
        let said = engine.said();
        let updates = said
            .iter()
            .filter(|f| f.kind == WINDOW_UPDATE && f.stream == 1);
        granted += updates
            .map(|f| u32::from_be_bytes(f.payload[..4].try_into().unwrap()))
            .sum::<u32>();
    }
    let window = 65_535 + granted - 40 * 16_384;
    assert!(window > 4 * 65_535, "{window}");
    assert!(window <= Config::default().max_stream_window);
}
