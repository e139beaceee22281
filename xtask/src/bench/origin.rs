//! The origin of a run's figures: build, command, time and machine.

use super::build;
use super::host::{self, Host};
use crate::shell;
use anyhow::Result;
use serde::Serialize;
use std::path::Path;

/// The part that every `setup.json` has.
#[derive(Debug, Serialize)]
pub(crate) struct Origin {
    altway_version: &'static str,
    /// Commit of the sources here.
    altway_commit: String,
    /// Version that the binary prints. A binary that was not built for the run may be of another
    /// commit.
    altway_binary: String,
    command: Vec<String>,
    /// UTC.
    started_at: String,
    host: Host,
}

impl Origin {
    /// The origin of the run that begins now.
    ///
    /// # Errors
    /// git doesn't tell the commit, or the binary its version.
    pub(crate) fn of_this_run() -> Result<Self> {
        Self::of_binary(&build::programs(true)?.join("altway"))
    }

    /// The origin of a run of this `altway` that begins now.
    ///
    /// # Errors
    /// The errors of [`Self::of_this_run`].
    pub(crate) fn of_binary(binary: &Path) -> Result<Self> {
        let said = shell::output(&format!("{} --version", binary.display()))?;
        Ok(Self {
            altway_version: env!("CARGO_PKG_VERSION"),
            altway_commit: commit()?,
            altway_binary: said.trim().to_owned(),
            command: ["cargo", "xtask"]
                .map(str::to_owned)
                .into_iter()
                .chain(std::env::args().skip(1))
                .collect(),
            started_at: jiff::Timestamp::now().strftime("%FT%TZ").to_string(),
            host: host::describe(),
        })
    }

    /// `2026-11-21-2core-vm-http2-bench`: the day, what kind of machine, what was measured.
    pub(crate) fn folder_name(&self, bench: &str, cores: usize) -> String {
        let day = self.started_at.split('T').next().unwrap_or_default();
        let kind = if self.host.is_virtual { "vm" } else { "metal" };
        format!("{day}-{cores}core-{kind}-{bench}")
    }
}

fn commit() -> Result<String> {
    let commit = shell::output("git rev-parse --short=12 HEAD")?;
    let is_clean = shell::output("git status --porcelain --untracked-files=no")?.is_empty();
    let mark = if is_clean { "" } else { "-dirty" };
    Ok(format!("{}{mark}", commit.trim()))
}
