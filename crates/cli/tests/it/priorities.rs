//! Urgent responses (RFC 9218) over a link that is busy with a large one.

use crate::common::{Dir, success};
use crate::lab::{between_ends, can_emulate};

/// 4 s of the link.
const LARGE: usize = 5_000_000;
const SMALL: usize = 10_000;

/// Small responses, one after the other, so that most are asked for while the socket is full.
const SMALLS: u32 = 6;

/// Time that each small response took, in µs: the first asked for once the large one had begun, each of
/// the others when the one before it had arrived.
fn urgent_beside_large(protocol: &str) -> Option<Vec<u64>> {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return None;
    }
    dir.file("site/large", vec![b'x'; LARGE]);
    dir.file("site/small", vec![b'y'; SMALL]);
    let mut requests =
        vec![serde_json::json!({"path": "/large", "size_bytes": LARGE, "priority": "u=5, i"})];
    requests.extend((0..SMALLS).map(|before| {
        let after = match before {
            0 => serde_json::json!({"first_byte_of": 0}),
            _ => serde_json::json!({"end_of": before}),
        };
        serde_json::json!({"path": "/small", "size_bytes": SMALL, "priority": "u=1", "after": after})
    }));
    let visit = serde_json::json!({ "requests": requests });
    dir.file("visit.json", visit.to_string());
    let altway = env!("CARGO_BIN_EXE_altway");
    let server = format!("{altway} serve site");
    let client = format!(
        "{altway} load https://$ALTWAY_HOST:8443/ --insecure -p {protocol} --visit visit.json --json"
    );
    let mut emulate = dir.altway(["emulate", "--rate", "10mbit", "--delay", "50ms"]);
    let output = success(between_ends(&mut emulate, &server, &client));
    let output: serde_json::Value = serde_json::from_str(&output).unwrap();
    let requests = output["requests"].as_array().unwrap();
    let smalls = requests.iter().filter(|request| request["item"] != 0);
    let times: Vec<_> = smalls
        .map(|small| {
            assert_eq!(small["bytes"], SMALL);
            small["total_us"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(times.len(), SMALLS as usize);
    Some(times)
}

/// The large response takes 4 s. A small one takes a round trip of 100 ms and waits for the queue of the link,
/// another 100 ms, and for what was said ahead of it.
fn assert_overtakes(protocol: &str) {
    if let Some(times) = urgent_beside_large(protocol) {
        let late = times.iter().any(|us| *us >= 1_000_000);
        assert!(!late, "{protocol}: {times:?} µs");
    }
}

#[test]
fn an_urgent_response_overtakes_a_large_one_over_http2() {
    assert_overtakes("h2");
}

#[test]
fn an_urgent_response_overtakes_a_large_one_over_http3() {
    assert_overtakes("h3");
}
