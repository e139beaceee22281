//! The door to libFuzzer, which calls a symbol of the program, and an allocator that counts.

#![allow(
    unsafe_code,
    reason = "an allocator is unsafe to write; this one hands everything to the system's; signals are libc's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that are allocated, and the most that there were since [`forget_peak`].
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts what the process holds: a program that has it as its global
/// allocator can be asked how much that is.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

/// Bytes that the process has allocated; 0 where [`Counting`] is not its allocator.
pub(crate) fn allocated() -> usize {
    ALLOCATED.load(Ordering::Relaxed)
}

/// The most bytes that were allocated at a time since [`forget_peak`].
pub(crate) fn peak() -> usize {
    PEAK.load(Ordering::Relaxed)
}

/// Begins to look for the most bytes anew.
pub(crate) fn forget_peak() {
    PEAK.store(allocated(), Ordering::Relaxed);
}

fn count(size: usize) {
    let before = ALLOCATED.fetch_add(size, Ordering::Relaxed);
    PEAK.fetch_max(before + size, Ordering::Relaxed);
}

fn discount(size: usize) {
    ALLOCATED.fetch_sub(size, Ordering::Relaxed);
}

// SAFETY: everything is the system's allocator's, called as this is called; what the counting does
// allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as this function's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as this function's.
        unsafe { System.dealloc(ptr, layout) };
        discount(layout.size());
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as this function's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as this function's.
        let moved = unsafe { System.realloc(ptr, layout, size) };
        discount(layout.size());
        moved
    }
}

/// Makes writes to a connection that is reset fail instead of ending the process: Rust's own `main` does
/// so, and a program of libFuzzer's does not have it.
pub(crate) fn ignore_broken_pipes() {
    // SAFETY: no handler is set, and nothing in this process wants another.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Makes a program of a target: under `--cfg fuzzing` one that libFuzzer drives, else one that runs
/// the target on the files that it is given.
#[macro_export]
macro_rules! target {
    ($run:path) => {
        #[cfg(fuzzing)]
        #[allow(
            unsafe_code,
            missing_docs,
            reason = "libFuzzer finds its entry by an unmangled name"
        )]
        mod entry {
            libfuzzer_sys::fuzz_target!(|input: &[u8]| $run(input));
        }

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            $crate::replay($run)
        }
    };
}
