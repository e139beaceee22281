//! A peer that breaks HTTP/3 meets the error that the RFC names, and one that only stretches it
//! does not.

use altway_http3::{CloseReason, Code, Event};

use crate::apps::get;
use crate::raw::{Raw, frame, long_frame, section};

pub(crate) const DATA: u8 = 0x00;
pub(crate) const HEADERS: u8 = 0x01;
const CANCEL_PUSH: u8 = 0x03;
pub(crate) const SETTINGS: u8 = 0x04;
const PUSH_PROMISE: u8 = 0x05;
pub(crate) const GOAWAY: u8 = 0x07;
pub(crate) const MAX_PUSH_ID: u8 = 0x0d;
pub(crate) const PRIORITY_UPDATE: u32 = 0xf0700;
const PRIORITY_UPDATE_PUSH: u32 = 0xf0701;

pub(crate) const REQUEST: [(&str, &str); 4] = [
    (":method", "POST"),
    (":scheme", "https"),
    (":authority", "localhost"),
    (":path", "/"),
];

pub(crate) fn request(extra: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, &section(&[&REQUEST[..], extra].concat()))
}

fn response(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, &section(fields))
}

/// A control stream that begins as it should, and goes on with `rest`.
pub(crate) fn control(rest: &[u8]) -> Vec<u8> {
    [&[0x00][..], &frame(SETTINGS, &[]), rest].concat()
}

#[track_caller]
fn server_closes_over_uni(bytes: &[u8], code: Code) {
    let mut peer = Raw::client();
    peer.uni(bytes);
    assert_eq!(peer.close_code(), code.get());
    assert!(matches!(peer.closed, Some(CloseReason::Local { code: told, .. }) if told == code));
}

#[track_caller]
fn server_closes_over_request(bytes: &[u8], code: Code) {
    let mut peer = Raw::client();
    peer.bi(bytes);
    peer.read_all();
    assert_eq!(peer.close_code(), code.get());
}

#[track_caller]
fn client_closes_over_uni(bytes: &[u8], code: Code) {
    let mut peer = Raw::server();
    peer.uni(bytes);
    assert_eq!(peer.close_code(), code.get());
}

/// Our client sends a request and gets these bytes as its response stream.
fn respond(bytes: &[u8], end: bool) -> Raw {
    let mut peer = Raw::server();
    let stream = peer
        .endpoint
        .with(peer.connection, |it, quic| {
            it.send_request(quic, &get("/"), true)
        })
        .unwrap();
    assert_eq!(stream.get(), 0);
    peer.run();
    let id = quinn_proto::StreamId::new(quinn_proto::Side::Client, quinn_proto::Dir::Bi, 0);
    peer.write(id, bytes);
    if end {
        // Fails if the client has stopped the stream by now, as it should in many cases.
        let _ = peer.quic.send_stream(id).finish();
        peer.run();
    }
    peer.read_all();
    peer
}

#[test]
fn a_control_stream_without_settings_first_is_missing_settings() {
    let code = Code::H3_MISSING_SETTINGS;
    server_closes_over_uni(&[&[0x00][..], &frame(GOAWAY, &[0])].concat(), code);
    server_closes_over_uni(&[&[0x00][..], &frame(DATA, b"x")].concat(), code);
    client_closes_over_uni(&[&[0x00][..], &frame(0x21, b"")].concat(), code);
}

#[test]
fn a_second_settings_frame_or_a_request_frame_on_the_control_stream_is_unexpected() {
    let code = Code::H3_FRAME_UNEXPECTED;
    for kind in [
        SETTINGS,
        DATA,
        HEADERS,
        PUSH_PROMISE,
        0x02,
        0x06,
        0x08,
        0x09,
    ] {
        server_closes_over_uni(&control(&frame(kind, &[])), code);
        client_closes_over_uni(&control(&frame(kind, &[])), code);
    }
    for kind in [PRIORITY_UPDATE, PRIORITY_UPDATE_PUSH] {
        client_closes_over_uni(&control(&long_frame(kind, &[0])), code);
        server_closes_over_request(&long_frame(kind, &[0]), code);
    }
    client_closes_over_uni(&control(&frame(MAX_PUSH_ID, &[0])), code);
}

#[test]
fn wrong_settings_are_a_settings_error() {
    for payload in [
        &[0x02, 0x00][..],
        &[0x04, 0x00],
        &[0x06, 0x01, 0x06, 0x01],
        &[0x08, 0x02],
        &[0x33, 0x02],
    ] {
        let stream = [&[0x00][..], &frame(SETTINGS, payload)].concat();
        server_closes_over_uni(&stream, Code::H3_SETTINGS_ERROR);
    }
    let cut = [&[0x00][..], &frame(SETTINGS, &[0x06])].concat();
    server_closes_over_uni(&cut, Code::H3_FRAME_ERROR);
    let huge = [&[0x00, SETTINGS][..], &[0x80, 0x01, 0x00, 0x00]].concat();
    server_closes_over_uni(&huge, Code::H3_EXCESSIVE_LOAD);
}

