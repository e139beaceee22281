//! Each limit of the engine, attacked.

use std::time::Duration;

use altway_http2::{Code, Config, Floods, Rate};
use bytes::Bytes;
use http::HeaderMap;

use crate::scripted::*;

/// Events of an exchange that is given up because its peer lets nothing move.
const STALLED: [Seen; 2] = [Seen::Stalled(1), Seen::Reset(1, Code::CANCEL)];

/// A number of frames beyond any default.
const MANY: u32 = 10_000;

#[track_caller]
fn check_flood(one: impl Fn(u32) -> Vec<u8>) {
    let mut engine = Engine::server(Config::default());
    let flood: Vec<u8> = (0..MANY).flat_map(one).collect();
    let seen = engine.feed(&flood);
    engine.assert_ended(&seen, Code::ENHANCE_YOUR_CALM);
}

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &Code::CANCEL.get().to_be_bytes())
}

#[test]
fn rapid_reset() {
    check_flood(|n| [get(2 * n + 1), reset(2 * n + 1)].concat());
}

#[test]
fn made_you_reset_by_data_after_the_end() {
    check_flood(|n| [get(2 * n + 1), frame(DATA, 0, 2 * n + 1, b"x")].concat());
}

#[test]
fn made_you_reset_by_window_updates() {
    check_flood(|n| {
        let zero = frame(WINDOW_UPDATE, 0, 2 * n + 1, &[0; 4]);
        [get(2 * n + 1), zero].concat()
    });
}

#[test]
fn made_you_reset_by_priority() {
    check_flood(|n| [get(2 * n + 1), frame(PRIORITY, 0, 2 * n + 1, &[0; 4])].concat());
}

#[test]
fn malformed_requests() {
    check_flood(|n| frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &[0x82]));
}

#[test]
fn more_streams_than_allowed() {
    let mut engine = Engine::server(Config::default());
    let limit = Config::default().max_concurrent_streams;
    let requests: Vec<u8> = (0..=limit).flat_map(|n| get(2 * n + 1)).collect();
    let seen = engine.feed(&requests);
    assert_eq!(seen.len(), limit as usize);
    engine.assert_reset(2 * limit + 1, Code::REFUSED_STREAM);
    check_flood(|n| get(2 * n + 1));
}

#[test]
fn resets_at_a_human_rate_are_no_attack() {
    let mut engine = Engine::server(Config::default());
    for n in 0..1_000 {
        engine.feed_all(&[get(2 * n + 1), reset(2 * n + 1)]);
        engine.now += Duration::from_millis(60);
    }
    assert!(!engine.connection.is_closed());
}

#[test]
fn floods_of_each_control_frame() {
    check_flood(|_| frame(SETTINGS, 0, 0, &[]));
    check_flood(|_| frame(PING, 0, 0, &[0; 8]));
    check_flood(|_| frame(PRIORITY, 0, 1, &[0; 5]));
    check_flood(|_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]));
    check_flood(|_| frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1]));
    check_flood(|_| frame(0xbb, 0, 0, &[]));
}

#[test]
fn resets_of_streams_that_are_done() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&get(1));
    let stream = engine.stream(1);
    engine
        .turn(|turn| turn.send_response(stream, 204, &HeaderMap::new(), true))
        .unwrap();
    engine.said();
    let flood: Vec<u8> = (0..MANY).flat_map(|_| reset(1)).collect();
    let seen = engine.feed(&flood);
    engine.assert_ended(&seen, Code::ENHANCE_YOUR_CALM);
}

#[test]
fn empty_data_frames() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&frame(HEADERS, END_HEADERS, 1, POST));
    let flood: Vec<u8> = (0..MANY).flat_map(|_| frame(DATA, 0, 1, &[])).collect();
    let seen = engine.feed(&flood);
    engine.assert_ended(&seen, Code::ENHANCE_YOUR_CALM);
}

