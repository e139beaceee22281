//! Clients that we did not write fetch pages from `altway serve`.

use crate::common::{Dir, Serving, installed, success};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MEGABYTE: usize = 1_000_000;

fn site() -> (Dir, Vec<u8>) {
    let dir = Dir::new();
    let big: Vec<u8> = (0..MEGABYTE).map(|i| (i * i / 7) as u8).collect();
    dir.file("site/big.bin", &big);
    dir.file("site/index.html", "<!doctype html><title>hello</title>");
    (dir, big)
}

fn authority(dir: &Dir) -> String {
    let json = success(&mut dir.altway(["certs", "--json"]));
    let files: serde_json::Value = serde_json::from_str(&json).unwrap();
    files["ca_certificate"].as_str().unwrap().to_owned()
}

#[test]
fn curl_fetches_over_http1_and_http2_and_is_offered_http3() {
    if !installed("curl") {
        return;
    }
    let (dir, big) = site();
    let ca = authority(&dir);
    let serving = Serving::start(&dir, &["--policy", "h3"]);
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--cacert", &ca, flag, "-D", "fields", "-o", "body"]);
        curl.args(["-w", "%{http_version}", &serving.url("/big.bin")])
            .current_dir(dir.path());
        assert_eq!(success(&mut curl), version);
        assert_eq!(std::fs::read(dir.path().join("body")).unwrap(), big);
        let fields = std::fs::read_to_string(dir.path().join("fields"))
            .unwrap()
            .to_lowercase();
        let offer = format!("alt-svc: h3=\":{}\"; ma=60", serving.port);
        assert!(fields.contains(&offer), "{fields}");
    }
}

#[test]
fn altways_own_client_fetches_over_all_three() {
    let (dir, big) = site();
    let ca = authority(&dir);
    let serving = Serving::start(&dir, &[]);
    for protocol in ["h1", "h2", "h3"] {
        let url = serving.url("/big.bin");
        let mut load = dir.altway(["load", &url, "--protocol", protocol, "--ca", &ca, "--json"]);
        let output: serde_json::Value =
            serde_json::from_str(&success(load.args(["-n", "3"]))).unwrap();
        let requests = output["requests"].as_array().unwrap();
        assert_eq!(requests.len(), 3);
        for request in requests {
            assert_eq!(request["protocol_used"], protocol);
            assert_eq!(request["bytes"], big.len());
            assert_eq!(request["status"], 200);
        }
        assert!(requests[0]["connect_us"].is_u64());
        assert!(requests[1]["connect_us"].is_null());
    }
}

#[test]
fn a_stopped_server_ends_with_exit_code_0() {
    let (dir, _) = site();
    let serving = Serving::start(&dir, &[]);
    assert_eq!(serving.terminate(), Some(0));
}

/// Twenty objects, one after the other, then a report of the protocols that the browser saw.
const PAGE: &str = r#"<!doctype html><title>page</title><script>
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
(async () => {
  for (let i = 0; i < 20; i++) { await (await fetch("/o" + i, { cache: "no-store" })).arrayBuffer(); await sleep(20); }
  const all = performance.getEntriesByType("resource");
  const objects = all.filter((entry) => entry.name.includes("/o"));
  await fetch("/report/" + objects.map((object) => object.nextHopProtocol).join("-"));
})();
</script>"#;

/// Visits the page once; gives the protocols of its objects as the browser saw them.
fn visit(dir: &Dir, port: u16, spki: &str) -> Vec<String> {
    let mut chromium = Command::new("chromium");
    chromium.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--enable-quic",
    ]);
    chromium.args([
        "--disable-background-networking",
        "--disable-component-update",
    ]);
    // Unknown roots are refused over QUIC unless the host is named here; the port is a decoy, so
    // that nothing is forced.
    chromium.arg("--origin-to-force-quic-on=altway.test:9");
    chromium.arg(format!("--ignore-certificate-errors-spki-list={spki}"));
    chromium.arg("--host-resolver-rules=MAP altway.test 127.0.0.1");
    chromium.arg(format!(
        "--user-data-dir={}",
        dir.path().join("profile").display()
    ));
    chromium.arg(format!("https://altway.test:{port}/"));
    let seen_before = reports(dir).len();
    let mut child = chromium
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(40);
    while reports(dir).len() == seen_before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
    }
    // Not SIGKILL: it writes down what it learned of Alt-Svc when it ends.
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    let reports = reports(dir);
    let report = reports
        .get(seen_before)
        .expect("the browser reported within 40 s");
    report.split('-').map(str::to_owned).collect()
}

/// What browsers reported, from the server's access log.
fn reports(dir: &Dir) -> Vec<String> {
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    let after = log.split("/report/").skip(1);
    after
        .map(|rest| rest.split([' ', '"']).next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn chromium_moves_to_http3_within_a_page_and_back_on_clear() {
    if !installed("chromium") {
        return;
    }
    // A browser that starts may fetch before it has read from disk what it had learned of Alt-Svc:
    // then its second visit begins on HTTP/2 and shows nothing of the way back. On a quiet machine one
    // visit in six does, on a busy one more.
    const TRIES: usize = 6;
    let shown = (0..TRIES).any(|_| two_visits() == ["h2", "h3"]);
    assert!(shown, "the second visit never began on HTTP/3");
}

/// The first visit under the policy h3, the second under h2; gives how the page itself was fetched.
fn two_visits() -> Vec<String> {
    let dir = Dir::new();
    dir.file("site/index.html", PAGE);
    for i in 0..20 {
        dir.file(&format!("site/o{i}"), "object");
    }
    let certs = success(&mut dir.altway(["certs", "altway.test", "--json"]));
    let certs: serde_json::Value = serde_json::from_str(&certs).unwrap();
    let spki = certs["spki_sha256_base64"].as_str().unwrap();

    let serving = Serving::start(&dir, &["--policy", "h3", "--access-log", "-"]);
    let port = serving.port;
    let first = visit(&dir, port, spki);
    assert_eq!(first.len(), 20);
    assert_eq!(first[18..], ["h3", "h3"], "{first:?}");
    assert_eq!(serving.terminate(), Some(0));

    let serving = Serving::start_on(&dir, port, &["--policy", "h2", "--access-log", "-"]);
    let second = visit(&dir, port, spki);
    assert_eq!(second[18..], ["h2", "h2"], "{second:?}");
    drop(serving);
    pages(&dir)
}

/// The protocols by which the page itself was fetched, from the server's access log.
fn pages(dir: &Dir) -> Vec<String> {
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    let fetches = log.lines().filter(|line| line.contains(r#"path="/" "#));
    let protocol = |line: &str| {
        line.split("protocol=")
            .nth(1)
            .map(|rest| rest[..2].to_owned())
    };
    fetches.filter_map(protocol).collect()
}
