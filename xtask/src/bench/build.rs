//! Builds the project's own programs as they are shipped.

use crate::shell;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Builds `altway` and the programs of `bench-peers` unless they are to be taken as they are; gives
/// their folder.
///
/// # Errors
/// They don't build.
pub(crate) fn programs(as_they_are: bool) -> Result<PathBuf> {
    if !as_they_are {
        shell::run("cargo build --release --locked -p altway -p bench-peers")?;
    }
    let folder = shell::target_folder().join("release");
    // Servers are started from other folders.
    std::path::absolute(&folder).with_context(|| format!("no {}", folder.display()))
}
