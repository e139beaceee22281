//! RFC 9113 rule by rule: what a peer may not do, and how far the damage reaches.

use altway_http2::{CloseReason, Code, Config};
use http::HeaderMap;

use crate::scripted::*;

#[track_caller]
fn check_ends(script: &[Vec<u8>], code: Code) {
    let mut engine = Engine::server(Config::default());
    let seen = engine.feed_all(script);
    engine.assert_ended(&seen, code);
}

#[track_caller]
fn check_resets(script: &[Vec<u8>], stream: u32, code: Code) {
    let mut engine = Engine::server(Config::default());
    engine.feed_all(script);
    engine.assert_reset(stream, code);
}

fn post(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, POST)
}

#[test]
fn a_connection_begins_with_preface_and_settings() {
    let mut engine = Engine::new_server(Config::default());
    let seen = engine.feed(b"GET / HTTP/1.1\r\n");
    engine.assert_ended(&seen, Code::PROTOCOL_ERROR);

    let mut engine = Engine::new_server(Config::default());
    let seen = engine.feed(&[PREFACE, &frame(PING, 0, 0, &[0; 8])].concat());
    engine.assert_ended(&seen, Code::PROTOCOL_ERROR);

    let mut engine = Engine::new_server(Config::default());
    engine.feed(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat());
    let said = engine.said();
    assert_eq!((said[0].kind, said[0].flags), (SETTINGS, 0), "ours first");
    let acknowledged = said.iter().any(|f| (f.kind, f.flags) == (SETTINGS, ACK));
    assert!(acknowledged);
}

#[test]
fn nothing_is_said_before_the_client_spoke() {
    let mut engine = Engine::new_server(Config::default());
    assert_eq!(engine.feed(&[]), []);
    assert_eq!(engine.said(), []);
}

#[test]
fn frames_above_the_size_limit_end_the_connection() {
    check_ends(&[frame(DATA, 0, 1, &[0; 16_385])], Code::FRAME_SIZE_ERROR);
}

#[test]
fn frames_of_unknown_types_and_flags_are_ignored() {
    let mut engine = Engine::server(Config::default());
    let seen = engine.feed_all(&[
        frame(0xee, 0xff, 7, b"what is this"),
        frame(PING, 0xfe, 0, &[1; 8]),
        get(1),
    ]);
    assert_eq!(seen, [Seen::Request(1, true)]);
    assert_eq!(engine.said()[0].payload, [1; 8], "answered");
}

#[test]
fn frames_of_the_connection_do_not_come_on_streams_nor_the_other_way_round() {
    for script in [
        frame(DATA, 0, 0, b"x"),
        frame(HEADERS, END_HEADERS, 0, GET),
        frame(PRIORITY, 0, 0, &[0; 5]),
        frame(RST_STREAM, 0, 0, &[0; 4]),
        frame(SETTINGS, 0, 1, &[]),
        frame(PING, 0, 1, &[0; 8]),
        frame(GOAWAY, 0, 1, &[0; 8]),
        frame(CONTINUATION, END_HEADERS, 0, &[]),
        frame(PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 1]),
        frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 2]),
    ] {
        check_ends(&[script], Code::PROTOCOL_ERROR);
    }
}

#[test]
fn frames_of_wrong_sizes_end_the_connection() {
    for script in [
        frame(PING, 0, 0, &[0; 7]),
        frame(SETTINGS, 0, 0, &[0; 5]),
        frame(SETTINGS, ACK, 0, &[0; 6]),
        frame(WINDOW_UPDATE, 0, 0, &[0; 3]),
        frame(GOAWAY, 0, 0, &[0; 7]),
        frame(PRIORITY_UPDATE, 0, 0, &[0; 3]),
        frame(HEADERS, END_HEADERS | PRIORITISED, 1, &[0; 4]),
        frame(HEADERS, END_HEADERS | PADDED, 1, &[]),
    ] {
        check_ends(&[script], Code::FRAME_SIZE_ERROR);
    }
    check_ends(
        &[get(1), frame(RST_STREAM, 0, 1, &[0; 3])],
        Code::FRAME_SIZE_ERROR,
    );
    check_resets(
        &[post(1), frame(PRIORITY, 0, 1, &[0; 4])],
        1,
        Code::FRAME_SIZE_ERROR,
    );
}

