//! Answers to requests whose bodies nobody reads, as clients of Go, quic-go, Chromium and Firefox see them:
//! the status, never an error.

use crate::common::{Dir, Serving, installed, success};
use crate::interop::authority;
use crate::interop_h3::browsers::Browser;
use crate::interop_h3::echo::Echo;
use crate::interop_h3::foreign::Peer;
use crate::interop_h3::{Ground, HOST};
use altway_serve::Policy;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Bytes of the unwanted bodies: within the first packet, within the windows, beyond them.
const SIZES: [usize; 3] = [1, 200_000, 5_000_000];

/// Number of times that each is tried: a race shows now and then.
const TIMES: usize = 10;

fn build(dir: &Dir) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/early_answers/net_http.go");
    let mut go = Command::new("go");
    go.args(["build", "-o", "net_http"]).arg(source);
    success(go.current_dir(dir.path()).env("GOFLAGS", ""));
}

#[test]
fn go_sees_that_files_take_no_content() {
    if !installed("go") {
        return;
    }
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    build(&dir);
    let ca = authority(&dir);
    let serving = Serving::start(&dir, &[]);
    go_sees(&dir, &serving.url("/"), &ca, ("POST", "known"), &SIZES, 405);
}

/// A server that stores uploads of a megabyte at most in `stored`, with `more` in its site.
fn storing(dir: &Dir, more: &str) -> Serving {
    std::fs::create_dir(dir.path().join("stored")).unwrap();
    let text = format!(
        "[listen]\nhttps = [\"127.0.0.1:0\"]\n\n[[site]]\nnames = [\"localhost\"]\ndefault = true\n{more}\
         route = [{{ path = \"/in/*\", upload = {{ folder = \"stored\", body = \"1MB\" }} }}]\n"
    );
    dir.file("altway.toml", text);
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    command.stderr(std::process::Stdio::null());
    Serving::spawn(dir, command)
}

/// The key of a site that clients without a certificate are refused by.
fn for_members(authority: &str) -> String {
    format!("client-certificates = {{ roots = \"{authority}\" }}\n")
}

#[test]
fn go_sees_that_an_upload_is_too_large_or_not_its_to_make() {
    if !installed("go") {
        return;
    }
    for status in [413, 403] {
        let dir = Dir::new();
        build(&dir);
        let ca = authority(&dir);
        let more = match status {
            403 => for_members(&ca),
            _ => String::default(),
        };
        let serving = storing(&dir, &more);
        for length in ["known", "unknown"] {
            let url = serving.url("/in/a");
            go_sees(&dir, &url, &ca, ("PUT", length), &SIZES[2..], status);
        }
    }
}

#[test]
fn quic_go_sees_that_an_upload_is_too_large_or_not_its_to_make() {
    if !Peer::QuicGo.is_there() {
        return;
    }
    for status in [413, 403] {
        let ground = Ground::new();
        let ca = ground.authority.to_str().unwrap();
        let more = match status {
            403 => for_members(ca),
            _ => String::default(),
        };
        let serving = storing(&ground.dir, &more);
        let url = serving.url("");
        let (_, port) = url.rsplit_once(':').unwrap();
        let request = json!({"method": "PUT", "path": "/in/a", "upload": SIZES[2]});
        let plan = json!({"requests": vec![request; TIMES]});
        let report = Peer::QuicGo.report(&ground, port.parse().unwrap(), &plan);
        let seen: Vec<_> = report.responses.iter().map(|it| it.status).collect();
        assert_eq!(seen, [status; TIMES]);
    }
}

#[test]
fn go_sees_the_status_of_a_service_that_does_not_read() {
    if !installed("go") {
        return;
    }
    let ground = Ground::new();
    build(&ground.dir);
    let echo = Echo::start(&ground);
    let url = format!("https://localhost:{}/refuse", echo.port);
    let ca = ground.authority.to_str().unwrap();
    go_sees(&ground.dir, &url, ca, ("POST", "known"), &SIZES, 415);
}

