//! Resources that a process holds, read from outside of it: memory, descriptors, processor time; and
//! the kernel's memory for TCP.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time between two looks at a process under attack.
const PERIOD: Duration = Duration::from_millis(20);

/// One look at a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory in bytes.
    pub resident: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Processor time of all threads so far.
    pub cpu: Duration,
    /// Memory in bytes that the kernel holds for all TCP sockets of this network namespace.
    pub kernel_tcp: u64,
}

impl Usage {
    /// Usage of a process now; zeros for one that has gone.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        Self {
            resident: resident(pid),
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))
                .map_or(0, |fds| fds.count() as u64),
            cpu: cpu(pid),
            kernel_tcp: kernel_tcp(),
        }
    }

    /// The greater of each figure.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            resident: self.resident.max(other.resident),
            descriptors: self.descriptors.max(other.descriptors),
            cpu: self.cpu.max(other.cpu),
            kernel_tcp: self.kernel_tcp.max(other.kernel_tcp),
        }
    }
}

fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

fn cpu(pid: u32) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Duration::ZERO;
    };
    let nanoseconds = threads.flatten().filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

fn kernel_tcp() -> u64 {
    let stat = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix("TCP:"));
    let pages = line.and_then(|line| line.rsplit_once(" mem ")?.1.trim().parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// A thread that looks at a process again and again, for the greatest figures.
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Usage>,
}

impl Sampler {
    /// Begins to look.
    #[must_use]
    pub fn start(pid: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut peak = Usage::default();
            while !stopped.load(Ordering::Relaxed) {
                peak = peak.max(Usage::of(pid));
                thread::sleep(PERIOD);
            }
            peak.max(Usage::of(pid))
        });
        Self { stop, thread }
    }

    /// The greatest figures seen.
    ///
    /// # Panics
    /// The thread panicked.
    #[must_use]
    pub fn stop(self) -> Usage {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("reading /proc does not panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_is_resident() {
        let before = Usage::of(std::process::id());
        let held = vec![1_u8; 32 << 20];
        let after = Usage::of(std::process::id());
        assert!(after.resident >= before.resident + (30 << 20), "{after:?}");
        assert!(after.descriptors > 2);
        drop(held);
    }
}
