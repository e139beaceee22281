//! The clients of HAProxy's regression tests for HTTP messages, against `altway serve` and a proxy in front of it.
//!
//! A test of theirs is a script of varnishtest with clients, HAProxy, and servers behind it. Its clients
//! run here as they are, but for the address, and for a WINDOW_UPDATE behind the first SETTINGS of HTTP/2,
//! which HAProxy does not send. They expect of HAProxy's answers what must hold of ours; where the gate
//! refuses what HAProxy repairs or lets pass, the table names our status. Clients that need what only a
//! proxy has (CONNECT, answers of the servers, a time-out of HAProxy) are left out.

use crate::common::{Dir, Serving, installed, provided, text};
use crate::proxy_suites;
use std::path::Path;
use std::process::{Command, Stdio};

const CLEAR: &str = "--h2c";
const BEHIND_TLS: &str = "--behind-tls-proxy";

/// Clients of a script that expect a status, and what `altway serve` gives.
struct Clients {
    script: &'static str,
    option: &'static str,
    names: &'static [&'static str],
    /// The status that they expect, and ours instead.
    stricter: Option<(&'static str, &'static str)>,
}

const HOSTS: &str = "h1_host_normalization.vtc";
const CODINGS: &str = "http_transfer_encoding.vtc";
const DESYNC: &str = "h2_desync_attacks.vtc";
const SCHEMES: &str = "scheme_based_normalize.vtc";

const CASES: [Clients; 12] = [
    same(HOSTS, CLEAR, &["c2", "c20", "c22"]),
    same(HOSTS, BEHIND_TLS, &["c3", "c4", "c21", "c23"]),
    // Hosts that differ, are repeated, or are not where the method has them.
    same(
        HOSTS,
        CLEAR,
        &[
            "c8", "c9", "c10", "c11", "c12", "c13", "c14", "c15", "c16", "c17", "c18", "c19",
        ],
    ),
    // User information, empty ports and empty hosts.
    other(
        HOSTS,
        CLEAR,
        &["c1", "c24", "c26", "c28", "c29", "c32", "c34"],
        ("200", "400"),
    ),
    other(
        HOSTS,
        BEHIND_TLS,
        &["c25", "c27", "c30", "c31", "c33", "c35"],
        ("200", "400"),
    ),
    same(CODINGS, CLEAR, &["c6", "c7", "c8", "c9"]),
    // Content-Length beside Transfer-Encoding, and Transfer-Encoding in HTTP/1.0.
    other(CODINGS, CLEAR, &["c1", "c2"], ("200", "400")),
    // RFC 9112 section 6.1: "SHOULD respond with 501".
    other(CODINGS, CLEAR, &["c10"], ("422", "501")),
    same(DESYNC, CLEAR, &["c3-path"]),
    // Without an authority.
    other(DESYNC, CLEAR, &["c1", "c2"], ("200", "400")),
    same(SCHEMES, CLEAR, &["c1", "c2"]),
    same(SCHEMES, BEHIND_TLS, &["c3", "c4"]),
];

const fn same(
    script: &'static str,
    option: &'static str,
    names: &'static [&'static str],
) -> Clients {
    Clients {
        script,
        option,
        names,
        stricter: None,
    }
}

const fn other(
    script: &'static str,
    option: &'static str,
    names: &'static [&'static str],
    stricter: (&'static str, &'static str),
) -> Clients {
    Clients {
        script,
        option,
        names,
        stricter: Some(stricter),
    }
}

#[test]
fn clients_of_haproxys_tests_get_what_they_expect_or_a_stricter_answer() {
    let Some(folder) = provided("HAProxy's test suite", "ALTWAY_TEST_HAPROXY") else {
        return;
    };
    if !installed("varnishtest") {
        return;
    }
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    for page in ["c2", "c3", "c4", "c20", "c21", "c22", "c23"] {
        dir.file(&format!("site/{page}"), "hello");
    }
    for option in [CLEAR, BEHIND_TLS] {
        let server = Serving::start(&dir, &[option]);
        for clients in CASES.iter().filter(|clients| clients.option == option) {
            clients.run(Path::new(&folder), &dir, &server);
        }
    }
}

#[test]
fn clients_of_haproxys_tests_get_the_same_through_a_proxy() {
    let Some(folder) = provided("HAProxy's test suite", "ALTWAY_TEST_HAPROXY") else {
        return;
    };
    if !installed("varnishtest") {
        return;
    }
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    for page in ["c2", "c3", "c4", "c20", "c21", "c22", "c23"] {
        dir.file(&format!("site/{page}"), "hello");
    }
    let served = Serving::start(&dir, &[CLEAR]);
    let origin = format!("http://127.0.0.1:{}", served.port);
    for (option, listen) in [(CLEAR, ""), (BEHIND_TLS, "behind-tls-proxy = true")] {
        let proxy = proxy_suites::front(&dir, listen, &origin);
        for clients in CASES.iter().filter(|clients| clients.option == option) {
            clients.run(Path::new(&folder), &dir, &proxy);
        }
    }
}

impl Clients {
    fn run(&self, folder: &Path, dir: &Dir, server: &Serving) {
        let source = std::fs::read_to_string(folder.join(self.script)).unwrap();
        for name in self.names {
            let script = self.script_of(&client(&source, name), server.port);
            dir.file("client.vtc", &script);
            let mut varnishtest = Command::new("varnishtest");
            varnishtest.args(["-t", "20"]).arg("client.vtc");
            let output = varnishtest.current_dir(dir.path()).stdin(Stdio::null());
            let output = output.output().unwrap();
            let said = text(&output.stdout);
            assert!(output.status.success(), "{name} of {}: {said}", self.script);
        }
    }

    /// A whole script of that client alone.
    fn script_of(&self, client: &str, port: u16) -> String {
        let (before, behind) = client.split_once("-connect ").unwrap();
        let (_, behind) = behind.split_once(' ').unwrap();
        let greeted = behind.replace("txsettings -ack", "txsettings -ack\nrxwinup");
        let expecting = match self.stricter {
            None => greeted,
            Some((theirs, ours)) => {
                let [theirs, ours] = [theirs, ours].map(|it| format!("resp.status == {it}"));
                assert!(greeted.contains(&theirs), "{greeted}");
                greeted.replace(&theirs, &ours)
            }
        };
        assert!(
            expecting.contains("expect resp.status") || expecting.contains("rxrst"),
            "{expecting}"
        );
        format!("varnishtest \"a client\"\n{before}-connect 127.0.0.1:{port} {expecting}\n")
    }
}

/// The first client of that name, from its line to the brace that ends it.
fn client(script: &str, name: &str) -> String {
    let begin = script.find(&format!("\nclient {name} ")).unwrap() + 1;
    let (client, _) = script[begin..].split_once("\n}").unwrap();
    format!("{client}\n}} -run")
}
