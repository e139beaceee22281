//! Threads that work on a folder's disk, so that no connection waits for it but the one whose upload it is.

use super::refusal::Refusal;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use tokio::sync::oneshot;

/// Threads of a folder: what one waits for, a flush to the disk above all, holds up a quarter of the others at most.
const THREADS: usize = 4;

/// Pieces of work that wait at most. An upload has one at a time.
const QUEUE: usize = 1 << 14;

type Job = Box<dyn FnOnce() + Send>;

/// The threads of one folder. They are started with the first work, and end with the folder.
#[derive(Debug, Default)]
pub(crate) struct Disk(Mutex<Option<SyncSender<Job>>>);

impl Disk {
    /// Gives `work` to a thread and waits for its result. Once it waits its turn it is done, whether its result is
    /// waited for or not.
    ///
    /// # Errors
    /// Errors of `work`; also where no thread can be started, or `work` panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (sender, receiver) = oneshot::channel();
        let job = move || {
            // Whoever waited may be gone.
            let _ = sender.send(work());
        };
        if self.add(Box::new(job)).is_err() {
            return Err(Refusal::busy());
        }
        let failed = || Refusal::of_system(&io::Error::other("the work on the disk failed"));
        receiver.await.unwrap_or_else(|_| Err(failed()))
    }

    /// Has a thread do `work` later, or does it here if none can.
    pub(crate) fn do_later(&self, work: impl FnOnce() + Send + 'static) {
        if let Err(job) = self.add(Box::new(work)) {
            job();
        }
    }

    fn add(&self, job: Job) -> Result<(), Job> {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.is_none() {
            *sender = start();
        }
        let Some(sender) = &*sender else {
            return Err(job);
        };
        sender.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })
    }
}

/// `None`: not one thread can be started.
fn start() -> Option<SyncSender<Job>> {
    let (sender, jobs) = sync_channel(QUEUE);
    let jobs = Arc::new(Mutex::new(jobs));
    let started = (0..THREADS).filter(|_| {
        let jobs = Arc::clone(&jobs);
        let thread = thread::Builder::new().name("uploads".into());
        thread.spawn(move || run_jobs(&jobs)).is_ok()
    });
    (started.count() > 0).then_some(sender)
}

fn run_jobs(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else {
            return;
        };
        // The hook has reported a panic, and whoever waits sees that there is no result.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_costs_its_own_work_alone() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let disk = Disk::default();
            for _ in 0..2 * THREADS {
                let panicked = disk.run::<()>(|| panic!("on purpose")).await;
                assert_eq!(panicked.unwrap_err().status, 500);
            }
            assert_eq!(disk.run(|| Ok(7)).await.unwrap(), 7);
        });
    }

    #[test]
    fn its_threads_end_with_it() {
        let disk = Disk::default();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        disk.do_later(move || drop(sender));
        assert!(receiver.recv().is_err(), "it was done");
        let jobs = disk.0.into_inner().unwrap().unwrap();
        drop(jobs);
    }
}