#[test]
fn the_answers_to_a_download_are_no_flood() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&get(1));
    let stream = engine.stream(1);
    engine
        .turn(|turn| turn.send_response(stream, 200, &HeaderMap::new(), false))
        .unwrap();
    let chunk = Bytes::from(vec![0; 1000]);
    for _ in 0..MANY {
        let sent = engine.turn(|turn| turn.send_data(stream, &chunk, false).unwrap());
        assert_eq!(sent, 1000);
        let by = 1000u32.to_be_bytes();
        let seen = engine.feed_all(&[
            frame(WINDOW_UPDATE, 0, 0, &by),
            frame(WINDOW_UPDATE, 0, 1, &by),
        ]);
        assert_eq!(seen, []);
        engine.said();
    }
}

#[test]
fn empty_continuations() {
    let mut engine = Engine::server(Config::default());
    let flood: Vec<u8> = (0..MANY)
        .flat_map(|_| frame(CONTINUATION, 0, 1, &[]))
        .collect();
    let seen = engine.feed(&[frame(HEADERS, 0, 1, GET), flood].concat());
    engine.assert_ended(&seen, Code::ENHANCE_YOUR_CALM);
}

#[test]
fn large_continuations() {
    let config = Config {
        floods: Floods {
            max_continuations: u32::MAX,
            ..Floods::default()
        },
        ..Config::default()
    };
    let mut engine = Engine::server(config);
    let flood: Vec<u8> = (0..8)
        .flat_map(|_| frame(CONTINUATION, 0, 1, &[0; 16_000]))
        .collect();
    let seen = engine.feed(&[frame(HEADERS, 0, 1, GET), flood].concat());
    engine.assert_ended(&seen, Code::ENHANCE_YOUR_CALM);
}

#[test]
fn a_head_above_the_limit_is_answered_and_its_body_discarded() {
    let config = Config {
        max_header_list_size: 200,
        ..Config::default()
    };
    let mut engine = Engine::server(config);
    let block = [POST, &literal("large", &"x".repeat(100))].concat();
    let seen = engine.feed_all(&[
        frame(HEADERS, END_HEADERS, 1, &block),
        frame(DATA, END_STREAM, 1, &[0; 1000]),
        get(3),
    ]);
    assert_eq!(seen, [Seen::TooLarge(1), Seen::Request(3, true)]);
    let stream = engine.stream(1);
    engine
        .turn(|turn| turn.send_response(stream, 431, &HeaderMap::new(), true))
        .unwrap();
    assert!(!engine.connection.is_closed());
    assert_eq!(engine.connection.open_streams(), 1, "the other one");
}

/// An entry of 3,900 bytes, referred to by one byte each: 60 MB from one frame.
#[test]
fn an_hpack_bomb_is_counted_and_not_unpacked() {
    let mut engine = Engine::server(Config::default());
    let value = "v".repeat(3_900);
    // Literal with incremental indexing, new name; the length 3,900 is 127 + 3,773.
    let insert = [&[0x40, 1, b'a', 0x7f, 0xbd, 0x1d][..], value.as_bytes()].concat();
    let bomb = [GET, &insert, &[0xbe; 12_000]].concat();
    let seen = engine.feed(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb));
    assert_eq!(seen, [Seen::TooLarge(1)]);
    assert_eq!(
        engine.feed(&get(3)),
        [Seen::Request(3, true)],
        "in step still"
    );
}

#[test]
fn a_peer_that_opens_no_window_is_given_up() {
    let mut engine = Engine::server(Config::default());
    engine.feed_all(&[frame(SETTINGS, 0, 0, &setting(4, 0)), get(1)]);
    let stream = engine.stream(1);
    let body = Bytes::from_static(b"never sent");
    engine.turn(|turn| {
        turn.send_response(stream, 200, &HeaderMap::new(), false)
            .unwrap();
        assert_eq!(turn.send_data(stream, &body, true), Ok(0));
    });
    let stall = Config::default().timeouts.stall;
    assert_eq!(engine.wait(stall / 2), []);
    let seen = engine.wait(stall);
    assert_eq!(seen, STALLED);
    engine.assert_reset(1, Code::CANCEL);
}

