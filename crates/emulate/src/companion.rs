//! Keeps the processor of the link thread awake while packets are on their way.
//!
//! A processor without work halts. What wakes it again is microseconds late on bare metal, and in a virtual
//! machine milliseconds, for the host gives a halted processor to others: most of what a link is late there
//! comes from that. So a thread of the idle class spins where the link thread is, from the first packet until
//! a while after the last. Every other thread, of whatever priority, goes before it. An idle link costs
//! nothing. [`Awake`](crate::awake::Awake) does the same for all processors, all the time.

use crate::awake::has_quota;
use crate::clock::now;
use crate::sys;
use altway_units::Timestamp;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The name of the thread.
const NAME: &str = "altway-awake";

/// For how long after the last packet: longer than a round trip takes on most paths, so that a conversation is
/// one time of work.
const AFTER: Duration = Duration::from_millis(200);

/// How often the thread looks at the clock: some 10 µs between.
const SPINS: u32 = 1_000;

/// A thread that spins while the link thread is busy; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Companion {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Until when the thread spins, as it was told last.
    told: Timestamp,
}

#[derive(Debug, Default)]
struct Shared {
    /// [`Companion::told`], in nanoseconds.
    until: AtomicU64,
    /// Where the link thread was then.
    processor: AtomicUsize,
    stop: AtomicBool,
}

impl Companion {
    /// Starts the thread; there is none under a processor quota, which it would use up, nor where the system
    /// refuses it.
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let thread = (!has_quota()).then(|| {
            let shared = Arc::clone(&shared);
            let builder = Builder::new().name(NAME.into());
            builder.spawn(move || keep_company(&shared)).ok()
        });
        Self {
            shared,
            thread: thread.flatten(),
            told: Timestamp::ZERO,
        }
    }

    /// Packets come, go, or are on their way at `now`; called by the link thread itself.
    pub(crate) fn busy(&mut self, now: Timestamp) {
        let Some(thread) = &self.thread else { return };
        // Now and then is enough, and costs nothing.
        if now + AFTER / 2 < self.told {
            return;
        }
        self.told = now + AFTER;
        self.shared
            .processor
            .store(sched_getcpu(), Ordering::Relaxed);
        let until = self.told.as_nanos();
        self.shared.until.store(until, Ordering::Release);
        thread.thread().unpark();
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It can't panic: it does nothing.
            let _ = thread.join();
        }
    }
}

/// Spins where and while it is told to, in the idle class or not at all.
fn keep_company(shared: &Shared) {
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

/// Whether this thread is on that processor now.
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
        let deadline = Instant::now() + Duration::from_secs(20);
        std::iter::from_fn(|| (Instant::now() < deadline).then(&mut is_so)).any(|is_so| is_so)
    }

    #[test]
    fn it_spins_while_packets_are_on_their_way_and_sleeps_afterwards() {
        let mut companion = Companion::start();
        if companion.thread.is_none() {
            return;
        }
        let spins = eventually(|| {
            companion.busy(now());
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
        companion.busy(now());
        drop(companion);
        // A thread that was joined is in /proc for a moment yet.
        assert!(eventually(|| used() == 0), "it has ended");
    }
}