#[test]
fn ids_that_make_no_sense_are_id_errors() {
    let code = Code::H3_ID_ERROR;
    client_closes_over_uni(&control(&frame(GOAWAY, &[0x01])), code);
    let raised = [frame(GOAWAY, &[0x04]), frame(GOAWAY, &[0x08])].concat();
    client_closes_over_uni(&control(&raised), code);
    server_closes_over_uni(&control(&raised), code);
    let smaller = [frame(MAX_PUSH_ID, &[5]), frame(MAX_PUSH_ID, &[4])].concat();
    server_closes_over_uni(&control(&smaller), code);
    // A push stream's, a server's and one beyond the limit of 256.
    let beyond = [0x44, 0x00, b'i'];
    for payload in [&[0x02][..], &[0x01], &beyond] {
        let update = long_frame(PRIORITY_UPDATE, payload);
        server_closes_over_uni(&control(&update), code);
    }
    let push = long_frame(PRIORITY_UPDATE_PUSH, &[0]);
    server_closes_over_uni(&control(&push), code);
    server_closes_over_uni(&control(&frame(CANCEL_PUSH, &[0])), code);
    client_closes_over_uni(&control(&frame(CANCEL_PUSH, &[0])), code);
    server_closes_over_uni(&control(&frame(GOAWAY, &[0, 0])), Code::H3_FRAME_ERROR);
}

#[test]
fn streams_of_a_kind_that_cannot_be_are_creation_errors() {
    let mut peer = Raw::client();
    peer.uni(&control(&[]));
    peer.uni(&[0x00]);
    assert_eq!(peer.close_code(), Code::H3_STREAM_CREATION_ERROR.get());
    server_closes_over_uni(&[0x01, 0x00], Code::H3_STREAM_CREATION_ERROR);
    client_closes_over_uni(&[0x01, 0x00], Code::H3_ID_ERROR);
}

#[test]
fn a_closed_control_or_qpack_stream_ends_the_connection() {
    for bytes in [control(&[]), vec![0x02], vec![0x03]] {
        let mut peer = Raw::client();
        let id = peer.uni(&bytes);
        assert!(peer.lost.is_none());
        peer.finish(id);
        assert_eq!(peer.close_code(), Code::H3_CLOSED_CRITICAL_STREAM.get());
        let mut peer = Raw::server();
        let id = peer.uni(&bytes);
        peer.reset(id, 0x100);
        assert_eq!(peer.close_code(), Code::H3_CLOSED_CRITICAL_STREAM.get());
    }
}

#[test]
fn stopping_our_control_stream_ends_the_connection() {
    let mut peer = Raw::client();
    let ours = quinn_proto::StreamId::new(quinn_proto::Side::Server, quinn_proto::Dir::Uni, 0);
    let bytes = peer.read(ours).unwrap();
    assert_eq!(bytes[..2], [0x00, SETTINGS]);
    peer.quic.recv_stream(ours).stop(0x100u32.into()).unwrap();
    peer.run();
    assert_eq!(peer.close_code(), Code::H3_CLOSED_CRITICAL_STREAM.get());
}

#[test]
fn references_to_entries_that_cannot_be_are_qpack_errors() {
    server_closes_over_uni(&[0x02, 0xc0, 0x00], Code::QPACK_ENCODER_STREAM_ERROR);
    server_closes_over_uni(&[0x03, 0x80], Code::QPACK_DECODER_STREAM_ERROR);
    // More entries than the table can have; an entry before the first one.
    for section in [&[0xff, 0x7f, 0x00, 0x80][..], &[0x00, 0x00, 0x80]] {
        let dynamic = frame(HEADERS, section);
        server_closes_over_request(&dynamic, Code::QPACK_DECOMPRESSION_FAILED);
        let peer = respond(&dynamic, false);
        assert_eq!(peer.close_code(), Code::QPACK_DECOMPRESSION_FAILED.get());
        let trailers = [response(&[(":status", "200")]), dynamic].concat();
        let peer = respond(&trailers, false);
        assert_eq!(peer.close_code(), Code::QPACK_DECOMPRESSION_FAILED.get());
    }
}

