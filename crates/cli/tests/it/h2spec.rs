//! h2spec, the conformance suite for HTTP/2, against `altway serve`.

use crate::common::{Dir, Serving, provided, text};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// The cases of the suite.
const CASES: usize = 145;

/// Cases that must pass in clear text: what hyper reaches there. The one that it doesn't (an invalid
/// preface must close the connection) it takes for HTTP/1.1, and answers 400 before it closes.
const PASSED_H2C: usize = 144;

/// Cases that must pass over TLS.
const PASSED_TLS: usize = 145;

/// How often a case may be tried. Some send a request and then an offence, and demand that the next
/// frame speaks of the offence; an answer that was on its way before the offence arrived fails them,
/// now here, now there.
const ROUNDS: usize = 4;

#[test]
fn h2spec_passes_in_clear_text() {
    assert_passes(&["--h2c"], &[], PASSED_H2C);
}

#[test]
fn h2spec_passes_over_tls() {
    assert_passes(&[], &["-t", "-k"], PASSED_TLS);
}

fn assert_passes(serve: &[&str], h2spec: &[&str], expected: usize) {
    let Some(program) = provided("h2spec", "ALTWAY_TEST_H2SPEC") else {
        return;
    };
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let serving = Serving::start(&dir, serve);
    let mut failed = round(&program, &dir, &serving, h2spec);
    for _ in 1..ROUNDS {
        if failed.len() + expected > CASES {
            failed = &failed & &round(&program, &dir, &serving, h2spec);
        }
    }
    assert!(
        failed.len() + expected <= CASES,
        "{expected} of {CASES} should pass; failed: {failed:#?}"
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
