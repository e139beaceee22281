//! Involuntary context switches: how often a thread or a process had to give its processor to another
//! before it was done, the trace of noise on the machine.

use nix::sys::resource::{UsageWho, getrusage};

/// The involuntary context switches of the calling thread since it was started.
pub(crate) fn of_this_thread() -> u64 {
    of(UsageWho::RUSAGE_THREAD)
}

/// The involuntary context switches of all processes that this one started, and that have ended and
/// were waited for, with those that they had waited for.
///
/// The difference of two values, before and after a process was waited for, is that process's share.
#[must_use]
pub fn children_involuntary_switches() -> u64 {
    of(UsageWho::RUSAGE_CHILDREN)
}

fn of(who: UsageWho) -> u64 {
    // It can't fail for these two.
    getrusage(who).map_or(0, |usage| {
        usage.involuntary_context_switches().unsigned_abs()
    })
}
