//! Chromium and Firefox as the lab's clients: what they load over the emulated link, and that they load
//! it over the protocol that was asked for.

use crate::common::{Dir, installed, success, text};
use crate::lab::can_emulate;
use crate::peers::Peer;
use serde_json::{Value, json};
use std::fs;
use std::process::Output;

/// Two cells, of a page with three objects.
const PLAN: &str = "\
name = \"t\"
rate = \"20mbit\"
delay = [\"5ms\", \"20ms\"]
pairs = 1
null_arm = false
warm_ups = 0
scenario = \"page\"
[page]
html = \"2KB\"
objects = \"3 x 10KB\"
";

const REQUESTS: usize = 4;

fn is_there(browser: &str) -> bool {
    installed(if browser == "firefox" {
        "firefox-esr"
    } else {
        browser
    })
}

fn a_run_is_whole(browser: &str) {
    let dir = Dir::alone();
    if !is_there(browser) || !can_emulate(&dir) {
        return;
    }
    dir.file("t.toml", format!("client = \"{browser}\"\n{PLAN}"));
    success(
        dir.altway(["lab", "run", "t.toml"])
            .env("TMPDIR", dir.path()),
    );
    let mut runs = fs::read_dir(dir.path().join("runs")).unwrap();
    let run = runs.next().unwrap().unwrap().path();
    let manifest: Value =
        serde_json::from_str(&fs::read_to_string(run.join("manifest.json")).unwrap()).unwrap();
    assert!(manifest["programs"][browser].is_string(), "{manifest}");
    let samples = fs::read_to_string(run.join("samples.csv")).unwrap();
    let mut lines = samples
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let rows: Vec<_> = lines.collect();
    let value = |row: &[&str], name: &str| {
        let column = header.iter().position(|column| *column == name).unwrap();
        row[column].to_owned()
    };
    let number = |row: &[&str], name: &str| value(row, name).parse::<u64>().unwrap();
    for (cell, delay_us) in [("0", 5_000), ("1", 20_000)] {
        for (protocol, round_trips) in [("h2", 4), ("h3", 3)] {
            let of_it = rows.iter().filter(|row| {
                let is = |name, wanted| value(row, name) == wanted;
                is("cell", cell) && is("protocol", protocol) && is("valid", "true")
            });
            let of_it: Vec<_> = of_it.collect();
            assert_eq!(of_it.len(), REQUESTS, "{cell} {protocol}: {samples}");
            for row in &of_it {
                assert_eq!(value(row, "protocol_used"), protocol, "{samples}");
                assert_eq!(value(row, "client"), browser);
            }
            // It opens a connection, asks for the page, and then for what that names.
            let compared = number(of_it[0], "compared_us");
            assert!(
                compared >= round_trips * 2 * delay_us,
                "{compared}: {samples}"
            );
            assert!(
                number(of_it[1], "start_us") >= number(of_it[0], "first_byte_us"),
                "{samples}"
            );
        }
    }
    assert_nothing_is_left(&dir);
}

/// Asserts that neither a folder nor a process of a browser is left.
fn assert_nothing_is_left(dir: &Dir) {
    let left = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left
        .filter(|name| name.to_string_lossy().contains("scratch"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let place = dir.path().display().to_string();
    for process in fs::read_dir("/proc").unwrap() {
        let command = fs::read(process.unwrap().path().join("cmdline"));
        let command = text(&command.unwrap_or_default());
        assert!(!command.contains(&place), "{command}");
    }
}

#[test]
fn chromium_loads_pages_over_both_protocols_in_a_run() {
    a_run_is_whole("chromium");
}

#[test]
fn firefox_loads_pages_over_both_protocols_in_a_run() {
    a_run_is_whole("firefox");
}

/// Loads a page without objects from `port` of the loopback.
fn browse(dir: &Dir, browser: &str, protocol: &str, port: u16) -> Output {
    let certs = success(&mut dir.altway(["certs", "altway.test", "--json"]));
    let certs: Value = serde_json::from_str(&certs).unwrap();
    let visit = json!({"requests": [{"path": "/page.html", "size_bytes": 4}]});
    dir.file("visit.json", visit.to_string());
    let folder = dir.path().join("browser");
    fs::create_dir_all(&folder).unwrap();
    let mut command = dir.altway(["lab", "browse", browser, "--address", "127.0.0.1"]);
    // A Firefox that finds no QUIC does not give up by itself.
    let timeout = if protocol == "h3" { "5s" } else { "1min" };
    command.args(["--visit", "visit.json", "--folder", "browser"]);
    command.args(["--timeout", timeout, "--protocol", protocol]);
    command.args(["--port", &port.to_string()]);
    command.args([
        "--key-digest",
        certs["spki_sha256_base64"].as_str().unwrap(),
    ]);
    let output = command.output().unwrap();
    fs::remove_dir_all(folder).unwrap();
    output
}

fn requests(output: &Output) -> Value {
    let parsed: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no measurement: {}", text(&output.stderr)));
    parsed["requests"].clone()
}

/// HTTP/3 is asked for where there is only HTTP/2.
fn does_not_pass_off_http2_as_http3(browser: &str) {
    let dir = Dir::new();
    if !is_there(browser) {
        return;
    }
    dir.file("site/page.html", "page");
    success(&mut dir.altway(["certs", "altway.test", "--json"]));
    let Some(peer) = Peer::nghttpd(&dir, true) else {
        return;
    };
    let port = peer.root.rsplit(':').next().unwrap().parse().unwrap();
    let over_http2 = requests(&browse(&dir, browser, "h2", port));
    assert_eq!(over_http2[0]["protocol_used"], "h2");
    let refused = browse(&dir, browser, "h3", port);
    if refused.status.code() == Some(2) {
        let said = text(&refused.stderr);
        let expected = format!("error: {browser} could not load the page: ");
        assert!(said.starts_with(&expected), "{said}");
    } else {
        assert_ne!(requests(&refused)[0]["protocol_used"], "h3");
    }
}

#[test]
fn chromium_does_not_pass_off_http2_as_http3() {
    does_not_pass_off_http2_as_http3("chromium");
}

#[test]
fn firefox_does_not_pass_off_http2_as_http3() {
    does_not_pass_off_http2_as_http3("firefox");
}
