//! Installs the peers from Debian, without their services.
//!
//! A server's package starts it at once and at every boot. That is not what a bench is for: while
//! the packages are installed a policy forbids starting, and afterwards the services are switched
//! off. A service that was there before is left as it is. Nothing is installed without root's rights.

use super::contender::Contender;
use super::h2load;
use crate::shell;
use anyhow::{Context, Result, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Debian asks this program whether a package may start its service; 101 means no.
const POLICY: &str = "/usr/sbin/policy-rc.d";

const SERVICES: [&str; 3] = ["h2o", "haproxy", "nginx"];

const NONINTERACTIVE: [(&str, &str); 1] = [("DEBIAN_FRONTEND", "noninteractive")];

/// Installs what is missing of `wanted` and the load client; gives those that are there then. A peer
/// that can't be installed is left out, aloud.
///
/// # Errors
/// There is no load client.
pub(crate) fn peers(wanted: &[Contender], programs: &Path) -> Result<Vec<Contender>> {
    let is_there = |peer: &Contender| peer.program(programs).is_some();
    let missing = wanted.iter().filter(|peer| !is_there(peer));
    let mut packages: Vec<_> = missing.filter_map(|peer| peer.package()).collect();
    if shell::find("h2load").is_none() {
        packages.push(h2load::PACKAGE);
    }
    if !packages.is_empty()
        && let Err(error) = install(&packages)
    {
        shell::say(&format!("cannot install {}: {error:#}", packages.join(" ")));
    }
    ensure!(
        shell::find("h2load").is_some(),
        "h2load is missing: install the package {}",
        h2load::PACKAGE
    );
    let (there, skipped): (Vec<Contender>, Vec<_>) = wanted.iter().partition(|peer| is_there(peer));
    for peer in skipped {
        let remedy = peer
            .package()
            .map_or("Go".into(), |name| format!("the package {name}"));
        shell::say(&format!("SKIPPED {peer}: it takes {remedy}"));
    }
    Ok(there)
}

/// Installs `packages`, one by one, and switches their services off.
///
/// # Errors
/// It takes root and apt-get; or a policy can't be set. That a package is not to be had is said, and no error.
pub(super) fn install(packages: &[&str]) -> Result<()> {
    let is_root = shell::output("id -u")?.trim() == "0";
    ensure!(
        is_root && shell::find("apt-get").is_some(),
        "it takes root and apt-get"
    );
    let new_services = SERVICES.iter().filter(|name| packages.contains(name));
    let _policy = ServiceStartGuard::begin(Path::new(POLICY))?;
    shell::run_with("apt-get update -qq", &NONINTERACTIVE)?;
    // One by one: a package that this Debian doesn't have keeps none of the others out.
    for package in packages {
        let install = format!("apt-get install -y -qq --no-install-recommends {package}");
        if let Err(error) = shell::run_with(&install, &NONINTERACTIVE) {
            shell::say(&format!("{error:#}"));
        }
    }
    for service in new_services {
        switch_off(service);
    }
    Ok(())
}

/// Switches a service off at boot; it goes on running. Without systemd there may be nothing to
/// switch off.
fn switch_off(service: &str) {
    for line in [
        format!("systemctl disable {service}"),
        format!("update-rc.d {service} disable"),
    ] {
        shell::succeeds(&line);
    }
}

/// A guard that keeps packages from starting services while it lives.
struct ServiceStartGuard {
    /// The file to be removed at the end; `None` when somebody else's was there.
    policy: Option<PathBuf>,
}

impl ServiceStartGuard {
    fn begin(path: &Path) -> Result<Self> {
        if path.exists() {
            // In containers; it has its own reason, and mostly the same one.
            return Ok(Self { policy: None });
        }
        fs::write(path, "#!/bin/sh\nexit 101\n")
            .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self {
            policy: Some(path.to_owned()),
        })
    }
}

impl Drop for ServiceStartGuard {
    fn drop(&mut self) {
        if let Some(path) = &self.policy
            && let Err(error) = fs::remove_file(path)
        {
            shell::say(&format!("remove {} by hand: {error}", path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_forbids_starting_and_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy");
        let policy = ServiceStartGuard::begin(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o755
        );
        assert!(fs::read_to_string(&path).unwrap().contains("exit 101"));
        drop(policy);
        assert!(!path.exists());
    }

    #[test]
    fn a_policy_that_was_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy");
        fs::write(&path, "theirs").unwrap();
        drop(ServiceStartGuard::begin(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }
}
