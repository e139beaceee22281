//! A peer can cost a connection no more than `Limits` says: a test for each limit.
//!
//! Limits with tests elsewhere: heads, concurrent requests and interim responses (`misbehaviour`),
//! waiting field sections (`qpack`), windows (`transfers`), connections (`lifecycle`).

use std::time::Duration;

use altway_http3::{Code, Event};

use crate::apps::pattern;
use crate::misbehaviour::{
    DATA, GOAWAY, HEADERS, MAX_PUSH_ID, PRIORITY_UPDATE, REQUEST, control, request,
};
use crate::raw::{Raw, frame, long_frame, section};

/// The default of `Limits::floods`, and what a request pays back.
const FLOODS: usize = 1000;
const PER_REQUEST: usize = 16;

fn excessive(peer: &Raw) -> bool {
    peer.lost.is_some() && peer.close_code() == Code::H3_EXCESSIVE_LOAD.get()
}

/// Sends `unit` so often on a unidirectional stream, behind `head`.
fn flood(head: &[u8], unit: &[u8], count: usize) -> Raw {
    let mut peer = Raw::client();
    peer.uni(&[head, &unit.repeat(count)].concat());
    peer
}

#[test]
fn frames_that_lead_nowhere_are_limited_on_the_control_stream() {
    for unit in [
        frame(0x21, b""),
        frame(GOAWAY, &[0]),
        frame(MAX_PUSH_ID, &[0]),
        long_frame(PRIORITY_UPDATE, &[0, b'i']),
    ] {
        let peer = flood(&control(&[]), &unit, FLOODS);
        assert!(peer.lost.is_none(), "{unit:?}");
        assert!(excessive(&flood(&control(&[]), &unit, FLOODS + 1)));
    }
}

#[test]
fn instructions_are_limited_on_qpack_streams() {
    // A capacity of 0, and the cancellation of stream 0.
    for (stream_type, instruction) in [(0x02, 0x20), (0x03, 0x40)] {
        let peer = flood(&[stream_type], &[instruction], FLOODS);
        assert!(peer.lost.is_none());
        assert!(excessive(&flood(
            &[stream_type],
            &[instruction],
            FLOODS + 1
        )));
    }
}

#[test]
fn what_a_flood_may_cost_comes_back_with_time_and_with_requests() {
    let mut peer = Raw::client();
    let encoder = peer.uni(&[&[0x02][..], &[0x20].repeat(FLOODS)].concat());
    // A hundred a second, and 16 for a request.
    peer.write_now(encoder, &[0x20; 100]);
    let id = peer.quic.streams().open(quinn_proto::Dir::Bi).unwrap();
    peer.write_now(id, &request(&[]));
    peer.write_now(encoder, &[0x20; PER_REQUEST]);
    assert!(peer.lost.is_none());
    peer.write(encoder, &[0x20]);
    assert!(excessive(&peer));
}

#[test]
fn frames_that_lead_nowhere_are_limited_on_request_streams() {
    for unit in [frame(0x21, b""), frame(DATA, b"")] {
        for (count, too_many) in [(FLOODS - 1, false), (FLOODS + 1, true)] {
            let mut peer = Raw::client();
            peer.bi(&[request(&[]), unit.repeat(count)].concat());
            peer.read_all();
            assert_eq!(excessive(&peer), too_many, "{count} of {unit:?}");
        }
    }
    let mut peer = Raw::client();
    peer.bi(&frame(0x21, b"").repeat(FLOODS + 1));
    assert!(excessive(&peer), "before the head");
}

#[test]
fn a_frame_without_end_is_not_skipped_for_ever() {
    let endless = [&[0x21][..], &[0xff; 8]].concat();
    assert!(excessive(&flood(&control(&[]), &endless, 1)));
    let mut peer = Raw::client();
    peer.bi(&endless);
    assert!(excessive(&peer));
}

#[test]
fn a_payload_that_is_too_large_to_hold_is_not_waited_for() {
    let settings = [&[0x00, 0x04][..], &[0x80, 0x00, 0x10, 0x01]].concat();
    assert!(excessive(&flood(&settings, &[], 0)));
    let update = [&control(&[])[..], &[0x80, 0x0f, 0x07, 0x00, 0x44, 0x01]].concat();
    assert!(excessive(&flood(&update, &[], 0)));
}

/// Opens so many requests and gives them up at once.
fn reset_requests(peer: &mut Raw, count: usize) {
    for _ in 0..count {
        let id = peer.quic.streams().open(quinn_proto::Dir::Bi).unwrap();
        let mut stream = peer.quic.send_stream(id);
        stream.write(&request(&[])).unwrap();
        stream.reset(0x10cu32.into()).unwrap();
    }
    peer.run();
}

#[test]
fn requests_given_up_before_they_are_answered_are_limited() {
    let mut peer = Raw::client();
    reset_requests(&mut peer, 200);
    assert!(peer.lost.is_none());
    reset_requests(&mut peer, 60);
    assert!(excessive(&peer), "twenty more a second at most");
}

