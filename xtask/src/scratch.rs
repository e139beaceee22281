//! Temporary folders that are taken away whatever ends the program, SIGINT and SIGTERM included.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// The folders that there are.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The times that a folder is tried to be taken away, as programs that end with this one may still write into it.
const ATTEMPTS: usize = 20;

/// A temporary folder.
#[derive(Debug)]
pub(crate) struct Scratch(TempDir);

impl Scratch {
    /// Makes a folder. From the first on a signal that ends the program takes them all away before it does.
    ///
    /// # Errors
    /// The folder can't be made, or signals can't be listened for.
    pub(crate) fn new() -> Result<Self> {
        static LISTENS: OnceLock<()> = OnceLock::new();
        if LISTENS.get().is_none() {
            let mut signals =
                Signals::new([SIGINT, SIGTERM]).context("cannot listen for Ctrl-C")?;
            thread::spawn(move || signals.forever().for_each(end));
            let _ = LISTENS.set(());
        }
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        folders().push(folder.path().to_owned());
        Ok(Self(folder))
    }
}

impl Deref for Scratch {
    type Target = TempDir;

    fn deref(&self) -> &TempDir {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        folders().retain(|folder| folder != self.0.path());
    }
}

/// Ends the program as the signal does by itself.
fn end(signal: i32) {
    // Held to the end: no other folder is made.
    for folder in folders().iter() {
        for _ in 0..ATTEMPTS {
            if std::fs::remove_dir_all(folder).is_ok() || !folder.exists() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    let _ = emulate_default_handler(signal);
}

fn folders() -> MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    /// Set in the program that a test ends.
    const CHILD: &str = "XTASK_SCRATCH_CHILD";

    #[test]
    fn a_folder_is_gone_after_each_way_in_which_the_program_ends() {
        if std::env::var_os(CHILD).is_some() {
            let folder = Scratch::new().unwrap();
            std::fs::write(folder.path().join("file"), "content").unwrap();
            let line = format!("\nfolder {}\n", folder.path().display());
            crate::shell::data(&line).unwrap();
            thread::sleep(Duration::from_secs(60));
            return;
        }
        for signal in [Signal::INT, Signal::TERM] {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "--nocapture", thread::current().name().unwrap()])
                .env(CHILD, "1")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let mut lines = lines.map_while(Result::ok);
            let folder = lines.find_map(|line| Some(PathBuf::from(line.strip_prefix("folder ")?)));
            let folder = folder.unwrap();
            assert!(folder.join("file").exists());
            let child_pid = Pid::from_child(&child);
            kill_process(child_pid, signal).unwrap();
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(signal.as_raw()));
            assert!(!folder.exists(), "{signal:?}");
        }
        let folder = Scratch::new().unwrap().path().to_owned();
        assert!(!folder.exists());
    }
}
