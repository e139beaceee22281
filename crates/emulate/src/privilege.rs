//! Privilege to make namespaces: a process is root, or it becomes root of a user namespace of
//! its own.

use crate::Error;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::thread::CapabilitySet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

/// Origin of the privilege to make namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// The process had CAP_SYS_ADMIN and CAP_NET_ADMIN already; nothing was changed.
    Root,
    /// The process is now root of its own user, network and mount namespace. This machine can't
    /// be the far end ([`FarEnd::Host`](crate::FarEnd::Host)), and the link thread has no
    /// real-time priority unless RLIMIT_RTPRIO grants it.
    UserNamespace,
}

/// True if this process went through [`enter`] into a user namespace: its network namespace is
/// then an empty one and not the host's.
static IN_USER_NAMESPACE: AtomicBool = AtomicBool::new(false);

/// Gets the privilege that [`Emulation::start`](crate::Emulation::start) needs.
///
/// Call it first in a command, while the process has one thread: the kernel allows the step into a
/// user namespace only then. With CAP_SYS_ADMIN and CAP_NET_ADMIN (root) it does nothing. Otherwise
/// the process moves into a user, a network and a mount namespace of its own, where it is root and
/// owns the files that it owned before. That can't be undone, and all its children share it.
///
/// # Errors
/// [`Error::ManyThreads`] when called too late; [`Error::UserNamespace`] when this machine allows
/// no user namespaces; [`Error::NoPrivilegeInside`] when it allows them without any privilege.
pub fn enter() -> Result<Privilege, Error> {
    if has_privilege() {
        return Ok(Privilege::Root);
    }
    require_one_thread()?;
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
        .map_err(user_namespace_refused)?;
    IN_USER_NAMESPACE.store(true, Ordering::Relaxed);
    // An unprivileged process may map its group only after it gave up setgroups(2):
    // user_namespaces(7).
    write("/proc/self/setgroups", "deny", "give up setgroups")?;
    write(
        "/proc/self/uid_map",
        &format!("0 {} 1", user.as_raw()),
        "map its user",
    )?;
    write(
        "/proc/self/gid_map",
        &format!("0 {} 1", group.as_raw()),
        "map its group",
    )?;
    keep_mounts_private()?;
    Ok(Privilege::UserNamespace)
}

/// Returns whether this process may make network namespaces and interfaces as it is.
pub(crate) fn has_privilege() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Returns whether the current network namespace is one that [`enter`] made, not the host's.
pub(crate) fn in_user_namespace() -> bool {
    IN_USER_NAMESPACE.load(Ordering::Relaxed)
}

/// Returns the meaning of the refusal of a user namespace, in words.
pub(crate) fn refusal(errno: nix::errno::Errno) -> &'static str {
    use nix::errno::Errno;
    match errno {
        Errno::EPERM | Errno::EACCES => {
            "run as root, or allow user namespaces without privilege on this machine"
        }
        Errno::ENOSPC | Errno::EUSERS => "run as root, or raise the limit user.max_user_namespaces",
        Errno::EINVAL => "run as root: this kernel was built without user namespaces",
        _ => "run as root",
    }
}

fn user_namespace_refused(errno: nix::errno::Errno) -> Error {
    Error::UserNamespace {
        reason: refusal(errno),
        source: errno.into(),
    }
}

fn require_one_thread() -> Result<(), Error> {
    // Without /proc the count is unknown; the kernel then refuses by itself.
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(Error::ManyThreads { threads });
    }
    Ok(())
}

fn write(path: &str, text: &str, attempted: &'static str) -> Result<(), Error> {
    fs::write(path, text).map_err(|source| Error::NoPrivilegeInside { attempted, source })
}

/// Keeps mounts made in the namespace from spreading to the host.
fn keep_mounts_private() -> Result<(), Error> {
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).map_err(|errno| {
        Error::NoPrivilegeInside {
            attempted: "make its mounts private",
            source: io::Error::from(errno),
        }
    })
}
