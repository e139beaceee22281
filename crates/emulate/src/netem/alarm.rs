//! A thread that does something at set times, for links that have no thread of their own.

use crate::Error;
use crate::clock::now;
use altway_units::Timestamp;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Calls a function, which says when it wants to be called again. Dropping it ends that.
#[derive(Debug)]
pub(super) struct Alarm {
    /// Says that there is another time; gone when the thread is to end.
    set: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Alarm {
    /// Starts the thread, which calls `ring` after each [`set`](Self::set) and at the times that it
    /// returns.
    pub(super) fn start(
        ring: impl Fn() -> Option<Timestamp> + Send + 'static,
    ) -> Result<Self, Error> {
        // One is enough: whoever finds it taken is sure of a call that comes after.
        let (set, was_set) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("altway-schedule".to_owned())
            .spawn(move || run(&ring, &was_set))
            .map_err(|source| Error::StartLink {
                attempted: "start the thread of the schedule",
                source,
            })?;
        Ok(Self {
            set: Some(set),
            thread: Some(thread),
        })
    }

    /// Tells the thread that there may be another time.
    pub(super) fn set(&self) {
        if let Some(set) = &self.set {
            let _ = set.try_send(());
        }
    }

    /// Ends it; when this returns it will not ring again.
    pub(super) fn stop(&mut self) {
        self.set = None;
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed already.
            let _ = thread.join();
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(ring: &impl Fn() -> Option<Timestamp>, was_set: &Receiver<()>) {
    loop {
        let woken = match ring() {
            None => was_set.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => was_set.recv_timeout(at - now()),
        };
        if woken == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    #[test]
    fn rings_when_set_and_at_the_times_asked_for() {
        let (rang, rings) = mpsc::channel();
        let left = AtomicU32::new(0);
        let alarm = Alarm::start(move || {
            let _ = rang.send(());
            // Every second ring asks for another one.
            let asks = left.fetch_xor(1, Ordering::Relaxed) == 1;
            asks.then(|| now() + Duration::from_millis(1))
        })
        .unwrap();
        let next = || rings.recv_timeout(Duration::from_secs(60));
        next().expect("once at the start");
        alarm.set();
        next().expect("when it was set");
        next().expect("at the time asked for");
        assert!(rings.try_recv().is_err());
    }

    #[test]
    fn rings_no_more_after_its_end() {
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        let mut alarm = Alarm::start(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Some(now())
        })
        .unwrap();
        alarm.stop();
        let rang = count.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(5));
        assert_eq!(count.load(Ordering::Relaxed), rang);
    }
}
