//! Answers to requests whose bodies nobody reads, as clients of Go, quic-go and Chromium see them: the
//! status, never an error.

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

/// Bytes of the unwanted bodies: within the first packet, within the windows, beyond them.
const SIZES: [usize; 3] = [1, 200_000, 5_000_000];

/// How often each is tried: a race shows now and then.
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

/// Over HTTP/1.1 and HTTP/2, whatever the size; the length of what a method brings is known before, or not.
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

/// Waits until the protocol is the one that is to be, posts bodies, and reports each status and the protocols.
const PAGE: &str = r#"<!doctype html><title>refused</title><script>
const post = async (size) => {
  try {
    const [method, body, signal] = ["POST", new Uint8Array(size), AbortSignal.timeout(5000)];
    return (await fetch("/refuse", { method, body, signal })).status;
  } catch (error) {
    return String(error);
  }
};
const protocol = async (path) => {
  await (await fetch(path, { cache: "no-store" })).arrayBuffer();
  const entries = performance.getEntriesByName(location.origin + path);
  return entries[0]?.nextHopProtocol;
};
(async () => {
  let before;
  for (let i = 0; i < 100 && before !== "PROTOCOL"; i++) {
    before = await protocol("/small.txt?" + i);
    await new Promise((done) => setTimeout(done, 50));
  }
  const statuses = [];
  for (const size of SIZES) {
    for (let i = 0; i < TIMES; i++) statuses.push(await post(size));
  }
  const after = await protocol("/small.txt?after");
  await fetch("/report", { method: "POST", body: JSON.stringify({ before, statuses, after }) });
})();
</script>"#;

fn chromium_sees(protocol: &str, policy: Policy, flags: &[&str], sizes: &[usize]) {
    let ground = Ground::new();
    let page = PAGE
        .replace("PROTOCOL", protocol)
        .replace("SIZES", &format!("{sizes:?}"))
        .replace("TIMES", &TIMES.to_string());
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
    let statuses = vec![415; sizes.len() * TIMES];
    let expected = json!({"before": protocol, "statuses": statuses, "after": protocol});
    assert_eq!(report, expected);
}

#[test]
fn chromium_sees_the_status_of_a_service_that_does_not_read() {
    if !Browser::Chromium.is_there() {
        return;
    }
    chromium_sees("http/1.1", Policy::FixedH2, &["--disable-http2"], &SIZES);
    chromium_sees("h2", Policy::FixedH2, &[], &SIZES);
    // It would not if it were stopped by STOP_SENDING while it has more to send.
    chromium_sees("h3", Policy::FixedH3, &[], &SIZES);
}
