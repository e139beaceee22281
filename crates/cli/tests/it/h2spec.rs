//! h2spec, the conformance suite for HTTP/2, against `altway serve`.

use crate::common::{Dir, Serving, provided, text};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// The cases of the suite.
const CASES: usize = 145;

/// Number of times that a case may be tried. Some send a request and then an offence, and demand that the next
/// frame speaks of the offence; an answer that was on its way before the offence arrived fails them,
/// now here, now there.
const ROUNDS: usize = 4;

#[test]
fn h2spec_passes_in_clear_text() {
    assert_serve_passes(&["--h2c"], &[]);
}

#[test]
fn h2spec_passes_over_tls() {
    assert_serve_passes(&[], &["-t", "-k"]);
}

fn assert_serve_passes(serve: &[&str], h2spec: &[&str]) {
    let Some(program) = provided("h2spec", "ALTWAY_TEST_H2SPEC") else {
        return;
    };
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let serving = Serving::start(&dir, serve);
    assert_passes(&program, &dir, &serving, h2spec);
}

/// Runs the suite against a server, with these options more.
pub(crate) fn assert_passes(program: &OsStr, dir: &Dir, serving: &Serving, h2spec: &[&str]) {
    let mut failed = round(program, dir, serving, h2spec);
    for _ in 1..ROUNDS {
        if !failed.is_empty() {
            failed = &failed & &round(program, dir, serving, h2spec);
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {CASES} cases failed: {failed:#?}",
        failed.len()
    );
}

/// The cases that failed.
fn round(program: &OsStr, dir: &Dir, serving: &Serving, more: &[&str]) -> BTreeSet<String> {
    let report = dir.path().join("report.xml");
    let mut h2spec = Command::new(program);
    h2spec.args(["-h", "127.0.0.1", "-p", &serving.port.to_string()]);
    // A second to wait for an answer, where two are usual.
    h2spec.args(["-o", "1", "-j"]).arg(&report).args(more);
    let output = h2spec.stdin(Stdio::null()).output().unwrap();
    let xml = std::fs::read_to_string(&report).unwrap_or_else(|error| {
        panic!("no report: {error}; {}", text(&output.stdout));
    });
    // Its own report of each case is an element whose content is empty when it passed.
    let cases: Vec<_> = xml.split("<testcase ").skip(1).collect();
    assert_eq!(cases.len(), CASES, "{}", text(&output.stdout));
    let failed = cases.iter().filter(|case| !case.contains("></testcase>"));
    let name = |case: &&str| {
        let mut names = case.split('"').skip(1).step_by(2).take(2);
        let package = names.next().unwrap_or_default();
        format!("{package}: {}", names.next().unwrap_or_default())
    };
    failed.map(name).collect()
}
