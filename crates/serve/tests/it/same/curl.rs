//! curl over HTTP/1.1 and HTTP/2: a process for each server and protocol.

use super::answer::Answer;
use super::cases::{Case, cases};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns true if curl makes the request: content without its length it sends over HTTP/1.1 alone.
pub(super) fn asks(case: &Case, protocol: &str) -> bool {
    protocol == "http1.1" || !case.without_length
}

/// The answers of the server at `port` to those requests, over the protocol that curl's `--http1.1` or `--http2` stands for.
pub(super) fn answers(authority: &Path, port: u16, protocol: &str) -> Vec<Answer> {
    let folder = tempfile::tempdir().unwrap();
    let mut config = String::new();
    let mut cases = cases();
    cases.retain(|case| asks(case, protocol));
    for (i, case) in cases.iter().enumerate() {
        let file = |kind: &str| folder.path().join(format!("{i}.{kind}"));
        fs::write(file("sent"), case.request.body()).unwrap();
        let _ = writeln!(
            config,
            "url = \"https://localhost:{port}{}\"",
            case.target()
        );
        let _ = writeln!(config, "output = \"{}\"", file("body").display());
        let _ = writeln!(config, "dump-header = \"{}\"", file("head").display());
        let _ = writeln!(config, "cacert = \"{}\"", authority.display());
        let _ = writeln!(config, "{protocol}\npath-as-is\ngloboff\nmax-time = 30");
        describe(&mut config, case, &file("sent"));
        config.push_str("next\n");
    }
    let requests = folder.path().join("requests");
    fs::write(&requests, config.trim_end_matches("next\n")).unwrap();
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--fail-early", "-K"]).arg(&requests);
    let output = curl.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let begun = |(i, _): &(usize, &Case)| folder.path().join(format!("{i}.head")).exists();
    let last = cases.iter().enumerate().rfind(begun).map(|(_, case)| case);
    let at = last.map(ToString::to_string).unwrap_or_default();
    assert!(output.status.success(), "{protocol} {at}: {errors}");
    let read = |i: usize, kind| fs::read(folder.path().join(format!("{i}.{kind}")));
    let answer = |(i, case): (usize, &Case)| {
        // As the content of a HEAD it writes the head once more.
        let body = match case.request.method().as_str() {
            "HEAD" => Vec::new(),
            _ => read(i, "body").unwrap_or_default(),
        };
        answer(&read(i, "head").unwrap(), body)
    };
    cases.iter().enumerate().map(answer).collect()
}

/// Method, fields and content of a request, in the words of curl's configuration.
fn describe(config: &mut String, case: &Case, content: &Path) {
    let method = case.request.method();
    let _ = match method.as_str() {
        "HEAD" => writeln!(config, "head"),
        method => writeln!(config, "request = \"{method}\""),
    };
    if !case.request.body().is_empty() || method == "POST" {
        let _ = writeln!(config, "data-binary = \"@{}\"", content.display());
    }
    // Fields that curl says by itself.
    for name in ["content-type", "expect"] {
        if !case.request.headers().contains_key(name) {
            let _ = writeln!(config, "header = \"{name}:\"");
        }
    }
    if case.without_length {
        let _ = writeln!(config, "header = \"transfer-encoding: chunked\"");
    }
    for (name, value) in case.request.headers() {
        let value = value.to_str().unwrap().replace('"', "\\\"");
        let _ = match value.as_str() {
            "" => writeln!(config, "header = \"{name};\""),
            value => writeln!(config, "header = \"{name}: {value}\""),
        };
    }
}

fn answer(head: &[u8], body: Vec<u8>) -> Answer {
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let status = lines.next().unwrap().split(|byte| *byte == b' ').nth(1);
    let status = str::from_utf8(status.unwrap()).unwrap();
    let fields = lines.filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = str::from_utf8(&line[..colon]).unwrap();
        Some((name, line[colon + 1..].trim_ascii()))
    });
    Answer::new(status.parse().unwrap(), fields, body)
}
