//! Processes at the ends of the link: started, awaited without disturbing them, ended.

use crate::{Error, processor_time};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs;
use std::io::{self, Read};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Period at which a waiting lab looks whether it was asked to stop.
pub(crate) const STOP_CHECK_PERIOD: Duration = Duration::from_millis(200);

/// The most that is kept of what a process writes.
pub(crate) const OUTPUT_LIMIT: u64 = 16 << 20;

/// End of a client's process.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The process ended by itself.
    Ended {
        stdout: String,
        /// The text on stderr; of a process that failed without any, the way in which it ended.
        stderr: String,
        /// Times that the kernel took the processor away from it.
        involuntary_switches: u64,
        /// Processor time from its start to its end.
        cpu: Option<Duration>,
    },
    /// The process was ended by the lab because it did not end by itself.
    Overdue,
    /// The process was ended by the lab because the run was asked to stop.
    Stopped,
}

/// Waits for a client: threads read its output, this one only looks now and then whether it should
/// go on waiting.
pub(crate) fn outcome(mut child: Child, deadline: Instant, stop: &AtomicBool) -> Outcome {
    let said = read_in_background(child.stderr.take().expect("stderr is piped"));
    let output = read_in_background(child.stdout.take().expect("stdout is piped"));
    let stdout = loop {
        if stop.load(Ordering::Relaxed) {
            end(&mut child);
            return Outcome::Stopped;
        }
        match output.recv_timeout(STOP_CHECK_PERIOD) {
            Ok(text) => break text,
            Err(RecvTimeoutError::Disconnected) => break String::new(),
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(RecvTimeoutError::Timeout) => {
                end(&mut child);
                return Outcome::Overdue;
            }
        }
    };
    let involuntary_switches = involuntary_switches(child.id());
    await_end(&child);
    let cpu = processor_time::of_process(child.id());
    let status = child.wait();
    let mut stderr = said.recv_timeout(STOP_CHECK_PERIOD).unwrap_or_default();
    if let (true, Ok(status)) = (stderr.trim().is_empty(), status)
        && !status.success()
    {
        stderr = status.to_string();
    }
    Outcome::Ended {
        stdout,
        stderr,
        involuntary_switches,
        cpu,
    }
}

/// Waits until a process has ended, and leaves its traces there until it is waited for once more.
fn await_end(child: &Child) {
    let process = WaitId::Pid(Pid::from_child(child));
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    // It is this process's child, so that nothing but a signal can get in the way.
    let _ = rustix::io::retry_on_intr(|| waitid(process.clone(), options));
}

/// Ends a process and forgets it.
pub(crate) fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Involuntary context switches of all threads of a process so far; 0 when it is gone.
pub(crate) fn involuntary_switches(process: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let statuses = tasks
        .into_iter()
        .flatten()
        .flatten()
        .map(|task| task.path().join("status"));
    statuses
        .filter_map(|path| fs::read_to_string(path).ok())
        .map(|status| switches_in(&status))
        .sum()
}

fn switches_in(status: &str) -> u64 {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

pub(crate) fn read_in_background(source: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = source.take(OUTPUT_LIMIT).read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

pub(crate) fn process_error(command: &str, reason: &str) -> Error {
    Error::Process {
        command: command.into(),
        reason: reason.into(),
    }
}

pub(crate) fn start_error(command: &str, error: &io::Error) -> Error {
    process_error(command, &error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_client_that_was_killed_tells_by_which_signal() {
        let mut client = Command::new("sh");
        client.args(["-c", "kill -9 $$"]);
        let client = client.stdout(Stdio::piped()).stderr(Stdio::piped());
        let deadline = Instant::now() + Duration::from_secs(60);
        let ended = outcome(client.spawn().unwrap(), deadline, &AtomicBool::new(false));
        let Outcome::Ended { stderr, .. } = ended else {
            panic!("{ended:?}");
        };
        assert!(stderr.contains("SIGKILL"), "{stderr}");
    }

    #[test]
    fn reads_the_switches_of_a_process_status() {
        let status = "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t12\n";
        assert_eq!(switches_in(status), 12);
        assert_eq!(switches_in(""), 0);
    }
}
