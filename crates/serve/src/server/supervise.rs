//! The loop around a worker: one that panics is started again on its thread, as long as that is rare.
//!
//! A panic is a defect, and often one that a peer can bring about. It costs the connections of the
//! worker, which are dropped while the stack unwinds. The sockets, the queues to the worker and its
//! place among the others outlive it: clients that wait are served by the worker that comes next, and
//! datagrams of the connections that were lost are answered with a stateless reset (RFC 9000 section
//! 10.3). A server that can do nothing but panic ends, so that whoever supervises the process sees it.

use crate::listen::Sockets;
use crate::stop::StopSignal;
use crate::worker::{Setup, Worker};
use crate::{Error, h3};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Restarts of all workers in the time of [`WINDOW`]. One more panic ends the server.
const MAX_RESTARTS: usize = 5;

/// How long a restart counts.
const WINDOW: Duration = Duration::from_secs(60);

/// The restarts of all workers.
#[derive(Debug, Default)]
pub(crate) struct Restarts(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Since the server began.
    total: u64,
    /// Those that count, the oldest first: [`MAX_RESTARTS`] at most.
    recent: VecDeque<Instant>,
}

impl Restarts {
    /// Counts a restart, and returns how many there were; `None` if it would be one too many.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts_still = |then: &Instant| now.saturating_duration_since(*then) < WINDOW;
        counts.recent.retain(counts_still);
        if counts.recent.len() >= MAX_RESTARTS {
            return None;
        }
        counts.recent.push_back(now);
        counts.total += 1;
        Some(counts.total)
    }
}

/// Runs a worker to its end, and another in its place whenever it panics. Blocks the calling thread.
///
/// # Errors
/// A worker can't be started or has failed, or too many have panicked.
pub(super) fn serve(
    setup: &Arc<Setup>,
    mut sockets: Sockets,
    mut place: h3::Place,
    stop: &StopSignal,
) -> Result<(), Error> {
    restarting(&setup.restarts, || {
        Worker::start(setup, &mut sockets, &mut place)?.run(stop.clone())
    })
}

fn restarting(
    restarts: &Restarts,
    mut serve: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    loop {
        // What a panic may have left half changed is dropped with the worker. What outlives it are
        // sockets, queues, and what all workers share behind locks.
        if let Ok(end) = catch_unwind(AssertUnwindSafe(&mut serve)) {
            return end;
        }
        let thread = thread::current();
        let worker = thread.name().unwrap_or_default();
        let Some(restarts) = restarts.admit(Instant::now()) else {
            tracing::error!(worker, "workers panic too often: the server stops");
            return Err(Error::WorkerPanicked);
        };
        tracing::error!(
            worker,
            restarts,
            "a worker panicked and lost its connections: it is started again"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_five_restarts_in_a_minute_are_too_many() {
        let restarts = Restarts::default();
        let start = Instant::now();
        let after = |seconds| restarts.admit(start + Duration::from_secs(seconds));
        let admitted = [0, 10, 20, 30, 59].map(after);
        assert_eq!(admitted, [Some(1), Some(2), Some(3), Some(4), Some(5)]);
        assert_eq!(after(59), None);
        assert_eq!(after(60), Some(6), "the first counts no more");
        assert_eq!(after(60), None);
        assert_eq!(after(70), Some(7));
    }

    #[test]
    fn a_worker_is_started_again_until_it_ends_without_a_panic() {
        let mut starts = 0;
        let end = restarting(&Restarts::default(), || {
            starts += 1;
            assert_eq!(starts, 3, "as a defect would");
            Ok(())
        });
        assert!(end.is_ok());
        assert_eq!(starts, 3);
    }

    #[test]
    fn a_worker_that_fails_is_not_started_again() {
        let mut starts = 0;
        let end = restarting(&Restarts::default(), || {
            starts += 1;
            Err(Error::NoFreePort)
        });
        assert!(matches!(end, Err(Error::NoFreePort)));
        assert_eq!(starts, 1);
    }

    #[test]
    fn all_workers_panic_on_one_account() {
        let restarts = Restarts::default();
        for _ in 0..MAX_RESTARTS {
            restarts.admit(Instant::now());
        }
        let end = restarting(&restarts, || panic!("as a defect would"));
        assert!(matches!(end, Err(Error::WorkerPanicked)));
    }
}
