//! HTTP/2 between altway and programs that we did not write, where flow control is tight: sizes
//! around a frame's and a window's edge, windows of a few bytes, bodies and trailers of requests;
//! over TLS and in clear text.

use crate::common::{Dir, Serving, installed, success, text};
use crate::peers::Peer;
use std::process::{Command, Output, Stdio};

/// Sizes: nothing; one byte; a frame's usual size and the first window (RFC 9113 sections 4.2 and
/// 6.9.2), each with its neighbours; more than either.
const SIZES: [usize; 8] = [0, 1, 16_383, 16_384, 16_385, 65_535, 65_536, 1_000_001];

/// nghttp2's `--window-bits` and `--connection-window-bits`: a window is 2 to that power, less 1.
const WINDOWS: [(u8, u8); 3] = [(6, 10), (10, 16), (14, 10)];

/// Windows of one byte: each byte takes a round trip.
const TINIEST: (u8, u8) = (1, 1);

/// No period that divides a frame or a window.
fn content(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i % 251) as u8).collect()
}

/// A folder with a file of each size, named by it, and altway's own certificate.
fn site() -> Dir {
    let dir = Dir::new();
    for size in SIZES {
        dir.file(&format!("site/{size}"), content(size));
    }
    success(&mut dir.altway(["certs"]));
    dir
}

/// Calls `check` with the root of a server in clear text, and of one over TLS.
fn over_both(check: impl Fn(&Dir, &str)) {
    let dir = site();
    let clear = Serving::start(&dir, &["--h2c"]);
    check(&dir, &format!("http://localhost:{}", clear.port));
    let tls = Serving::start(&dir, &[]);
    check(&dir, &format!("https://localhost:{}", tls.port));
}

fn run(dir: &Dir, program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir.path());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    output
}

#[test]
fn nghttp_gets_the_right_bytes_through_tiny_windows() {
    if !installed("nghttp") {
        return;
    }
    over_both(|dir, root| {
        let tiniest = [0, 1].map(|size| (size, TINIEST));
        let tiny = SIZES.map(|size| WINDOWS.map(|windows| (size, windows)));
        for (size, windows) in tiniest.into_iter().chain(tiny.into_iter().flatten()) {
            let (stream, connection) = (windows.0.to_string(), windows.1.to_string());
            let url = format!("{root}/{size}");
            let arguments = ["--no-verify-peer", "-w", &stream, "-W", &connection, &url];
            let got = run(dir, "nghttp", &arguments).stdout;
            assert!(got == content(size), "{arguments:?}: {} bytes", got.len());
        }
    });
}

#[test]
fn h2load_gets_every_byte_of_many_streams_through_tiny_windows() {
    if !installed("h2load") {
        return;
    }
    over_both(|dir, root| {
        for (size, requests) in [(0, 400), (16_385, 200), (1_000_001, 8)] {
            let (url, n) = (format!("{root}/{size}"), requests.to_string());
            let load = [
                "-c", "4", "-m", "20", "-w", "10", "-W", "12", "-n", &n, &url,
            ];
            let said = text(&run(dir, "h2load", &load).stdout);
            let answered = format!("status codes: {n} 2xx, 0 3xx, 0 4xx, 0 5xx");
            assert!(said.contains(&answered), "{said}");
            let bytes = format!("({}) data", size * requests);
            assert!(said.contains(&bytes), "{said}");
        }
    });
}

#[test]
fn curl_gets_the_right_bytes_of_every_size() {
    if !installed("curl") {
        return;
    }
    over_both(|dir, root| {
        for size in SIZES {
            let url = format!("{root}/{size}");
            let http2 = "--http2-prior-knowledge";
            let version = ["-w", "%{stderr}%{http_version}"];
            let arguments = [&["-sSk", http2, &url][..], &version].concat();
            let got = run(dir, "curl", &arguments);
            assert_eq!(text(&got.stderr), "2");
            assert!(got.stdout == content(size), "{url}");
        }
    });
}

#[test]
fn a_posted_body_and_trailers_are_answered_405_and_the_server_goes_on() {
    if !installed("nghttp") {
        return;
    }
    over_both(|dir, root| {
        let url = format!("{root}/16385");
        for size in SIZES {
            let body = format!("site/{size}");
            for more in [&[][..], &["--trailer", "checksum: 1"]] {
                let post = ["--no-verify-peer", "-d", &body, &url];
                let page = text(&run(dir, "nghttp", &[more, &post].concat()).stdout);
                assert!(page.starts_with("<!doctype html>\n"), "{page}");
                assert!(
                    page.ends_with("<h1>405 Method Not Allowed</h1>\n"),
                    "{page}"
                );
                let frames = run(dir, "nghttp", &[more, &["-nv"], &post].concat()).stdout;
                let frames = text(&frames);
                assert!(frames.contains(":status: 405"), "{frames}");
                let length = format!("content-length: {}\n", page.len());
                assert!(frames.contains(&length), "{frames}");
            }
        }
        let got = run(dir, "nghttp", &["--no-verify-peer", &url]).stdout;
        assert!(got == content(16_385));
    });
}

/// `altway load` against each file of the peer.
fn fetch_all(dir: &Dir, peer: &Peer) {
    let ca = dir.path().join("data/altway/certs/ca.pem");
    for size in SIZES {
        let url = format!("{}/{size}", peer.root);
        let mut load = dir.altway(["load", &url, "-p", "h2", "--json", "-n", "12"]);
        load.args(["-c", "2", "-m", "3", "--ca", ca.to_str().unwrap()]);
        let output: serde_json::Value = serde_json::from_str(&success(&mut load)).unwrap();
        let requests = output["requests"].as_array().unwrap();
        assert_eq!(requests.len(), 12);
        for request in requests {
            assert_eq!(request["protocol_used"], "h2", "{url}");
            assert_eq!(request["status"], 200, "{url}");
            assert_eq!(request["bytes"], size, "{url}");
        }
    }
}

fn our_client_against(start: impl Fn(&Dir, bool) -> Option<Peer>) {
    let dir = site();
    for tls in [false, true] {
        if let Some(peer) = start(&dir, tls) {
            fetch_all(&dir, &peer);
        }
    }
}

#[test]
fn our_client_gets_every_byte_from_nghttpd() {
    our_client_against(Peer::nghttpd);
}

#[test]
fn our_client_gets_every_byte_from_h2o() {
    our_client_against(Peer::h2o);
}

#[test]
fn our_client_gets_every_byte_from_nginx() {
    our_client_against(Peer::nginx);
}
