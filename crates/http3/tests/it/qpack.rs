//! QPACK's dynamic table between an endpoint and its peer: what refers to it, what waits for it, and
//! what is said about it.

use altway_http3::{Code, Event};
use bytes::Bytes;
use http::Response;
use quinn_proto::{Dir, Side, StreamId};

use crate::apps::get;
use crate::misbehaviour::{DATA, HEADERS, REQUEST, SETTINGS, control, request};
use crate::pair::{Pair, Path};
use crate::raw::{Raw, frame, section};

/// "Set Dynamic Table Capacity" 4096, and the insertion of `x-a: 1`.
const INSERTION: [u8; 9] = [0x3f, 0xe1, 0x1f, 0x43, b'x', b'-', b'a', 1, b'1'];

/// An encoder stream with these instructions.
fn encoder_stream(instructions: &[u8]) -> Vec<u8> {
    [&[0x02], instructions].concat()
}

/// A head of these literals, and the table's first entry behind them.
fn dynamic_head(fields: &[(&str, &str)]) -> Vec<u8> {
    let literals = section(fields);
    frame(HEADERS, &[&[0x02, 0x00], &literals[2..], &[0x80]].concat())
}

/// The endpoint's own unidirectional stream of this index: control, encoder, decoder, grease.
fn ours(peer: &mut Raw, side: Side, index: u64) -> Vec<u8> {
    peer.read(StreamId::new(side, Dir::Uni, index)).unwrap()
}

fn field_of_request(peer: &Raw) -> Option<&[u8]> {
    peer.events.iter().find_map(|event| match event {
        Event::Request { head, .. } => Some(head.headers()["x-a"].as_bytes()),
        _ => None,
    })
}

#[test]
fn a_request_that_refers_to_the_table_is_understood_and_its_insertion_acknowledged_at_once() {
    let mut peer = Raw::client();
    peer.uni(&encoder_stream(&INSERTION));
    peer.bi(&dynamic_head(&REQUEST));
    assert_eq!(field_of_request(&peer), Some(&b"1"[..]));
    let told = ours(&mut peer, Side::Server, 2);
    assert_eq!(told, [0x03, 0x01], "type, one insertion");
}

#[test]
fn a_request_waits_for_its_entries_with_all_that_is_behind_it() {
    let mut peer = Raw::client();
    let id = peer.bi(&[dynamic_head(&REQUEST), frame(DATA, b"body")].concat());
    peer.finish(id);
    assert_eq!(peer.requests(), 0);
    let encoder = peer.uni(&encoder_stream(&INSERTION[..8]));
    assert_eq!(peer.requests(), 0);
    peer.write(encoder, &INSERTION[8..]);
    assert_eq!(field_of_request(&peer), Some(&b"1"[..]));
    peer.read_all();
    assert_eq!(peer.body, b"body");
    assert!(peer.lost.is_none());
}

#[test]
fn trailers_wait_for_their_entries() {
    let mut peer = Raw::client();
    let id = peer.bi(&[request(&[]), frame(DATA, b"body"), dynamic_head(&[])].concat());
    peer.finish(id);
    peer.read_all();
    assert_eq!(peer.body, b"body");
    assert_eq!((&peer.trailers, peer.ended), (&None, 0));
    peer.uni(&encoder_stream(&INSERTION));
    peer.read_all();
    assert_eq!(peer.trailers.as_ref().unwrap()["x-a"], "1");
    assert_eq!(peer.ended, 1);
    assert!(peer.lost.is_none());
}

#[test]
fn more_waiting_streams_than_allowed_end_the_connection() {
    let mut peer = Raw::client();
    for _ in 0..16 {
        peer.bi(&dynamic_head(&REQUEST));
    }
    assert!(peer.lost.is_none());
    peer.bi(&dynamic_head(&REQUEST));
    let code = Code::QPACK_DECOMPRESSION_FAILED;
    assert_eq!(peer.close_code(), code.get());
}

#[test]
fn a_waiting_stream_that_is_reset_is_cancelled_and_gives_its_place_free() {
    let mut peer = Raw::client();
    let streams: Vec<_> = (0..16).map(|_| peer.bi(&dynamic_head(&REQUEST))).collect();
    peer.reset(streams[1], 0x10c);
    let told = ours(&mut peer, Side::Server, 2);
    assert_eq!(told, [0x03, 0x44], "type, cancellation of stream 4");
    peer.bi(&dynamic_head(&REQUEST));
    peer.uni(&encoder_stream(&INSERTION));
    assert!(peer.lost.is_none());
    assert_eq!(peer.requests(), 16);
}

