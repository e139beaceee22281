//! Runs commands as a person would type them, and says which.

use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Makes the repository's root the working directory, wherever the chore was called from.
pub(crate) fn enter_the_workspace() -> Result<()> {
    // What cargo says now comes first: a target folder that several checkouts share may hold the
    // program as another of them built it.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = package.parent().context("xtask stands in the root")?;
    std::env::set_current_dir(root).with_context(|| format!("cannot enter {}", root.display()))
}

/// Runs `line`, split at blanks; its output goes to the terminal.
pub(crate) fn run(line: &str) -> Result<()> {
    run_with(line, &[])
}

/// Runs `line` with more environment variables.
pub(crate) fn run_with(line: &str, variables: &[(&str, &str)]) -> Result<()> {
    say(&format!("$ {line}"));
    let mut command = command(line)?;
    command.envs(variables.iter().copied());
    let status = command
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    ensure!(status.success(), "`{line}` failed: {status}");
    Ok(())
}

/// Runs `line` in place of this process. Returns when it can't be started.
pub(crate) fn run_in_place(line: &str) -> Result<()> {
    say(&format!("$ {line}"));
    let error = command(line)?.exec();
    Err(error).with_context(|| format!("cannot start `{line}`"))
}

/// Returns true if `line` runs and succeeds; its output goes nowhere.
pub(crate) fn succeeds(line: &str) -> bool {
    let Ok(mut command) = command(line) else {
        return false;
    };
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns what `line` writes to its standard output.
pub(crate) fn output(line: &str) -> Result<String> {
    let output = command(line)?
        .output()
        .with_context(|| format!("cannot start `{line}`"))?;
    ensure!(
        output.status.success(),
        "`{line}` failed: {}",
        output.status
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// The folder that cargo builds into.
pub(crate) fn target_folder() -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR");
    folder.unwrap_or_else(|| "target".into()).into()
}

/// Returns the path of `program`, if one of the folders of `PATH` has it.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    find_in(std::env::var_os("PATH").unwrap_or_default(), program)
}

/// Returns the path of `program`, if one of `folders` (written like `PATH`) has it.
pub(crate) fn find_in(folders: impl AsRef<OsStr>, program: &str) -> Option<PathBuf> {
    std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Writes a chore's result to standard output.
pub(crate) fn data(text: &str) -> Result<()> {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// Tells the person at the terminal.
#[expect(clippy::print_stderr, reason = "the one place where xtask talks")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

fn command(line: &str) -> Result<Command> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().context("an empty command line")?);
    command.args(words);
    Ok(command)
}
