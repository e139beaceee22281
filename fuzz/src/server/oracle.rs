//! Bounds of what the process may hold after the clients, by what it held before they came.

use std::fs::{read_dir, read_link};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::site::{FILES, LARGE, MAX_MEMORY};
use crate::sys::{allocated, forget_peak, peak};

/// Bytes beyond those before while the clients are there: all have one address, whose share is an eighth of
/// what a server may hold.
const MAX_HELD: usize = MAX_MEMORY / 8;

/// Bytes beyond those before when they have gone: the cached file, and tables that keep the room they had.
const KEPT: usize = LARGE + (1 << 20);

/// Time that the servers may take to let go on a machine that is busy.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(8);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_micros(200);

pub(super) struct Oracle {
    allocated: usize,
    descriptors: Descriptors,
}

impl Oracle {
    /// Takes what there is now for what there is when no client is there.
    pub(super) fn new() -> Self {
        let allocated = allocated();
        assert_ne!(allocated, 0, "the program counts what it allocates");
        Self {
            allocated,
            descriptors: Descriptors::count(),
        }
    }

    /// Clients are about to come.
    pub(super) fn begin(&self) {
        forget_peak();
    }

    /// All clients have gone.
    pub(super) fn check(&self) {
        let above = peak().saturating_sub(self.allocated);
        assert!(above <= MAX_HELD, "{above} bytes at a time");
        let begun = Instant::now();
        while !self.is_back() {
            assert!(
                begun.elapsed() < RESPONSE_TIMEOUT,
                "{} bytes and {:?} stay, before there were {} and {:?}",
                allocated(),
                Descriptors::count(),
                self.allocated,
                self.descriptors
            );
            sleep(PAUSE);
        }
    }

    fn is_back(&self) -> bool {
        let (before, now) = (self.descriptors, Descriptors::count());
        let are_back = now.sockets <= before.sockets && now.others <= before.others + FILES;
        are_back && allocated() <= self.allocated + KEPT
    }
}

/// Open descriptors of the process. Sockets apart: of those not one may stay, and files may.
#[derive(Clone, Copy, Debug)]
struct Descriptors {
    sockets: usize,
    others: usize,
}

impl Descriptors {
    fn count() -> Self {
        let open = read_dir("/proc/self/fd").expect("Linux").flatten();
        let is_socket = |link: &PathBuf| link.to_string_lossy().starts_with("socket:");
        let links = open.filter_map(|entry| read_link(entry.path()).ok());
        let (sockets, others): (Vec<_>, Vec<_>) = links.partition(is_socket);
        Self {
            sockets: sockets.len(),
            others: others.len(),
        }
    }
}
