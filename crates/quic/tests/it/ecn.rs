//! Explicit congestion notification (RFC 9000 section 13.4): marks tell of congestion before packets
//! are lost, and are not trusted where the path meddles with them.

use std::time::Duration;

use altway_link::{Config as Link, Queue, Rate};
use altway_quic::{Direction, Ecn, PathStatistics};

use crate::engine::QuicEndpoint;
use crate::pair::{Pair, delay, pattern};

/// 20 Mbit/s and 40 ms there and back: 100 KB under way fill it.
fn pair() -> Pair {
    let rate = Rate::Fixed("20mbit".parse().unwrap());
    let link = Link {
        queue: Queue::default_for(&rate),
        rate,
        ..delay(20)
    };
    Pair::over(link).connected()
}

fn statistics(pair: &mut Pair) -> PathStatistics {
    let handle = pair.server.connection.unwrap();
    pair.server.endpoint.path_statistics(handle).unwrap()
}

/// The server sends for a second, over a path that does this to its marks.
fn download(pair: &mut Pair, on_the_way: fn(Option<Ecn>) -> Option<Ecn>) -> PathStatistics {
    pair.server.marks.clear();
    pair.server.on_the_way = on_the_way;
    let stream = pair.server.open(Direction::Unidirectional);
    pair.server.send(stream, pattern(10_000_000));
    pair.run_for(Duration::from_secs(1));
    statistics(pair)
}

/// All packets that the server sent bore the mark.
fn all_marked(pair: &Pair) -> bool {
    pair.server.marks.len() > 50
        && pair
            .server
            .marks
            .iter()
            .all(|mark| *mark == Some(Ecn::Ect0))
}

#[test]
fn packets_say_that_they_can_be_marked() {
    let mut pair = pair();
    let stream = pair.client.open(Direction::Unidirectional);
    pair.client.send(stream, pattern(1_000_000));
    assert!(pair.run_until(|pair| pair.server.ended == [stream]));
    download(&mut pair, |mark| mark);
    assert!(all_marked(&pair));
    assert!(
        pair.client
            .marks
            .iter()
            .all(|mark| *mark == Some(Ecn::Ect0))
    );
}

#[test]
fn a_mark_cuts_the_window_and_costs_no_packet() {
    let mut pair = pair();
    // In slow start, where the window only grows.
    let stream = pair.server.open(Direction::Unidirectional);
    pair.server.send(stream, pattern(10_000_000));
    pair.run_for(Duration::from_millis(100));
    let mut before = statistics(&mut pair);
    assert_eq!(before.congestion_events, 0);
    pair.server.on_the_way = |_| Some(Ecn::Ce);
    let marked = pair.elapsed();
    let after = loop {
        pair.run_for(Duration::from_micros(100));
        let now = statistics(&mut pair);
        if now.congestion_window < before.congestion_window {
            break now;
        }
        before = now;
    };
    let took = pair.elapsed() - marked;
    assert!(
        took < Duration::from_millis(60),
        "{took:?}, for a round trip"
    );
    assert_eq!(after.packets_lost, 0);
    let factor = after.congestion_window as f64 / before.congestion_window as f64;
    assert!(
        (factor - 0.7).abs() < 0.02,
        "{factor}, and not as RFC 9438 section 4.6 has it"
    );
    assert!(all_marked(&pair), "marks are believed");
}

/// A path that clears the bits would hide congestion.
#[test]
fn marks_that_get_lost_on_the_way_are_given_up_and_the_transfer_goes_on() {
    type OnTheWay = fn(Option<Ecn>) -> Option<Ecn>;
    let cases: [(&str, OnTheWay); 2] = [("cleared", |_| None), ("changed", |_| Some(Ecn::Ect1))];
    for (what, on_the_way) in cases {
        let mut pair = pair();
        let after = download(&mut pair, on_the_way);
        assert_eq!(pair.server.marks.last(), Some(&None), "{what}");
        assert!(after.bytes_acked > 1_500_000, "{what}: {after:?}");
    }
}
