//! Number of round trips that the first byte of a response takes.

use crate::common::{Dir, success};
use crate::lab::{between_ends, can_emulate};

const ROUND_TRIP_US: u64 = 100_000;

/// Time from the end of the handshake to the first byte of a response that is larger than a TLS
/// record.
fn wait_us(protocol: &str) -> Option<u64> {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return None;
    }
    dir.file("site/object", vec![b'x'; 100_000]);
    let altway = env!("CARGO_BIN_EXE_altway");
    let server = format!("{altway} serve site");
    let client =
        format!("{altway} load https://$ALTWAY_HOST:8443/object --insecure -p {protocol} --json");
    let mut emulate = dir.altway(["emulate", "--delay", "50ms"]);
    let output = success(between_ends(&mut emulate, &server, &client));
    let output: serde_json::Value = serde_json::from_str(&output).unwrap();
    let request = &output["requests"][0];
    let us = |name: &str| request[name].as_u64().unwrap();
    Some(us("first_byte_us") - us("connect_us"))
}

fn assert_one_round_trip(protocol: &str) {
    // Other programs may make the ends wait.
    let mut times = Vec::new();
    while times
        .iter()
        .min()
        .is_none_or(|least| *least >= ROUND_TRIP_US * 18 / 10)
    {
        assert!(times.len() < 10, "{protocol}: {times:?} µs");
        let Some(time) = wait_us(protocol) else {
            return;
        };
        assert!(time > ROUND_TRIP_US * 9 / 10, "{protocol}: {time} µs");
        times.push(time);
    }
}

#[test]
fn the_first_byte_over_http2_takes_one_round_trip_however_large_the_response() {
    assert_one_round_trip("h2");
}

#[test]
fn the_first_byte_over_http3_takes_one_round_trip_however_large_the_response() {
    assert_one_round_trip("h3");
}
