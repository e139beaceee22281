//! Heads that come or go again and again: they mean the same, whatever was remembered of them, as long
//! as the compression tables do.

use std::sync::Arc;

use altway_http3::{Error, Event};
use bytes::Bytes;
use http::{Request, Response};
use quinn_proto::StreamId;

use crate::misbehaviour::{HEADERS, REQUEST, SETTINGS, request};
use crate::raw::{Raw, frame, section};

/// "Set Dynamic Table Capacity" 4096.
const CAPACITY: [u8; 3] = [0x3f, 0xe1, 0x1f];

/// A literal insertion of `x-a` with this value.
fn insertion(value: u8) -> [u8; 6] {
    [0x43, b'x', b'-', b'a', 1, value]
}

/// A request whose last field is the newest entry of a table of so many.
fn refers(required: u8) -> Vec<u8> {
    let literals = section(&REQUEST);
    let payload = [&[required + 1, 0x00], &literals[2..], &[0x80]].concat();
    frame(HEADERS, &payload)
}

/// Sends a whole request; what our server's application hears of it.
fn ask(peer: &mut Raw, request: &[u8]) -> (StreamId, Arc<Request<()>>) {
    let id = peer.bi(request);
    peer.finish(id);
    let mut events = peer.events.iter().rev();
    let head = events.find_map(|event| match event {
        Event::Request { head, .. } => Some(Arc::clone(head)),
        _ => None,
    });
    (id, head.unwrap())
}

fn value(head: &Request<()>) -> &[u8] {
    head.headers()["x-a"].as_bytes()
}

#[test]
fn a_request_that_comes_again_is_told_by_the_same_head() {
    let mut peer = Raw::client();
    let heads: Vec<_> = (0..4)
        .map(|_| ask(&mut peer, &request(&[("x-a", "1")])).1)
        .collect();
    assert!(heads.iter().all(|head| value(head) == b"1"));
    assert!(!Arc::ptr_eq(&heads[0], &heads[1]), "it came once");
    assert!(Arc::ptr_eq(&heads[1], &heads[2]));
    assert!(Arc::ptr_eq(&heads[1], &heads[3]));
}

#[test]
fn one_that_differs_is_told_as_it_is() {
    let mut peer = Raw::client();
    for told in ["1", "1", "1", "2", "1", "2", "2", "2", "1"] {
        let (_, head) = ask(&mut peer, &request(&[("x-a", told)]));
        assert_eq!(value(&head), told.as_bytes());
    }
}

#[test]
fn long_requests_are_not_remembered() {
    let mut peer = Raw::client_with(|server, _| server.limits.max_field_section_size = 10_000);
    let value = "x".repeat(100);
    let long = request(&[("x-a", value.as_str()); 20]);
    let heads: Vec<_> = (0..3).map(|_| ask(&mut peer, &long).1).collect();
    assert!(!Arc::ptr_eq(&heads[1], &heads[2]));
    assert_eq!(heads[2].headers().get_all("x-a").iter().count(), 20);
}

#[test]
fn the_same_bytes_mean_something_else_once_the_table_does() {
    let mut peer = Raw::client();
    let first = [&[0x02][..], &CAPACITY, &insertion(b'1')].concat();
    let encoder = peer.uni(&first);
    for _ in 0..3 {
        assert_eq!(value(&ask(&mut peer, &refers(1)).1), b"1");
    }
    peer.write(encoder, &insertion(b'2'));
    assert_eq!(value(&ask(&mut peer, &refers(2)).1), b"2");
    // The table shrinks to nothing and grows again: what was the first entry is no more.
    peer.write(encoder, &[&[0x20][..], &CAPACITY].concat());
    let id = peer.bi(&refers(2));
    peer.finish(id);
    assert_eq!(
        peer.close_code(),
        altway_http3::Code::QPACK_DECOMPRESSION_FAILED.get()
    );
}

#[test]
fn each_request_that_comes_again_is_acknowledged_some_at_a_time() {
    let mut peer = Raw::client();
    peer.uni(&[&[0x02][..], &CAPACITY, &insertion(b'1')].concat());
    let mut asked: Vec<_> = (0..31).map(|_| ask(&mut peer, &refers(1)).0).collect();
    let decoder = StreamId::new(quinn_proto::Side::Server, quinn_proto::Dir::Uni, 2);
    assert_eq!(peer.read(decoder).unwrap(), [0x03, 0x01]);
    asked.push(ask(&mut peer, &refers(1)).0);
    let acknowledged: Vec<_> = asked
        .iter()
        .map(|id| 0x80 | u8::try_from(u64::from(*id)).unwrap())
        .collect();
    let told = peer.read(decoder).unwrap();
    assert_eq!(told, acknowledged);
}