#[test]
fn a_client_takes_responses_that_refer_to_the_table_and_wait_for_it() {
    let mut peer = Raw::server();
    let (connection, request) = (peer.connection, get("/"));
    let stream = peer
        .endpoint
        .with(connection, |it, quic| it.send_request(quic, &request, true))
        .unwrap();
    peer.run();
    let id = StreamId::new(Side::Client, Dir::Bi, stream.index());
    peer.write(id, &dynamic_head(&[(":status", "103")]));
    peer.write(id, &dynamic_head(&[(":status", "200")]));
    peer.finish(id);
    let before = peer.events.len();
    peer.uni(&encoder_stream(&INSERTION));
    match &peer.events[before..] {
        [
            Event::Informational { head: early, .. },
            Event::Response {
                head, end: true, ..
            },
        ] => {
            assert_eq!(
                (early.status().as_u16(), head.status().as_u16()),
                (103, 200)
            );
            assert_eq!(head.headers()["x-a"], "1");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_peer_that_offers_no_table_sees_no_instructions() {
    let mut peer = Raw::server();
    peer.uni(&control(&[]));
    for _ in 0..5 {
        let (connection, request) = (peer.connection, get("/"));
        peer.endpoint
            .with(connection, |it, quic| it.send_request(quic, &request, true))
            .unwrap();
        peer.run();
    }
    assert!(ours(&mut peer, Side::Client, 1).is_empty());
}

/// Our server answers the raw peer's next request with `x-b: 2`; the section that it sends.
fn answered(peer: &mut Raw) -> Vec<u8> {
    let id = peer.bi(&request(&[]));
    peer.finish(id);
    let stream = peer.stream_of_request();
    let head = Response::builder().header("x-b", "2").body(()).unwrap();
    let (endpoint, connection) = (&mut peer.endpoint, peer.connection);
    endpoint
        .with(connection, |it, quic| {
            it.send_response(quic, stream, &head, true)
        })
        .unwrap();
    // What can't be sent must not be awaited either.
    for _ in 0..2000 {
        let second = endpoint.with(connection, |it, quic| {
            it.send_response(quic, stream, &head, true)
        });
        assert!(second.is_err());
    }
    peer.run();
    peer.read(id).unwrap()[2..].to_vec()
}

#[test]
fn an_entry_is_referred_to_once_the_peer_is_known_to_have_it() {
    let mut peer = Raw::client();
    let settings = frame(SETTINGS, &[0x01, 0x50, 0x00]);
    peer.uni(&[&[0x00], &settings[..]].concat());
    let literal = [0, 0, 0xd9, 0x23, b'x', b'-', b'b', 1, b'2'];
    assert_eq!(answered(&mut peer), literal);
    assert_eq!(answered(&mut peer), literal);
    let insertion = [0x43, b'x', b'-', b'b', 1, b'2'];
    assert!(ours(&mut peer, Side::Server, 1).ends_with(&insertion));
    let decoder = peer.uni(&[0x03, 0x01]);
    let dynamic = [0x02, 0x00, 0xd9, 0x80];
    assert_eq!(answered(&mut peer), dynamic);
    peer.write(decoder, &[0x88]);
    assert_eq!(answered(&mut peer), dynamic);
    assert!(peer.lost.is_none());
}

#[test]
fn fields_that_come_again_shrink_to_an_index() {
    let sent = |capacity| {
        let mut pair = Pair::with(Path::default(), |_, server| {
            server.limits.qpack_table_capacity = capacity;
        })
        .connected();
        let mut head = get("/bytes/1");
        let value = "a value of some length, which repeats";
        head.headers_mut()
            .insert("x-custom", value.parse().unwrap());
        for _ in 0..100 {
            pair.fetch(&head, Bytes::new());
        }
        let path = pair.client.path_statistics(pair.connection).unwrap();
        path.bytes_sent
    };
    let (with, without) = (sent(4096), sent(0));
    assert!(with + 3000 < without, "{with} bytes instead of {without}");
}
