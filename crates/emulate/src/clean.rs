//! Takes away what emulations left behind whose process was killed.
//!
//! Namespaces, interfaces, routes, proxies and the link itself go with the process, whatever ends
//! it: they are held by its descriptors and threads. Its commands at the ends are killed with it
//! too. What can remain is what those commands started in turn (they keep their namespace, without
//! a network, as long as they run), the folders of a run's files ([`Scratch`](crate::Scratch)), the
//! socket on which the link was controlled, and what a link between given interfaces
//! ([`Between`](crate::Between)) changed at them.

use crate::{Error, changes, control, scratch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs, io};

/// Says in the environment of every process of an emulation whose it is.
const VARIABLE: &str = "ALTWAY_EMULATION";

/// Time that a process that was killed may take to end.
const KILL_TIMEOUT: Timespec = Timespec {
    tv_sec: 2,
    tv_nsec: 0,
};

/// A thing that was left behind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StaleResource {
    /// A process that a command at an end of a link had started.
    Process {
        /// The number.
        pid: i32,
        /// The command line.
        command: String,
    },
    /// A folder of a run's files.
    Folder {
        /// The path that it had.
        path: PathBuf,
    },
    /// The socket on which a link was controlled.
    Socket {
        /// The path that it had.
        path: PathBuf,
    },
    /// An interface whose offloads a link had switched off, or that it had the kernel shape: it is put
    /// back to what it was.
    Interface {
        /// The name.
        name: String,
    },
}

impl StaleResource {
    /// Returns what was done with it: `took away`, or `put back`.
    #[must_use]
    pub fn action(&self) -> &'static str {
        match self {
            Self::Interface { .. } => "put back",
            _ => "took away",
        }
    }
}

impl fmt::Display for StaleResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, command } => write!(f, "process {pid} (`{command}`)"),
            Self::Folder { path } => write!(f, "folder {}", path.display()),
            Self::Socket { path } => write!(f, "socket {}", path.display()),
            Self::Interface { name } => write!(f, "interface {name}"),
        }
    }
}

/// Takes away what emulations of this user (root: of all users) left behind whose process is gone:
/// kills their processes and removes their folders, and this user's sockets, and puts interfaces of the
/// caller's network namespace back to what they were. Returns what that was.
///
/// Leaves alone what belongs to an emulation that runs, and what is in another process namespace,
/// where that can't be known, or an interface in another network namespace, which is said.
///
/// # Errors
/// [`Error::Clean`] when the list of processes or the temporary folder can't be read.
pub fn clean() -> Result<Vec<StaleResource>, Error> {
    let mut taken = kill_orphans(Path::new("/proc"))?;
    let folders = scratch::remove_abandoned(&std::env::temp_dir(), |folder| {
        let undone = changes::undo(folder).map(|undone| taken.extend(undone));
        undone
            .inspect_err(|error| tracing::warn!("{} stays for now: {error}", folder.display()))
            .is_ok()
    })?;
    taken.extend(
        folders
            .into_iter()
            .map(|path| StaleResource::Folder { path }),
    );
    let sockets = control::remove_abandoned();
    taken.extend(
        sockets
            .into_iter()
            .map(|path| StaleResource::Socket { path }),
    );
    Ok(taken)
}

/// Tells a command and all that it starts whose they are.
pub(crate) fn mark(command: &mut Command) {
    // Without /proc nobody can look for them either.
    if let Ok(me) = Owner::current() {
        command.env(VARIABLE, me.to_string());
    }
}

/// The process that an emulation lives in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    /// The process namespace that the number is of: containers have their own.
    namespace: u64,
    pid: i32,
    /// Time at which it started, in ticks since the machine did, for numbers are given out again.
    started: u64,
}

impl Owner {
    fn current() -> io::Result<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self::of(pid)
    }

    fn of(pid: i32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let started = start_time(&stat).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self {
            namespace: fs::metadata("/proc/self/ns/pid")?.ino(),
            pid,
            started,
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let owner = Self {
            namespace: parts.next()?.parse().ok()?,
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(owner)
    }

    /// Returns whether it is known to have ended.
    fn is_gone(self) -> bool {
        let here = fs::metadata("/proc/self/ns/pid").map(|namespace| namespace.ino());
        match (here, Self::of(self.pid)) {
            (Ok(here), _) if here != self.namespace => false,
            (Ok(_), Ok(found)) => found != self,
            (Ok(_), Err(error)) => error.kind() == io::ErrorKind::NotFound,
            (Err(_), _) => false,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.namespace, self.pid, self.started)
    }
}

fn kill_orphans(processes: &Path) -> Result<Vec<StaleResource>, Error> {
    let failed = |source| Error::Clean {
        path: processes.into(),
        source,
    };
    let entries = fs::read_dir(processes).map_err(failed)?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(kill_if_orphan).collect())
}

