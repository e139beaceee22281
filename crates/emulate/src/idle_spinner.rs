//! A thread of the idle class that keeps the link thread's processor from halting while packets are on their way.
//!
//! A processor without work halts. What wakes it again is microseconds late on bare metal, and in a virtual
//! machine milliseconds, for the host gives a halted processor to others: most of what a link is late there
//! comes from that. So this thread spins where the link thread is, from the first packet until
//! a while after the last. Every other thread, of whatever priority, goes before it. An idle link costs
//! nothing. [`IdleSpinners`](crate::idle_spinners::IdleSpinners) does the same for all processors, all the time.

use crate::clock::now;
use crate::idle_spinners::has_quota;
use crate::sys;
use altway_units::Timestamp;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The name of the thread.
const NAME: &str = "altway-idle";

/// The time that the thread spins after the last packet: longer than a round trip takes on most paths, so that a conversation is
/// one time of work.
const SPIN_TIME: Duration = Duration::from_millis(200);

/// Spins between two looks at the clock: some 10 µs.
const SPINS: u32 = 1_000;

/// A thread that spins while the link thread is busy; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct IdleSpinner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The time until which the thread was last told to spin.
    spin_until: Timestamp,
}

#[derive(Debug, Default)]
struct Shared {
    /// [`IdleSpinner::spin_until`], in nanoseconds.
    until: AtomicU64,
    /// The processor of the link thread at that time.
    processor: AtomicUsize,
    stop: AtomicBool,
}

impl IdleSpinner {
    /// Starts the thread; there is none under a processor quota, which it would use up, nor where the system
    /// refuses it.
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let thread = (!has_quota()).then(|| {
            let shared = Arc::clone(&shared);
            let builder = Builder::new().name(NAME.into());
            builder.spawn(move || spin(&shared)).ok()
        });
        Self {
            shared,
            thread: thread.flatten(),
            spin_until: Timestamp::ZERO,
        }
    }

    /// Keeps the calling thread's processor from halting from `now` on, when packets are on their way.
    pub(crate) fn spin_from(&mut self, now: Timestamp) {
        let Some(thread) = &self.thread else { return };
        // Now and then is enough, and costs nothing.
        if now + SPIN_TIME / 2 < self.spin_until {
            return;
        }
        self.spin_until = now + SPIN_TIME;
        self.shared
            .processor
            .store(sched_getcpu(), Ordering::Relaxed);
        let until = self.spin_until.as_nanos();
        self.shared.until.store(until, Ordering::Release);
        thread.thread().unpark();
    }
}

impl Drop for IdleSpinner {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // Spinning does not panic.
            let _ = thread.join();
        }
    }
}

/// Spins where and while it is told to, in the idle class or not at all.
fn spin(shared: &Shared) {
    if sys::request_idle_class().is_err() {
        return;
    }
    let mut here = None;
    while !shared.stop.load(Ordering::Relaxed) {
        if now().as_nanos() >= shared.until.load(Ordering::Acquire) {
            std::thread::park();
            continue;
        }
        let processor = shared.processor.load(Ordering::Relaxed);
        if here != Some(processor) {
            if !move_to(processor) {
                return;
            }
            here = Some(processor);
        }
        (0..SPINS).for_each(|_| std::hint::spin_loop());
    }
}

/// Returns whether this thread is on that processor now.
fn move_to(processor: usize) -> bool {
    if processor >= CpuSet::MAX_CPU {
        return false;
    }
    let mut there = CpuSet::new();
    there.set(processor);
    sched_setaffinity(None, &there).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Instant;

    /// Processor time of the threads of this kind, in nanoseconds: no other test starts one.
    fn used() -> u64 {
        let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
        let read = |thread: &fs::DirEntry, name| fs::read_to_string(thread.path().join(name));
        threads
            .filter(|thread| read(thread, "comm").is_ok_and(|name| name.trim() == NAME))
            .filter_map(|thread| {
                read(&thread, "schedstat")
                    .ok()?
                    .split(' ')
                    .next()?
                    .parse::<u64>()
                    .ok()
            })
            .sum()
    }

    fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        std::iter::from_fn(|| (Instant::now() < deadline).then(&mut is_so)).any(|is_so| is_so)
    }

    #[test]
    fn it_spins_while_packets_are_on_their_way_and_sleeps_afterwards() {
        let mut idle_spinner = IdleSpinner::start();
        if idle_spinner.thread.is_none() {
            return;
        }
        let spins = eventually(|| {
            idle_spinner.spin_from(now());
            std::thread::sleep(Duration::from_millis(10));
            used() > 2_000_000
        });
        assert!(spins, "{}", used());
        let sleeps = eventually(|| {
            let before = used();
            std::thread::sleep(Duration::from_millis(50));
            used() == before
        });
        assert!(sleeps);
        idle_spinner.spin_from(now());
        drop(idle_spinner);
        // A thread that was joined is in /proc for a moment yet.
        assert!(eventually(|| used() == 0), "it has ended");
    }
}