#[test]
fn padding_may_not_exceed_the_frame() {
    check_ends(
        &[post(1), frame(DATA, PADDED, 1, &[3, 0, 0])],
        Code::PROTOCOL_ERROR,
    );
    check_ends(
        &[frame(HEADERS, END_HEADERS | PADDED, 1, &[4, 0x82, 0x87])],
        Code::PROTOCOL_ERROR,
    );
    let mut engine = Engine::server(Config::default());
    let padded = [&[2][..], GET, &[0, 0]].concat();
    let seen = engine.feed(&frame(
        HEADERS,
        END_HEADERS | END_STREAM | PADDED,
        1,
        &padded,
    ));
    assert_eq!(seen, [Seen::Request(1, true)]);
}

#[test]
fn idle_streams_take_headers_and_priority_alone() {
    for kind in [DATA, RST_STREAM, WINDOW_UPDATE] {
        check_ends(&[frame(kind, 0, 1, &[0, 0, 0, 1])], Code::PROTOCOL_ERROR);
    }
    let mut engine = Engine::server(Config::default());
    assert_eq!(engine.feed(&frame(PRIORITY, 0, 1, &[0; 5])), []);
    assert!(!engine.connection.is_closed());
}

#[test]
fn stream_numbers_are_odd_and_grow() {
    check_ends(&[get(2)], Code::PROTOCOL_ERROR);
    let mut engine = Engine::server(Config::default());
    engine.feed(&get(5));
    let stream = engine.stream(5);
    engine
        .turn(|turn| turn.send_response(stream, 204, &HeaderMap::new(), true))
        .unwrap();
    engine.said();
    let seen = engine.feed(&get(3));
    engine.assert_ended(&seen, Code::STREAM_CLOSED);
}

#[test]
fn a_half_closed_stream_takes_no_more_data_or_fields() {
    check_resets(&[get(1), frame(DATA, 0, 1, b"x")], 1, Code::STREAM_CLOSED);
    check_resets(&[get(1), get(1)], 1, Code::STREAM_CLOSED);
}

#[test]
fn a_finished_stream_takes_nothing_but_late_control_frames() {
    let answered = || {
        let mut engine = Engine::server(Config::default());
        engine.feed(&get(1));
        let stream = engine.stream(1);
        engine
            .turn(|turn| turn.send_response(stream, 204, &HeaderMap::new(), true))
            .unwrap();
        engine.said();
        engine
    };
    for kind in [DATA, HEADERS] {
        let mut engine = answered();
        let seen = engine.feed(&frame(kind, END_HEADERS, 1, GET));
        engine.assert_ended(&seen, Code::STREAM_CLOSED);
    }
    let mut engine = answered();
    let seen = engine.feed_all(&[
        frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        frame(RST_STREAM, 0, 1, &[0; 4]),
        frame(PRIORITY, 0, 1, &[0; 5]),
    ]);
    assert_eq!(seen, []);
    assert!(!engine.connection.is_closed());
}

#[test]
fn what_was_on_its_way_to_a_stream_that_we_reset_is_ignored() {
    let mut engine = Engine::server(Config::default());
    engine.feed(&post(1));
    let stream = engine.stream(1);
    engine.turn(|turn| turn.reset_stream(stream, Code::CANCEL));
    let seen = engine.feed_all(&[
        frame(DATA, 0, 1, &[0; 1000]),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, &literal("a", "b")),
        get(3),
    ]);
    assert_eq!(seen, [Seen::Request(3, true)]);
}

#[test]
fn every_stream_may_be_reset_at_once_and_what_was_on_its_way_is_ignored() {
    let config = Config {
        max_concurrent_streams: 1_000,
        ..Config::default()
    };
    let mut client = Engine::client(config, 1_000);
    let ids = (1..2_000).step_by(2);
    for id in ids.clone() {
        let stream = client.stream(id);
        client.turn(|turn| turn.reset_stream(stream, Code::CANCEL));
    }
    for id in ids {
        let head = frame(HEADERS, END_HEADERS, id, OK);
        let body = frame(DATA, END_STREAM, id, b"late");
        assert_eq!(client.feed_all(&[head, body]), [], "{id}");
    }
}

#[test]
fn field_blocks_may_be_cut_anywhere_and_not_be_interrupted() {
    for at in 0..=GET.len() {
        let mut engine = Engine::server(Config::default());
        let seen = engine.feed_all(&[
            frame(HEADERS, END_STREAM, 1, &GET[..at]),
            frame(CONTINUATION, 0, 1, &[]),
            frame(CONTINUATION, END_HEADERS, 1, &GET[at..]),
        ]);
        assert_eq!(seen, [Seen::Request(1, true)]);
    }
    for script in [
        [frame(HEADERS, 0, 1, GET), frame(PING, 0, 0, &[0; 8])],
        [frame(HEADERS, 0, 1, GET), frame(CONTINUATION, 0, 3, &[])],
        [get(1), frame(CONTINUATION, END_HEADERS, 1, &[])],
    ] {
        check_ends(&script, Code::PROTOCOL_ERROR);
    }
}

