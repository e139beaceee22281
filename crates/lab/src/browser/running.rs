//! A browser's processes: started where nothing of the user's is found, tied to their driver's life,
//! and all of them ended.

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, kill_process_group,
    set_child_subreaper, set_parent_process_death_signal, wait,
};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Time that processes that were killed may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a browser that was told to end may take to write down what it keeps.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// Time that a browser that has closed its end may take until it is known how it ended.
const EXIT_STATUS_TIMEOUT: Duration = Duration::from_millis(500);

const LOOK_PERIOD: Duration = Duration::from_millis(5);

/// Variables that lead to the user's own files, windows and proxies.
const FOREIGN: [&str; 11] = [
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// Becomes `program`, which the kernel will kill when the process `parent` ends: the caller's own
/// parent. Does not return unless it fails.
#[must_use]
pub fn exec_with_parent(parent: i32, program: &OsString, arguments: &[OsString]) -> io::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // It may have ended before it could be asked for.
    if getppid().map_or(0, Pid::as_raw_pid) != parent {
        return io::Error::other("its parent has ended");
    }
    Command::new(program).args(arguments).exec()
}

/// A browser that runs; ended with this value, and all its processes with it.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts `program`, whose standard streams are `command`'s, with `folder` as its home.
    pub(super) fn start(mut command: Command, folder: &Path) -> io::Result<Self> {
        // What outlives its parent becomes a child of this process.
        set_child_subreaper(Some(getpid()))?;
        let log = folder.join("log");
        for variable in FOREIGN {
            command.env_remove(variable);
        }
        for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
            command.env(variable, folder);
        }
        command
            .env("TMPDIR", folder)
            .env("DBUS_SESSION_BUS_ADDRESS", "disabled:")
            .env("MOZ_CRASHREPORTER_DISABLE", "1")
            // Else Firefox does not believe who names another server for its settings.
            .env("MOZ_REMOTE_SETTINGS_DEVTOOLS", "1");
        let child = command
            .current_dir(folder)
            .stderr(File::create(&log)?)
            .process_group(0)
            .spawn()?;
        Ok(Self { child, log })
    }

    /// The same error, or how the browser ended if that is why.
    pub(super) fn explain(&mut self, error: io::Error) -> io::Error {
        let broken = [
            io::ErrorKind::UnexpectedEof,
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::ConnectionReset,
        ];
        if !broken.contains(&error.kind()) {
            return error;
        }
        let deadline = Instant::now() + EXIT_STATUS_TIMEOUT;
        while Instant::now() < deadline {
            if let Some(ending) = self.ending() {
                return ending;
            }
            std::thread::sleep(LOOK_PERIOD);
        }
        error
    }

    /// Waits until a browser that was told to end has ended.
    pub(super) fn await_end(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        while Instant::now() < deadline {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(LOOK_PERIOD);
        }
        let late = "it did not end when it was told to";
        Err(io::Error::new(io::ErrorKind::TimedOut, late))
    }

    /// Returns an error that says how the browser ended, if it has.
    pub(super) fn ending(&mut self) -> Option<io::Error> {
        let status = self.child.try_wait().ok()??;
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let last = log.lines().map(str::trim).rfind(|line| !line.is_empty());
        let said = last.map_or_else(String::new, |line| format!(": {line}"));
        Some(io::Error::other(format!(
            "it ended by itself ({status}){said}"
        )))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        end_children();
    }
}

/// A command that becomes `program` and ends with this process.
pub(super) fn command_dying_with_us(program: impl Into<OsString>) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["lab", "tether", &std::process::id().to_string()]);
    command.arg(program.into());
    Ok(command)
}

/// Kills what has become a child of this process since its parent ended, until there is nothing left.
fn end_children() {
    let deadline = Instant::now() + KILL_TIMEOUT;
    while Instant::now() < deadline {
        for child in children() {
            let _ = kill_process(child, Signal::KILL);
        }
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => std::thread::sleep(LOOK_PERIOD),
            // There are no more.
            Err(_) => return,
        }
    }
}

/// The children of this thread; none where the kernel does not tell.
fn children() -> Vec<Pid> {
    let list = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let numbers = list.split_whitespace();
    numbers
        .filter_map(|number| Pid::from_raw(number.parse().ok()?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(script: &str) -> (Running, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let child = Command::new("sh")
            .args(["-c", script])
            .stderr(File::create(&log).unwrap())
            .process_group(0)
            .spawn()
            .unwrap();
        (Running { child, log }, folder)
    }

    #[test]
    fn a_browser_that_ended_says_how_and_its_last_words() {
        let (mut running, _folder) = started("echo first >&2; echo last >&2; exit 3");
        let error = running.explain(io::ErrorKind::UnexpectedEof.into());
        assert_eq!(
            error.to_string(),
            "it ended by itself (exit status: 3): last"
        );
        let _ = running.child.wait();
        std::mem::forget(running);
    }

    #[test]
    fn a_browser_that_writes_down_what_it_keeps_is_waited_for() {
        let (mut running, folder) = started("sleep 0.2; echo kept >&2");
        running.await_end().unwrap();
        let log = fs::read_to_string(folder.path().join("log")).unwrap();
        assert_eq!(log, "kept\n");
        std::mem::forget(running);
    }

    #[test]
    fn an_error_of_a_browser_that_runs_stays_what_it_is() {
        let (mut running, _folder) = started("sleep 60");
        let error = running.explain(io::Error::other("net::ERR_FAILED"));
        assert_eq!(error.to_string(), "net::ERR_FAILED");
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        std::mem::forget(running);
    }

    #[test]
    fn who_is_not_the_parent_can_not_be_tethered_to() {
        // In a child: the signal would stay with this process.
        let error = exec_with_parent(0, &"true".into(), &[]);
        assert_eq!(error.to_string(), "its parent has ended");
        set_parent_process_death_signal(None).unwrap();
    }
}