#[test]
fn unknown_streams_are_stopped_and_unknown_frames_skipped() {
    let mut peer = Raw::client();
    peer.uni(&control(&frame(0x21, b"grease")));
    let unknown = peer.uni(&[0x40, 0x21, 1, 2, 3]);
    peer.uni(&[0x02, 0x20]);
    peer.uni(&[0x03, 0x40]);
    assert_eq!(peer.stopped, [(unknown, 0x103u32.into())]);
    let id = peer.bi(&[frame(0x21, &[0; 300]), request(&[]), frame(0x21, b"x")].concat());
    peer.finish(id);
    assert_eq!(peer.requests(), 1);
    assert!(peer.lost.is_none());
}

#[test]
fn frames_that_do_not_belong_on_a_request_stream_are_unexpected() {
    let code = Code::H3_FRAME_UNEXPECTED;
    for kind in [
        SETTINGS,
        GOAWAY,
        MAX_PUSH_ID,
        CANCEL_PUSH,
        PUSH_PROMISE,
        0x02,
        0x06,
        0x08,
        0x09,
    ] {
        server_closes_over_request(&frame(kind, &[0]), code);
        let later = [request(&[]), frame(kind, &[0])].concat();
        server_closes_over_request(&later, code);
    }
    server_closes_over_request(&frame(DATA, b"x"), code);
    let trailers = [request(&[]), frame(HEADERS, &section(&[("a", "b")]))].concat();
    server_closes_over_request(&[&trailers[..], &frame(DATA, b"x")].concat(), code);
    let thrice = [&trailers[..], &frame(HEADERS, &section(&[("a", "b")]))].concat();
    server_closes_over_request(&thrice, code);
}

#[test]
fn a_frame_cut_by_the_end_of_its_stream_is_a_frame_error() {
    let mut peer = Raw::client();
    let whole = request(&[]);
    let id = peer.bi(&whole[..whole.len() - 1]);
    peer.finish(id);
    assert_eq!(peer.close_code(), Code::H3_FRAME_ERROR.get());
}

#[test]
fn a_request_stream_without_a_request_is_incomplete() {
    let mut peer = Raw::client();
    let id = peer.bi(&frame(0x21, b""));
    peer.finish(id);
    assert_eq!(peer.read(id), Err(0x10du32.into()));
    assert!(peer.lost.is_none());
    assert_eq!(peer.requests(), 0);
    assert_eq!(peer.reset_code(), None, "the application never knew of it");
}

#[test]
fn malformed_requests_cost_their_stream_and_no_more() {
    for extra in [
        ("Upper", "x"),
        ("connection", "close"),
        (":status", "200"),
        ("content-length", "x"),
        ("a", "b\nc"),
    ] {
        let mut peer = Raw::client();
        let id = peer.bi(&request(&[extra]));
        assert_eq!(peer.read(id), Err(0x10eu32.into()), "{extra:?}");
        assert_eq!(peer.stopped, [(id, 0x10eu32.into())]);
        assert_eq!(peer.requests(), 0);
        peer.bi(&request(&[]));
        assert_eq!(peer.requests(), 1);
        let is_told = |event: &&Event| matches!(event, Event::RequestMalformed);
        assert_eq!(peer.events.iter().filter(is_told).count(), 1, "{extra:?}");
    }
}

#[test]
fn a_body_of_another_length_than_announced_is_malformed() {
    for (announced, body) in [("5", "four"), ("3", "four"), ("0", "four")] {
        let mut peer = Raw::client();
        let length = ("content-length", announced);
        let id = peer.bi(&[request(&[length]), frame(DATA, body.as_bytes())].concat());
        peer.finish(id);
        peer.read_all();
        assert_eq!(
            peer.reset_code(),
            Some(Code::H3_MESSAGE_ERROR),
            "{announced}"
        );
        assert_eq!(peer.read(id), Err(0x10eu32.into()));
        assert!(peer.lost.is_none());
    }
}

#[test]
fn an_announced_body_that_never_begins_is_malformed() {
    let mut peer = Raw::client();
    let id = peer.bi(&request(&[("content-length", "5")]));
    peer.finish(id);
    peer.read_all();
    assert_eq!(peer.reset_code(), Some(Code::H3_MESSAGE_ERROR));
}

#[test]
fn an_oversized_head_is_answered_with_431_and_not_read() {
    let fields: Vec<_> = (0..40).map(|_| ("x", "yyyyyyyyyy")).collect();
    let counted = request(&fields);
    assert!(counted.len() < 1000, "small on the wire, large as counted");
    let on_the_wire = frame(HEADERS, &[0; 1001]);
    for bytes in [counted, on_the_wire] {
        let mut peer = Raw::client();
        let id = peer.bi(&bytes);
        let answer = peer.read(id).unwrap();
        // The rest has its time to come.
        assert_eq!(peer.stopped, []);
        (0..7).for_each(|_| peer.run());
        assert_eq!(peer.stopped, [(id, 0x100u32.into())]);
        assert_eq!(answer[0], HEADERS);
        assert!(answer.ends_with(&[0x5f, 0x09, 0x82, 0x68, 0x5f]) || answer.ends_with(b"431"));
        assert_eq!(peer.requests(), 0);
        assert!(peer.lost.is_none());
    }
}

