//! Functions that the tests of the binary share: running it, serving a folder with it, and saying
//! that a test is skipped.

pub(crate) use altway_testkit::free_port;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Number of tests that run; [`ALL`]: one that measures, and has the machine for itself.
static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();
const ALL: usize = usize::MAX;

/// A folder of its own for one test, gone at its end, and a share of the machine.
pub(crate) struct Dir {
    folder: TempDir,
    _share: Share,
}

/// A test's share of the machine.
struct Share;

impl Share {
    fn some() -> Self {
        let running = RUNNING.lock().unwrap();
        let mut running = ENDED.wait_while(running, |tests| *tests == ALL).unwrap();
        *running += 1;
        Self
    }

    fn all() -> Self {
        let running = RUNNING.lock().unwrap();
        let mut running = ENDED.wait_while(running, |tests| *tests > 0).unwrap();
        *running = ALL;
        Self
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap();
        *running = if *running == ALL { 0 } else { *running - 1 };
        ENDED.notify_all();
    }
}

impl Dir {
    pub(crate) fn new() -> Self {
        Self::with(Share::some())
    }

    /// Makes a folder once no other test runs, for a test that others would disturb.
    pub(crate) fn alone() -> Self {
        Self::with(Share::all())
    }

    fn with(share: Share) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            _share: share,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// `altway` with this folder as its working directory and the home of its certificates.
    pub(crate) fn altway<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_altway"));
        command.args(arguments).current_dir(self.path());
        command
            .env("HOME", self.path())
            .env("XDG_DATA_HOME", self.path().join("data"));
        command
    }
}

/// The stderr of a command that could not do it: exit code 2, nothing on stdout.
pub(crate) fn refusal(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    assert!(!tells_twice(&stderr), "{stderr}");
    stderr
}

/// Returns whether a cause is told by the error above it and by itself.
fn tells_twice(stderr: &str) -> bool {
    // Faults of a configuration have lines of their own, and may have the same cause.
    stderr.lines().any(|line| {
        let parts: Vec<&str> = line.split(": ").collect();
        let is_known = |index: usize| parts[..index].contains(&parts[index]);
        (1..parts.len()).any(|index| parts[index].len() > 8 && is_known(index))
    })
}

/// Asserts that a command prints one error line, then a blank line and one hint.
pub(crate) fn assert_error(command: &mut Command, error: &str, hint: &str) {
    let said = refusal(command);
    let errors = said
        .lines()
        .filter(|line| line.starts_with("error: "))
        .count();
    assert_eq!(errors, 1, "{said}");
    assert!(said.contains(error), "expected `{error}` in:\n{said}");
    assert!(
        said.contains(&format!("hint: {hint}")),
        "expected the hint `{hint}` in:\n{said}"
    );
}

/// The stdout of a command that did it.
pub(crate) fn success(command: &mut Command) -> String {
    let output: Output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Time after which a test takes what it waits for as not coming: long, because a machine at full load takes long and
/// only a test that fails waits for it, but below a server's usual time-out of a silent connection, a minute.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(50);

/// Waits, [`TIME_LIMIT`] at most, until `what` is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !is_so() {
        let in_time = Instant::now() < deadline;
        assert!(in_time, "not within {TIME_LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A running `altway serve` on a free port of the loopback; ended with this value.
pub(crate) struct Serving {
    child: Child,
    pub(crate) port: u16,
    /// The process that it took over from.
    pub(crate) predecessor: Option<u64>,
}

impl Serving {
    /// Serves `DIR/site` with one worker, unless `-n` is among the further arguments.
    pub(crate) fn start(dir: &Dir, more: &[&str]) -> Self {
        Self::start_on(dir, 0, more)
    }

    pub(crate) fn start_on(dir: &Dir, port: u16, more: &[&str]) -> Self {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(dir.path().join("log"))
            .unwrap();
        Self::start_with(dir, port, more, log, &[])
    }

    /// Starts a server with a standard error of its own, and variables of the environment.
    pub(crate) fn start_with(
        dir: &Dir,
        port: u16,
        more: &[&str],
        stderr: impl Into<Stdio>,
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = dir.altway(["serve", "site", "--bind", "127.0.0.1", "--json"]);
        command.args(["--port", &port.to_string()]).args(more);
        if !more.contains(&"-n") {
            command.args(["-n", "1"]);
        }
        command.envs(variables.iter().copied());
        command.stderr(stderr);
        Self::spawn(dir, command)
    }

    /// Runs a command that prints on stdout where it listens, as JSON.
    pub(crate) fn spawn(dir: &Dir, mut command: Command) -> Self {
        command.stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Its copy of stderr is the child's alone from here on.
        drop(command);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let listening: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| {
            panic!(
                "no address: {error}; {}",
                fs::read_to_string(dir.path().join("log")).unwrap_or_default()
            )
        });
        let address = listening["address"].as_str().unwrap();
        let port = address.rsplit(':').next().unwrap().parse().unwrap();
        Self {
            child,
            port,
            predecessor: listening["predecessor"].as_u64(),
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    pub(crate) fn process(&self) -> u64 {
        self.child.id().into()
    }

    /// Sends SIGTERM and waits for the exit code.
    pub(crate) fn terminate(self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// The exit code, once it has ended.
    pub(crate) fn ended(&mut self) -> Option<Option<i32>> {
        let status = self.child.try_wait().unwrap()?;
        Some(status.code())
    }

    /// Waits for the exit code.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns whether `program` is installed; says so when it is not.
pub(crate) fn installed(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    if !found {
        skipped(&format!("{program} is not installed"));
    }
    found
}

/// A program that `cargo xtask test` builds or installs beside cargo's output, and tells of by
/// `variable`; says so when it is not there.
pub(crate) fn provided(program: &str, variable: &str) -> Option<OsString> {
    let place = std::env::var_os(variable).filter(|place| !place.is_empty());
    if place.is_none() {
        skipped(&format!("{program} is not there; see `cargo xtask setup`"));
    }
    place
}

/// Says, where a person who reads the test's output sees it, that nothing was tested and why.
pub(crate) fn skipped(reason: &str) {
    // Past the test harness, which would keep what `eprintln!` says to itself.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}
