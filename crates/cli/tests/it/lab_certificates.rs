//! The certificate as a condition of the lab: chains of the user's own, and their compression.

use crate::common::{Dir, installed, refusal, success};
use crate::lab::{can_emulate, only_run};
use altway_record::{Sample, read_samples};
use serde_json::Value;
use std::fs;
use std::path::Path;

const PLAN: &str = "name = \"tiny\"\nrate = \"20mbit\"\ndelay = \"5ms\"\nsize = \"20KB\"\npairs = 1\nnull_arm = false\nwarm_ups = 0\n";

/// A chain of RSA keys for `www.altway.test`, and a certificate of another key: the files of both.
fn made(dir: &Dir) -> (Value, Value) {
    let files = |more: [&str; 2]| {
        let certs = ["certs", "--dir", "certs", "--json"];
        let text = success(dir.altway(certs).args(more));
        serde_json::from_str(&text).unwrap()
    };
    (
        files(["--rsa-chain", "www.altway.test"]),
        files(["a.test", "b.test"]),
    )
}

fn read(dir: &Dir, file: &Value) -> String {
    fs::read_to_string(dir.path().join(file.as_str().unwrap())).unwrap()
}

/// Writes a file of the PEM in others.
fn join(dir: &Dir, name: &str, parts: [&Value; 2]) {
    let text = parts.map(|part| read(dir, part));
    dir.file(name, text.concat());
}

#[test]
fn a_chain_that_cannot_be_shown_is_refused_before_anything_is_set_up() {
    let dir = Dir::new();
    let (chain, other) = made(&dir);
    join(
        &dir,
        "plans/mixed.pem",
        [&chain["certificate"], &other["key"]],
    );
    join(
        &dir,
        "plans/alone.pem",
        [&other["certificate"], &other["key"]],
    );
    dir.file("plans/keyless.pem", read(&dir, &chain["certificate"]));
    let said = |file: &str| {
        dir.file("plans/p.toml", format!("{PLAN}certificate = \"{file}\"\n"));
        refusal(&mut dir.altway(["lab", "run", "plans/p.toml"]))
    };
    let lost = said("lost.pem");
    assert!(
        lost.contains("`certificate`: cannot read plans/lost.pem"),
        "{lost}"
    );
    let keyless = said("keyless.pem");
    assert!(
        keyless.contains("plans/keyless.pem holds no key"),
        "{keyless}"
    );
    let mixed = said("mixed.pem");
    assert!(
        mixed.contains("does not belong to the certificate"),
        "{mixed}"
    );
    let alone = said("alone.pem");
    assert!(
        alone.contains("does not lead from its first certificate to its last"),
        "{alone}"
    );
    assert!(alone.contains("hint: a chain's file is PEM"), "{alone}");
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn clients_believe_a_chain_of_ones_own_that_is_compressed_unless_the_plan_says_no() {
    let dir = Dir::alone();
    if !can_emulate(&dir) {
        return;
    }
    let (chain, _) = made(&dir);
    join(&dir, "own.pem", [&chain["certificate"], &chain["key"]]);
    let with_chromium = installed("chromium");
    let clients = match with_chromium {
        true => "[\"altway\", \"chromium\"]",
        false => "\"altway\"",
    };
    let plan = format!(
        "{PLAN}client = {clients}\ncertificate = \"own.pem\"\ncertificate_compression = [true, false]\n"
    );
    dir.file("plan.toml", plan);
    let mut command = dir.altway(["lab", "run", "plan.toml"]);
    if with_chromium {
        command.args(["--netlog", "--traced", "2,3"]);
    }
    success(&mut command);
    let run = only_run(&dir);
    let rows = read_samples(&fs::read_to_string(run.join("samples.csv")).unwrap()).unwrap();
    for row in &rows {
        // On a machine that is busy the link may be late.
        assert!(row.valid || row.fault.contains("late"), "{row:#?}");
        assert!(row.body_bytes > 0, "{row:#?}");
        assert_eq!(row.certificate.to_string(), "own.pem");
        assert_eq!(row.certificate_compression, row.cell % 2 == 0);
    }
    if with_chromium {
        let log = |cell| run.join(format!("traces/cell-{cell}-h2/netlog.json"));
        let seen = [2, 3].map(|cell| message_with_certificate(&log(cell)));
        assert_eq!(seen, [COMPRESSED_CERTIFICATE, CERTIFICATE]);
    }
    let report = fs::read_to_string(run.join("report.html")).unwrap();
    for told in [
        "own.pem, 3 certificates in ",
        "compression of the certificate",
    ] {
        assert!(report.contains(told), "the report does not say: {told}");
    }
    let manifest = fs::read_to_string(run.join("manifest.json")).unwrap();
    assert!(!manifest.contains("PRIVATE KEY"));
}

/// Fetches over `protocols` by a client that is installed as `program`, from a server with a chain of its own; each
/// protocol once.
fn is_fetched_from_a_chain_of_ones_own(client: &str, program: &str, protocols: [&str; 2]) {
    let dir = Dir::alone();
    if !installed(program) || !can_emulate(&dir) {
        return;
    }
    let (chain, _) = made(&dir);
    join(&dir, "own.pem", [&chain["certificate"], &chain["key"]]);
    let [first, second] = protocols;
    let plan = format!(
        "{PLAN}client = \"{client}\"\nprotocols = [\"{first}\", \"{second}\"]\ncertificate = \"own.pem\"\n"
    );
    dir.file("plan.toml", plan);
    success(&mut dir.altway(["lab", "run", "plan.toml"]));
    let rows = fs::read_to_string(only_run(&dir).join("samples.csv")).unwrap();
    let rows = read_samples(&rows).unwrap();
    for protocol in protocols {
        let of_it = |row: &&Sample| row.protocol.to_string() == protocol;
        // On a machine that is busy the link may be late, and the transfer is made again.
        let row = rows.iter().rfind(of_it).unwrap();
        assert!(row.valid || row.fault.contains("late"), "{row:#?}");
        assert_eq!(row.body_bytes, 20_000, "{row:#?}");
        assert_eq!(row.certificate.to_string(), "own.pem");
        assert_eq!(row.client.to_string(), client);
    }
}

/// curl checks the chain up to its last certificate, which is all that it trusts.
#[test]
fn curl_believes_a_chain_of_ones_own() {
    is_fetched_from_a_chain_of_ones_own("curl", "curl", ["h1", "h2"]);
}

#[test]
fn firefox_fetches_from_a_server_with_a_chain_of_ones_own_over_both_transports() {
    is_fetched_from_a_chain_of_ones_own("firefox", "firefox-esr", ["h2", "h3"]);
}

/// RFC 8446 section 4.
const CERTIFICATE: u64 = 11;

/// RFC 8879 section 4.
const COMPRESSED_CERTIFICATE: u64 = 25;

/// Type of the first message with a certificate that Chromium has read over TCP, by the log of its network. OpenSSL 3.0, as
/// Debian 12 has it, reads no compressed certificates.
fn message_with_certificate(netlog: &Path) -> u64 {
    let log: Value = serde_json::from_str(&fs::read_to_string(netlog).unwrap()).unwrap();
    let received = &log["constants"]["logEventTypes"]["SSL_HANDSHAKE_MESSAGE_RECEIVED"];
    let events = log["events"].as_array().unwrap().iter();
    let mut types = events
        .filter(|event| event["type"] == *received)
        .filter_map(|event| event["params"]["type"].as_u64());
    types
        .find(|kind| matches!(*kind, CERTIFICATE | COMPRESSED_CERTIFICATE))
        .unwrap()
}
