//! The loop around a worker: one that panics is started again on its thread, as long as that is rare.
//!
//! A panic is a defect, and often one that a peer can bring about. It costs the connections of the
//! worker, which are dropped while the stack unwinds. The sockets, the queues to the worker and its
//! place among the others outlive it: clients that wait are served by the worker that comes next, and
//! datagrams of the connections that were lost are answered with a stateless reset (RFC 9000 section
//! 10.3). A server that can do nothing but panic ends, so that whoever supervises the process sees it.

use crate::listen::Sockets;
use crate::restarts::Restarts;
use crate::setup::Setup;
use crate::stop::StopSignal;
use crate::worker::Worker;
use crate::{Error, h3};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Runs a worker to its end, and another in its place whenever it panics. Blocks the calling thread.
///
/// # Errors
/// A worker can't be started or has failed, or too many have panicked.
pub(super) fn serve(
    setup: &Arc<Setup>,
    mut sockets: Sockets,
    mut worker_slots: Vec<h3::WorkerSlot>,
    stop: &StopSignal,
) -> Result<(), Error> {
    restarting(&setup.restarts, || {
        Worker::start(setup, &mut sockets, &mut worker_slots)?.run(stop.clone())
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
        while restarts.admit(Instant::now()).is_some() {}
        let end = restarting(&restarts, || panic!("as a defect would"));
        assert!(matches!(end, Err(Error::WorkerPanicked)));
    }
}