/// Runs Go's client over HTTP/1.1 and HTTP/2, whatever the size; the length of the content is known before,
/// or not.
fn go_sees(
    dir: &Dir,
    url: &str,
    authority: &str,
    (method, length): (&str, &str),
    sizes: &[usize],
    status: u16,
) {
    for (protocol, version) in [("h1", "HTTP/1.1"), ("h2", "HTTP/2.0")] {
        for size in sizes {
            let mut client = Command::new(dir.path().join("net_http"));
            let times = TIMES.to_string();
            client.args([url, authority, protocol, &size.to_string(), &times]);
            client.args([method, length]);
            let seen = success(&mut client);
            let expected = format!("{version} {status}\n").repeat(TIMES);
            assert_eq!(seen, expected, "{protocol} {size}");
        }
    }
}

/// The other client of HTTP/3, aioquic's, is left out: it waits for what it uploads to come back.
#[test]
fn quic_go_sees_the_status_of_a_service_that_does_not_read() {
    if !Peer::QuicGo.is_there() {
        return;
    }
    let ground = Ground::new();
    let echo = Echo::start(&ground);
    for size in SIZES {
        let requests = vec![json!({"method": "POST", "path": "/refuse", "upload": size}); TIMES];
        let report = Peer::QuicGo.report(&ground, echo.port, &json!({"requests": requests}));
        let seen: Vec<_> = report.responses.iter().map(|it| it.status).collect();
        assert_eq!(seen, [415; TIMES], "{size}");
    }
}

/// Waits until the protocol is the one that is to be, sends bodies to each path, and reports the statuses and the
/// protocols.
const PAGE: &str = r#"<!doctype html><title>refused</title><script>
const send = async (path, size) => {
  try {
    const [method, body, signal] = ["METHOD", new Uint8Array(size), AbortSignal.timeout(20000)];
    return (await fetch(path, { method, body, signal })).status;
  } catch (error) {
    return String(error);
  }
};
const protocol = async (path) => {
  await (await fetch(path, { cache: "no-store" })).arrayBuffer();
  // Firefox writes its entry a little later.
  let entries = [];
  for (let i = 0; i < 100 && entries.length === 0; i++) {
    entries = performance.getEntriesByName(location.origin + path);
    if (entries.length === 0) await new Promise((done) => setTimeout(done, 10));
  }
  return entries[0]?.nextHopProtocol;
};
(async () => {
  let before;
  for (let i = 0; i < 100 && before !== "PROTOCOL"; i++) {
    before = await protocol("/small.txt?" + i);
    await new Promise((done) => setTimeout(done, 50));
  }
  const statuses = [];
  for (const path of PATHS) {
    for (const size of SIZES) {
      for (let i = 0; i < TIMES; i++) statuses.push(await send(path, size));
    }
  }
  const after = await protocol("/small.txt?after");
  await fetch("REPORT", { method: "METHOD", body: JSON.stringify({ before, statuses, after }) });
})();
</script>"#;

/// The page that sends to `paths`, so often each size, and then its report; all by one method.
fn page(protocol: &str, (method, report): (&str, &str), paths: &[&str], times: usize) -> String {
    let page = PAGE.replace("PROTOCOL", protocol);
    let page = page.replace("METHOD", method).replace("REPORT", report);
    let page = page.replace("PATHS", &format!("{paths:?}"));
    let page = page.replace("SIZES", &format!("{SIZES:?}"));
    page.replace("TIMES", &times.to_string())
}

fn chromium_sees(protocol: &str, policy: Policy, flags: &[&str]) {
    let ground = Ground::new();
    let page = page(protocol, ("POST", "/report"), &["/refuse"], TIMES);
    ground.dir.file("site/index.html", page);
    let echo = Echo::with(&ground, policy);
    let page = format!("https://{HOST}:{}/", echo.port);
    let profile = ground.dir.path().join("profile");
    let running = Browser::Chromium.open_with(flags, &ground, &profile, &page);
    let report = echo
        .report()
        .unwrap_or_else(|| panic!("no report over {protocol}"));
    running.quit();
    let report: Value = serde_json::from_str(&report).unwrap();
    let statuses = vec![415; SIZES.len() * TIMES];
    let expected = json!({"before": protocol, "statuses": statuses, "after": protocol});
    assert_eq!(report, expected);
}

