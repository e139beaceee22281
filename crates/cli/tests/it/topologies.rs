//! Topologies, proxies and cleaning up, as a person would use them.
//!
//! The tests that need namespaces say that they are skipped where none can be made.

use crate::common::{Dir, Serving, refusal, skipped, success, text};
use crate::lab::between_ends;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

/// A page over `protocol`, by a client at `$ALTWAY_HOST`.
fn fetch(protocol: &str) -> String {
    let altway = env!("CARGO_BIN_EXE_altway");
    format!(
        "{altway} load --protocol {protocol} --requests 1 --insecure --json https://$ALTWAY_HOST:8443/"
    )
}

#[test]
fn every_topology_carries_every_protocol() {
    let dir = Dir::alone();
    dir.file("site/index.html", "hello");
    let server = format!("{} serve site -n 1", env!("CARGO_BIN_EXE_altway"));
    let runs = [
        ("direct", "--ipv6", "h3"),
        ("router", "--mtu=1400", "h1"),
        ("router", "--ipv6", "h2"),
        ("proxied", "--mtu=1500", "h2"),
        ("proxied", "--ipv6", "h3"),
        ("egress", "--mtu=1500", "h2"),
        ("egress", "--ipv6", "h3"),
        ("egress-packets", "--mtu=1500", "h1"),
    ];
    for (topology, flag, protocol) in runs {
        let mut emulate = dir.altway(["emulate", "--json", flag, "--topology", topology]);
        let script = fetch(protocol);
        between_ends(&mut emulate, &server, &script);
        let output = emulate.stdin(Stdio::null()).output().unwrap();
        let said = text(&output.stderr);
        if said.contains("altway doctor") {
            return skipped(&format!("no namespaces here: {said}"));
        }
        let case = format!("{topology} {flag} {protocol}: {said}");
        assert_eq!(output.status.code(), Some(0), "{case}");
        let fetched: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(fetched["requests"][0]["status"], 200, "{case}");

        let report = said.lines().find(|line| line.starts_with('{'));
        let report: Value = serde_json::from_str(report.unwrap()).unwrap();
        let router = report.get("router");
        assert_eq!(
            router.is_some(),
            ["router", "proxied"].contains(&topology),
            "{case}"
        );
        let proxy = router.and_then(|router| router.get("proxy"));
        assert_eq!(proxy.is_some(), topology == "proxied", "{case}");
        if let Some(proxy) = proxy {
            let (tcp, udp) = if protocol == "h3" { (0, 1) } else { (1, 0) };
            assert_eq!(proxy["tcp_connections"], tcp, "{case}");
            assert_eq!(proxy["udp_flows"], udp, "{case}");
        }
    }
}

/// A running `altway emulate proxy`; ended with this value.
struct Proxying {
    child: Child,
    output: BufReader<ChildStdout>,
    tcp: String,
    udp: String,
}

impl Proxying {
    /// Passes free ports of the loopback on to `port`, of TCP and of UDP.
    fn start(dir: &Dir, port: u16) -> Self {
        let forward = format!("127.0.0.1:0:127.0.0.1:{port}");
        let mut command = dir.altway(["emulate", "proxy", "--json", "--tcp", &forward]);
        let command = command.args(["--udp", &forward]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let listening = line(&mut output);
        assert_eq!(listening["event"], "listening");
        let address = |transport: &str| listening[transport][0].as_str().unwrap().to_owned();
        let (tcp, udp) = (address("tcp"), address("udp"));
        Self {
            child,
            output,
            tcp,
            udp,
        }
    }

    /// Ends it; returns what it says that it passed on.
    fn stop(mut self) -> Value {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let report = line(&mut self.output);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        report
    }
}

impl Drop for Proxying {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line(output: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn a_proxy_passes_tls_and_quic_on_untouched() {
    let dir = Dir::new();
    dir.file("site/page", "hello");
    let server = Serving::start(&dir, &[]);
    let proxy = Proxying::start(&dir, server.port);
    for (address, protocol) in [(&proxy.tcp, "h1"), (&proxy.tcp, "h2"), (&proxy.udp, "h3")] {
        let url = format!("https://{address}/page");
        let mut load = dir.altway(["load", &url, "--insecure", "--protocol", protocol, "--json"]);
        let output = success(load.args(["--requests", "3"]));
        let output: Value = serde_json::from_str(&output).unwrap();
        for request in output["requests"].as_array().unwrap() {
            assert_eq!(request["status"], 200, "{protocol}: {request}");
        }
    }
    let report = proxy.stop();
    assert_eq!(report["tcp_connections"], 2, "{report}");
    assert_eq!(report["udp_flows"], 1, "{report}");
    assert_eq!(report["udp_dropped"], 0, "{report}");
    assert!(
        report["tcp_bytes_down"].as_u64().unwrap() > 1_000,
        "{report}"
    );
    assert!(report["udp_datagrams_up"].as_u64().unwrap() > 2, "{report}");
}

#[test]
fn bad_forwardings_are_told_with_their_form() {
    let dir = Dir::new();
    for (forward, reason) in [
        (
            "8443",
            "`8443` is no forwarding: expected [ADDRESS:]PORT:HOST:PORT",
        ),
        (
            "0:nobody.invalid:1",
            "hint: give its address, or a name that this host can look up",
        ),
    ] {
        let said = refusal(&mut dir.altway(["emulate", "proxy", "--udp", forward]));
        assert!(said.contains(reason), "{said}");
    }
    let said = refusal(&mut dir.altway(["emulate", "proxy"]));
    assert!(said.contains("--tcp"), "{said}");
}

#[test]
fn a_port_in_use_is_told_to_who_wants_to_proxy_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let forward = format!("{}:127.0.0.1:1", taken.local_addr().unwrap());
    let said = refusal(&mut Dir::new().altway(["emulate", "proxy", "--tcp", &forward]));
    assert!(
        said.contains("error: the proxy cannot listen on TCP 127.0.0.1:"),
        "{said}"
    );
    assert!(
        said.contains("hint: choose a port that nothing listens on"),
        "{said}"
    );
}

#[test]
fn a_topology_that_there_is_not_and_an_mtu_too_small_for_ipv6() {
    let dir = Dir::new();
    let said = refusal(&mut dir.altway(["emulate", "--topology", "star", "--", "true"]));
    assert!(
        said.contains("expected direct, router, proxied, egress or egress-packets"),
        "{said}"
    );
    let mut emulate = dir.altway(["emulate", "--ipv6", "--mtu", "1279", "--server", "true"]);
    let said = refusal(emulate.args(["--", "true"]));
    if said.contains("altway doctor") {
        return skipped(&format!("no namespaces here: {said}"));
    }
    assert!(said.contains("IPv6 needs at least 1280"), "{said}");
}

#[test]
fn cleaning_tells_what_it_took() {
    // What there is to take is no matter of this test's; `emulate/tests/real` leaves something behind.
    let taken = success(&mut Dir::new().altway(["emulate", "clean", "--json"]));
    let taken: Value = serde_json::from_str(&taken).unwrap();
    assert!(taken.is_array(), "{taken}");
}