#[test]
fn requests_that_break_the_rules_count_as_given_up() {
    let mut peer = Raw::client();
    for _ in 0..201 {
        let id = peer.quic.streams().open(quinn_proto::Dir::Bi).unwrap();
        let mut stream = peer.quic.send_stream(id);
        stream.write(&request(&[("Upper", "x")])).unwrap();
    }
    peer.run();
    assert!(excessive(&peer));
}

/// A raw client against a server that waits for two seconds.
fn hasty() -> Raw {
    Raw::client_with(|server, _| server.limits.stall = Duration::from_secs(2))
}

/// Returns true if the endpoint gave a stream of the raw peer up: it stopped it with
/// H3_REQUEST_CANCELLED.
fn given_up(peer: &Raw, id: quinn_proto::StreamId) -> bool {
    let code = Code::H3_REQUEST_CANCELLED.get();
    let mut stopped = peer.stopped.iter();
    stopped.any(|(stream, with)| *stream == id && with.into_inner() == code)
}

/// Returns true if the application was told once, and for nothing else, that a head is late, and has
/// answered.
fn is_late(peer: &mut Raw, id: quinn_proto::StreamId) -> bool {
    let late = peer.events.iter();
    let late = late.filter(|event| matches!(event, Event::RequestLate { .. }));
    let told = late.count();
    assert_eq!((peer.requests(), peer.reset_code()), (0, None));
    assert!(!given_up(peer, id) && peer.lost.is_none());
    let answer = peer.read(id).unwrap();
    assert_eq!(told, usize::from(!answer.is_empty()));
    told == 1
}

#[test]
fn a_head_that_does_not_come_is_not_waited_for() {
    let mut peer = hasty();
    let head = request(&[]);
    let id = peer.bi(&head[..5]);
    assert!(!is_late(&mut peer, id));
    peer.write_now(id, &head[5..6]);
    peer.run();
    assert!(is_late(&mut peer, id));
    // What comes of it is dropped, and others go on.
    peer.write(id, &head[6..]);
    peer.bi(&head);
    assert_eq!(peer.requests(), 1);
}

#[test]
fn a_head_has_its_time_however_much_of_it_comes() {
    let mut peer = Raw::client_with(|server, _| {
        server.limits.head = Duration::from_secs(3);
        server.limits.max_field_section_size = 64 << 10;
    });
    let id = peer.bi(&unfinished(2_000));
    for _ in 0..2 {
        assert!(!is_late(&mut peer, id));
        peer.write(id, &[0; 2_000]);
    }
    peer.run();
    assert!(is_late(&mut peer, id));
}

#[test]
fn a_section_whose_entries_do_not_come_is_not_waited_for() {
    let mut peer = hasty();
    let id = peer.bi(&frame(HEADERS, &[0x02, 0x00, 0x80]));
    for _ in 0..4 {
        peer.run();
    }
    assert!(is_late(&mut peer, id));
}

#[test]
fn a_body_that_trickles_is_given_up_and_one_that_moves_is_not() {
    for (size, slow) in [(1, true), (1024, false)] {
        let mut peer = hasty();
        let id = peer.bi(&request(&[]));
        for _ in 0..6 {
            if !given_up(&peer, id) {
                peer.write_now(id, &frame(DATA, &vec![b'x'; size]));
            }
            peer.read_all();
        }
        assert_eq!(given_up(&peer, id), slow);
        let told = slow.then_some(Code::H3_REQUEST_CANCELLED);
        assert_eq!(peer.reset_code(), told);
        assert!(peer.lost.is_none());
    }
}

#[test]
fn a_body_that_the_application_does_not_read_is_not_the_peers_fault() {
    let mut peer = hasty();
    let id = peer.bi(&[request(&[]), frame(DATA, b"unread")].concat());
    for _ in 0..6 {
        peer.run();
    }
    assert!(!given_up(&peer, id));
}

#[test]
fn a_response_that_is_not_taken_is_given_up() {
    let mut peer = taking_little();
    let id = peer.bi(&request(&[]));
    peer.finish(id);
    send_too_much(&mut peer);
    for _ in 0..4 {
        peer.run();
    }
    assert_eq!(peer.reset_code(), Some(Code::H3_REQUEST_CANCELLED));
    assert_eq!(peer.read(id), Err(0x10cu32.into()));
}

#[test]
fn a_tunnel_whose_peer_takes_nothing_is_given_up() {
    let mut peer = taking_little();
    let connect = section(&[(":method", "CONNECT"), (":authority", "a:1")]);
    peer.bi(&frame(HEADERS, &connect));
    send_too_much(&mut peer);
    for _ in 0..4 {
        peer.run();
    }
    assert_eq!(peer.reset_code(), Some(Code::H3_REQUEST_CANCELLED));
}

/// A peer with a small window, and a server that waits 2 s.
fn taking_little() -> Raw {
    Raw::client_with(|server, transport| {
        server.limits.stall = Duration::from_secs(2);
        transport.stream_receive_window(10_000u32.into());
    })
}

