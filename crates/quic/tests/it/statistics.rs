//! Path statistics against the truth of the link model.
//!
//! Bounds: round-trip times within 2 % + 0.2 ms. Losses within four standard deviations of the binomial
//! distribution that the link draws from, which a right count leaves once in 16,000 tests. Delivery
//! rates within 5 % of the link's.

use std::time::Duration;

use altway_link::{Config as Link, Queue, Rate};
use altway_quic::{Congestion, DeliveryRate, Direction, PathStatistics};
use altway_units::Ratio;

use crate::engine::QuicEndpoint;
use crate::pair::{Pair, delay, pattern};

/// Bits per second of the bottleneck.
const RATE: f64 = 20e6;
/// Bytes of an IPv4 header and a UDP header.
const HEADERS: f64 = 28.0;

fn bottleneck(ms: u64) -> Link {
    let rate = Rate::Fixed("20mbit".parse().unwrap());
    Link {
        queue: Queue::default_for(&rate),
        rate,
        ..delay(ms)
    }
}

/// What the server knows.
fn statistics(pair: &mut Pair) -> PathStatistics {
    let handle = pair.server.connection.unwrap();
    pair.server.endpoint.path_statistics(handle).unwrap()
}

fn download(pair: &mut Pair, bytes: usize) {
    let stream = pair.server.open(Direction::Unidirectional);
    pair.server.send(stream, pattern(bytes));
}

/// The delivery rate in bits of IP packets.
fn on_the_wire(statistics: &PathStatistics) -> (f64, DeliveryRate) {
    let rate = statistics.delivery_rate.unwrap();
    let payload = f64::from(statistics.mtu);
    let bits = rate.bytes_per_second as f64 * 8.0 * (payload + HEADERS) / payload;
    (bits, rate)
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
        // Nothing varies but how long the peer waits with an acknowledgement, which it tells.
        assert_time(statistics.rtt_variation, Duration::ZERO);
    }
}

#[test]
fn a_queue_that_grows_makes_round_trips_vary() {
    let mut pair = Pair::over(bottleneck(20)).connected();
    download(&mut pair, 5_000_000);
    // The queue is half full.
    pair.run_for(Duration::from_millis(300));
    let statistics = statistics(&mut pair);
    assert_time(statistics.min_rtt, Duration::from_millis(40));
    assert!(statistics.smoothed_rtt > Duration::from_millis(50));
    let variation = statistics.rtt_variation;
    assert!(variation > Duration::from_micros(10), "{variation:?}");
    assert!(variation < statistics.smoothed_rtt / 2, "{variation:?}");
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
        assert!(statistics.bytes_lost <= statistics.packets_lost * u64::from(statistics.mtu));
        assert!(statistics.bytes_lost > statistics.packets_lost * 1_000);
        let answered = statistics.packets_acked + statistics.packets_lost;
        assert!(answered <= statistics.packets_sent, "{statistics:?}");
        assert!(statistics.packets_sent - answered < 50, "{statistics:?}");
    }
}

#[test]
fn the_delivery_rate_is_that_of_the_bottleneck() {
    for (ms, congestion) in [
        (5, Congestion::Cubic),
        (20, Congestion::Cubic),
        (20, Congestion::NewReno),
        (20, Congestion::Bbr),
    ] {
        let mut pair = Pair::with(bottleneck(ms), |client, server| {
            client.transport.congestion = congestion;
            server.transport.congestion = congestion;
        })
        .connected();
        download(&mut pair, 10_000_000);
        pair.run_for(Duration::from_secs(1));
        let mut sample = || {
            pair.run_for(Duration::from_millis(100));
            let (bits, rate) = on_the_wire(&statistics(&mut pair));
            assert!(!rate.app_limited, "with {congestion:?}");
            bits / RATE
        };
        let mut rates: Vec<_> = (0..20).map(|_| sample()).collect();
        rates.sort_by(f64::total_cmp);
        // When the window has been cut the sender pauses, and a sample says how little it sent: so the
        // median counts.
        let (median, most) = (rates[10], rates[19]);
        assert!((median - 1.0).abs() < 0.05, "{rates:?}, {congestion:?}");
        assert!(most < 1.05, "{rates:?}, {congestion:?}");
    }
}

#[test]
fn an_application_with_little_to_send_is_said_to_limit_the_rate() {
    let mut pair = Pair::over(bottleneck(20)).connected();
    for _ in 0..20 {
        download(&mut pair, 5_000);
        pair.run_for(Duration::from_millis(100));
        let (bits, rate) = on_the_wire(&statistics(&mut pair));
        assert!(rate.app_limited);
        assert!(bits < RATE / 2.0, "{bits}");
    }
}

#[test]
fn a_pause_does_not_hide_the_bottlenecks_rate() {
    let mut pair = Pair::over(bottleneck(20)).connected();
    download(&mut pair, 5_000_000);
    assert!(pair.run_until(|pair| pair.client.ended.len() == 1));
    pair.run_for(Duration::from_secs(5));
    let before = statistics(&mut pair).delivery_rate.unwrap();
    download(&mut pair, 5_000);
    pair.run_for(Duration::from_secs(1));
    let after = statistics(&mut pair).delivery_rate.unwrap();
    assert!(
        after.bytes_per_second >= before.bytes_per_second / 2,
        "{after:?}"
    );
}
