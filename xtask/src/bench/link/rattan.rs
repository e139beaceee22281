//! rattan, the peer: an emulator in Rust and user space, taken from the registry as it is.
//!
//! Its program has no library to build on, and its dependencies are none of altway's, so that it is
//! installed by cargo into a folder of its own, in a fixed version with the versions that it was
//! published with, and only by this bench.

use super::rig::{Places, Rig};
use crate::shell;
use anyhow::{Context, Result};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::NamedTempFile;

const VERSION: &str = "0.1.1";

/// The variable in which rattan names the server's address to the client.
const ADDRESS: &str = "RATTAN_BASE";

/// The installed program.
#[derive(Debug, Clone)]
pub(crate) struct Rattan(PathBuf);

impl Rattan {
    /// Gives the program, and installs it before unless it is there or not to be built.
    ///
    /// # Errors
    /// It can't be fetched or built.
    pub(crate) fn prepare(as_it_is: bool) -> Result<Self> {
        let root = shell::target_folder().join(format!("peers/rattan-{VERSION}"));
        let program = std::path::absolute(root.join("bin/rattan"))?;
        if !program.is_file() && !as_it_is {
            install(&root)?;
        }
        let installed = program.is_file().then_some(Self(program));
        installed.context("it has not been installed")
    }

    /// The version for `setup.json`.
    pub(crate) fn version(&self) -> String {
        let output = Command::new(&self.0).arg("--version").output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let first = text
            .ok()
            .and_then(|text| text.lines().next().map(str::to_owned));
        first.unwrap_or_else(|| VERSION.to_owned())
    }

    /// A file with a link that delays by so many ms each way, and what runs at its ends.
    pub(crate) fn config(&self, rig: &Rig, delay_ms: u32, question: &str) -> Result<NamedTempFile> {
        let text = text(
            rig.places,
            delay_ms,
            &rig.packet_server(),
            &rig.packet_client(question, ADDRESS),
        );
        let mut file = tempfile::Builder::new().suffix(".toml").tempfile()?;
        file.write_all(text.as_bytes())?;
        Ok(file)
    }

    /// Runs such a file; the client's words come out as its own.
    pub(crate) fn command(&self, config: &Path) -> Command {
        let mut command = Command::new(&self.0);
        command
            .args(["run", "--left-stdout", "--config"])
            .arg(config);
        command.env("RUST_LOG", "error");
        command
    }
}

/// Into a target folder that goes away: what it leaves is the program.
fn install(root: &Path) -> Result<()> {
    let target = tempfile::tempdir()?;
    let line = format!(
        "cargo install --quiet --locked --root {} --target-dir {} rattan@{VERSION}",
        root.display(),
        target.path().display()
    );
    // As fast as its release profile makes it, without its 200 MB of debug information.
    shell::run_with(&line, &[("CARGO_PROFILE_RELEASE_DEBUG", "0")])
}

/// A configuration of rattan with both sides in namespaces of their own, both directions alike. Its
/// runtime has one thread for each processor named, on whichever it likes: with both it is at its
/// best, twice as fast as with one.
fn text(places: Option<Places>, delay_ms: u32, server: &str, client: &str) -> String {
    let ends = places.map(|places| format!("taskset -c {} ", places.ends));
    let taskset = ends.unwrap_or_default();
    let link = places.map_or("0".into(), |Places { link, ends }| {
        format!("{link}, {ends}")
    });
    let [left, right] = [client, server].map(|line| toml_string(&format!("exec {taskset}{line}")));
    format!(
        r#"[env]
mode = "Isolated"

[cells.up]
type = "Delay"
delay = "{delay_ms}ms"

[cells.down]
type = "Delay"
delay = "{delay_ms}ms"

[links]
left = "up"
up = "right"
right = "down"
down = "left"

[resource]
cpu = [{link}]

[commands]
left = ["sh", "-c", {left}]
right = ["sh", "-c", {right}]
"#
    )
}

fn toml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_pinned_to_one_processor() {
        let places = Some(Places { link: 1, ends: 0 });
        let text = text(places, 25, "server", "client \"$A:1\"");
        assert!(text.contains("cpu = [1, 0]\n"), "{text}");
        let left = r#"left = ["sh", "-c", "exec taskset -c 0 client \"$A:1\""]"#;
        assert!(text.contains(left), "{text}");
        assert_eq!(text.matches("delay = \"25ms\"").count(), 2);
    }

    #[test]
    fn with_one_processor_nothing_is_pinned() {
        let text = text(None, 0, "server", "client");
        assert!(text.contains("\"exec client\"") && !text.contains("taskset"));
    }
}
