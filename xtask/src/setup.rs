//! Installs the programs that altway is tested against and did not write.
//!
//! The tests skip loudly what is not there, so a machine without Debian's packages or without the
//! right to install them still runs all that needs only Rust.

use crate::shell;
use anyhow::Result;
use std::path::PathBuf;

/// Debian package, and the program that shows that it is there.
const PACKAGES: [(&str, &str); 5] = [
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("nghttp2-client", "nghttp"),
    ("chromium", "chromium"),
    ("python3-venv", "python3"),
];

const AIOQUIC: &str = "aioquic==1.7.2";

/// Tells the tests which Python has the HTTP/3 client aioquic.
pub(crate) const PYTHON_VARIABLE: &str = "ALTWAY_TEST_PYTHON";

/// Installs what is missing; gives the Python that has aioquic, if there is one.
pub(crate) fn run() -> Result<Option<PathBuf>> {
    install_packages()?;
    Ok(install_aioquic())
}

fn install_packages() -> Result<()> {
    let missing: Vec<_> = PACKAGES
        .iter()
        .filter(|(_, program)| shell::find(program).is_none())
        .map(|(name, _)| *name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let is_root = shell::output("id -u")?.trim() == "0";
    if !is_root || shell::find("apt-get").is_none() {
        let names = missing.join(" ");
        shell::say(&format!(
            "not installed, tests that need them are skipped: {names}"
        ));
        return Ok(());
    }
    let names = missing.join(" ");
    shell::run_with(
        "apt-get update -qq",
        &[("DEBIAN_FRONTEND", "noninteractive")],
    )?;
    let install = format!("apt-get install -y -qq --no-install-recommends {names}");
    shell::run_with(&install, &[("DEBIAN_FRONTEND", "noninteractive")])
}

fn install_aioquic() -> Option<PathBuf> {
    let environment = std::path::absolute(shell::target_folder().join("peers")).ok()?;
    let python = environment.join("bin/python");
    if shell::succeeds(&format!("{} -m pip show -q aioquic", python.display())) {
        return Some(python);
    }
    let make = format!("python3 -m venv {}", environment.display());
    let install = format!("{} -m pip install -q {AIOQUIC}", python.display());
    match shell::run(&make).and_then(|()| shell::run(&install)) {
        Ok(()) => Some(python),
        Err(error) => {
            shell::say(&format!(
                "aioquic is not installed, its tests are skipped: {error:#}"
            ));
            None
        }
    }
}
