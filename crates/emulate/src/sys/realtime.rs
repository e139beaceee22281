//! Real-time priority of a thread.

use std::io;

/// Any real-time priority goes before all normal ones; the lowest leaves room for the kernel's own.
static PRIORITY: libc::c_int = 1;

/// Asks for the scheduling policy SCHED_FIFO for the calling thread. Its children and the threads
/// it starts don't inherit it.
pub(crate) fn request_realtime() -> io::Result<()> {
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // The system call itself, because musl's wrapper always fails.
    // SAFETY: thread 0 is the calling one, and the kernel only reads its `struct sched_param`, which
    // is one `int`: the priority.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const PRIORITY) };
    if result == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
