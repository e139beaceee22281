//! How long exchanges take, as the server knows it, against what the client sees.

use std::time::Duration;

use altway_http3::{Code, Deliveries};
use bytes::Bytes;

use crate::apps::{get, pattern, post};
use crate::pair::{Pair, Path};

/// How long a client may wait with an acknowledgement (RFC 9000 section 18.2).
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// One way.
const DELAY: Duration = Duration::from_millis(40);

/// What two packets take at 5 Mbit/s: a request may wait behind a probe for a larger MTU, which the
/// server doesn't see, and an acknowledgement likewise.
const SLACK: Duration = Duration::from_millis(5);

fn path(loss: f64, rate: Option<&str>) -> Path {
    Path {
        delay: DELAY,
        loss,
        rate: rate.map(|rate| rate.parse().unwrap()),
        ..Path::default()
    }
}

/// What the server knows.
fn deliveries(pair: &Pair) -> Deliveries {
    pair.server.deliveries(pair.server_connection.unwrap())
}

/// Fetches it, and gives all acknowledgements the time to arrive. How long the client took.
fn fetch(pair: &mut Pair, size: usize) -> Duration {
    let began = pair.elapsed();
    pair.fetch(&get(&format!("/bytes/{size}")), Bytes::new());
    let took = pair.elapsed() - began;
    pair.run_for(Duration::from_secs(5));
    took
}

#[test]
fn the_time_is_what_the_client_sees_and_its_acknowledgements_delay() {
    for (size, rate) in [(1_000, None), (1_000_000, None), (1_000_000, Some("5mbit"))] {
        let mut pair = Pair::over(path(0.0, rate)).connected();
        for count in 1..=3 {
            // The request's way to the server is as long as the last acknowledgement's.
            let took = fetch(&mut pair, size);
            let deliveries = deliveries(&pair);
            let latest = deliveries.latest.unwrap();
            assert_eq!(deliveries.count, count);
            let range = took.saturating_sub(SLACK)..=took + MAX_ACK_DELAY + SLACK;
            assert!(range.contains(&latest.time), "{latest:?} of {took:?}");
            let size = size as u64;
            assert!((size..size + 200).contains(&latest.bytes), "{latest:?}");
        }
    }
}

#[test]
fn what_was_lost_is_waited_for() {
    for seed in 1..=5 {
        let lossy = Path {
            seed,
            ..path(0.05, None)
        };
        let mut pair = Pair::over(lossy).connected();
        let took = fetch(&mut pair, 500_000);
        let latest = deliveries(&pair).latest.unwrap();
        // A request that is sent twice comes later than the client counts; an acknowledgement that is
        // lost is made up for by the next, or when the server probes.
        let least = took.saturating_sub(4 * DELAY);
        let most = took + 8 * DELAY + MAX_ACK_DELAY;
        assert!(
            (least..=most).contains(&latest.time),
            "{latest:?} of {took:?}"
        );
    }
}

#[test]
fn an_upload_is_part_of_its_exchange() {
    let mut pair = Pair::over(path(0.0, Some("5mbit"))).connected();
    pair.fetch(&post("/echo"), pattern(200_000));
    pair.run_for(Duration::from_secs(1));
    let latest = deliveries(&pair).latest.unwrap();
    // 200,000 bytes take 320 ms at 5 Mbit/s.
    assert!(latest.time > Duration::from_millis(320), "{latest:?}");
    assert!(latest.bytes >= 200_000);
}

#[test]
fn a_response_that_was_given_up_is_no_delivery() {
    let mut pair = Pair::over(path(0.0, Some("5mbit"))).connected();
    let stream = pair.start(&get("/bytes/1000000"), Bytes::new());
    pair.run_for(Duration::from_millis(300));
    let code = Code::H3_REQUEST_CANCELLED;
    pair.client.reset_stream(pair.connection, stream, code);
    pair.run_for(Duration::from_secs(5));
    assert_eq!(deliveries(&pair), Deliveries::default());
}

#[test]
fn deliveries_are_to_be_had_when_the_end_is_told() {
    let mut pair = Pair::over(path(0.0, None)).connected();
    fetch(&mut pair, 1_000);
    pair.client
        .close(pair.now, pair.connection, Code::H3_NO_ERROR, b"");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.last_deliveries.map(|it| it.count), Some(1));
}

#[test]
fn the_server_learns_when_the_client_has_everything_and_not_when_it_has_given_up() {
    let mut pair = Pair::over(path(0.0, None)).connected();
    for count in 1..=3 {
        fetch(&mut pair, 100_000);
        assert_eq!(pair.files.delivered, count);
    }
    pair.fetch(&get("/abort"), Bytes::new());
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.files.delivered, 3);
}
