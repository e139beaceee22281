//! Path statistics against the truth of the link model.
//!
//! Bounds: round-trip times within 2 % + 0.2 ms. Losses within four standard deviations of the binomial
//! distribution that the link draws from, which a right count leaves once in 16,000 tests.

use std::time::Duration;

use altway_link::{Config as Link, Queue, Rate};
use altway_quic::{Direction, PathStatistics};
use altway_units::Ratio;

use crate::engine::QuicEndpoint;
use crate::pair::{Pair, delay, pattern};

fn bottleneck(ms: u64) -> Link {
    let rate = Rate::Fixed("20mbit".parse().unwrap());
    Link {
        queue: Queue::default_for(&rate),
        rate,
        ..delay(ms)
    }
}

/// Returns the server's statistics of its path.
fn statistics(pair: &mut Pair) -> PathStatistics {
    let handle = pair.server.connection.unwrap();
    pair.server.endpoint.path_statistics(handle).unwrap()
}

fn download(pair: &mut Pair, bytes: usize) {
    let stream = pair.server.open(Direction::Unidirectional);
    pair.server.send(stream, pattern(bytes));
}

fn assert_time(measured: Duration, truth: Duration) {
    let bound = truth.mul_f64(0.02) + Duration::from_micros(200);
    assert!(
        measured.abs_diff(truth) <= bound,
        "{measured:?}, and not {truth:?}"
    );
}

#[test]
fn round_trip_times_are_those_of_the_link() {
    for ms in [1, 20, 150] {
        let mut pair = Pair::over(delay(ms)).connected();
        download(&mut pair, 1_000_000);
        assert!(pair.run_until(|pair| pair.client.ended.len() == 1));
        pair.run_for(Duration::from_secs(1));
        let statistics = statistics(&mut pair);
        assert_time(statistics.min_rtt, Duration::from_millis(2 * ms));
        assert_time(statistics.smoothed_rtt, Duration::from_millis(2 * ms));
    }
}

#[test]
fn a_queue_that_grows_makes_round_trips_longer() {
    let mut pair = Pair::over(bottleneck(20)).connected();
    download(&mut pair, 5_000_000);
    // The queue is half full.
    pair.run_for(Duration::from_millis(300));
    let statistics = statistics(&mut pair);
    assert_time(statistics.min_rtt, Duration::from_millis(40));
    assert!(statistics.smoothed_rtt > Duration::from_millis(50));
}

#[test]
fn losses_are_those_of_the_link() {
    for percent in [1, 5, 10] {
        let link = Link {
            loss: Ratio::from_percent(percent).unwrap().into(),
            ..delay(20)
        };
        let mut pair = Pair::over(link).connected();
        download(&mut pair, 5_000_000);
        assert!(pair.run_until(|pair| pair.client.ended.len() == 1));
        pair.run_for(Duration::from_secs(5));
        let statistics = statistics(&mut pair);
        let (n, p) = (statistics.packets_sent as f64, f64::from(percent) / 100.0);
        let bound = 4.0 * (n * p * (1.0 - p)).sqrt();
        let lost = statistics.packets_lost as f64;
        assert!((lost - n * p).abs() < bound, "{lost} of {n} at {percent} %");
        // And of what this seed really lost, all but a few acknowledgements, which nobody misses.
        let truth = pair.server.loss() * n;
        assert!((lost - truth).abs() <= 0.002 * n, "{lost} of {truth}");
    }
}
