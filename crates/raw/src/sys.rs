//! Figures of a thread that only the kernel knows, the one call that waits, and the handle that
//! stops a server.

use crate::costs::{Calls, Cpu};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Processor time of the calling thread.
pub(crate) fn thread_cpu() -> Cpu {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("Linux knows the usage of a thread");
    Cpu {
        user_us: microseconds(usage.user_time()),
        system_us: microseconds(usage.system_time()),
    }
}

fn microseconds(time: TimeVal) -> u64 {
    let whole = u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000;
    whole + u64::try_from(time.tv_usec()).unwrap_or(0)
}

/// Makes waits of the calling thread end within some microseconds of their time. The kernel's
/// default is 50 µs later, which is longer than QUIC's pacing waits.
pub(crate) fn wait_exactly() {
    // Refused only to real-time threads, whose waits are exact already.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// The time of a system call that does nothing but cross the kernel's border, in nanoseconds.
pub(crate) fn empty_call_ns() -> f64 {
    const CALLS: u32 = 200_000;
    let begun = Instant::now();
    for _ in 0..CALLS {
        // Asks for the parent's number, which nothing has to be looked up for, and which the C
        // library doesn't remember.
        std::hint::black_box(rustix::process::getppid());
    }
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

/// Stops a server; can be used from any thread, and dropped without consequence.
#[derive(Debug, Clone)]
pub struct StopHandle {
    /// Readable for good once it was written to.
    signal: Arc<OwnedFd>,
}

impl StopHandle {
    pub(crate) fn new() -> io::Result<Self> {
        let signal = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self {
            signal: Arc::new(signal),
        })
    }

    /// Asks for the end: of waiting for connections, and of those that there are. A second call
    /// changes nothing.
    pub fn stop(&self) {
        // Fails only when it has been called 2^64 times.
        let _ = rustix::io::write(&self.signal, &1_u64.to_ne_bytes());
    }
}

/// Events to wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitSet<'a> {
    pub(crate) socket: BorrowedFd<'a>,
    /// Wait until it takes bytes, too.
    pub(crate) write: bool,
    /// Wait until this says so, too.
    pub(crate) stop: Option<&'a StopHandle>,
    /// Wait so long at most; for ever without.
    pub(crate) limit: Option<Duration>,
}

/// Reason why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// Reading tells something: bytes, the end, or an error.
    Readable,
    /// The socket takes bytes, and reading tells nothing; or a signal came.
    Otherwise,
    /// The time is over.
    Late,
    /// The end was asked for.
    Stopped,
}

/// Waits.
///
/// # Errors
/// The kernel lacks memory.
pub(crate) fn wait(watch: WaitSet<'_>, calls: &mut Calls) -> io::Result<WaitOutcome> {
    calls.wait += 1;
    let write = match watch.write {
        true => PollFlags::OUT,
        false => PollFlags::empty(),
    };
    let stop = watch.stop.map_or(watch.socket, |stop| stop.signal.as_fd());
    let mut watched = [
        PollFd::from_borrowed_fd(watch.socket, PollFlags::IN | write),
        PollFd::from_borrowed_fd(stop, PollFlags::IN),
    ];
    let count = 1 + usize::from(watch.stop.is_some());
    let limit = watch.limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(&mut watched[..count], limit.as_ref()) {
        Ok(0) => return Ok(WaitOutcome::Late),
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(WaitOutcome::Otherwise),
        Err(error) => return Err(error.into()),
    }
    let told = PollFlags::IN | PollFlags::ERR | PollFlags::HUP;
    let is_told = |index: usize| watched[index].revents().intersects(told);
    Ok(match (watch.stop.is_some() && is_told(1), is_told(0)) {
        (true, _) => WaitOutcome::Stopped,
        (false, true) => WaitOutcome::Readable,
        (false, false) => WaitOutcome::Otherwise,
    })
}
