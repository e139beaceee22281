//! `cargo xtask ci` where tools are missing, or can't do their work: never green.
//!
//! The tools are scripts in a folder that is all of `PATH`, so that nothing is built or fetched.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A folder of programs, each of which does what its line of shell says.
fn tools(programs: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, line) in programs {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

/// Runs the checks with `path` for `PATH`; returns true if they ended well, and everything that
/// they said.
fn ci(path: &Path, advisories: &str) -> (bool, String) {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(["ci", "--no-test", "--advisories", advisories]);
    // Its marks of what was checked go there.
    xtask
        .env("PATH", path)
        .env("CARGO_TARGET_DIR", path.join("target"));
    let output = xtask.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

const WELL: &str = "exit 0";

/// A folder of tools of which all succeed but the check for advisories: that fails, and prints
/// `said`.
fn with_advisories(said: &str) -> tempfile::TempDir {
    let cargo =
        format!("case \"$*\" in *advisories*) echo '{said}' >&2; exit 1;; *) exit 0;; esac");
    tools(&[
        ("cargo", &cargo),
        ("cargo-deny", WELL),
        ("typos", WELL),
        ("git", WELL),
    ])
}

#[test]
fn a_tool_that_is_missing_fails_and_is_not_skipped() {
    for (there, missing) in [("typos", "cargo-deny"), ("cargo-deny", "typos")] {
        let folder = tools(&[("cargo", WELL), ("git", WELL), (there, WELL)]);
        let (well, said) = ci(folder.path(), "attempted");
        assert!(!well, "{said}");
        assert!(said.contains(&format!("{missing} is missing")), "{said}");
        assert!(said.contains(".ci/tools.txt"), "{said}");
        assert!(!said.contains("SKIPPED"), "{said}");
    }
}

#[test]
fn an_advisory_fails_whatever_is_required() {
    let folder = with_advisories("error[vulnerability]: something is wrong");
    for advisories in ["attempted", "required"] {
        let (well, said) = ci(folder.path(), advisories);
        assert!(!well, "{said}");
        assert!(said.contains("error[vulnerability]"), "{said}");
    }
}

#[test]
fn a_database_that_cannot_be_fetched_fails_where_it_is_required_and_is_said_where_not() {
    let folder = with_advisories("failed to fetch advisory database");
    let (well, said) = ci(folder.path(), "required");
    assert!(
        !well && said.contains("advisories are NOT checked"),
        "{said}"
    );
    let (_, said) = ci(folder.path(), "attempted");
    assert!(
        said.contains("WARNING: advisories are NOT checked"),
        "{said}"
    );
    // It has gone on with what comes next.
    assert!(said.contains("$ typos"), "{said}");
}
