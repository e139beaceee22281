//! promtool, which checks metrics as Prometheus reads them, from Debian's package of Prometheus. The package is unpacked and not
//! installed: it brings a service, of which no test needs anything.

use crate::shell;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

const PACKAGE: &str = "prometheus";

/// Gives the program, below `folder` unless the system has one; downloads it if it is not there.
pub(super) fn program(folder: &Path) -> Result<PathBuf> {
    if let Some(there) = shell::find("promtool") {
        return Ok(there);
    }
    let program = folder.join("usr/bin/promtool");
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(folder)?;
    let place = folder.display();
    let download = format!("env -C {place} apt-get -qq download {PACKAGE}");
    if !shell::succeeds(&download) {
        // The lists of packages are missing, or older than the archive.
        shell::run("apt-get update -qq")?;
        shell::run(&download)?;
    }
    let package = shell::output(&format!("find {place} -maxdepth 1 -name *.deb"))?;
    let package = package.lines().next().context("no package came")?;
    shell::run(&format!("dpkg-deb -x {package} {place}"))?;
    fs::remove_file(package)?;
    // Ten times as large, and not asked for.
    fs::remove_file(folder.join("usr/bin/prometheus"))?;
    Ok(program)
}
