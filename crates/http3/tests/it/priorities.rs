//! RFC 9218: who sends first, and who shares.

use std::time::Duration;

use altway_http3::quic::{Direction, Role};
use altway_http3::{QuicConnection, StreamId};
use bytes::Bytes;

use crate::apps::get;
use crate::misbehaviour::{PRIORITY_UPDATE, control, request};
use crate::pair::{Pair, Path};
use crate::raw::{Raw, long_frame};

const SIZE: &str = "/bytes/300000";

fn pair() -> Pair {
    let rate = Some("100mbit".parse().unwrap());
    Pair::over(Path {
        rate,
        delay: Duration::from_millis(5),
        ..Path::default()
    })
    .connected()
}

fn start(pair: &mut Pair, priority: &str) -> StreamId {
    let mut head = get(SIZE);
    head.headers_mut()
        .insert("priority", priority.parse().unwrap());
    pair.start(&head, Bytes::new())
}

/// The client wishes another urgency for a response, on its control stream.
fn wish(pair: &mut Pair, stream: StreamId, urgency: u8) {
    let control = StreamId::new(Role::Client, Direction::Unidirectional, 0);
    let id = u8::try_from(stream.get()).unwrap();
    let update = long_frame(PRIORITY_UPDATE, &[id, b'u', b'=', b'0' + urgency]);
    let sent = pair.client.with(pair.connection, |_, quic| {
        Ok(quic.write(control, &mut [update.into()])?)
    });
    assert!(sent.unwrap());
}

/// In which order responses of these priorities are complete: indices.
fn order(priorities: &[&str]) -> Vec<u64> {
    let mut pair = pair();
    for priority in priorities {
        start(&mut pair, priority);
    }
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    let order = pair.fetches.order.iter();
    order.map(|stream| stream.index()).collect()
}

#[test]
fn urgent_responses_overtake() {
    assert_eq!(order(&["u=7", "u=3", "u=0", "u=5"]), [2, 1, 3, 0]);
}

#[test]
fn equals_come_in_the_order_of_their_requests() {
    assert_eq!(order(&["u=4", "", "u=4", "u=3"]), [1, 3, 0, 2]);
}

/// Returns the bytes of the second of two equal responses that are there when the first is
/// complete.
fn second_at_the_end_of_the_first(priority: &str) -> usize {
    let mut pair = pair();
    let first = start(&mut pair, priority);
    let second = start(&mut pair, priority);
    assert!(pair.run_until(|pair| pair.fetches.fetches[&first].done));
    pair.fetches.fetches[&second].body.len()
}

#[test]
fn incremental_responses_share_and_others_do_not() {
    let shared = second_at_the_end_of_the_first("i");
    assert!(shared > 250_000, "{shared}");
    let alone = second_at_the_end_of_the_first("");
    assert!(alone < 50_000, "{alone}");
}

#[test]
fn a_wish_can_change_while_responses_are_on_their_way() {
    let mut pair = pair();
    let first = start(&mut pair, "u=2");
    let second = start(&mut pair, "u=3");
    pair.run_for(Duration::from_millis(15));
    wish(&mut pair, second, 0);
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    assert_eq!(pair.fetches.order, [second, first]);
}

#[test]
fn urgency_decides_who_gets_a_full_send_window() {
    let mut pair = Pair::with(Path::default(), |_, server| {
        server.quic.transport.send_window = 20_000;
    })
    .connected();
    for priority in ["u=6", "u=5", "u=4", "u=0", "u=1", "u=2"] {
        start(&mut pair, priority);
    }
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    let order: Vec<u64> = pair.fetches.order.iter().map(|id| id.index()).collect();
    assert_eq!(order, [3, 4, 5, 2, 1, 0]);
}

#[test]
fn a_wish_that_overtakes_its_request_counts() {
    let mut pair = pair();
    let first = start(&mut pair, "u=2");
    let second = start(&mut pair, "u=3");
    // The control stream goes ahead of requests, so that this is the first that the server reads.
    wish(&mut pair, second, 0);
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    assert_eq!(pair.fetches.order, [second, first]);
}

#[test]
fn wishes_that_cannot_be_understood_or_come_too_late_do_not_matter() {
    let mut peer = Raw::client();
    let update = |stream: u8, text: &str| {
        long_frame(PRIORITY_UPDATE, &[&[stream], text.as_bytes()].concat())
    };
    let early = [update(4, "u=0"), update(0, "u=9, nonsense"), update(8, "")];
    let updates = peer.uni(&control(&early.concat()));
    let streams: Vec<_> = (0..3).map(|_| peer.bi(&request(&[]))).collect();
    assert_eq!(peer.requests(), 3);
    peer.reset(streams[0], 0x10c);
    peer.write(updates, &update(0, "u=1"));
    assert!(peer.lost.is_none());
}
