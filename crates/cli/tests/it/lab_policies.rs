//! Policies of the server beside each other, on real namespaces: what each offered is where its clients went.
//!
//! Without the right to make namespaces each test says that it is skipped.

use crate::common::{Dir, success};
use crate::lab::{can_emulate, only_run};
use altway_record::{Policy, Protocol, Sample};
use std::fs;

/// Twenty milliseconds are a path on which every policy that chooses takes HTTP/3.
const PLAN: &str = "\
name = \"tiny\"
scenario = \"page\"
policy = [\"h2\", \"h3\", \"study\", \"learned\"]
rate = \"10mbit\"
delay = \"20ms\"
pairs = 1
null_arm = false

[page]
html = \"10KB\"
objects = \"2 x 20KB\"
";

/// The protocols of a policy's requests that count: of each session the page's and its objects'.
fn protocols(samples: &[Sample], policy: Policy) -> Vec<Vec<Protocol>> {
    let of_policy = |sample: &&Sample| sample.policy == Some(policy) && sample.valid;
    let rows: Vec<&Sample> = samples.iter().filter(of_policy).collect();
    let sessions = rows.chunk_by(|a, b| a.session == b.session);
    let used = |rows: &[&Sample]| rows.iter().map(|row| row.protocol_used.unwrap()).collect();
    sessions.map(used).collect()
}

#[test]
fn each_policy_s_clients_go_where_its_server_says_from_session_to_session() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    dir.file("tiny.toml", PLAN);
    let table = success(&mut dir.altway(["lab", "run", "tiny.toml"]));
    assert!(
        table.contains("Policies of the server · 1 cell, 3 sessions each"),
        "{table}"
    );
    let text = fs::read_to_string(only_run(&dir).join("samples.csv")).unwrap();
    let samples = altway_record::read_samples(&text).unwrap();
    let (h2, h3) = (vec![Protocol::H2; 3], vec![Protocol::H3; 3]);
    let moving = vec![Protocol::H2, Protocol::H3, Protocol::H3];
    let of = |policy| protocols(&samples, policy);
    assert_eq!(of(Policy::H2), [h2.clone(), h2.clone(), h2]);
    assert_eq!(of(Policy::H3), [moving.clone(), h3.clone(), h3.clone()]);
    assert_eq!(
        of(Policy::Learned),
        [moving.clone(), h3.clone(), h3.clone()]
    );
    // Its offers last for a minute, not for the hour until the third.
    assert_eq!(of(Policy::Study), [moving.clone(), h3, moving]);
    let offers = samples
        .iter()
        .filter(|one| one.policy == Some(Policy::Study));
    assert!(offers.into_iter().all(|one| one.alt_svc_ma_s == Some(60)));
}