#[test]
fn a_stream_that_stalls_is_given_up_whatever_else_its_peer_sends() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&frame(HEADERS, END_HEADERS, 1, POST));
    let stall = Config::default().timeouts.stall;
    let mut seen = Vec::new();
    for _ in 0..20 {
        seen.extend(engine.wait(stall / 10));
        engine.feed(&frame(PING, 0, 0, &[0; 8]));
    }
    assert_eq!(seen, STALLED);
}

#[test]
fn a_peer_that_opens_no_window_of_the_connection_is_given_up() {
    let mut engine = Engine::server(Config::default());
    engine.feed_all(&[frame(SETTINGS, 0, 0, &setting(4, 1 << 20)), get(1)]);
    let stream = engine.stream(1);
    let body = Bytes::from(vec![0; 16_384]);
    engine.turn(|turn| {
        turn.send_response(stream, 200, &HeaderMap::new(), false)
            .unwrap();
        while turn.send_data(stream, &body, false).unwrap() > 0 {}
    });
    let stall = Config::default().timeouts.stall;
    let seen = engine.wait(2 * stall);
    assert_eq!(seen[..2], STALLED);
}

#[test]
fn a_request_body_that_stalls_is_given_up() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&frame(HEADERS, END_HEADERS, 1, POST));
    let stall = Config::default().timeouts.stall;
    for _ in 0..3 {
        assert_eq!(engine.wait(stall / 2), []);
        engine.feed(&frame(DATA, 0, 1, &[0; 1024]));
    }
    let seen = engine.wait(2 * stall);
    assert_eq!(seen, STALLED);
}

#[test]
fn a_body_that_drips_is_a_body_that_stalls() {
    let stall = Config::default().timeouts.stall;
    for drip in [frame(DATA, 0, 1, b"x"), frame(DATA, PADDED, 1, &[255; 256])] {
        let mut engine = Engine::server(Config::default());
        engine.feed(&frame(HEADERS, END_HEADERS, 1, POST));
        let mut seen = Vec::new();
        for _ in 0..8 {
            seen.extend(engine.wait(stall / 4));
            engine.feed(&drip);
        }
        assert!(seen.contains(&Seen::Reset(1, Code::CANCEL)), "{seen:?}");
    }
}

#[test]
fn a_client_is_not_blamed_for_an_application_that_does_not_read() {
    let config = Config {
        stream_window: 65_535,
        ..Config::default()
    };
    let stall = config.timeouts.stall;
    let mut engine = Engine::server(config);
    engine.feed(&frame(HEADERS, END_HEADERS, 1, POST));
    for _ in 0..3 {
        engine.feed(&frame(DATA, 0, 1, &[0; 16_384]));
    }
    engine.feed(&frame(DATA, 0, 1, &[0; 16_383]));
    assert_eq!(engine.wait(3 * stall), [], "its window is used up");
    let stream = engine.stream(1);
    engine.turn(|turn| turn.release(stream, 65_535));
    assert_eq!(engine.wait(stall / 2), [], "its time begins now");
    let seen = engine.wait(2 * stall);
    assert_eq!(seen, STALLED);
}

#[test]
fn a_tunnel_may_be_silent() {
    let connect = [literal(":method", "CONNECT"), literal(":authority", "a:1")].concat();
    let mut engine = Engine::server(Config::default());
    engine.feed(&frame(HEADERS, END_HEADERS, 1, &connect));
    assert_eq!(engine.wait(Duration::from_secs(3600)), []);
}

