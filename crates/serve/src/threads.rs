//! The threads of a server: started together, stopped together, and not waited for without end.
//!
//! A system call on a disk that hangs can't be broken off. A thread that sits in one is left behind when
//! its time is over, so that a stop ends the server whatever its threads do.

use crate::Error;
use crate::stop::StopSignal;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// A thread that was started.
pub(crate) struct Thread {
    name: String,
    handle: thread::JoinHandle<Result<(), Error>>,
    /// Disconnected when the thread is about to end.
    ended: Receiver<()>,
}

/// Threads that are waited for together.
pub(crate) struct Threads(Vec<Result<Thread, Error>>);

/// A guard that a thread holds to its end, also when it panics: a server with a part of its threads
/// would drop a part of its clients.
struct Running {
    stop: StopSignal,
    _ended: Sender<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.trigger();
    }
}

impl Thread {
    /// Starts a thread whose end stops the others.
    pub(crate) fn spawn(
        name: String,
        stop: &StopSignal,
        work: impl FnOnce(StopSignal) -> Result<(), Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let signal = stop.clone();
        let (sender, ended) = channel();
        let started = thread::Builder::new().name(name.clone()).spawn(move || {
            let _running = Running {
                stop: signal.clone(),
                _ended: sender,
            };
            work(signal)
        });
        let handle = started.map_err(|source| {
            stop.trigger();
            Error::Worker(source)
        })?;
        Ok(Self {
            name,
            handle,
            ended,
        })
    }

    /// Waits for its end until `deadline`; its name when it has not ended then.
    fn join(self, deadline: Instant) -> Result<Result<(), Error>, String> {
        use std::sync::mpsc::RecvTimeoutError;
        let left = deadline.saturating_duration_since(Instant::now());
        match self.ended.recv_timeout(left) {
            Err(RecvTimeoutError::Timeout) => Err(self.name),
            _ => Ok(self.handle.join().unwrap_or(Err(Error::WorkerPanicked))),
        }
    }
}

impl Threads {
    pub(crate) fn one(thread: Result<Thread, Error>) -> Self {
        Self(vec![thread])
    }

    pub(crate) fn all(threads: Vec<Result<Thread, Error>>) -> Self {
        Self(threads)
    }

    /// Waits until all have ended, or until `limit` after `since`.
    ///
    /// # Errors
    /// The error of the first thread that failed, or [`Error::ThreadsStuck`].
    pub(crate) fn join(self, since: Instant, limit: Duration) -> Result<(), Error> {
        let mut stuck = Vec::new();
        let mut result = Ok(());
        for thread in self.0 {
            match thread.map(|thread| thread.join(since + limit)) {
                Ok(Ok(end)) => result = result.and(end),
                Ok(Err(name)) => stuck.push(name),
                Err(error) => result = result.and(Err(error)),
            }
        }
        if stuck.is_empty() {
            return result;
        }
        Err(Error::ThreadsStuck {
            threads: stuck,
            waited: limit,
        })
    }
}

/// Blocks the calling thread until a stop is asked for. The thread needs no event loop, and may be
/// part of one.
pub(crate) fn wait_for(stop: &StopSignal) {
    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let mut stop = stop.clone();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut requested = pin!(stop.requested());
    while requested.as_mut().poll(&mut context).is_pending() {
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop_channel;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn a_thread_that_panics_stops_the_others() {
        let (_handle, signal) = stop_channel();
        let thread = Thread::spawn("acceptor".into(), &signal, |_| panic!("as a defect would"));
        wait_for(&signal);
        let end = Threads::one(thread).join(Instant::now(), LIMIT);
        assert!(matches!(end, Err(Error::WorkerPanicked)));
        assert!(signal.is_requested());
    }

    #[test]
    fn a_thread_that_is_stuck_is_named_and_left_behind() {
        let (handle, signal) = stop_channel();
        let (release, held) = channel::<()>();
        let stuck = Thread::spawn("worker-0".into(), &signal, move |_| {
            let _ = held.recv();
            Ok(())
        });
        let other = Thread::spawn("worker-1".into(), &signal, |signal| {
            wait_for(&signal);
            Ok(())
        });
        handle.stop();
        wait_for(&signal);
        let threads = Threads::all(vec![stuck, other]);
        let end = threads.join(Instant::now(), Duration::from_millis(500));
        let Err(Error::ThreadsStuck { threads, .. }) = end else {
            panic!("{end:?}");
        };
        assert!(threads.contains(&"worker-0".to_owned()), "{threads:?}");
        drop(release);
    }
}
