//! The busy share of a worker's processor time.

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time between two looks at the thread's clock.
const INTERVAL: Duration = Duration::from_secs(1);

/// The share of the latest second in which this thread has run, to be asked on it alone.
#[derive(Debug)]
pub(crate) struct Load {
    looked: Cell<Instant>,
    used: Cell<Duration>,
    share: Cell<f64>,
}

impl Load {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            looked: Cell::new(now),
            used: Cell::new(used()),
            share: Cell::new(0.0),
        }
    }

    /// 0 to 1; 0 in the first second.
    pub(crate) fn share(&self, now: Instant) -> f64 {
        let looked = self.looked.get();
        if now >= looked + INTERVAL {
            let passed = now.saturating_duration_since(looked);
            let used = used();
            let busy = used.saturating_sub(self.used.replace(used));
            self.looked.set(now);
            self.share
                .set((busy.as_secs_f64() / passed.as_secs_f64()).clamp(0.0, 1.0));
        }
        self.share.get()
    }
}

/// Processor time of this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_runs_is_busy_and_one_that_waits_is_not() {
        let start = Instant::now();
        let load = Load::new(start);
        assert_eq!(load.share(start), 0.0);
        while used() < Duration::from_millis(20) {
            std::hint::black_box(start.elapsed());
        }
        // The thread has run for at least a fiftieth of what is said to have passed.
        let second = start + INTERVAL;
        assert!((0.001..=1.0).contains(&load.share(second)));
        let idle = load.share(second + Duration::from_secs(3_600));
        assert!(idle < 0.001, "{idle}");
    }
}
