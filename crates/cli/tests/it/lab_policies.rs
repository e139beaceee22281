//! Policies of the server beside each other, on real namespaces: what each offered is where its clients went.
//!
//! Without the right to make namespaces each test says that it is skipped.

use crate::common::{Dir, installed, success};
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

/// Runs the plan: its closing table and its samples.
fn run(dir: &Dir, plan: &str) -> (String, Vec<Sample>) {
    dir.file("tiny.toml", plan);
    let table = success(&mut dir.altway(["lab", "run", "tiny.toml"]));
    let text = fs::read_to_string(only_run(dir).join("samples.csv")).unwrap();
    (table, altway_record::read_samples(&text).unwrap())
}

#[test]
fn each_policy_s_clients_go_where_its_server_says_from_session_to_session() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    let (table, samples) = run(&dir, PLAN);
    assert!(
        table.contains("Policies of the server · 1 cell, 3 sessions each"),
        "{table}"
    );
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

/// Nobody knows the path's rate or the host, so that the offer comes in a frame after the first page.
#[test]
fn chromium_heeds_an_offer_that_comes_after_its_first_page() {
    let dir = Dir::alone();
    if !can_emulate(&dir) || !installed("chromium") {
        return;
    }
    let plan = PLAN.replace("\"study\", ", "");
    let (_, samples) = run(&dir, &format!("client = \"chromium\"\n{plan}"));
    let sessions = protocols(&samples, Policy::Learned);
    assert_eq!(sessions[0], [Protocol::H2; 3]);
    // TCP is tried beside it, and may have the page itself.
    for later in &sessions[1..] {
        assert_eq!(later.last(), Some(&Protocol::H3), "{sessions:?}");
    }
}