#[test]
fn malformed_responses_cost_their_stream_and_no_more() {
    let ok = response(&[(":status", "200")]);
    let numbered = response(&[(":status", "200"), ("content-length", "5")]);
    for (bytes, code) in [
        (response(&[(":status", "20")]), Code::H3_MESSAGE_ERROR),
        (response(&[(":status", "101")]), Code::H3_MESSAGE_ERROR),
        (response(&[("a", "b")]), Code::H3_MESSAGE_ERROR),
        (
            response(&[(":status", "103")]).repeat(1_025),
            Code::H3_MESSAGE_ERROR,
        ),
        (
            [numbered, frame(DATA, b"four")].concat(),
            Code::H3_MESSAGE_ERROR,
        ),
        (
            [response(&[(":status", "204")]), frame(DATA, b"x")].concat(),
            Code::H3_MESSAGE_ERROR,
        ),
        (
            [&ok[..], &frame(HEADERS, &section(&[(":path", "/")]))].concat(),
            Code::H3_MESSAGE_ERROR,
        ),
        (response(&[(":status", "103")]), Code::H3_MESSAGE_ERROR),
        (
            vec![HEADERS, 0x80, 0x01, 0x00, 0x01],
            Code::H3_EXCESSIVE_LOAD,
        ),
    ] {
        let peer = respond(&bytes, code != Code::H3_EXCESSIVE_LOAD);
        assert_eq!(peer.reset_code(), Some(code), "{bytes:?}");
        assert!(peer.lost.is_none());
    }
}

#[test]
fn a_response_may_follow_as_many_interim_ones_as_a_client_takes() {
    let interim = response(&[(":status", "103")]).repeat(1_024);
    let peer = respond(&[interim, response(&[(":status", "200")])].concat(), true);
    let is_interim = |event: &&Event| matches!(event, Event::Informational { .. });
    assert_eq!(peer.events.iter().filter(is_interim).count(), 1_024);
    let is_final = |event: &Event| matches!(event, Event::Response { .. });
    assert!(peer.events.iter().any(is_final));
}

#[test]
fn a_push_promise_to_a_client_is_an_id_error() {
    let peer = respond(&frame(PUSH_PROMISE, &[0, 0, 0]), false);
    assert_eq!(peer.close_code(), Code::H3_ID_ERROR.get());
}

#[test]
fn a_server_cannot_open_request_streams() {
    let mut peer = Raw::server();
    assert!(peer.quic.streams().open(quinn_proto::Dir::Bi).is_none());
}

#[test]
fn requests_beyond_a_go_away_come_back_as_rejected() {
    let mut peer = Raw::server();
    for _ in 0..3 {
        peer.endpoint
            .with(peer.connection, |it, quic| {
                it.send_request(quic, &get("/"), true)
            })
            .unwrap();
    }
    peer.run();
    peer.uni(&control(&frame(GOAWAY, &[0x04])));
    let told: Vec<_> = peer
        .events
        .iter()
        .filter_map(|event| match event {
            Event::StreamReset { stream, code } => Some((stream.get(), *code)),
            _ => None,
        })
        .collect();
    let code = Code::H3_REQUEST_REJECTED;
    assert_eq!(told, [(4, code), (8, code)]);
    assert!(
        peer.events
            .iter()
            .any(|event| matches!(event, Event::GoAway))
    );
}

#[test]
fn more_requests_than_allowed_are_refused_by_quic() {
    let mut peer = Raw::client();
    for _ in 0..256 {
        peer.quic.streams().open(quinn_proto::Dir::Bi).unwrap();
    }
    assert!(peer.quic.streams().open(quinn_proto::Dir::Bi).is_none());
}

#[test]
fn noise_on_the_socket_harms_nothing() {
    let mut peer = Raw::client();
    let mut random = fastrand::Rng::with_seed(5);
    let now = std::time::Instant::now();
    for _ in 0..2000 {
        let payload: Vec<u8> = (0..random.usize(0..1500)).map(|_| random.u8(..)).collect();
        let remote = "10.9.9.9:99".parse().unwrap();
        let datagram = altway_http3::Datagram {
            remote,
            local_ip: None,
            ecn: None,
            payload: &payload,
        };
        peer.endpoint.handle_datagram(now, datagram);
    }
    peer.bi(&request(&[]));
    assert_eq!(peer.requests(), 1);
    assert_eq!(peer.endpoint.open_connections(), 1);
}