/// Begins a response that the window does not take.
fn send_too_much(peer: &mut Raw) {
    let stream = peer.stream_of_request();
    let head = http::Response::new(());
    let connection = peer.connection;
    let endpoint = &mut peer.endpoint;
    endpoint
        .with(connection, |it, quic| {
            it.send_response(quic, stream, &head, false)
        })
        .unwrap();
    let mut body = pattern(100_000);
    endpoint
        .with(connection, |it, quic| {
            it.send_data(quic, stream, &mut body, true)
        })
        .unwrap();
    assert!(!body.is_empty());
}

#[test]
fn an_application_that_takes_its_time_is_not_the_peers_fault() {
    let mut peer = hasty();
    let id = peer.bi(&request(&[]));
    peer.finish(id);
    for _ in 0..6 {
        peer.run();
    }
    assert_eq!(peer.reset_code(), None);
    let stream = peer.stream_of_request();
    let head = http::Response::new(());
    let connection = peer.connection;
    peer.endpoint
        .with(connection, |it, quic| {
            it.send_response(quic, stream, &head, true)
        })
        .unwrap();
    peer.run();
    assert_eq!(peer.read(id).unwrap()[0], HEADERS);
}

#[test]
fn a_tunnel_may_be_silent() {
    let mut peer = hasty();
    let connect = section(&[(":method", "CONNECT"), (":authority", "a:1")]);
    let id = peer.bi(&frame(HEADERS, &connect));
    for _ in 0..6 {
        peer.run();
    }
    assert_eq!(peer.requests(), 1);
    assert!(!given_up(&peer, id));
}

#[test]
fn a_peer_that_takes_no_acknowledgements_cannot_pile_them_up() {
    let mut peer = Raw::client_with(|_, transport| {
        transport.stream_receive_window(100u32.into());
    });
    peer.uni(&[0x02, 0x3f, 0xe1, 0x1f, 0x41, b'a', 1, b'b']);
    let literals = section(&REQUEST);
    let head = frame(HEADERS, &[&[0x02, 0x00], &literals[2..], &[0x80]].concat());
    for round in 0..100 {
        for _ in 0..100 {
            let Some(id) = peer.quic.streams().open(quinn_proto::Dir::Bi) else {
                break;
            };
            let mut stream = peer.quic.send_stream(id);
            stream.write(&head).unwrap();
            stream.finish().unwrap();
        }
        peer.turns();
        if peer.lost.is_some() {
            assert!(round > 30, "some are allowed: {round}");
            return assert!(excessive(&peer));
        }
        peer.drop_requests();
    }
    panic!("acknowledgements pile up");
}

/// A peer that may have larger heads than those of other tests, of a server that holds less.
fn sparing(bytes: u64) -> Raw {
    Raw::client_with(|server, _| {
        server.limits.max_field_section_size = 64 << 10;
        server.quic.limits.max_held_bytes = bytes;
    })
}

/// The beginning of a head of 60,000 bytes.
fn unfinished(bytes: usize) -> Vec<u8> {
    let length = 60_000_u32 | 0x8000_0000;
    [&[HEADERS][..], &length.to_be_bytes(), &vec![0; bytes]].concat()
}

#[test]
fn heads_that_are_not_complete_come_out_of_what_connections_may_hold() {
    let mut peer = sparing(200_000);
    let open = |peer: &mut Raw| {
        let id = peer.quic.streams().open(quinn_proto::Dir::Bi).unwrap();
        peer.write_now(id, &unfinished(9_000));
        id
    };
    let ids: Vec<_> = (0..40).map(|_| open(&mut peer)).collect();
    let answered = |peer: &mut Raw, id| !peer.read(id).unwrap().is_empty();
    // The first ones have their room, of which the windows have a part, and take it in powers of two.
    let refused: Vec<_> = ids.iter().map(|id| answered(&mut peer, *id)).collect();
    let count = refused.iter().filter(|refused| **refused).count();
    assert!((26..38).contains(&count), "{refused:?}");
    assert!(!refused[0] && refused[39], "{refused:?}");
    assert!(peer.lost.is_none());
    let small = peer.bi(&request(&[]));
    assert_eq!((peer.requests(), peer.stream_of_request().get()), (1, 160));
    peer.drop_requests();
    let _ = peer.read(small);
    // Those that had room are given up as they stall, and give it back.
    (0..40).for_each(|_| peer.run());
    let large = peer.bi(&unfinished(50_000));
    assert!(!answered(&mut peer, large));
}

#[test]
fn a_connection_may_keep_small_heads_whatever_others_hold() {
    let mut peer = sparing(0);
    let small = peer.bi(&unfinished(3_000));
    let large = peer.bi(&unfinished(12_000));
    assert!(peer.read(small).unwrap().is_empty());
    assert!(!peer.read(large).unwrap().is_empty());
}

#[test]
fn trailers_that_are_not_complete_count_too() {
    let mut peer = sparing(0);
    peer.bi(&[request(&[]), unfinished(12_000)].concat());
    peer.read_all();
    assert_eq!(peer.reset_code(), Some(Code::H3_EXCESSIVE_LOAD));
    assert!(peer.lost.is_none());
}
