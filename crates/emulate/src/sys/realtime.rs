//! Scheduling classes of a thread: before all others, and after all others.

use std::io;

/// Any real-time priority goes before all normal ones; the lowest leaves room for the kernel's own.
const PRIORITY: libc::c_int = 1;

/// Priority to ask for with a class that has none.
const NO_PRIORITY: libc::c_int = 0;

/// Asks for the scheduling policy SCHED_FIFO for the calling thread. Its children and the threads
/// it starts don't inherit it.
pub(crate) fn request_realtime() -> io::Result<()> {
    set_scheduler(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &PRIORITY)
}

/// Puts the calling thread into the class SCHED_IDLE, which needs no privilege.
pub(crate) fn request_idle_class() -> io::Result<()> {
    set_scheduler(libc::SCHED_IDLE, &NO_PRIORITY)
}

fn set_scheduler(policy: libc::c_int, priority: &libc::c_int) -> io::Result<()> {
    // The system call itself, because musl's wrapper always fails.
    // SAFETY: thread 0 is the calling one, and the kernel only reads its `struct sched_param`, which
    // is one `int`: the priority.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            policy,
            std::ptr::from_ref(priority),
        )
    };
    if result == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
