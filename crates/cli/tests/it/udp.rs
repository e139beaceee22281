//! Networks that treat UDP otherwise than TCP: what HTTP/2 and HTTP/3 have of them, over real namespaces.
//!
//! Tests say that they are skipped where no namespace can be made.

use crate::common::{Dir, success, text};
use crate::lab::{between_ends, can_emulate, only_run};
use altway_record::{Protocol, Sample};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

/// The bytes of the file that is fetched.
const SIZE: u64 = 600_000;

/// A client that writes what it has measured over `protocol` to a file of the protocol's name.
fn fetch(protocol: &str) -> String {
    let altway = env!("CARGO_BIN_EXE_altway");
    format!(
        "{altway} load --protocol {protocol} --requests 1 --insecure --timeout 20s --json \
         https://$ALTWAY_HOST:8443/file > {protocol}"
    )
}

/// Runs `script` behind a link with these options; returns the link's report. `None` where none can be
/// made.
fn run(dir: &Dir, options: &[&str], script: &str) -> Option<Value> {
    if !can_emulate(dir) {
        return None;
    }
    dir.file("site/file", "x".repeat(SIZE as usize));
    let server = format!("{} serve site -n 1", env!("CARGO_BIN_EXE_altway"));
    let mut emulate = dir.altway(["emulate", "--json", "--delay", "5ms"]);
    emulate.args(options);
    between_ends(&mut emulate, &server, script);
    let output = emulate.stdin(Stdio::null()).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report = said.lines().find(|line| line.starts_with('{'));
    let report: Value = serde_json::from_str(report.unwrap()).unwrap();
    assert!(!report["invalid"].to_string().contains("lost"), "{said}");
    Some(report)
}

/// The time in µs of the request over `protocol`, which had all of the file.
fn time(dir: &Dir, protocol: &str) -> u64 {
    let measured = fs::read(dir.path().join(protocol)).unwrap();
    let measured: Value = serde_json::from_slice(&measured).unwrap();
    let request = &measured["requests"][0];
    assert_eq!(request["bytes"], SIZE, "{measured}");
    request["total_us"].as_u64().unwrap()
}

#[test]
fn http2_passes_a_link_that_blocks_udp_and_http3_does_not() {
    let dir = Dir::new();
    let blocked = fetch("h3").replace("20s", "2s");
    let script = format!("{} && ! {blocked}", fetch("h2"));
    let Some(report) = run(&dir, &["--udp", "block"], &script) else {
        return;
    };
    time(&dir, "h2");
    let up = &report["up"];
    assert!(up["packets_udp_dropped"].as_u64() > Some(0), "{up}");
    assert_eq!(up["packets_lost"], 0);
    assert_eq!(
        report["down"]["packets_udp_dropped"], 0,
        "nothing to answer"
    );
}

#[test]
fn http3_keeps_to_the_rate_of_a_link_that_polices_udp_and_http2_exceeds_it() {
    let dir = Dir::new();
    let script = format!("{} && {}", fetch("h2"), fetch("h3"));
    let policer = ["--down-udp", "rate 2mbit burst 50KB"];
    let Some(report) = run(&dir, &policer, &script) else {
        return;
    };
    // Without the burst: each byte takes 4 µs.
    let least = (SIZE - 50_000) * 4;
    let (h2, h3) = (time(&dir, "h2"), time(&dir, "h3"));
    assert!(h3 >= least, "{h3} of {least} µs");
    assert!(h2 < least, "{h2} of {least} µs");
    let down = &report["down"];
    assert!(down["packets_udp_dropped"].as_u64() > Some(0), "{down}");
    assert_eq!(report["up"]["packets_udp_dropped"], 0);
}

#[test]
fn a_client_that_was_offered_http3_falls_back_where_udp_is_blocked() {
    let dir = Dir::new();
    if !can_emulate(&dir) {
        return;
    }
    let plan = "name = \"blocked\"\npolicy = [\"h2\", \"h3\"]\nrate = \"10mbit\"\ndelay = \"5ms\"\nsize = \"20KB\"\n\
                pairs = 1\nnull_arm = false\nlink = \"udp block\"\n[sessions]\napart = [\"10s\"]\n";
    dir.file("blocked.toml", plan);
    success(&mut dir.altway(["lab", "run", "blocked.toml"]));
    let rows = fs::read_to_string(only_run(&dir).join("samples.csv")).unwrap();
    let rows = altway_record::read_samples(&rows).unwrap();
    // What the machine was too late for was made again.
    let rows: Vec<&Sample> = rows.iter().filter(|row| row.valid).collect();
    let used: Vec<_> = rows.iter().map(|row| row.protocol_used).collect();
    assert_eq!(used, [Some(Protocol::H2); 4]);
    let lost = |row: &&Sample| row.up_lost_packets;
    assert!(rows.iter().map(lost).sum::<u64>() > 0, "{rows:?}");
}
