//! Go's net/http over HTTP/1.1 and HTTP/2, quic-go over HTTP/3, in one process.

use super::answer::Answer;
use super::cases::cases;
use crate::common::skipped;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The client, which `cargo xtask test` builds beside the other ones around quic-go, or a loud word that it is not there.
pub(super) fn program() -> Option<PathBuf> {
    let beside = std::env::var_os("ALTWAY_TEST_QUIC_GO").filter(|place| !place.is_empty());
    if beside.is_none() {
        skipped("Go's client is not there; see `cargo xtask setup`");
    }
    Some(Path::new(&beside?).with_file_name("interop-requests"))
}

/// The answers to all requests, by each server and protocol of `asked` (port, "h1", "h2" or "h3").
pub(super) fn answers(program: &Path, authority: &Path, asked: &[(u16, &str)]) -> Vec<Vec<Answer>> {
    let folder = tempfile::tempdir().unwrap();
    let requests = folder.path().join("requests");
    let mut lines = File::create(&requests).unwrap();
    for (port, protocol) in asked {
        for line in lines_of(*port, protocol) {
            writeln!(lines, "{line}").unwrap();
        }
    }
    let mut go = Command::new(program);
    go.arg(authority).stdin(File::open(requests).unwrap());
    let output = go.stderr(Stdio::piped()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let answers: Vec<_> = lines.map(|line| answer(&line.unwrap())).collect();
    let mut answers = answers.into_iter();
    let mut of_one = || answers.by_ref().take(cases().len()).collect::<Vec<_>>();
    asked.iter().map(|_| of_one()).collect()
}

fn lines_of(port: u16, protocol: &str) -> Vec<Value> {
    let line = |case: &super::cases::Case| {
        let fields = case.request.headers().iter();
        let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| json!({ "name": name.as_str(), "value": STANDARD.encode(value) });
        json!({
            "origin": format!("https://localhost:{port}"),
            "protocol": protocol,
            "method": case.request.method().as_str(),
            "target": case.target(),
            "fields": fields.map(field).collect::<Vec<_>>(),
            "content": STANDARD.encode(case.request.body()),
            "without_length": case.without_length,
        })
    };
    cases().iter().map(line).collect()
}

fn answer(line: &Value) -> Answer {
    let bytes = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
    let fields = line["fields"].as_array().unwrap().iter();
    let fields = fields.map(|it| (it["name"].as_str().unwrap(), bytes(&it["value"])));
    let fields: Vec<_> = fields.collect();
    let fields = fields.iter().map(|(name, value)| (*name, value.as_slice()));
    let status = line["status"].as_u64().unwrap();
    Answer::new(status.try_into().unwrap(), fields, bytes(&line["content"]))
}
