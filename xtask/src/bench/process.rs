//! Programs that the bench starts, and ends again whatever happens.
//!
//! Each leads a process group of its own, so that a Ctrl-C at the terminal reaches the bench alone,
//! which then ends what it started: by its number, and only while it has not been waited for.

use super::placement::Placement;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time between two looks at a program. It is long enough to cost nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The time that a program may take to end when asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Flag that is set when somebody asks the bench to stop (Ctrl-C, SIGTERM).
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Notes both signals from now on, which no longer end the process.
    ///
    /// # Errors
    /// The signal handlers can't be set.
    pub(crate) fn on_signals() -> Result<Self> {
        let stop = Self::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0))
                .context("cannot listen for Ctrl-C")?;
        }
        Ok(stop)
    }

    pub(crate) fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// Somebody asked to stop.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(!self.is_asked_for(), "stopped");
        Ok(())
    }
}

/// A program that runs; ended when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    has_ended: bool,
}

impl Running {
    /// Starts `command` in `placement`.
    ///
    /// # Errors
    /// It can't be started there.
    pub(crate) fn start(command: &mut Command, placement: Placement) -> Result<Self> {
        command.process_group(0);
        let child = placement.spawn(command)?;
        Ok(Self {
            child,
            has_ended: false,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Returns the exit status of the program, if it has ended.
    ///
    /// # Errors
    /// The system doesn't tell.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        self.has_ended |= status.is_some();
        Ok(status)
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// Somebody asked to stop, or it takes longer than `limit`.
    pub(crate) fn wait(&mut self, limit: Duration, stop: &Stop) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            stop.check()?;
            if start.elapsed() > limit {
                bail!("no end after {} s", limit.as_secs());
            }
            sleep(POLL_INTERVAL);
        }
    }

    fn end(&mut self) -> Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        self.signal(Signal::TERM);
        if self.wait(STOP_TIMEOUT, &Stop::default()).is_err() {
            self.signal(Signal::KILL);
            self.child.wait()?;
            self.has_ended = true;
        }
        Ok(())
    }

    /// Sends a signal to the program and what it started. It is there: nobody has waited for it.
    fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        if let Some(group) = group.filter(|_| !self.has_ended) {
            // It may just have ended; then there is nothing left to do.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            crate::shell::say(&format!("cannot end process {}: {error}", self.pid()));
        }
    }
}

/// Runs `command` to its end, and returns what it printed; both streams, should it have failed.
///
/// # Errors
/// It can't be started, fails, takes longer than `limit`, or somebody asked to stop.
pub(crate) fn output(
    command: &mut Command,
    placement: Placement,
    limit: Duration,
    stop: &Stop,
) -> Result<String> {
    let ProcessExit {
        status,
        stdout,
        stderr,
    } = run(command, placement, limit, stop)?;
    ensure!(status.success(), "{status}: {stdout}{stderr}");
    Ok(stdout)
}

/// A program that ended by itself, and what it printed.
#[derive(Debug)]
pub(crate) struct ProcessExit {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `command` to its end, whether it succeeds or not.
///
/// # Errors
/// It can't be started, takes longer than `limit`, or somebody asked to stop.
pub(crate) fn run(
    command: &mut Command,
    placement: Placement,
    limit: Duration,
    stop: &Stop,
) -> Result<ProcessExit> {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(command, placement)?;
    let stdout = running.child().stdout.take().map(drain);
    let stderr = running.child().stderr.take().map(drain);
    let status = running.wait(limit, stop)?;
    Ok(ProcessExit {
        status,
        stdout: collect(stdout)?,
        stderr: collect(stderr)?,
    })
}

type Reading = std::thread::JoinHandle<std::io::Result<Vec<u8>>>;

/// A pipe that nobody reads would stop the program that writes into it.
fn drain(mut pipe: impl Read + Send + 'static) -> Reading {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).map(|_| bytes)
    })
}

fn collect(reading: Option<Reading>) -> Result<String> {
    let reading = reading.context("the pipe was asked for")?;
    let bytes = reading.join().expect("reading can't panic")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn a_dropped_program_ends_with_what_it_started() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 100 & echo $!; wait"]);
        shell.stdout(Stdio::piped());
        let mut running = Running::start(&mut shell, Placement::HERE).unwrap();
        let mut reader = std::io::BufReader::new(running.child().stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
        drop(running);
        // The pipe ends when the last process that holds it has ended.
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn output_is_read_while_the_program_runs() {
        let mut sequence = Command::new("seq");
        sequence.arg("100000");
        let text = output(&mut sequence, Placement::HERE, LIMIT, &Stop::default()).unwrap();
        assert_eq!(text.lines().count(), 100_000);
    }

    #[test]
    fn a_failure_shows_what_the_program_said() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo why >&2; exit 3"]);
        let error = output(&mut shell, Placement::HERE, LIMIT, &Stop::default()).unwrap_err();
        assert!(error.to_string().contains("why"), "{error}");
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let stop = Stop::default();
        stop.0.store(true, Ordering::Relaxed);
        let error = output(
            Command::new("sleep").arg("100"),
            Placement::HERE,
            LIMIT,
            &stop,
        )
        .unwrap_err();
        assert_eq!(error.to_string(), "stopped");
    }
}
