//! The lab and the server in containers, as docker/README.md tells users to run them.

mod engine;

use crate::common::{installed, provided, text};
use engine::{Compose, Engine};
use std::process::Output;

/// The server's object in bits.
const OBJECT: f64 = 8e6;

#[test]
fn the_lab_and_the_server_run_in_containers() {
    if installed("docker-compose") {
        everything_by(Compose::First);
    }
}

#[test]
fn the_lab_and_the_server_run_in_containers_of_the_second_compose() {
    if let Some(plugins) = provided("docker compose", "ALTWAY_TEST_DOCKER_PLUGINS") {
        everything_by(Compose::Second(plugins.into()));
    }
}

/// Everything over one engine, which takes seconds to start.
fn everything_by(compose: Compose) {
    let Some(binary) = provided("a static altway", "ALTWAY_TEST_STATIC") else {
        return;
    };
    if !["dockerd", "unshare", "ip"].into_iter().all(installed) {
        return;
    }
    let Some(engine) = Engine::start(binary.as_ref(), compose) else {
        return;
    };
    up_measures_and_ends_with_a_comparison(&engine);
    a_change_of_the_running_link_is_felt(&engine);
    what_is_wrong_stands_in_the_logs(&engine);
    the_server_serves_alone(&engine);
}

fn up_measures_and_ends_with_a_comparison(engine: &Engine) {
    let (status, said) = outcome(&mut engine.docker(&["build", "--tag", "altway", "."]));
    assert_eq!(status, Some(0), "{said}");
    let path = [
        ("BANDWIDTH", "20mbit"),
        ("LATENCY", "5ms"),
        ("LOSS", "0.1%"),
        ("ROUNDS", "2"),
    ];
    let up = ["up", "--abort-on-container-exit"];
    let (status, said) = outcome(engine.compose(&up).envs(path));
    assert_eq!(status, Some(0), "{said}");
    for expected in ["link between eth", "2 rounds, ", "HTTP/3 beside HTTP/2: "] {
        assert!(said.contains(expected), "{said}");
    }
}

fn a_change_of_the_running_link_is_felt(engine: &Engine) {
    let path = [("BANDWIDTH", "8mbit"), ("LATENCY", "5ms")];
    let (status, said) = outcome(engine.compose(&["up", "-d", "router", "server"]).envs(path));
    assert_eq!(status, Some(0), "{said}");
    let before = transfer_rates(engine);
    assert!(before.iter().all(|rate| *rate < 8e6), "{before:?} bit/s");
    let shown = router(engine, &["set", "rate", "40mbit,", "delay", "1ms"]);
    assert!(
        shown.contains("delay 1ms, queue 500KB, rate 40mbit"),
        "{shown}"
    );
    let after = transfer_rates(engine);
    let changed = |rate: &f64| (8e6..40e6).contains(rate);
    assert!(after.iter().all(changed), "{after:?} bit/s");
    // What doesn't fit a wire is a hidden drop: nothing did but packets of its size.
    let report: serde_json::Value =
        serde_json::from_str(&router(engine, &["show", "--json"])).unwrap();
    assert_eq!(report["report"]["hidden_drops"], 0, "{report}");
    assert!(
        report["report"]["down"]["packets_in"].as_u64() > Some(2_000),
        "{report}"
    );
    assert!(router(engine, &["reset"]).contains("not shaped"));
}

/// Of HTTP/2 and HTTP/3 in bit/s, connection and all.
fn transfer_rates(engine: &Engine) -> [f64; 2] {
    let load = "load --insecure --json --protocol h2,h3 https://server:8443/1MB";
    let mut command = engine.compose(&["run", "--rm", "-T", "--no-deps", "client"]);
    let output = command.args(load.split(' ')).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    [0, 1].map(|turn| {
        let summary = &told["turns"][turn]["summary"];
        OBJECT / (summary["wall_us"].as_f64().unwrap() / 1e6)
    })
}

fn router(engine: &Engine, arguments: &[&str]) -> String {
    let mut command = engine.compose(&["exec", "-T", "router", "altway", "emulate"]);
    let (status, said) = outcome(command.args(arguments));
    assert_eq!(status, Some(0), "{said}");
    said
}

fn what_is_wrong_stands_in_the_logs(engine: &Engine) {
    let up = ["up", "--exit-code-from", "router", "router"];
    let (status, said) = outcome(engine.compose(&up).env("BANDWIDTH", "fast"));
    assert_eq!(status, Some(2), "{said}");
    let (_, logs) = outcome(&mut engine.compose(&["logs", "--no-color", "router"]));
    assert!(logs.contains("`rate`: `fast` is not a bandwidth"), "{logs}");
    let run = ["run", "--rm", "-T", "router", "emulate", "--between"];
    let (status, said) = outcome(engine.compose(&run).args(["10.0.0.0/8", "eth1"]));
    assert_eq!(status, Some(2), "{said}");
    let error = "error: no interface here has an address in 10.0.0.0/8\n\nhint: `ip address`";
    assert!(said.contains(error), "{said}");
}

fn the_server_serves_alone(engine: &Engine) {
    let run = ["run", "--detach", "--name", "alone", "--network", "none"];
    let mut server = engine.docker(&run);
    server.args([
        "-e",
        "ALTWAY_RUN_MODE=h2c",
        "-e",
        "ALTWAY_PORT=8080",
        "-e",
        "ALTWAY_THREADS=2",
    ]);
    let (status, said) = outcome(server.arg("altway"));
    assert_eq!(status, Some(0), "{said}");
    let load = [
        "exec",
        "alone",
        "altway",
        "load",
        "-p",
        "h1,h2",
        "http://127.0.0.1:8080/",
    ];
    let (status, said) = outcome(&mut engine.docker(&load));
    assert_eq!(status, Some(0), "{said}");
}

/// The exit code, and what was said on both outputs.
fn outcome(command: &mut std::process::Command) -> (Option<i32>, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    (status.code(), text(&stdout) + &text(&stderr))
}
