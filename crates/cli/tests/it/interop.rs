//! Clients that we did not write fetch pages from `altway serve`.

use crate::common::{Dir, Serving, installed, success};
use std::process::Command;

const MEGABYTE: usize = 1_000_000;

fn site() -> (Dir, Vec<u8>) {
    let dir = Dir::new();
    let big: Vec<u8> = (0..MEGABYTE).map(|i| (i * i / 7) as u8).collect();
    dir.file("site/big.bin", &big);
    dir.file("site/index.html", "<!doctype html><title>hello</title>");
    (dir, big)
}

pub(crate) fn authority(dir: &Dir) -> String {
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
        let offer = format!("alt-svc: h3=\":{}\"; ma=86400", serving.port);
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