#[test]
fn a_tunnel_whose_peer_takes_nothing_is_given_up() {
    let connect = [literal(":method", "CONNECT"), literal(":authority", "a:1")].concat();
    let mut engine = Engine::server(Config::default());
    engine.feed(&frame(HEADERS, END_HEADERS, 1, &connect));
    let stream = engine.stream(1);
    engine.turn(|turn| {
        turn.send_response(stream, 200, &HeaderMap::new(), false)
            .unwrap();
        let data = Bytes::from(vec![0; 100_000]);
        while turn.send_data(stream, &data, false).unwrap() > 0 {}
    });
    let stall = Config::default().timeouts.stall;
    assert_eq!(engine.wait(2 * stall), STALLED);
}

/// DATA that leads nowhere pays nothing back.
#[test]
fn pings_between_useless_data() {
    let padding = frame(DATA, PADDED, 1, &[1, 0]);
    let late = frame(DATA, 0, 3, b"x");
    for useless in [padding, late] {
        let mut engine = Engine::server(Config::default());
        engine.feed_all(&[
            frame(HEADERS, END_HEADERS, 1, POST),
            frame(HEADERS, END_HEADERS, 3, POST),
        ]);
        let gone = engine.stream(3);
        engine.turn(|turn| turn.reset_stream(gone, Code::CANCEL));
        engine.said();
        let flood: Vec<u8> = (0..MANY)
            .flat_map(|_| [&useless[..], &frame(PING, 0, 0, &[0; 8])].concat())
            .collect();
        let seen = engine.feed(&flood);
        engine.assert_ended(&seen, Code::ENHANCE_YOUR_CALM);
    }
}

#[test]
fn fields_for_streams_that_are_gone() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&frame(HEADERS, END_HEADERS, 1, POST));
    let stream = engine.stream(1);
    engine.turn(|turn| turn.reset_stream(stream, Code::CANCEL));
    engine.said();
    let flood: Vec<u8> = (0..MANY).flat_map(|_| get(1)).collect();
    let seen = engine.feed(&flood);
    engine.assert_ended(&seen, Code::ENHANCE_YOUR_CALM);
}

#[test]
fn requests_after_the_last_goaway() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&get(1));
    engine.turn(|turn| {
        turn.shutdown();
    });
    engine.wait(Config::default().timeouts.goaway);
    engine.said();
    let flood: Vec<u8> = (1..MANY).flat_map(|n| get(2 * n + 1)).collect();
    let seen = engine.feed(&flood);
    engine.assert_ended(&seen, Code::ENHANCE_YOUR_CALM);
}

#[test]
fn a_busy_connection_is_not_slow_because_its_reads_end_within_frames() {
    let mut engine = Engine::server(Config::default());
    let timeout = Config::default().timeouts.frame;
    engine.feed(&[&get(1), &get(3)[..5]].concat());
    for n in 1..20 {
        // The rest of one request, and the beginning of the next.
        let bytes = [&get(2 * n + 1)[5..], &get(2 * n + 3)[..5]].concat();
        engine.feed(&bytes);
        assert_eq!(engine.wait(timeout / 4), [], "{n}");
    }
}

#[test]
fn a_server_that_stops_each_upload_does_not_cost_the_client_its_connection() {
    let mut engine = Engine::client(Config::default(), 0);
    let request = http::Request::post("https://a.example/").body(()).unwrap();
    for n in 0..1_000 {
        engine.turn(|turn| turn.send_request(&request, None, false).unwrap());
        let id = 2 * n + 1;
        engine.feed_all(&[
            frame(HEADERS, END_HEADERS | END_STREAM, id, OK),
            frame(RST_STREAM, 0, id, &[0; 4]),
        ]);
    }
    assert!(!engine.connection.is_closed());
}

#[test]
fn a_handler_may_take_its_time() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&get(1));
    assert_eq!(engine.wait(Duration::from_secs(3600)), []);
    assert_eq!(engine.connection.open_streams(), 1);
}

