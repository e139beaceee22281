//! The end of `cargo xtask attack` by a signal.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const STEP: Duration = Duration::from_millis(20);

/// Waits until `found` finds something.
fn await_some<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(it) = found() {
            return it;
        }
        assert!(Instant::now() < deadline, "{what}");
        sleep(STEP);
    }
}

/// Returns whether a process runs: one that nobody has waited for yet does not.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    let stat = stat.unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    !matches!(state, None | Some("Z" | "X"))
}

#[test]
fn a_server_ends_with_the_attackers_whatever_ends_them() {
    for signal in [Signal::TERM, Signal::KILL] {
        let folder = tempfile::tempdir().unwrap();
        let (server, noted) = (folder.path().join("server"), folder.path().join("pid"));
        // It never says that it listens.
        let script = "#!/bin/sh\necho $$ > \"$NOTED.part\" && mv \"$NOTED.part\" \"$NOTED\"\nexec sleep 600\n";
        fs::write(&server, script).unwrap();
        fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
        let mut attackers = Command::new(env!("CARGO_BIN_EXE_altway-attack"))
            .args(["--quick", "h2-rapid-reset", "--server"])
            .arg(&server)
            .env("NOTED", &noted)
            .env("TMPDIR", folder.path())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = await_some("the server runs", || fs::read_to_string(&noted).ok());
        let pid = pid.trim();
        assert!(runs(pid));
        kill_process(Pid::from_child(&attackers), signal).unwrap();
        attackers.wait().unwrap();
        let ended = Instant::now() + Duration::from_secs(20);
        while runs(pid) && Instant::now() < ended {
            sleep(STEP);
        }
        let is_left = runs(pid);
        if is_left {
            let pid = pid.parse().ok().and_then(Pid::from_raw).unwrap();
            kill_process(pid, Signal::KILL).unwrap();
        }
        assert!(!is_left, "the server outlives {signal:?}");
    }
}