/// Our server answers a request with this head and this content; the bytes on the stream.
fn answered(peer: &mut Raw, head: &Arc<Response<()>>, content: &'static [u8]) -> Vec<u8> {
    let (id, _) = ask(peer, &request(&[]));
    let stream = peer.stream_of_request();
    let mut data = Bytes::from_static(content);
    let (endpoint, connection) = (&mut peer.endpoint, peer.connection);
    endpoint
        .with(connection, |it, quic| {
            it.send_message(quic, stream, head, &mut data, true)
        })
        .unwrap();
    assert!(data.is_empty());
    peer.run();
    peer.read(id).unwrap()
}

fn response(value: &str) -> Arc<Response<()>> {
    Arc::new(Response::builder().header("x-b", value).body(()).unwrap())
}

/// The frames of a response with this section, each with the shortest header.
fn frames_of(section: &[u8], content: &[u8]) -> Vec<u8> {
    let short = |kind, payload: &[u8]| {
        let length = u8::try_from(payload.len()).unwrap();
        [&[kind, length], payload].concat()
    };
    let data = match content {
        [] => Vec::new(),
        content => short(0, content),
    };
    [short(1, section), data].concat()
}

/// The same, of a response without a table.
fn frames(value: u8, content: &[u8]) -> Vec<u8> {
    let section = [0, 0, 0xd9, 0x23, b'x', b'-', b'b', 1, value];
    frames_of(&section, content)
}

#[test]
fn a_response_that_is_sent_again_has_the_same_frames() {
    let mut peer = Raw::client();
    let head = response("1");
    for content in [
        &b"content"[..],
        b"content",
        b"content",
        b"other",
        b"",
        b"content",
    ] {
        assert_eq!(answered(&mut peer, &head, content), frames(b'1', content));
    }
    for other in [b'2', b'1', b'2'] {
        let head = response(std::str::from_utf8(&[other]).unwrap());
        for _ in 0..3 {
            assert_eq!(answered(&mut peer, &head, b"c"), frames(other, b"c"));
        }
    }
}

#[test]
fn a_response_that_is_sent_again_takes_to_the_table_once_the_peer_has_it() {
    let mut peer = Raw::client();
    peer.uni(&[&[0x00][..], &frame(SETTINGS, &[0x01, 0x50, 0x00])].concat());
    let head = response("1");
    let literal = frames(b'1', b"c");
    for _ in 0..3 {
        assert_eq!(answered(&mut peer, &head, b"c"), literal);
    }
    let decoder = peer.uni(&[0x03, 0x01]);
    let indexed = frames_of(&[0x02, 0x00, 0xd9, 0x80], b"c");
    for stream in 3..40 {
        assert_eq!(answered(&mut peer, &head, b"c"), indexed);
        // Each is to be acknowledged, and one that was not sent could not be.
        let mut acknowledgement = Vec::new();
        altway_fields::integer::encode(stream * 4, 7, 0x80, &mut acknowledgement);
        peer.write(decoder, &acknowledgement);
    }
    assert!(peer.lost.is_none());
}

#[test]
fn a_peer_that_acknowledges_no_section_gets_literals_in_the_end() {
    let mut peer = Raw::client_with(|_, transport| {
        transport.max_concurrent_bidi_streams(2_000_u32.into());
    });
    peer.uni(&[&[0x00][..], &frame(SETTINGS, &[0x01, 0x50, 0x00])].concat());
    let head = response("1");
    for _ in 0..2 {
        answered(&mut peer, &head, b"c");
    }
    peer.uni(&[0x03, 0x01]);
    let literals = (0..1_100)
        .filter(|_| answered(&mut peer, &head, b"c") == frames(b'1', b"c"))
        .count();
    assert_eq!(literals, 1_100 - 1_024);
}

#[test]
fn only_a_server_sends_a_message_and_only_once() {
    let mut peer = Raw::client();
    ask(&mut peer, &request(&[]));
    let (stream, connection) = (peer.stream_of_request(), peer.connection);
    let send = |peer: &mut Raw, head: &Arc<Response<()>>| {
        let data = &mut Bytes::from_static(b"c");
        peer.endpoint.with(connection, |it, quic| {
            it.send_message(quic, stream, head, data, true)
        })
    };
    let early_hints = Arc::new(Response::builder().status(103).body(()).unwrap());
    let refused = send(&mut peer, &early_hints);
    assert!(matches!(refused, Err(Error::InvalidMessage { .. })));
    send(&mut peer, &response("1")).unwrap();
    let again = send(&mut peer, &response("1"));
    assert!(matches!(again, Err(Error::OutOfOrder { .. })), "{again:?}");
}
