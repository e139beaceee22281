//! The lab and the server in containers, as docker/README.md tells users to run them.

mod engine;

use crate::common::{Dir, Serving, TIME_LIMIT, eventually, installed, provided, success, text};
use engine::{Compose, Engine, SITES, project};
use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

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
    the_hosts_own_clients_go_through_the_link_by_the_gateway(&engine);
    what_is_wrong_stands_in_the_logs(&engine);
    the_server_serves_alone(&engine);
    the_server_serves_by_a_configuration_file(&engine);
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

/// Measures transfers over HTTP/2 and HTTP/3, connection included, in bit/s.
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

fn the_hosts_own_clients_go_through_the_link_by_the_gateway(engine: &Engine) {
    // 20 ms each way: 40 ms until TCP is connected, and no client has a byte of TLS or QUIC before.
    let path = [("BANDWIDTH", "none"), ("LATENCY", "20ms")];
    let (status, said) = outcome(engine.compose(&["up", "-d", "gateway"]).envs(path));
    assert_eq!(status, Some(0), "{said}");
    let url = "https://127.0.0.1:8443/1MB";
    let altway = env!("CARGO_BIN_EXE_altway");
    for protocol in ["h2", "h3"] {
        let load = [
            "load",
            "--insecure",
            "-n",
            "1",
            "-p",
            protocol,
            "--json",
            url,
        ];
        once_it_listens(engine.on_the_host(altway).args(load));
        let output = engine.on_the_host(altway).args(load).output().unwrap();
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let request = &told["requests"][0];
        assert_eq!(
            (&request["status"], &request["bytes"]),
            (&200.into(), &1_000_000.into())
        );
        assert!(request["connect_us"].as_u64() >= Some(40_000), "{told}");
    }
    if installed("curl") {
        let mut curl = engine.on_the_host("curl");
        curl.args(["--insecure", "--silent", "--output", "/dev/null"]);
        let (status, said) =
            outcome(curl.args(["--write-out", "%{http_code} %{size_download}", url]));
        assert_eq!((status, said.as_str()), (Some(0), "200 1000000"));
    }
    let (status, said) = outcome(&mut engine.compose(&["rm", "--stop", "--force", "gateway"]));
    assert_eq!(status, Some(0), "{said}");
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
    once_it_listens(&mut engine.docker(&load));
}

fn the_server_serves_by_a_configuration_file(engine: &Engine) {
    let sites = |arguments: &[&str]| {
        let (status, said) = outcome(engine.compose(&["-f", SITES]).args(arguments));
        assert_eq!(status, Some(0), "{said}");
        said
    };
    let inside =
        |arguments: &[&str]| sites(&[&["exec", "-T", "sites", "altway"], arguments].concat());
    let load = |path: &str| {
        let url = format!("https://localhost:8443{path}");
        let load = ["altway", "load", "--insecure", "-p", "h1,h2,h3", "-n", "1"];
        let mut command = engine.compose(&["-f", SITES, "exec", "-T", "sites"]);
        command.args(load).arg(&url);
        command
    };
    sites(&["up", "-d"]);
    once_it_listens(&mut load("/"));
    inside(&["config", "check", "/etc/altway/altway.toml"]);
    let config = fs::read_to_string(project().join("etc/altway.toml")).unwrap();
    let more =
        "\n[[site]]\nnames = [\"more.example\"]\nroute = [{ respond = { body = \"more\" } }]\n";
    engine.replace("etc/altway.toml", &(config + more));
    let said = inside(&["reload"]);
    assert!(said.contains("more.example"), "{said}");
    let (status, said) = outcome(&mut load("/1MB"));
    assert_eq!(status, Some(0), "{said}");
    let said = inside(&["status"]);
    let line = said.lines().find(|line| line.starts_with("h3 "));
    let connections = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    assert!(connections >= Some(2), "{said}");
    let is_healthy = ["ps", "--quiet", "--filter", "health=healthy"];
    eventually("the engine finds the server healthy", || {
        !outcome(&mut engine.docker(&is_healthy)).1.is_empty()
    });
    sites(&["down", "--timeout", "5"]);
}

#[test]
fn the_configuration_of_the_containers_is_served_outside_of_them_too() {
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let config = fs::read_to_string(project().join("etc/altway.toml")).unwrap();
    let mut here = config.clone();
    for (inside, outside) in [
        ("\"/data/state\"", "\"state\""),
        ("\"*:8443\"", "\"127.0.0.1:0\""),
        ("\"/srv\"", "\"site\""),
    ] {
        assert!(here.contains(inside), "{inside}");
        here = here.replace(inside, outside);
    }
    dir.file("etc/altway.toml", here.replace("\"site\"", "\"../site\""));
    success(&mut dir.altway(["config", "check", "etc/altway.toml"]));
    let mut command = dir.altway([
        "serve",
        "--config",
        "etc/altway.toml",
        "--json",
        "--admin",
        "admin",
    ]);
    command.stderr(fs::File::create(dir.path().join("log")).unwrap());
    let serving = Serving::spawn(&dir, command);
    let url = serving.url("/");
    for protocol in ["h1", "h2", "h3"] {
        success(
            dir.altway(["load", "--insecure", "-n", "1"])
                .args(["-p", protocol, &url]),
        );
    }
    success(&mut dir.altway(["reload", "--admin", "admin"]));
    assert_eq!(serving.terminate(), Some(0));
}

/// Compose reads a file without an engine.
#[test]
fn compose_mounts_the_configuration_and_the_site_and_publishes_the_port_of_both_transports() {
    if !installed("docker-compose") {
        return;
    }
    let mut compose = Command::new("docker-compose");
    compose.current_dir(project()).args(["-f", SITES, "config"]);
    compose.envs([("CONFIG", "/c"), ("SITE", "/s"), ("PORT", "443")]);
    let read = success(&mut compose);
    for line in [
        "- /c:/etc/altway:ro",
        "- /s:/srv:ro",
        "- sites:/data:rw",
        "- --config",
        "- /etc/altway/altway.toml",
        // Whatever the configuration says.
        "- --admin",
        "- /run/admin.sock",
        "ALTWAY_ADMIN: /run/admin.sock",
        "healthcheck:",
    ] {
        assert!(read.lines().any(|it| it.trim() == line), "{line}: {read}");
    }
    for protocol in ["tcp", "udp"] {
        let line = format!("- protocol: {protocol}");
        let lines = read.lines().map(str::trim);
        let mut after = lines.skip_while(|it| *it != line).skip(1);
        assert_eq!(after.next(), Some("published: 443"), "{read}");
        assert_eq!(after.next(), Some("target: 8443"), "{read}");
    }
    // What the image is made of.
    let files = fs::read_to_string(project().join("Dockerfile")).unwrap();
    let copied = files.lines().filter(|line| line.starts_with("COPY "));
    let copied: Vec<_> = copied.collect();
    assert_eq!(copied, ["COPY altway /usr/bin/altway", "COPY site /srv"]);
}

/// Runs a command that asks a server which has just been started, again until it succeeds.
fn once_it_listens(command: &mut Command) {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let (status, said) = outcome(command);
        if status == Some(0) {
            return;
        }
        assert!(Instant::now() < deadline, "{said}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The exit code, and what was said on both outputs.
fn outcome(command: &mut Command) -> (Option<i32>, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    (status.code(), text(&stdout) + &text(&stderr))
}
