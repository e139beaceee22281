//! Builds the project's own programs as they are shipped, and peers.

use super::contender::Contender;
use crate::{go, shell};
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

/// Builds those of `wanted` that are written in Go; says which can't be.
pub(crate) fn go_peers(wanted: &[Contender]) {
    for peer in wanted {
        let built = match peer {
            Contender::QuicGo => go::build_quic_go(),
            Contender::Caddy => go::install_caddy(),
            _ => continue,
        };
        if let Err(error) = built {
            shell::say(&format!("cannot build {peer}: {error:#}"));
        }
    }
}