#[test]
fn slow_headers_end_the_connection() {
    let timeout = Config::default().timeouts.frame;
    // Of four bytes nobody knows that they are headers.
    let mut engine = Engine::server(Config::default());
    engine.feed(&get(1)[..4]);
    assert_eq!(engine.wait(timeout / 2), []);
    let seen = engine.wait(timeout);
    engine.assert_ended(&seen, Code::ENHANCE_YOUR_CALM);
    // Whoever does not end it when it is told has it ended after the same time.
    for beginning in [&get(1)[..10], &frame(HEADERS, 0, 1, GET)] {
        let mut engine = Engine::server(Config::default());
        engine.feed(beginning);
        assert_eq!(engine.wait(timeout / 2), []);
        assert_eq!(engine.wait(timeout), [Seen::Late(1)]);
        let seen = engine.wait(timeout);
        engine.assert_ended(&seen, Code::ENHANCE_YOUR_CALM);
    }
}

#[test]
fn a_request_whose_headers_are_slow_can_be_answered_before_the_end() {
    let timeout = Config::default().timeouts.frame;
    for beginning in [&get(3)[..10], &frame(HEADERS, 0, 3, GET)] {
        let mut engine = Engine::server(Config::default());
        engine.feed(&get(1));
        engine.feed(beginning);
        assert_eq!(engine.wait(timeout), [Seen::Late(3)]);
        let (slow, other) = (engine.stream(3), engine.stream(1));
        engine.turn(|turn| {
            for (stream, status) in [(other, 200), (slow, 408)] {
                turn.send_response(stream, status, &HeaderMap::new(), true)
                    .unwrap();
            }
            turn.close(Code::NO_ERROR);
        });
        let said = engine.said();
        let answered = |id| said.iter().any(|it| (it.kind, it.stream) == (HEADERS, id));
        assert!(answered(1) && answered(3), "{said:?}");
        assert!(engine.connection.is_closed());
    }
    // Trailers are no head.
    let mut engine = Engine::server(Config::default());
    engine.feed(&frame(HEADERS, END_HEADERS, 1, POST));
    engine.feed(&frame(HEADERS, END_STREAM, 1, &literal("a", "b")));
    let seen = engine.wait(timeout);
    engine.assert_ended(&seen, Code::ENHANCE_YOUR_CALM);
}

#[test]
fn headers_that_come_byte_by_byte_have_one_time_out_for_all() {
    let mut engine = Engine::server(Config::default());
    let timeout = Config::default().timeouts.frame;
    let mut seen = Vec::new();
    for byte in get(1) {
        seen.extend(engine.feed(&[byte]));
        seen.extend(engine.wait(timeout / 8));
    }
    // Within nine bytes, of which nobody knows what they are.
    engine.assert_ended(&seen, Code::ENHANCE_YOUR_CALM);
}

#[test]
fn a_silent_client_is_not_waited_for() {
    let mut engine = Engine::new_server(Config::default());
    let seen = engine.wait(Config::default().timeouts.preface);
    engine.assert_ended(&seen, Code::PROTOCOL_ERROR);
}

#[test]
fn unacknowledged_settings_end_the_connection() {
    let mut engine = Engine::new_server(Config::default());
    engine.feed(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat());
    engine.said();
    let seen = engine.wait(Config::default().timeouts.settings);
    engine.assert_ended(&seen, Code::SETTINGS_TIMEOUT);
}

#[test]
fn early_priorities_are_bounded() {
    let config = Config {
        floods: Floods {
            control: Rate {
                burst: u32::MAX,
                per_second: 0,
            },
            ..Floods::default()
        },
        ..Config::default()
    };
    let mut engine = Engine::server(config);
    let flood: Vec<u8> = (0..MANY)
        .flat_map(|n| {
            let payload = [&(2 * n + 1).to_be_bytes()[..], b"u=0"].concat();
            frame(PRIORITY_UPDATE, 0, 0, &payload)
        })
        .collect();
    assert_eq!(engine.feed(&flood), []);
    // The last ones are kept, and used.
    assert_eq!(engine.feed(&get(2 * MANY - 1)).len(), 1);
}
