//! Privileges of this process: namespaces, TUN interfaces, real-time priority.

use super::{Finding, State, Topic};
use crate::arrivals;
use crate::privilege::{has_privilege, in_user_namespace, refusal};
use crate::sys;
use crate::tun::Tun;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::thread;

pub(super) fn namespaces() -> Finding {
    let topic = Topic::Namespaces;
    let entered = in_user_namespace();
    if has_privilege() && !entered {
        return Finding::ok(topic, "root: CAP_SYS_ADMIN and CAP_NET_ADMIN");
    }
    let tried = if entered {
        Ok(())
    } else {
        sys::try_in_child(enter_user_namespace)
    };
    match tried {
        Ok(()) => Finding::flawed(topic, State::Limited, "user namespaces, without root")
            .cost(
                "this host can't be the far end of a link, and the link thread gets no real-time \
                 priority from them",
            )
            .fix("run as root for those two"),
        Err(error) => Finding::flawed(topic, State::Missing, denied(&error))
            .cost("no emulated link: `altway emulate` and `altway lab` can't run")
            .fix(
                "run as root; in a container, add CAP_SYS_ADMIN and CAP_NET_ADMIN; or allow user \
                 namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns)",
            ),
    }
}

pub(super) fn tun_device() -> Finding {
    let topic = Topic::TunDevice;
    match Tun::open_device() {
        Ok(_) => Finding::ok(topic, "can be opened"),
        Err(error) => Finding::flawed(topic, State::Limited, format!("can't be opened: {error}"))
            .cost(
                "emulated links use packet sockets instead, and where there are none the kernel's \
                 netem",
            )
            .fix(tun_fix(&error)),
    }
}

pub(super) fn realtime_priority() -> Finding {
    let topic = Topic::RealtimePriority;
    let tried = thread::spawn(sys::request_realtime).join();
    match tried.unwrap_or_else(|_| Err(io::Error::other("the thread that tried it failed"))) {
        Ok(()) => Finding::ok(topic, "SCHED_FIFO is granted"),
        Err(error) => Finding::flawed(
            topic,
            State::Limited,
            format!("SCHED_FIFO is not granted: {error}"),
        )
        .cost(
            "the link thread competes with other programs: packets leave 0.1 to 2 ms late \
                     on a busy machine instead of 0.1 ms, and more runs are invalid",
        )
        .fix("run as root, or raise the limit RLIMIT_RTPRIO (ulimit -r 1)"),
    }
}

pub(super) fn arrival_times() -> Finding {
    let topic = Topic::ArrivalTimes;
    match arrivals::try_out() {
        Ok(()) => Finding::ok(topic, "the kernel notes when packets come to a TUN interface"),
        Err(error) => Finding::flawed(
            topic,
            State::Limited,
            format!("the kernel loads no program that notes when packets come: {error}"),
        )
        .cost(
            "an emulated link's delay begins when it has read a packet: some 10 µs too late, or 100 in \
             a virtual machine",
        )
        .fix("run as root, with Linux 5.12 or newer"),
    }
}

/// Tries, in a forked child, what [`enter`](crate::enter) does, as far as it can fail.
///
/// Must be async-signal-safe: system calls on constants only.
fn enter_user_namespace() -> Result<(), Errno> {
    use nix::sched::{CloneFlags, unshare};
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
        .map_err(|errno| Errno::from_raw_os_error(errno as i32))?;
    // Where a security module takes the privileges away again, this is refused.
    let setgroups = c"/proc/self/setgroups";
    let file = rustix::fs::open(setgroups, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, b"deny")?;
    unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

fn denied(error: &io::Error) -> String {
    let errno = nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(0));
    format!(
        "neither root nor user namespaces ({error}): {}",
        refusal(errno)
    )
}

fn tun_fix(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run as root, or let users open it: chmod 0666 /dev/net/tun"
        }
        _ => {
            "load the module (modprobe tun); in a container, pass the device in: \
             --device /dev/net/tun"
        }
    }
}
