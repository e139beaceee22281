//! Bytes that a server's connection holds because its peer doesn't acknowledge them, or nobody reads
//! them: few at first, more with what it gets done, and for all connections together no more than
//! there is.

use std::time::Duration;

use altway_quic::{Direction, StreamId};

use crate::engine::QuicConnection;
use crate::pair::{Pair, delay, pattern};

const FIRST: usize = 8 << 10;

/// A connection on which the client has asked for something.
fn asked(max_held_bytes: u64) -> (Pair, StreamId) {
    let mut pair = Pair::with(delay(20), |_, server| {
        server.limits.max_held_bytes = max_held_bytes;
    })
    .connected();
    let stream = ask(&mut pair);
    (pair, stream)
}

fn ask(pair: &mut Pair) -> StreamId {
    let stream = pair.client.open(Direction::Bidirectional);
    pair.client.send(stream, pattern(10));
    let asked = pair.run_until(|pair| pair.server.ended.contains(&stream));
    assert!(asked);
    stream
}

/// Returns the time that the server takes to deliver `bytes` on `stream`.
fn deliver(pair: &mut Pair, stream: StreamId, bytes: usize) -> Duration {
    let begun = pair.elapsed();
    pair.server.send(stream, pattern(bytes));
    assert!(pair.run_until(|pair| pair.client.ended.contains(&stream)));
    assert_eq!(pair.client.received[&stream], pattern(bytes));
    pair.elapsed() - begun
}

#[test]
fn a_client_that_acknowledges_nothing_costs_little_when_there_is_little() {
    let (mut pair, stream) = asked(0);
    pair.black_hole = true;
    let mut body = [pattern(10 << 20)];
    for _ in 0..5 {
        assert!(!pair.server.quic().write(stream, &mut body).unwrap());
        pair.run_for(Duration::from_secs(1));
    }
    let taken = (10 << 20) - body[0].len();
    assert_eq!(taken, FIRST);
}

#[test]
fn without_a_pool_transfers_are_slow_and_end() {
    let (mut pair, stream) = asked(0);
    let time = deliver(&mut pair, stream, 1 << 20);
    // 128 windows of 8 KiB; each but the first waits a round trip of 40 ms.
    let expected = Duration::from_millis(40 * 127);
    assert!(time >= expected, "{time:?}");
    assert!(time < 2 * expected, "{time:?}");
}

#[test]
fn what_a_transfer_had_is_there_for_the_next_one() {
    let (mut pair, mut stream) = asked(1 << 20);
    let first = deliver(&mut pair, stream, 4 << 20);
    for _ in 0..5 {
        stream = ask(&mut pair);
        let next = deliver(&mut pair, stream, 4 << 20);
        assert!(next <= first, "{next:?} after {first:?}");
    }
}

#[test]
fn an_upload_that_is_read_gets_a_larger_window() {
    let time = |max_held_bytes| {
        let (mut pair, _) = asked(max_held_bytes);
        let stream = pair.client.open(Direction::Bidirectional);
        let begun = pair.elapsed();
        pair.client.send(stream, pattern(16 << 20));
        assert!(pair.run_until(|pair| pair.server.ended.contains(&stream)));
        assert_eq!(pair.server.received[&stream], pattern(16 << 20));
        pair.elapsed() - begun
    };
    let (slow, fast) = (time(0), time(1 << 30));
    assert!(3 * fast < slow, "{fast:?} against {slow:?}");
}
