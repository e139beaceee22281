//! Chromium's WebSockets against the example, over HTTP/1.1 and HTTP/2. It opens none over HTTP/3.

use super::websockets::example;
use crate::common::access_log::Lines;
use crate::common::{Running, TIME_LIMIT, skipped};
use altway_serve::{AccessLog, Policy, Site};
use axum::response::Html;
use axum::routing::get;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Says hello over a WebSocket, twice a large one, and asks for a path with what came back.
const PAGE: &str = r#"<!doctype html><title>echo</title><script>
const socket = new WebSocket(`wss://${location.host}/echo`, ["other", "echo"]);
const large = "x".repeat(1 << 20);
socket.onopen = () => { socket.send("hello"); socket.send(large); };
socket.onmessage = (event) => {
  if (event.data === large) fetch("/large-" + socket.protocol).then(() => socket.close());
  else fetch("/small-" + event.data);
};
socket.onclose = (event) => fetch("/closed-" + event.wasClean);
</script>"#;

pub(crate) struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Opens `page`, of a server with the certificate of `server`; a loud word where Chromium is not there. It ends with the
/// value.
pub(crate) fn open(server: &Running, page: &str, flags: &[&str]) -> Option<Killed> {
    let spki = server.site.leaf().spki_sha256;
    let mut chromium = Command::new("chromium");
    chromium.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
    ]);
    chromium.args([
        "--disable-background-networking",
        "--disable-component-update",
    ]);
    chromium.arg(format!("--ignore-certificate-errors-spki-list={spki}"));
    let home = server.site.folder();
    chromium.arg(format!(
        "--user-data-dir={}",
        home.join("profile").display()
    ));
    chromium.args(flags).env("HOME", &home).arg(page);
    let chromium = chromium.stdin(Stdio::null()).stdout(Stdio::null());
    let running = chromium.stderr(Stdio::null()).spawn().ok().map(Killed);
    if running.is_none() {
        skipped("chromium is not there");
    }
    running
}

/// The lines of a log once it has `last`, which must come.
fn lines_up_to(log: &Lines, last: &str) -> String {
    let until = Instant::now() + TIME_LIMIT;
    while !log.text().contains(last) {
        assert!(Instant::now() < until, "no {last}: {}", log.text());
        std::thread::sleep(Duration::from_millis(50));
    }
    log.text()
}

#[test]
fn chromium_s_websockets_over_http1_and_http2() {
    for (protocol, flags) in [("h1", &["--disable-http2"][..]), ("h2", &[])] {
        let lines = Lines::default();
        let app = example::app().route("/page", get(async || Html(PAGE)));
        let server = Running::tls(|options| {
            options.site = Site::service(app);
            options.policy = Policy::FixedH2;
            options.access_log = Some(AccessLog::new(lines.clone()).unwrap());
        });
        let page = format!("https://localhost:{}/page", server.address.port());
        let Some(_chromium) = open(&server, &page, flags) else {
            return;
        };
        // Each in a request of its own, which may overtake one before it.
        for heard in ["closed-true", "small-hello", "large-echo"] {
            lines_up_to(&lines, &format!("path=\"/{heard}\""));
        }
        let text = lines_up_to(&lines, "path=\"/echo\"");
        let is_echo = |line: &&str| line.contains("path=\"/echo\"");
        let echo = text.lines().find(is_echo).unwrap();
        assert!(echo.contains(&format!("protocol={protocol} ")), "{echo}");
    }
}
