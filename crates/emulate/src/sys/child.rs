//! Code that runs in a child process between fork and exec.
//!
//! Only async-signal-safe calls are allowed there (signal-safety(7)): no allocation, no lock. The
//! functions called below are bare system calls.

use crate::namespace::Namespace;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, setpriority_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the child of `command` join `namespace` before it becomes the program, and die when the
/// thread that spawned it ends; on these processors only, if given, and with this nice value, if it is not 0.
pub(crate) fn join_before_exec(
    command: &mut Command,
    namespace: Namespace,
    processors: Option<CpuSet>,
    nice: i8,
) {
    let parent = rustix::process::getpid();
    let enter = move || {
        die_with(parent)?;
        if let Some(processors) = &processors {
            sched_setaffinity(None, processors)?;
        }
        if nice != 0 {
            setpriority_process(None, nice.into())?;
        }
        namespace.join()
    };
    // SAFETY: the closure makes six system calls at most through rustix and returns; converting an error
    // number to `io::Error` doesn't allocate. The namespace's file stays open in the child, as it
    // is closed by exec at the earliest.
    unsafe { command.pre_exec(enter) };
}

/// Runs `attempt` in a forked child that ends at once, and returns what it returned.
///
/// For privileges that a process can't try out without changing itself. `attempt` must be
/// async-signal-safe; only the error number of what it returns comes back.
pub(crate) fn try_in_child(attempt: fn() -> Result<(), Errno>) -> io::Result<()> {
    const DONE: Errno = Errno::CANCELED;
    let report = move || Err(attempt().err().unwrap_or(DONE).into());
    let mut command = Command::new("/proc/self/exe");
    // SAFETY: the callers pass functions that only make system calls.
    unsafe { command.pre_exec(report) };
    match command.spawn() {
        Err(error) if error.raw_os_error() == Some(DONE.raw_os_error()) => Ok(()),
        Err(error) => Err(error),
        // The closure above never lets the child get as far as exec.
        Ok(mut child) => child.kill().and_then(|()| child.wait().map(|_| ())),
    }
}

/// Finds out whether this process may have the highest priority (`CAP_SYS_NICE`).
pub(crate) fn try_out_priority() -> io::Result<()> {
    try_in_child(|| setpriority_process(None, -20))
}

/// Sends the child SIGKILL when its parent ends, also when that happened already.
fn die_with(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(parent) {
        return Err(Errno::SRCH.into());
    }
    Ok(())
}
