//! Keeps Debian from starting the servers that are installed for the tests: its packages start
//! theirs at once and at each boot, where they would take ports 80 and 443.

use crate::shell;
use anyhow::{Context, Result};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Program that Debian asks before it starts a service (`invoke-rc.d(8)`); there is none by
/// default.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Packages that bring a service, and its name.
const SERVICES: [(&str, &str); 6] = [
    ("h2o", "h2o"),
    ("nginx", "nginx"),
    ("docker.io", "docker"),
    ("nghttp2-proxy", "nghttpx"),
    ("varnish", "varnish"),
    ("varnish", "varnishncsa"),
];

/// A ban: until it is dropped no package starts a service.
pub(super) struct ServiceStartGuard {
    policy: PathBuf,
}

/// `None`: this system has a policy of its own, which is left to its word.
pub(super) fn forbid_starts() -> Result<Option<ServiceStartGuard>> {
    forbid(Path::new(POLICY)).with_context(|| format!("cannot write {POLICY}"))
}

fn forbid(policy: &Path) -> Result<Option<ServiceStartGuard>> {
    let mut file = fs::File::options();
    let file = file.write(true).create_new(true).mode(0o755).open(policy);
    let mut file = match file {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
        file => file?,
    };
    let policy = policy.into();
    let forbidden = ServiceStartGuard { policy };
    file.write_all(text(std::process::id()).as_bytes())?;
    Ok(Some(forbidden))
}

/// Forbids (101) while the process lives: one that was killed leaves the file, but no harm, behind.
fn text(process: u32) -> String {
    format!(
        "#!/bin/sh\n# Written by `cargo xtask setup`; can be deleted.\n\
         kill -0 {process} 2>/dev/null && exit 101\nexit 0\n"
    )
}

impl Drop for ServiceStartGuard {
    fn drop(&mut self) {
        // When that fails the policy forbids nothing any more as soon as this process ends.
        let _ = fs::remove_file(&self.policy);
    }
}

/// Keeps the services among the packages that were just installed from starting at boot.
pub(super) fn disable(packages: &[&str]) {
    let services = SERVICES
        .iter()
        .filter(|(package, _)| packages.contains(package));
    for (_, service) in services {
        if let Err(error) = shell::run(&format!("update-rc.d {service} disable")) {
            shell::say(&format!("{service} will be started at boot: {error:#}"));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

    use super::*;
    use std::process::Command;

    #[test]
    fn the_policy_forbids_while_its_process_lives_and_then_nothing() {
        let answer = |process| {
            let script = text(process);
            let status = Command::new("sh").args(["-c", &script]).status();
            status.unwrap().code()
        };
        assert_eq!(answer(std::process::id()), Some(101));
        let mut gone = Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        assert_eq!(answer(gone.id()), Some(0));
    }

    #[test]
    fn a_policy_that_is_there_is_left_alone_and_ours_goes() {
        let name = format!("policy-rc.d-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let first = forbid(&path).unwrap();
        assert!(first.is_some() && path.exists());
        assert!(forbid(&path).unwrap().is_none());
        drop(first);
        assert!(!path.exists());
    }
}
