//! Tests of a signal that ends the program: it leaves neither its temporary folder nor a server behind.

use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

/// Waits until `what` gives something.
fn wait_for<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(it) = what() {
            return it;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it takes too long"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server that never listens: it writes its process ID into a file beside its program.
fn silent_server(path: &Path) -> io::Result<()> {
    let script = "#!/bin/sh\necho $$ > \"$0.new\"; mv \"$0.new\" \"$0.pid\"; exec sleep 60\n";
    fs::write(path, script)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Returns true once the process runs no more, whether its new parent has waited for it or not.
fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn a_signal_leaves_neither_a_folder_nor_a_server() {
    let folder = tempfile::tempdir().unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let temporary = folder.path().join("temporary");
        fs::create_dir(&temporary).unwrap();
        let server = folder.path().join("server");
        silent_server(&server).unwrap();
        let mut attack = Command::new(env!("CARGO_BIN_EXE_altway-attack"));
        attack.args(["--quick", "--server"]).arg(&server);
        attack.env("TMPDIR", &temporary).stdout(Stdio::null());
        let mut attack = attack.spawn().unwrap();
        let noted = server.with_extension("pid");
        let pid: u32 = wait_for(|| fs::read_to_string(&noted).ok()?.trim().parse().ok());
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 1);
        kill_process(Pid::from_child(&attack), signal).unwrap();
        let status = attack.wait().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()));
        fs::remove_dir(&temporary).expect("the program left something in its folder");
        wait_for(|| has_ended(pid).then_some(()));
        fs::remove_file(&noted).unwrap();
    }
}
