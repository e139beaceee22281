//! What is urgent (RFC 9218) over a link that is busy with something large.

use crate::common::{Dir, success};
use crate::lab::can_emulate;

/// 2 s of the link.
const LARGE: usize = 5_000_000;
const SMALL: usize = 10_000;

/// How long the small response took that was asked for once the large one had begun, in µs.
fn urgent_beside_large(protocol: &str) -> Option<u64> {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return None;
    }
    dir.file("site/large", vec![b'x'; LARGE]);
    dir.file("site/small", vec![b'y'; SMALL]);
    let visit = serde_json::json!({"requests": [
        {"path": "/large", "size_bytes": LARGE, "priority": "u=5, i"},
        {"path": "/small", "size_bytes": SMALL, "priority": "u=1", "after": {"first_byte_of": 0}},
    ]});
    dir.file("visit.json", visit.to_string());
    let altway = env!("CARGO_BIN_EXE_altway");
    let server = format!("{altway} serve site");
    let client = format!(
        "{altway} load https://$ALTWAY_HOST:8443/ --insecure -p {protocol} --visit visit.json --json"
    );
    let mut emulate = dir.altway(["emulate", "--rate", "20mbit", "--delay", "10ms"]);
    let output = success(emulate.args(["--server", &server, "--", "sh", "-c", &client]));
    let output: serde_json::Value = serde_json::from_str(&output).unwrap();
    let requests = output["requests"].as_array().unwrap();
    let small = requests.iter().find(|request| request["item"] == 1);
    let small = small.unwrap();
    assert_eq!(small["bytes"], SMALL);
    small["total_us"].as_u64()
}

/// The large response takes 2 s, of which the queue of the link holds a tenth, and what was said ahead over
/// TCP a twentieth.
fn assert_overtakes(protocol: &str) {
    if let Some(us) = urgent_beside_large(protocol) {
        assert!(us < 500_000, "{protocol}: {us} µs");
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