#[test]
fn a_block_that_cannot_be_decoded_ends_the_connection() {
    check_ends(
        &[frame(HEADERS, END_HEADERS, 1, &[0x80])],
        Code::COMPRESSION_ERROR,
    );
}

#[test]
fn malformed_requests_cost_their_stream_alone() {
    let request = |fields: &[u8]| {
        let block = [GET, fields].concat();
        frame(HEADERS, END_HEADERS | END_STREAM, 1, &block)
    };
    for fields in [
        literal("connection", "close"),
        literal("Upper", "x"),
        literal("content-length", "1"),
        vec![0x82],
    ] {
        let mut engine = Engine::server(Config::default());
        assert_eq!(engine.feed(&request(&fields)), []);
        engine.assert_reset(1, Code::PROTOCOL_ERROR);
        assert_eq!(engine.malformed, 1, "it is told of all the same");
    }
}

#[test]
fn a_body_has_the_length_that_was_promised() {
    let promise = |length: &str| {
        let block = [POST, &literal("content-length", length)].concat();
        frame(HEADERS, END_HEADERS, 1, &block)
    };
    let data = |len: usize, flags| frame(DATA, flags, 1, &vec![0; len]);
    for (script, ok) in [
        (vec![data(3, END_STREAM)], true),
        (vec![data(1, 0), data(2, END_STREAM)], true),
        (vec![data(3, 0), data(0, END_STREAM)], true),
        (vec![data(2, END_STREAM)], false),
        (vec![data(4, 0)], false),
        (
            vec![data(2, 0), frame(HEADERS, END_HEADERS | END_STREAM, 1, &[])],
            false,
        ),
        (
            vec![data(3, 0), frame(HEADERS, END_HEADERS | END_STREAM, 1, &[])],
            true,
        ),
    ] {
        let mut engine = Engine::server(Config::default());
        engine.feed(&promise("3"));
        let seen = engine.feed_all(&script);
        let reset = seen.contains(&Seen::Reset(1, Code::PROTOCOL_ERROR));
        assert_eq!(!reset, ok, "{seen:?}");
        if !ok {
            engine.assert_reset(1, Code::PROTOCOL_ERROR);
        }
    }
}

#[test]
fn trailers_end_the_request() {
    let mut engine = Engine::server(Config::default());
    let seen = engine.feed_all(&[
        post(1),
        frame(DATA, 0, 1, b"ab"),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, &literal("a", "b")),
    ]);
    let expected = [
        Seen::Request(1, false),
        Seen::Data(1, 2, false),
        Seen::Trailers(1),
    ];
    assert_eq!(seen, expected);
    check_resets(
        &[post(1), frame(HEADERS, END_HEADERS, 1, &literal("a", "b"))],
        1,
        Code::PROTOCOL_ERROR,
    );
    check_resets(
        &[post(1), frame(HEADERS, END_HEADERS | END_STREAM, 1, GET)],
        1,
        Code::PROTOCOL_ERROR,
    );
}

#[test]
fn windows_are_bounded_and_updates_are_not_zero() {
    let update = |stream, by: u32| frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
    check_ends(&[update(0, 0)], Code::PROTOCOL_ERROR);
    check_ends(&[update(0, 0x7fff_ffff)], Code::FLOW_CONTROL_ERROR);
    check_resets(&[get(1), update(1, 0)], 1, Code::PROTOCOL_ERROR);
    check_resets(
        &[get(1), update(1, 0x7fff_ffff)],
        1,
        Code::FLOW_CONTROL_ERROR,
    );
    check_ends(
        &[
            get(1),
            update(1, 1 << 30),
            frame(SETTINGS, 0, 0, &setting(4, 0x7fff_ffff)),
        ],
        Code::FLOW_CONTROL_ERROR,
    );
}

#[test]
fn a_stream_does_not_depend_on_itself() {
    check_resets(
        &[post(1), frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 0])],
        1,
        Code::PROTOCOL_ERROR,
    );
    let block = [&[0, 0, 0, 1, 0], GET].concat();
    check_resets(
        &[frame(HEADERS, END_HEADERS | PRIORITISED, 1, &block)],
        1,
        Code::PROTOCOL_ERROR,
    );
}

