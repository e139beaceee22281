//! Streams: what they carry, and what can't be done with them.

use std::time::Duration;

use altway_quic::{Direction, Error, Read, Role, StreamId};
use bytes::Bytes;

use crate::engine::{QuicConnection, QuicEndpoint};
use crate::pair::{Pair, delay, pattern};

const BRIEF: Duration = Duration::from_millis(100);

#[test]
fn bytes_of_either_side_arrive_with_their_end() {
    let mut pair = Pair::new().connected();
    let up = pair.client.open(Direction::Bidirectional);
    pair.client.send(up, pattern(1_000_000));
    assert!(pair.run_until(|pair| pair.server.ended == [up]));
    pair.server.send(up, pattern(3_000_000));
    let down = pair.server.open(Direction::Unidirectional);
    pair.server.send(down, pattern(5));
    assert!(pair.run_until(|pair| pair.client.ended.len() == 2));
    assert_eq!(pair.server.received[&up], pattern(1_000_000));
    assert_eq!(pair.client.received[&up], pattern(3_000_000));
    assert_eq!(pair.client.received[&down], pattern(5));
    pair.run_for(BRIEF);
    assert_eq!(pair.client.finished, [up]);
    assert!(pair.client.endpoint.is_idle() && pair.server.endpoint.is_idle());
}

#[test]
fn a_full_send_window_holds_the_writer_back_and_lets_it_go_on() {
    let mut pair =
        Pair::with(delay(10), |client, _| client.transport.send_window = 5000).connected();
    let stream = pair.client.open(Direction::Unidirectional);
    let mut chunks = [pattern(4000), pattern(4000)];
    let all = pair.client.quic().write(stream, &mut chunks).unwrap();
    assert!(!all);
    assert_eq!(chunks.each_ref().map(Bytes::len), [0, 3000]);
    pair.client.send(stream, chunks[1].clone());
    assert!(pair.run_until(|pair| pair.server.ended == [stream]));
    let sent = [pattern(4000), pattern(4000)].concat();
    assert_eq!(pair.server.received[&stream], sent);
}

#[test]
fn a_reader_that_does_not_read_holds_the_sender_back() {
    let mut pair = Pair::new();
    pair.server.lazy = true;
    let mut pair = pair.connected();
    let stream = pair.client.open(Direction::Unidirectional);
    pair.client.send(stream, pattern(3_000_000));
    pair.run_for(Duration::from_secs(5));
    pair.server.lazy = false;
    let Read::Data(first) = pair.server.quic().read(stream) else {
        panic!("nothing came")
    };
    pair.server.received.insert(stream, first.to_vec());
    pair.server.read(stream);
    let held = pair.server.received[&stream].len();
    assert!(
        held <= 256 << 10,
        "{held} bytes against a first window of 256 KiB"
    );
    assert!(pair.run_until(|pair| pair.server.ended == [stream]));
    assert_eq!(pair.server.received[&stream], pattern(3_000_000));
}

#[test]
fn a_higher_priority_sends_first() {
    let mut pair = Pair::new().connected();
    let streams = [0, 7, -7].map(|priority| {
        let stream = pair.server.open(Direction::Unidirectional);
        pair.server.quic().set_priority(stream, priority);
        pair.server.send(stream, pattern(300_000));
        stream
    });
    assert!(pair.run_until(|pair| pair.client.ended.len() == 3));
    let [middle, first, last] = streams;
    assert_eq!(pair.client.ended, [first, middle, last]);
}

#[test]
fn resets_and_stops_carry_their_codes() {
    let mut pair = Pair::new().connected();
    let stream = pair.client.open(Direction::Bidirectional);
    pair.client
        .quic()
        .write(stream, &mut [pattern(10)])
        .unwrap();
    pair.run_for(BRIEF);
    pair.client.quic().reset(stream, 77);
    pair.server.quic().stop(stream, 99);
    pair.client.quic().stop(stream, u64::MAX);
    pair.run_for(BRIEF);
    let other = pair.client.open(Direction::Unidirectional);
    pair.client.quic().reset(other, 55);
    pair.run_for(BRIEF);
    assert_eq!(pair.server.resets, [(other, 55)]);
    assert_eq!(pair.client.stopped, [(stream, 99)]);
    assert_eq!(pair.server.stopped, [(stream, (1 << 62) - 1)]);
    assert_eq!(pair.client.quic().read(stream), Read::Pending);
}

#[test]
fn a_reset_is_told_once_even_if_nobody_reads() {
    let mut pair = Pair::new();
    pair.server.lazy = true;
    let mut pair = pair.connected();
    let stream = pair.client.open(Direction::Unidirectional);
    pair.client
        .quic()
        .write(stream, &mut [pattern(10)])
        .unwrap();
    pair.run_for(BRIEF);
    pair.client.quic().reset(stream, 77);
    pair.run_for(BRIEF);
    assert_eq!(pair.server.quic().received_reset(stream), Some(77));
    assert_eq!(pair.server.quic().received_reset(stream), None);
    assert_eq!(pair.server.quic().read(stream), Read::Pending);
}

#[test]
fn streams_run_out_and_come_back() {
    let mut pair = Pair::with(delay(1), |_, server| {
        server.limits.max_unidirectional_streams = 1;
        server.limits.max_bidirectional_streams = 0;
    })
    .connected();
    assert_eq!(pair.client.quic().open(Direction::Bidirectional), None);
    let first = pair.client.open(Direction::Unidirectional);
    assert_eq!(pair.client.quic().open(Direction::Unidirectional), None);
    pair.client.streams_available = 0;
    pair.client.send(first, pattern(1));
    assert!(pair.run_until(|pair| pair.client.streams_available > 0));
    let second = pair.client.open(Direction::Unidirectional);
    assert_eq!(second.index(), 1);
}

#[test]
fn calls_on_streams_that_cannot_be_are_refused_and_harm_nothing() {
    let mut pair = Pair::new().connected();
    let theirs = StreamId::new(Role::Server, Direction::Unidirectional, 0);
    let unopened = StreamId::new(Role::Client, Direction::Bidirectional, 9);
    let ours = pair.client.open(Direction::Unidirectional);
    let quic = pair.client.quic();
    for stream in [theirs, unopened] {
        let written = quic.write(stream, &mut [pattern(1)]);
        assert!(matches!(written, Err(Error::UnknownStream)));
        assert!(matches!(quic.finish(stream), Err(Error::UnknownStream)));
        quic.reset(stream, 1);
        quic.set_priority(stream, 1);
    }
    for stream in [ours, unopened] {
        assert_eq!(quic.read(stream), Read::Pending);
        assert_eq!(quic.received_reset(stream), None);
        quic.stop(stream, 1);
    }
    quic.finish(ours).unwrap();
    assert!(matches!(quic.finish(ours), Err(Error::UnknownStream)));
    assert!(pair.run_until(|pair| pair.server.ended == [ours]));
}
