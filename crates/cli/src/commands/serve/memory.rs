//! Memory that a crowd of connections has left, on its way back to the kernel.
//!
//! mimalloc marks pages that nobody uses, and gives them back when somebody allocates much: a server on which it has
//! become quiet would keep what its busiest minute took. What a worker's own heap keeps, the worker gives back itself
//! (`Options::collect_heap`).

use crate::sys;
use std::io;
use std::time::Duration;

/// The time from one look to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// Looks for unused memory every [`INTERVAL`], on a thread of its own, until the process ends.
///
/// # Errors
/// There is no thread to be had.
pub(super) fn watch() -> io::Result<()> {
    let thread = std::thread::Builder::new().name("memory".into());
    let look = || {
        loop {
            std::thread::sleep(INTERVAL);
            sys::release_unused_memory();
        }
    };
    thread.spawn(look).map(drop)
}
