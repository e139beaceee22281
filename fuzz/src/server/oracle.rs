//! Bounds of what the process may hold after the clients, by what it held before they came.

use std::fs::read_dir;
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
    descriptors: usize,
}

impl Oracle {
    /// Takes what there is now for what there is when no client is there.
    pub(super) fn new() -> Self {
        let allocated = allocated();
        assert_ne!(allocated, 0, "the program counts what it allocates");
        Self {
            allocated,
            descriptors: descriptors(),
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
                "{} bytes and {} descriptors stay, before there were {} and {}",
                allocated(),
                descriptors(),
                self.allocated,
                self.descriptors
            );
            sleep(PAUSE);
        }
    }

    fn is_back(&self) -> bool {
        allocated() <= self.allocated + KEPT && descriptors() <= self.descriptors + FILES
    }
}

fn descriptors() -> usize {
    read_dir("/proc/self/fd").expect("Linux").count()
}
