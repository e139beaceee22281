//! Congestion control over the link model: what it makes of loss, and of a queue.

use std::time::Duration;

use altway_link::{Config as Link, Queue, Rate};
use altway_quic::{Congestion, Direction, PathStatistics};
use altway_units::{DataSize, Ratio};

use crate::engine::QuicEndpoint;
use crate::pair::{Pair, delay, pattern};

/// A server that has sent `bytes`, and how long that took.
fn download(
    seed: u64,
    link: Link,
    congestion: Congestion,
    bytes: usize,
) -> (PathStatistics, Duration) {
    let pair = Pair::seeded(seed, link, |client, server| {
        client.transport.congestion = congestion;
        server.transport.congestion = congestion;
    });
    let mut pair = pair.connected();
    let stream = pair.server.open(Direction::Unidirectional);
    let began = pair.elapsed();
    pair.server.send(stream, pattern(bytes));
    assert!(pair.run_until(|pair| pair.client.ended == [stream]));
    let took = pair.elapsed() - began;
    (statistics(&mut pair), took)
}

fn statistics(pair: &mut Pair) -> PathStatistics {
    let handle = pair.server.connection.unwrap();
    pair.server.endpoint.path_statistics(handle).unwrap()
}

fn bottleneck(rate: &str, ms: u64, queue: Option<u64>) -> Link {
    let rate = Rate::Fixed(rate.parse().unwrap());
    let queue = queue.map(|bytes| Queue::Bytes(DataSize::from_bytes(bytes)));
    Link {
        queue: queue.unwrap_or(Queue::default_for(&rate)),
        rate,
        ..delay(ms)
    }
}

#[test]
fn random_loss_leaves_cubic_what_reno_would_have_and_little_more() {
    let link = Link {
        loss: Ratio::from_percent(5).unwrap().into(),
        ..delay(50)
    };
    let seconds = |seed| {
        download(seed, link.clone(), Congestion::Cubic, 500_000)
            .1
            .as_secs_f64()
    };
    let mut all: Vec<_> = (1..=15).map(seconds).collect();
    all.sort_by(f64::total_cmp);
    let median = all[all.len() / 2];
    // Reno's mean window under a loss rate of p is sqrt(1.5 / p) packets a round trip (RFC 9438
    // section 5.1). Packets have 1,420 bytes of payload and more.
    let packets_a_second = (1.5_f64 / 0.05).sqrt() / 0.1;
    let reno = 500_000.0 / 1_424.0 / packets_a_second;
    assert!(
        (0.65..1.0).contains(&(median / reno)),
        "{median} s, {reno} s"
    );
}

#[test]
fn slow_start_ends_before_a_queue_overflows_by_as_much_as_it_holds() {
    // How many times as many packets Reno loses, at least: fewer where a queue holds little more than
    // twice what the path does, for then the delay that ends slow start is nearly all there is room for.
    for (link, bytes, times) in [
        (bottleneck("100mbit", 20, None), 10_000_000, 3.0),
        (bottleneck("5mbit", 25, Some(96 << 10)), 3_000_000, 3.0),
        (bottleneck("5mbit", 25, Some(64 << 10)), 3_000_000, 1.8),
    ] {
        // It has none of HyStart++.
        let (reno, slower) = download(1, link.clone(), Congestion::NewReno, bytes);
        let (cubic, took) = download(1, link, Congestion::Cubic, bytes);
        let (cubic, reno) = (cubic.packets_lost, reno.packets_lost);
        assert!(cubic as f64 * times < reno as f64, "{cubic} of {reno}");
        assert!(took <= slower.mul_f64(1.01), "{took:?} after {slower:?}");
    }
}

#[test]
fn the_first_flight_fills_the_initial_window() {
    for congestion in [Congestion::Cubic, Congestion::NewReno] {
        let pair = Pair::with(delay(50), |client, server| {
            client.transport.congestion = congestion;
            server.transport.congestion = congestion;
            server.transport.mtu_upper_bound = 1_200;
        });
        let mut pair = pair.connected();
        pair.run_for(Duration::from_secs(1));
        let before = statistics(&mut pair);
        let stream = pair.server.open(Direction::Unidirectional);
        pair.server.send(stream, pattern(1_000_000));
        pair.run_for(Duration::from_millis(99));
        let after = statistics(&mut pair);
        let sent = after.packets_sent - before.packets_sent;
        assert_eq!(sent, after.congestion_window / 1_200, "{congestion:?}");
    }
}
