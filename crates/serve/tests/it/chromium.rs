//! Chromium's WebSockets against the example, over HTTP/1.1 and HTTP/2. It opens none over HTTP/3.

use super::websockets::example;
use crate::common::Running;
use crate::common::access_log::Lines;
use altway_serve::{AccessLog, Policy, Site};
use aws_lc_rs::digest::{SHA256, digest};
use axum::response::Html;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use x509_parser::prelude::{FromDer as _, X509Certificate};

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

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(server: &Running, flags: &[&str]) -> Option<Killed> {
    let der = server.site.leaf_der();
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    let spki = STANDARD.encode(digest(&SHA256, certificate.public_key().raw));
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
    chromium.args(flags).env("HOME", &home);
    chromium.arg(format!("https://localhost:{}/page", server.address.port()));
    let chromium = chromium.stdin(Stdio::null()).stdout(Stdio::null());
    chromium.stderr(Stdio::null()).spawn().ok().map(Killed)
}

/// The lines of a log once it has `last`, which must come.
fn lines_up_to(log: &Lines, last: &str) -> String {
    let until = Instant::now() + Duration::from_secs(30);
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
        let Some(_chromium) = start(&server, flags) else {
            // Past the test harness, which would keep what `eprintln!` says to itself.
            let _ = writeln!(std::io::stderr(), "SKIPPED: chromium is not there");
            return;
        };
        let text = lines_up_to(&lines, "path=\"/closed-true\"");
        assert!(text.contains("path=\"/small-hello\""), "{text}");
        assert!(text.contains("path=\"/large-echo\""), "{text}");
        let text = lines_up_to(&lines, "path=\"/echo\"");
        let is_echo = |line: &&str| line.contains("path=\"/echo\"");
        let echo = text.lines().find(is_echo).unwrap();
        assert!(echo.contains(&format!("protocol={protocol} ")), "{echo}");
    }
}
