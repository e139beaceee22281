//! Rules of CONTRIBUTING.md and ARCHITECTURE.md that no other tool holds.

use crate::shell;
use anyhow::{Context, Result, ensure};
use std::fs;

/// A file above this has a second concept that wants a room of its own.
const MAX_LINES: usize = 600;

pub(crate) fn run() -> Result<()> {
    let mut faults = Vec::new();
    for path in shell::output("git ls-files --cached --others --exclude-standard *.rs")?.lines() {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        faults.extend(
            faults_of(path, &text)
                .into_iter()
                .map(|fault| format!("{path}: {fault}")),
        );
    }
    ensure!(faults.is_empty(), "tidy found:\n{}", faults.join("\n"));
    Ok(())
}

fn faults_of(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        faults.push(format!("{lines} lines, at most {MAX_LINES}"));
    }
    if !text.starts_with("//!") {
        faults.push("no `//!` head that says what the file is, why, and what it leaves out".into());
    }
    if text.contains("allow(unsafe_code") && !may_hold_unsafe(path) {
        faults.push("`unsafe` stands outside a `sys` module".into());
    }
    if text.contains("quinn_proto")
        && path.starts_with("crates/quic/src/")
        && !path.starts_with("crates/quic/src/engine/")
    {
        faults.push("quinn-proto stands outside `engine`".into());
    }
    let unfinished = ["TODO", "FIXME", "XXX"]
        .into_iter()
        .filter(|mark| !path.starts_with("xtask/") && text.contains(mark));
    faults.extend(unfinished.map(|mark| format!("`{mark}`: finish it or open an issue")));
    faults
}

/// `sys.rs`, or a file in a folder `sys`: the modules that wrap what has no safe face.
fn may_hold_unsafe(path: &str) -> bool {
    path.ends_with("/sys.rs") || path.contains("/sys/") || path.starts_with("xtask/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_file_has_no_fault() {
        assert!(faults_of("crates/a/src/b.rs", "//! What it is.\n").is_empty());
        assert!(faults_of("crates/a/src/sys.rs", "//! Why.\n#![allow(unsafe_code)]").is_empty());
    }

    #[test]
    fn each_rule_finds_its_fault() {
        let long = format!("//! Long.\n{}", "\n".repeat(MAX_LINES));
        for text in [
            "fn a() {}",
            "//! Head.\n#[allow(unsafe_code)]",
            "//! Head.\n// TODO",
            &long,
        ] {
            assert_eq!(faults_of("crates/a/src/b.rs", text).len(), 1, "{text:.40}");
        }
        let engine = "//! Head.\nuse quinn_proto::Dir;";
        assert_eq!(faults_of("crates/quic/src/stream.rs", engine).len(), 1);
        assert!(faults_of("crates/quic/src/engine/names.rs", engine).is_empty());
    }
}
