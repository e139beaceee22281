//! Advisories about what we depend on (RUSTSEC), by cargo-deny.
//!
//! Their database has to be fetched. Where that fails, nothing is known, and it is said, with when the
//! check was last made here.

use crate::shell;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Consequence of a database that can't be fetched.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Advisories {
    /// A warning.
    Attempted,
    /// An error.
    Required,
}

/// Message of cargo-deny when it has no database (exit code 1, as when it has found something).
const NOT_FETCHED: &str = "failed to fetch advisory database";

/// Asks for advisories.
///
/// # Errors
/// There is one, or the database can't be fetched and is required.
pub(crate) fn check(advisories: Advisories) -> Result<()> {
    const LINE: &str = "cargo deny --log-level error check advisories";
    shell::say(&format!("$ {LINE}"));
    let mut words = LINE.split(' ');
    let mut command = Command::new(words.next().context("a program")?);
    let output = command.args(words).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        fs::create_dir_all(shell::target_folder())?;
        fs::write(stamp(), "")?;
        return Ok(());
    }
    if !said.contains(NOT_FETCHED) {
        bail!("an advisory, or a yanked version:\n{said}");
    }
    let text = not_made(age());
    match advisories {
        Advisories::Required => bail!("{text}"),
        Advisories::Attempted => shell::say(&format!("WARNING: {text}")),
    }
    Ok(())
}

/// Returns the path of the file whose time is that of the last check that passed.
fn stamp() -> PathBuf {
    shell::target_folder().join("advisories-checked")
}

fn age() -> Option<Duration> {
    let checked = fs::metadata(stamp()).and_then(|file| file.modified());
    SystemTime::now().duration_since(checked.ok()?).ok()
}

fn not_made(age: Option<Duration>) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let last = age.map_or_else(
        || "never before".into(),
        |age| format!("last {} days ago", age.as_secs() / DAY),
    );
    format!("advisories are NOT checked, the database can't be fetched (checked here {last})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_was_not_made_says_how_old_the_last_is() {
        let days = Duration::from_secs(3 * 24 * 60 * 60 + 5);
        assert!(not_made(Some(days)).ends_with("(checked here last 3 days ago)"));
        assert!(not_made(None).contains("NOT checked"));
        assert!(not_made(None).ends_with("(checked here never before)"));
    }
}
