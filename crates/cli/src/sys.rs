//! Calls without a safe face. Holds every unsafe line of the crate.
#![allow(
    unsafe_code,
    reason = "the one module of the crate that takes descriptors by their numbers and tells the allocator what to do"
)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The descriptors that a service manager has passed to this process, with their names (sd_listen_fds_with_names(3)).
/// None the second time: they have an owner then.
///
/// # Errors
/// The variables of the environment contradict each other, or name descriptors that are not open.
pub(crate) fn passed_descriptors() -> io::Result<Vec<(OwnedFd, String)>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    // Closed in programs that this one starts; those that are not open are told here.
    let passed: Vec<(RawFd, String)> = sd_notify::listen_fds_with_names()?.collect();
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let own = |(descriptor, name)| {
        // SAFETY: it is open, as `fcntl` has just found, and the process that made it for this one has given it away:
        // nothing here knows its number, and nobody else takes it, as this is done once.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        (descriptor, name)
    };
    Ok(passed.into_iter().map(own).collect())
}

/// Gives the kernel back what the process has not used for a second. Cheap where there is nothing to give: a clock is
/// read.
pub(crate) fn release_unused_memory() {
    // SAFETY: any thread may call it at any time; it touches nothing that is allocated.
    unsafe { libmimalloc_sys::mi_collect(false) }
}

/// Gives the kernel back at once what the calling thread has freed and its heap keeps, and what nobody else uses. It looks at
/// every page of that heap: to be called seldom, by a thread that has become quiet.
pub(crate) fn collect_own_heap() {
    // SAFETY: any thread may call it at any time; it touches nothing that is allocated.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