#[test]
fn there_is_no_push() {
    check_ends(
        &[frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])],
        Code::PROTOCOL_ERROR,
    );
    let mut engine = Engine::client(Config::default(), 1);
    let seen = engine.feed(&frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]));
    engine.assert_ended(&seen, Code::PROTOCOL_ERROR);
}

#[test]
fn acknowledgements_of_nothing_are_faults_for_settings_alone() {
    check_ends(&[frame(SETTINGS, ACK, 0, &[])], Code::PROTOCOL_ERROR);
    let mut engine = Engine::server(Config::default());
    assert_eq!(engine.feed(&frame(PING, ACK, 0, &[9; 8])), []);
    assert!(!engine.connection.is_closed());
}

#[test]
fn a_client_checks_responses() {
    for (script, code) in [
        (frame(HEADERS, END_HEADERS, 1, GET), Code::PROTOCOL_ERROR),
        (
            frame(HEADERS, END_HEADERS, 1, &literal("a", "b")),
            Code::PROTOCOL_ERROR,
        ),
        (frame(DATA, 0, 1, b"x"), Code::PROTOCOL_ERROR),
        (
            frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                1,
                &literal(":status", "103"),
            ),
            Code::PROTOCOL_ERROR,
        ),
    ] {
        let mut engine = Engine::client(Config::default(), 1);
        engine.feed(&script);
        engine.assert_reset(1, code);
    }
    let mut engine = Engine::client(Config::default(), 1);
    let seen = engine.feed(&frame(HEADERS, END_HEADERS, 3, OK));
    engine.assert_ended(&seen, Code::PROTOCOL_ERROR);
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let mut engine = Engine::client(Config::default(), 1);
    let seen = engine.feed_all(&[
        frame(HEADERS, END_HEADERS, 1, &literal(":status", "103")),
        frame(HEADERS, END_HEADERS, 1, OK),
        frame(DATA, END_STREAM, 1, b"abc"),
    ]);
    let expected = [
        Seen::Informational(1, 103),
        Seen::Response(1, 200, false),
        Seen::Data(1, 3, true),
    ];
    assert_eq!(seen, expected);
    assert_eq!(engine.connection.open_streams(), 0);
}

#[test]
fn a_not_modified_response_has_no_body_whatever_its_length() {
    let head = [literal(":status", "304"), literal("content-length", "100")].concat();
    let mut engine = Engine::client(Config::default(), 2);
    let seen = engine.feed(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head));
    assert_eq!(seen, [Seen::Response(1, 304, true)]);
    engine.feed_all(&[
        frame(HEADERS, END_HEADERS, 3, &head),
        frame(DATA, END_STREAM, 3, b"x"),
    ]);
    engine.assert_reset(3, Code::PROTOCOL_ERROR);
}

#[test]
fn goaway_tells_which_requests_were_not_processed() {
    let mut engine = Engine::client(Config::default(), 3);
    let goaway = [1u32.to_be_bytes(), 0u32.to_be_bytes()].concat();
    let seen = engine.feed(&frame(GOAWAY, 0, 0, &goaway));
    let expected = [
        Seen::GoAway(Code::NO_ERROR),
        Seen::Reset(3, Code::REFUSED_STREAM),
        Seen::Reset(5, Code::REFUSED_STREAM),
    ];
    assert_eq!(seen, expected);
    let request = http::Request::get("https://a.example/").body(()).unwrap();
    let refused = engine.turn(|turn| turn.send_request(&request, None, true));
    assert_eq!(refused, Err(altway_http2::Error::GoingAway));
    let seen = engine.feed(&frame(HEADERS, END_HEADERS | END_STREAM, 1, OK));
    let expected = [
        Seen::Response(1, 200, true),
        Seen::Closed(CloseReason::Finished),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn alternative_services_come_with_an_origin_or_on_a_stream() {
    let mut engine = Engine::client(Config::default(), 1);
    let seen = engine.feed_all(&[
        frame(ALTSVC, 0, 0, b"\0\x05a.comh3=\":1\""),
        frame(ALTSVC, 0, 1, b"\0\0clear"),
        // Invalid, and ignored.
        frame(ALTSVC, 0, 0, b"\0\0clear"),
        frame(ALTSVC, 0, 1, b"\0\x05a.comclear"),
        frame(ALTSVC, 0, 0, b"\0\x09a.com"),
    ]);
    let expected = [
        Seen::AltSvc(None, b"h3=\":1\"".to_vec()),
        Seen::AltSvc(Some(1), b"clear".to_vec()),
    ];
    assert_eq!(seen, expected);
}
