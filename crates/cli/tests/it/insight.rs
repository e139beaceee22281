//! Looking inside: early data, TLS secrets and qlogs, as a person asks for them.

use crate::common::{Dir, Serving, refusal, success};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A page, its server, and what its clients are told to trust.
fn serving(more: &[&str]) -> (Dir, Serving) {
    let dir = Dir::new();
    dir.file("site/page", "hello");
    let server = Serving::start(&dir, more);
    (dir, server)
}

fn load(dir: &Dir, server: &Serving, more: &[&str]) -> String {
    let mut command = dir.altway(["load", &server.url("/page"), "--insecure"]);
    success(command.args(more))
}

/// The labels of a key log, whose lines are all as Wireshark wants them.
fn labels(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap();
    let hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut labels = BTreeSet::new();
    for line in text.lines() {
        let parts: Vec<_> = line.split(' ').collect();
        let [label, random, secret] = parts[..] else {
            panic!("{line}");
        };
        assert!(hexadecimal(random) && random.len() == 64, "{line}");
        assert!(hexadecimal(secret) && secret.len() >= 64, "{line}");
        labels.insert(label.to_owned());
    }
    labels
}

const TLS_1_3: [&str; 5] = [
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "EXPORTER_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_TRAFFIC_SECRET_0",
];

#[test]
fn both_ends_log_the_same_secrets_over_tcp_and_quic_and_say_so() {
    let (dir, server) = serving(&["--keylog", "server.keys"]);
    for protocol in ["h2", "h3"] {
        load(&dir, &server, &["-p", protocol, "--keylog", "client.keys"]);
        let (ours, theirs) = (
            dir.path().join("client.keys"),
            dir.path().join("server.keys"),
        );
        let expected = TLS_1_3.map(str::to_owned).into();
        assert_eq!(labels(&ours), expected, "{protocol}");
        assert_eq!(labels(&theirs), expected, "{protocol}");
        let lines = |path| -> BTreeSet<String> {
            let text = fs::read_to_string(path).unwrap();
            text.lines().map(str::to_owned).collect()
        };
        assert_eq!(lines(&ours), lines(&theirs), "{protocol}");
    }
    let said = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(said.contains("warning: the secrets of every connection go to `server.keys`"));
}

#[test]
fn the_variable_that_browsers_know_is_known() {
    let (dir, server) = serving(&[]);
    let mut command = dir.altway(["load", &server.url("/page"), "--insecure"]);
    success(command.env("SSLKEYLOGFILE", "by-variable"));
    assert!(!labels(&dir.path().join("by-variable")).is_empty());
    let mut command = dir.altway(["load", &server.url("/page"), "--insecure"]);
    success(command.env("SSLKEYLOGFILE", ""));
    let mut command = dir.altway(["load", &server.url("/page"), "--insecure"]);
    let said = refusal(command.args(["--keylog", "no/such/folder"]));
    assert!(
        said.contains("cannot open the key log `no/such/folder`"),
        "{said}"
    );
}

#[test]
fn each_connection_of_http3_has_a_qlog_at_both_ends() {
    let (dir, server) = serving(&["--qlog", "server/qlog"]);
    load(
        &dir,
        &server,
        &["-p", "h3", "-n", "6", "-c", "2", "--qlog", "client"],
    );
    assert_eq!(server.terminate(), Some(0));
    let logs = |folder: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(dir.path().join(folder)).unwrap();
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        entries.map(|entry| name(entry.unwrap())).collect()
    };
    let (ours, theirs) = (logs("client"), logs("server/qlog"));
    assert_eq!(ours.len(), 2);
    assert_eq!(ours, theirs);
    for name in &ours {
        let text = fs::read_to_string(dir.path().join("client").join(name)).unwrap();
        for record in text.split('\u{1e}').filter(|record| !record.is_empty()) {
            let json: serde_json::Value = serde_json::from_str(record).unwrap();
            assert!(json.is_object(), "{record}");
        }
        assert!(text.contains("packet_sent") && text.contains("packet_received"));
    }
}

#[test]
fn requests_of_returning_clients_leave_with_the_first_packets() {
    let (dir, server) = serving(&[]);
    let said = load(&dir, &server, &["-p", "h3", "-n", "10", "--early-data"]);
    let expected = "early data: 9 requests accepted, 0 refused";
    assert!(said.contains(expected), "{said}");
    // A server that has forgotten them all is another process.
    let port = server.port;
    assert_eq!(server.terminate(), Some(0));
    let server = Serving::start_on(&dir, port, &["--early-data=off"]);
    let said = load(&dir, &server, &["-p", "h3", "-n", "3", "--early-data"]);
    assert!(
        said.contains("early data: 0 requests accepted, 0 refused"),
        "{said}"
    );
}

#[test]
fn early_data_needs_http3() {
    let dir = Dir::new();
    let mut command = dir.altway(["load", "https://localhost:1/", "--early-data"]);
    let said = refusal(&mut command);
    assert!(
        said.contains("early data is sent over HTTP/3 (h3), not over h2"),
        "{said}"
    );
    assert!(said.contains("hint: add `--protocol h3`"), "{said}");
}

#[test]
fn a_server_speaks_the_version_of_quic_that_its_client_begins_with() {
    let (dir, server) = serving(&["--early-data", "--retry", "always"]);
    for version in ["1", "2"] {
        let early = [
            "-p",
            "h3",
            "-n",
            "5",
            "--early-data",
            "--quic-version",
            version,
        ];
        let said = load(&dir, &server, &early);
        let expected = "early data: 4 requests accepted, 0 refused";
        assert!(said.contains(expected), "{version}: {said}");
    }
}

#[test]
fn a_version_of_quic_needs_http3() {
    let dir = Dir::new();
    let mut command = dir.altway(["load", "https://localhost:1/", "--quic-version", "2"]);
    let said = refusal(&mut command);
    let expected = "versions of QUIC are for HTTP/3 (h3), not for h2";
    assert!(said.contains(expected), "{said}");
    assert!(said.contains("hint: add `--protocol h3`"), "{said}");
    let unknown = [
        "load",
        "https://localhost:1/",
        "-p",
        "h3",
        "--quic-version",
        "3",
    ];
    let said = refusal(&mut dir.altway(unknown));
    assert!(
        said.contains("quic version is out of range: 1 or 2"),
        "{said}"
    );
}
