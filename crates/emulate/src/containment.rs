//! A process namespace around a server under test: whatever it starts, and however it detaches itself
//! from its parent, ends with it.
//!
//! Three processes: the supervisor makes the namespace and waits; the init process, number 1 in it,
//! starts the program and reaps what becomes its child; the program. The kernel kills all that is in
//! the namespace when the init process ends, and that one is killed when the supervisor ends, which is
//! killed when its parent does ([`Emulation::server_command`](crate::Emulation::server_command)). The
//! first two are this program's own binary, by a command that is not meant to be typed.

use crate::Error;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal as Wanted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, set_parent_process_death_signal, wait,
};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The time that a namespace may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);

const LOOK_PERIOD: Duration = Duration::from_millis(2);

/// Runs `init`, a command of this binary that calls [`run_init`], in a new process namespace, and waits
/// until it ends or a signal asks for its end. Returns the exit code of the program in it, 128 + N of
/// one that signal N ended.
///
/// # Errors
/// [`Error::Containment`] when there can be no such namespace.
pub fn supervise(mut init: Command) -> Result<i32, Error> {
    let mut signals = SigSet::empty();
    for signal in [
        Wanted::SIGCHLD,
        Wanted::SIGTERM,
        Wanted::SIGINT,
        Wanted::SIGHUP,
    ] {
        signals.add(signal);
    }
    signals.thread_block().map_err(failed("wait in"))?;
    unshare(CloneFlags::CLONE_NEWPID).map_err(failed("make"))?;
    // Closed with this process: so the init process can tell whether it has ended.
    let spawned = init.stdin(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|source| Error::Containment {
        attempted: "start a process in",
        source,
    })?;
    loop {
        match signals.wait() {
            Ok(Wanted::SIGCHLD) => {
                if let Ok(Some(status)) = child.try_wait() {
                    return Ok(exit_code(status));
                }
            }
            Ok(_) => {
                let _ = child.kill();
            }
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(failed("wait in")(errno)),
        }
    }
}

/// Starts `program` as the init process of a namespace that [`supervise`] has made. Returns when it has
/// failed, with its exit code, or when it has ended and left nothing that runs: a program that puts
/// itself into the background goes on there.
///
/// # Errors
/// [`Error::Containment`] when the program can't be started.
pub fn run_init(program: &OsStr, arguments: &[OsString]) -> Result<i32, Error> {
    let failed_io = |attempted| move |source| Error::Containment { attempted, source };
    SigSet::empty()
        .thread_set_mask()
        .map_err(failed("set signals in"))?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| failed_io("enter")(errno.into()))?;
    if supervisor_has_ended() {
        return Err(failed_io("enter")(Errno::SRCH.into()));
    }
    let mut command = Command::new(program);
    let child = command.args(arguments).stdin(Stdio::null()).spawn();
    let child = child.map_err(failed_io("run the program in"))?;
    Ok(reap(Pid::from_child(&child)))
}

/// Returns whether the other end of standard input is closed, which the supervisor holds as long as it lives.
fn supervisor_has_ended() -> bool {
    let stdin = io::stdin();
    let mut ends = [PollFd::new(&stdin, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let _ = retry_on_intr(|| poll(&mut ends, Some(&at_once)));
    ends[0].revents().contains(PollFlags::HUP)
}

/// Waits for all children, also those that the kernel hands to the init process.
fn reap(program: Pid) -> i32 {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                let code = code_of(status);
                if code != 0 {
                    return code;
                }
            }
            Ok(_) | Err(Errno::INTR) => {}
            // There is nothing left.
            Err(_) => return 0,
        }
    }
}

fn code_of(status: WaitStatus) -> i32 {
    let signal = status.terminating_signal().map(|signal| 128 + signal);
    status.exit_status().or(signal).unwrap_or(2)
}

fn exit_code(status: ExitStatus) -> i32 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).unwrap_or(2)
}

/// Ends a supervisor and all that is in its namespace, and waits for it, so that what they cost counts as
/// this process's children's.
pub fn end(supervisor: &mut Child) {
    let deadline = Instant::now() + END_LIMIT;
    if let Ok(None) = supervisor.try_wait() {
        let _ = kill_process(Pid::from_child(supervisor), Signal::TERM);
    }
    while Instant::now() < deadline {
        if !matches!(supervisor.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(LOOK_PERIOD);
    }
    let _ = supervisor.kill();
    let _ = supervisor.wait();
}

fn failed(attempted: &'static str) -> impl FnOnce(nix::errno::Errno) -> Error {
    move |errno| Error::Containment {
        attempted,
        source: errno.into(),
    }
}
