//! Work on files that takes more than a moment: listing a large folder, compressing. It is done on a thread
//! of its own, so that no connection's thread stalls for it.

use crate::locks::lock;
use crate::request::panic_guard::catch_panic;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use tokio::sync::oneshot;

/// Pieces of work that wait at most; what comes on top is refused.
const QUEUE: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

/// The thread of one served folder. It is started with its first work, and ends with the folder.
#[derive(Debug, Default)]
pub(super) struct Background(Mutex<Option<SyncSender<Job>>>);

/// The refusal of work because as much waits as may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Busy;

impl Background {
    /// Gives `work` to the thread, which does it in its turn, unless nobody waits for its result any more. The
    /// receiver fails where the work panics.
    ///
    /// # Errors
    /// [`Busy`]; also where no thread can be started.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, Busy> {
        let (sender, receiver) = oneshot::channel();
        self.add(move || {
            if !sender.is_closed() {
                // Nobody waiting is as good as somebody who gets it.
                let _ = sender.send(work());
            }
        })?;
        Ok(receiver)
    }

    /// Gives `work` to the thread, which does it in its turn.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(super) fn add(&self, work: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        let mut sender = lock(&self.0);
        let sender = match &mut *sender {
            Some(sender) => sender,
            none => none.insert(start()?),
        };
        sender.try_send(Box::new(work)).map_err(|_| Busy)
    }
}

fn start() -> Result<SyncSender<Job>, Busy> {
    let (sender, jobs) = sync_channel(QUEUE);
    let thread = thread::Builder::new().name("files".into());
    let started = thread.spawn(move || run_jobs(&jobs));
    started.map(|_| sender).map_err(|_| Busy)
}

fn run_jobs(jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        // The hook has reported a panic; whoever waits for the result sees that there is none.
        let _ = catch_panic(job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_in_turn_and_what_does_not_fit_is_refused() {
        let background = Background::default();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = std::sync::mpsc::channel();
        let blocking = move || {
            begin.send(()).unwrap();
            released.recv().unwrap();
        };
        let first = background.run(blocking).unwrap();
        begun.recv().unwrap();
        let waiting: Vec<_> = (0..QUEUE)
            .map(|at| background.run(move || at).unwrap())
            .collect();
        assert_eq!(background.run(|| ()).unwrap_err(), Busy);
        release.send(()).unwrap();
        first.blocking_recv().unwrap();
        for (at, result) in waiting.into_iter().enumerate() {
            assert_eq!(result.blocking_recv(), Ok(at));
        }
    }

    #[test]
    fn a_panic_costs_its_own_work_alone() {
        let background = Background::default();
        let panics = background.run(|| panic!("on purpose")).unwrap();
        let after = background.run(|| 1).unwrap();
        assert!(panics.blocking_recv().is_err());
        assert_eq!(after.blocking_recv(), Ok(1));
    }

    #[test]
    fn what_nobody_waits_for_is_not_done() {
        let background = Background::default();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let first = background.run(move || released.recv().unwrap()).unwrap();
        let (done, was_done) = std::sync::mpsc::channel();
        drop(background.run(move || done.send(()).unwrap()).unwrap());
        release.send(()).unwrap();
        first.blocking_recv().unwrap();
        assert!(was_done.recv().is_err());
    }
}
