//! Threads of the idle class that keep all processors from halting, so that no packet is late for one that sleeps.
//!
//! A processor without work halts, and a virtual machine's halted processor is one that its host
//! gives to others: the timer that should wake it for the next packet then comes milliseconds late.
//! A thread of the idle class on each processor prevents the halt and is in nobody's way: every
//! other thread, of whatever priority, goes before it.

use crate::sys;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// The spinning threads, one a processor. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct IdleSpinners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl IdleSpinners {
    /// Starts a thread for each processor that this process may use; none under a processor quota, which
    /// they would use up, nor where the system refuses them.
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let processors = if has_quota() {
            Vec::new()
        } else {
            processors()
        };
        let threads = processors.into_iter().filter_map(|processor| {
            let stop = Arc::clone(&stop);
            Builder::new()
                .name("altway-idle".into())
                .spawn(move || spin(processor, &stop))
                .ok()
        });
        let threads = threads.collect();
        Self { stop, threads }
    }

    /// Returns whether there is a thread for any processor.
    pub(crate) fn is_on(&self) -> bool {
        !self.threads.is_empty()
    }
}

impl Drop for IdleSpinners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Spinning does not panic.
            let _ = thread.join();
        }
    }
}

/// Spins on a processor, in the idle class or not at all.
fn spin(processor: usize, stop: &AtomicBool) {
    let mut here = CpuSet::new();
    here.set(processor);
    if sys::request_idle_class().is_err() || sched_setaffinity(None, &here).is_err() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn processors() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..CpuSet::MAX_CPU)
        .filter(|processor| allowed.is_set(*processor))
        .collect()
}

/// Returns whether a control group (version 2) limits this process's share of the processors.
pub(crate) fn has_quota() -> bool {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .unwrap_or_default();
    let limits = |group: &Path| {
        let limit = fs::read_to_string(Path::new("/sys/fs/cgroup").join(group).join("cpu.max"));
        limit.is_ok_and(|limit| !limit.starts_with("max"))
    };
    Path::new(group).ancestors().any(limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn it_is_in_nobodys_way_and_ends_when_dropped() {
        let spinners = IdleSpinners::start();
        assert_eq!(
            spinners.threads.len(),
            if has_quota() { 0 } else { processors().len() }
        );
        std::thread::sleep(Duration::from_millis(50));
        let begun = Instant::now();
        drop(spinners);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