#[test]
fn chromium_sees_the_status_of_a_service_that_does_not_read() {
    if !Browser::Chromium.is_there() {
        return;
    }
    chromium_sees("http/1.1", Policy::FixedH2, &["--disable-http2"]);
    chromium_sees("h2", Policy::FixedH2, &[]);
    // It would not if it were stopped by STOP_SENDING while it has more to send.
    chromium_sees("h3", Policy::FixedH3, &[]);
}

/// Number of times that a browser sends each size to each path of a site.
const OFTEN: usize = 3;

/// Paths that take nothing, and what they say: the first because all is too large for it, the second for its route is closed.
const REFUSING: [(&str, u16); 2] = [("/in/a", 413), ("/closed/a", 403)];

/// A site that refuses uploads at once, and keeps reports.
fn refusing(policy: &str) -> String {
    format!(
        "threads = 1\n\n[listen]\nhttps = [\"127.0.0.1:0\"]\n\n[[site]]\nnames = [\"{HOST}\"]\ndefault = true\n\
         policy = \"{policy}\"\nroute = [\n    {{ path = \"/report/*\", upload = {{ folder = \"reports\" }} }},\n    \
         {{ path = \"/in/*\", upload = {{ folder = \"stored\", body = \"0B\" }} }},\n    \
         {{ path = \"/closed/*\", respond = {{ status = 403 }} }},\n    {{ files = \"site\" }},\n]\n"
    )
}

/// `more`: flags or preferences.
fn browser_sees_refusals(browser: Browser, protocol: &str, policy: &str, more: &[&str]) {
    let ground = Ground::new();
    let dir = &ground.dir;
    let paths = REFUSING.map(|(path, _)| path);
    let page = page(protocol, ("PUT", "/report/it"), &paths, OFTEN);
    dir.file("site/index.html", page);
    dir.file("altway.toml", refusing(policy));
    for folder in ["reports", "stored"] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
    }
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    command.stderr(std::fs::File::create(dir.path().join("log")).unwrap());
    let serving = Serving::spawn(dir, command);
    let address = format!("https://{HOST}:{}/", serving.port);
    let profile = dir.path().join("profile");
    let running = browser.open_with(more, &ground, &profile, &address);
    let report = report(&dir.path().join("reports/it"));
    running.quit();
    let report = report.unwrap_or_else(|| panic!("no report of {browser:?} over {protocol}"));
    let report: Value = serde_json::from_str(&report).unwrap();
    let statuses = REFUSING.map(|(_, status)| vec![status; SIZES.len() * OFTEN]);
    let expected = json!({"before": protocol, "statuses": statuses.concat(), "after": protocol});
    assert_eq!(report, expected, "{browser:?}");
    assert_eq!(serving.terminate(), Some(0));
}

/// Returns the content uploaded as this file, once it is there: files have names when they are whole.
fn report(file: &Path) -> Option<String> {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !file.exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::read_to_string(file).ok()
}

#[test]
fn chromium_sees_that_an_upload_is_too_large_or_not_its_to_make() {
    let browser = Browser::Chromium;
    if !browser.is_there() {
        return;
    }
    browser_sees_refusals(browser, "http/1.1", "h2", &["--disable-http2"]);
    browser_sees_refusals(browser, "h2", "h2", &[]);
    browser_sees_refusals(browser, "h3", "h3", &[]);
}

#[test]
fn firefox_sees_that_an_upload_is_too_large_or_not_its_to_make() {
    let browser = Browser::Firefox;
    if !browser.is_there() {
        return;
    }
    let without_http2 = "user_pref(\"network.http.http2.enabled\", false);\n";
    browser_sees_refusals(browser, "http/1.1", "h2", &[without_http2]);
    browser_sees_refusals(browser, "h2", "h2", &[]);
    browser_sees_refusals(browser, "h3", "h3", &[]);
}
