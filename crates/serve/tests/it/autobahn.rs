//! Autobahn's test suite for WebSockets against the example: over HTTP/1.1, over HTTP/2 (RFC 8441) by way of
//! nghttpx, which speaks HTTP/1.1 to the suite, and through a proxy of ours, which speaks either to the example.
//!
//! The suite runs on Python 2.7 alone. `cargo xtask test` installs it, and tells where by
//! `ALTWAY_TEST_AUTOBAHN`: the folder of its packages.

use super::proxied;
use super::websockets::example;
use crate::common::{Running, free_port, skipped, soon};
use altway_serve::Site;
use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::net::TcpStream;

/// Every case of framing, pings, fragments, UTF-8, closing and limits: 246. Left out are measurements of
/// speed (9) and compression (12, 13), which the extractor does not negotiate.
const CASES: [&str; 7] = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*"];
const HOW_MANY: usize = 246;

/// Results with which a case may end, in the words of the suite.
const GOOD: [&str; 3] = ["OK", "NON-STRICT", "INFORMATIONAL"];

/// The folder of the suite, or a loud word that it is absent.
fn suite() -> Option<PathBuf> {
    let folder = std::env::var_os("ALTWAY_TEST_AUTOBAHN").filter(|place| !place.is_empty());
    if folder.is_none() {
        skipped("Autobahn's test suite, for Python 2.7, is not there; see `cargo xtask setup`");
    }
    folder.map(PathBuf::from)
}

fn server() -> Running {
    Running::clear(|options| options.site = Site::service(example::app()))
}

/// Runs the cases against an address; how many ended how. Panics with those that are not good.
fn run(suite: &Path, address: SocketAddr) -> BTreeMap<String, usize> {
    let folder = tempfile::tempdir().unwrap();
    let spec = serde_json::json!({
        "outdir": "reports",
        "servers": [{ "agent": "altway", "url": format!("ws://{address}/echo") }],
        "cases": CASES,
        "exclude-cases": [],
        "exclude-agent-cases": {},
    });
    fs::write(folder.path().join("spec.json"), spec.to_string()).unwrap();
    // Its first line names the Python that it was installed for.
    let output = Command::new(suite.join("bin/wstest"))
        .args(["-m", "fuzzingclient", "-s", "spec.json"])
        .env("PYTHONPATH", suite)
        .current_dir(&folder)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let index = fs::read(folder.path().join("reports/index.json")).expect(&errors);
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    let mut ends = BTreeMap::new();
    let mut bad = Vec::new();
    for (case, result) in index["altway"].as_object().unwrap() {
        for part in ["behavior", "behaviorClose"] {
            let end = result[part].as_str().unwrap();
            if !GOOD.contains(&end) {
                bad.push(format!("{case} {part}: {end}"));
            }
        }
        let end = result["behavior"].as_str().unwrap();
        *ends.entry(end.to_owned()).or_default() += 1;
    }
    assert!(bad.is_empty(), "{bad:?}");
    ends
}

fn judge(ends: &BTreeMap<String, usize>) {
    assert_eq!(ends.values().sum::<usize>(), HOW_MANY, "{ends:?}");
}

/// The server behind a proxy that speaks HTTP/1.1 or HTTP/2 to it.
fn judge_through_a_proxy(scheme: &str) {
    let Some(suite) = suite() else {
        return;
    };
    let server = server();
    let route = format!("proxy = \"{scheme}://{}\"", server.address);
    let proxy = Running::clear(|options| options.site = proxied::site(&route));
    judge(&run(&suite, proxy.address));
}

#[test]
fn autobahn_s_cases_through_a_proxy_to_http1() {
    judge_through_a_proxy("http");
}

#[test]
fn autobahn_s_cases_through_a_proxy_to_http2() {
    judge_through_a_proxy("h2c");
}

#[test]
fn autobahn_s_cases_over_http1() {
    let Some(suite) = suite() else {
        return;
    };
    judge(&run(&suite, server().address));
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn autobahn_s_cases_over_http2() {
    let Some(suite) = suite() else {
        return;
    };
    let server = server();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let nghttpx = Command::new("nghttpx")
        .arg(format!("-f127.0.0.1,{};no-tls", address.port()))
        .arg(format!("-b127.0.0.1,{};;proto=h2", server.address.port()))
        .args(["-n1", "--conf=/dev/null", "--errorlog-file=/dev/null"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(nghttpx) = nghttpx else {
        skipped("nghttpx is not there; see `cargo xtask setup`");
        return;
    };
    let _nghttpx = Killed(nghttpx);
    let connect = async {
        while TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(connect).await;
    let run = tokio::task::spawn_blocking(move || run(&suite, address));
    judge(&run.await.unwrap());
}
