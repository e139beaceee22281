//! Bad paths: every transfer ends with the right bytes or a clear error, and never hangs.

use std::time::Duration;

use altway_http3::{CloseReason, Code, Error};
use bytes::Bytes;
use proptest::prelude::*;

use crate::apps::{get, pattern, post};
use crate::pair::{Pair, Path};

fn path(delay_ms: u64) -> Path {
    Path {
        delay: Duration::from_millis(delay_ms),
        ..Path::default()
    }
}

/// Uploads and downloads at once, several of each; every byte must be right.
fn exchange(pair: &mut Pair, size: usize) {
    for _ in 0..3 {
        pair.start(&get(&format!("/bytes/{size}")), Bytes::new());
        pair.start(&post("/echo"), pattern(size));
    }
    assert!(pair.run_until(|pair| pair.fetches.all_done()), "hangs");
    for fetch in pair.fetches.fetches.values() {
        assert_eq!(fetch.reset, None);
        assert_eq!(fetch.body, pattern(size));
    }
}

#[test]
fn nearly_a_third_lost_both_ways() {
    for seed in 0..5 {
        let lossy = Path {
            loss: 0.3,
            seed,
            ..path(20)
        };
        exchange(&mut Pair::over(lossy).connected(), 50_000);
    }
}

#[test]
fn packets_that_overtake_each_other() {
    let mixed = Path {
        overtaken: 0.3,
        ..path(20)
    };
    exchange(&mut Pair::over(mixed).connected(), 300_000);
}

#[test]
fn packets_that_come_twice() {
    let doubled = Path {
        doubled: 0.5,
        ..path(20)
    };
    exchange(&mut Pair::over(doubled).connected(), 300_000);
}

#[test]
fn a_round_trip_of_a_second_and_all_other_faults_at_once() {
    let bad = Path {
        loss: 0.1,
        overtaken: 0.2,
        doubled: 0.1,
        rate: Some("2mbit".parse().unwrap()),
        ..path(500)
    };
    exchange(&mut Pair::over(bad).connected(), 30_000);
}

#[test]
fn a_path_that_comes_back_before_the_time_out_carries_on() {
    let mut pair = Pair::over(path(20)).connected();
    let down = pair.start(&get("/bytes/3000000"), Bytes::new());
    let up = pair.start(&post("/echo"), pattern(500_000));
    pair.run_for(Duration::from_millis(100));
    pair.black_hole = true;
    pair.run_for(Duration::from_secs(20));
    pair.black_hole = false;
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    assert_eq!(pair.fetches.fetches[&down].body, pattern(3_000_000));
    assert_eq!(pair.fetches.fetches[&up].body, pattern(500_000));
}

#[test]
fn a_path_that_comes_back_too_late_has_ended_in_a_time_out() {
    let mut pair = Pair::over(path(20)).connected();
    let stream = pair.start(&get("/bytes/3000000"), Bytes::new());
    pair.run_for(Duration::from_millis(100));
    pair.black_hole = true;
    pair.run_for(Duration::from_secs(40));
    pair.black_hole = false;
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.closed, Some(CloseReason::TimedOut));
    let void = pair
        .client
        .with(pair.connection, |it, quic| it.recv_data(quic, stream));
    assert!(matches!(void, Err(Error::UnknownConnection)));
    assert_eq!(pair.server.open_connections(), 0);
}

#[test]
fn ten_thousand_requests_pass_over_one_connection_and_leave_nothing_behind() {
    let mut pair = Pair::over(Path {
        loss: 0.01,
        ..path(5)
    })
    .connected();
    let mut sent = 0;
    while sent < 10_000 {
        for _ in 0..50 {
            let mut head = get("/bytes/600");
            let number = sent.to_string().parse().unwrap();
            head.headers_mut().insert("x-number", number);
            head.headers_mut().insert("accept", "*/*".parse().unwrap());
            pair.start(&head, Bytes::new());
            sent += 1;
        }
        assert!(pair.run_until(|pair| pair.fetches.all_done()), "hangs");
        let fetches = std::mem::take(&mut pair.fetches.fetches);
        assert!(fetches.values().all(|fetch| fetch.body == pattern(600)));
        // The server's word that there may be more can be lost.
        pair.run_for(Duration::from_millis(200));
    }
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.files.requests, 10_000);
    assert!(pair.client.is_idle() && pair.server.is_idle());
    assert!(pair.closed.is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_the_path_does_bytes_are_right_or_the_error_is_clear(
        delay in 0..300u64,
        loss in 0.0..0.35f64,
        overtaken in 0.0..0.5f64,
        doubled in 0.0..0.5f64,
        kbit in prop_oneof![Just(None), (200..50_000u64).prop_map(Some)],
        seed: u64,
    ) {
        let rate = kbit.and_then(altway_units::Bandwidth::from_kbit);
        let bad = Path { loss, overtaken, doubled, rate, seed, ..path(delay) };
        let mut pair = Pair::over(bad);
        if pair.run_until(|pair| pair.connected || pair.closed.is_some()) && pair.connected {
            pair.start(&get("/bytes/20000"), Bytes::new());
            pair.start(&post("/echo"), pattern(20_000));
            let ended = pair.run_until(|pair| pair.fetches.all_done() || pair.closed.is_some());
            prop_assert!(ended, "hangs");
        }
        if pair.closed.is_none() {
            for fetch in pair.fetches.fetches.values() {
                // On the worst of paths less moves than the server waits for.
                if fetch.reset != Some(Code::H3_REQUEST_CANCELLED) {
                    prop_assert_eq!(fetch.reset, None);
                    prop_assert_eq!(&fetch.body, &pattern(20_000));
                }
            }
        }
    }
}