fn kill_if_orphan(pid: i32) -> Option<StaleResource> {
    if !is_orphan(pid) {
        return None;
    }
    let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    let command = command_line(pid);
    // Asked once more: the number may have gone to another process before the descriptor held it.
    if !is_orphan(pid) {
        return None;
    }
    if let Err(error) = pidfd_send_signal(&process, Signal::KILL) {
        tracing::warn!(%error, "cannot end process {pid} (`{command}`)");
        return None;
    }
    // Readable when it has ended.
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    let _ = poll(&mut ended, Some(&KILL_TIMEOUT));
    Some(StaleResource::Process { pid, command })
}

/// Returns whether a process belongs to an emulation whose own process is gone. Environments of other users'
/// processes can't be read.
fn is_orphan(pid: i32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    owner_in(&environment).is_some_and(Owner::is_gone)
}

fn owner_in(environment: &[u8]) -> Option<Owner> {
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| {
        let value = variable.strip_prefix(VARIABLE.as_bytes())?;
        value.strip_prefix(b"=")
    });
    Owner::parse(std::str::from_utf8(value?).ok()?)
}

fn command_line(pid: i32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = words
        .split(|byte| *byte == 0)
        .map(std::ffi::OsStr::from_bytes);
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ").trim_end().to_owned()
}

/// The 22nd field (proc_pid_stat(5)). The second is the name in parentheses, which may hold anything.
fn start_time(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn sleeper(owner: &str) -> std::process::Child {
        let mut command = Command::new("sleep");
        command.arg("60").env(VARIABLE, owner);
        command.spawn().unwrap()
    }

    fn is_taken(taken: &[StaleResource], child: &std::process::Child) -> bool {
        let pid = i32::try_from(child.id()).unwrap();
        let command = "sleep 60".to_owned();
        taken.contains(&StaleResource::Process { pid, command })
    }

    #[test]
    fn kills_the_orphans_and_nobody_else() {
        let me = Owner::current().unwrap();
        let gone = Owner {
            started: me.started + 1,
            ..me
        };
        let elsewhere = Owner {
            namespace: 1,
            ..gone
        };
        let mut orphan = sleeper(&gone.to_string());
        let mut others = [me, elsewhere].map(|owner| sleeper(&owner.to_string()));

        let taken = kill_orphans(Path::new("/proc")).unwrap();
        assert!(is_taken(&taken, &orphan), "{taken:?}");
        assert_eq!(orphan.wait().unwrap().signal(), Some(9));
        for other in &mut others {
            assert!(!is_taken(&taken, other), "{taken:?}");
            assert!(other.try_wait().unwrap().is_none());
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }

    #[test]
    fn an_owner_survives_being_written_down() {
        let me = Owner::current().unwrap();
        assert_eq!(Owner::parse(&me.to_string()), Some(me));
        assert!(!me.is_gone());
        for text in ["", "1:2", "1:2:3:4", "a:b:c", "1:99999999999:3"] {
            assert_eq!(Owner::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_process_that_never_was_is_gone() {
        let me = Owner::current().unwrap();
        // Above the kernel's largest number (PID_MAX_LIMIT, proc_sys_kernel(5)).
        assert!(Owner { pid: 1 << 23, ..me }.is_gone());
    }

    #[test]
    fn reads_the_start_behind_a_name_of_any_form() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        for name in ["(sh)", "(a b)", "(:) ))"] {
            assert_eq!(start_time(&format!("12 {name} {rest}")), Some(4_711));
        }
        assert_eq!(start_time("12 (sh) S 1"), None);
    }

    #[test]
    fn finds_the_owner_among_other_variables() {
        let environment = b"A=1\0ALTWAY_EMULATION_NOT=9:9:9\0ALTWAY_EMULATION=1:2:3\0B=2\0";
        let owner = Owner {
            namespace: 1,
            pid: 2,
            started: 3,
        };
        assert_eq!(owner_in(environment), Some(owner));
        assert_eq!(owner_in(b"A=1"), None);
    }
}
