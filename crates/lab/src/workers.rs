//! The workers of a run: each makes one transfer at a time, over networks of its own.
//!
//! A worker is a thread for as long as the run lasts, for the kernel ends a client when the thread that
//! started it does. What is made next, and what becomes of the rows, is decided by the
//! [coordinator](crate::coordinator).

use crate::Error;
use crate::client::Fetched;
use crate::environment::Environments;
use crate::link_profile::LinkProfiles;
use crate::process::{STOP_CHECK_PERIOD, process_error};
use crate::rows::Observation;
use crate::schedule::Transfer;
use altway_record::{Plan, Sample};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// A transfer that a worker is to make.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    pub(crate) transfer: Transfer,
    /// Number of the attempt, from 1.
    pub(crate) attempt: u32,
    /// Transfers that are under way in other workers.
    pub(crate) beside: u32,
}

/// The outcome of a task.
#[derive(Debug)]
pub(crate) struct TaskResult {
    pub(crate) worker: usize,
    pub(crate) task: Task,
    /// Rows of the transfer, at least one, without their ordinal; `None` when it was stopped.
    pub(crate) rows: Option<Vec<Sample>>,
    /// The time of the transfer with all around it.
    pub(crate) took: Duration,
}

/// The plan of a run, and what ends it, as all workers have it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunContext<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) profiles: &'a LinkProfiles,
    /// Set to end what the workers do.
    pub(crate) halt: &'a AtomicBool,
}

/// The workers, each with at most one transfer under way. When it is dropped they end what they are at.
#[derive(Debug)]
pub(crate) struct WorkerPool<'scope> {
    tasks: Vec<Sender<Task>>,
    made: Receiver<Result<TaskResult, Error>>,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
    under_way: u32,
    /// Asks for the end of the run from outside.
    stop: &'scope AtomicBool,
    halt: &'scope AtomicBool,
}

impl<'scope> WorkerPool<'scope> {
    /// Starts a thread for each of the `environments`.
    pub(crate) fn start(
        scope: &'scope Scope<'scope, '_>,
        environments: &'scope mut [Environments],
        context: RunContext<'scope>,
        stop: &'scope AtomicBool,
    ) -> Self {
        let (report, made) = mpsc::channel();
        let mut tasks = Vec::new();
        let mut threads = Vec::new();
        for (worker, own) in environments.iter_mut().enumerate() {
            let (sender, receiver) = mpsc::channel();
            let report = report.clone();
            tasks.push(sender);
            threads.push(scope.spawn(move || {
                for task in receiver {
                    let begun = Instant::now();
                    let rows = measure(own, context, &task);
                    let made = rows.map(|rows| TaskResult {
                        worker,
                        task,
                        rows,
                        took: begun.elapsed(),
                    });
                    // Nobody listens any more when the run has failed elsewhere.
                    let _ = report.send(made);
                }
            }));
        }
        Self {
            tasks,
            made,
            threads,
            under_way: 0,
            stop,
            halt: context.halt,
        }
    }

    /// The number of workers.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns the number of workers that are at a transfer.
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Returns true if the run is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.halt.load(Ordering::Relaxed)
    }

    /// Gives a transfer to a worker, which must not be at one.
    pub(crate) fn give(&mut self, worker: usize, transfer: Transfer, attempt: u32) {
        let task = Task {
            transfer,
            attempt,
            beside: self.under_way,
        };
        self.under_way += 1;
        // A thread that has ended is found by `next`.
        let _ = self.tasks[worker].send(task);
    }

    /// Waits for the next transfer that is made, or not made: one must be under way. When the run is
    /// to end, what is under way is ended.
    ///
    /// # Errors
    /// A worker can't go on.
    pub(crate) fn next(&mut self) -> Result<TaskResult, Error> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                self.halt();
            }
            match self.made.recv_timeout(STOP_CHECK_PERIOD) {
                Ok(made) => {
                    self.under_way -= 1;
                    return made;
                }
                Err(RecvTimeoutError::Timeout)
                    if !self.threads.iter().any(ScopedJoinHandle::is_finished) => {}
                Err(_) => {
                    // It panicked, which the scope passes on when all others have ended.
                    self.under_way = 0;
                    return Err(process_error("altway lab", "a worker has ended"));
                }
            }
        }
    }

    /// Ends what is under way; [`next`](Self::next) still tells of it.
    pub(crate) fn halt(&self) {
        self.halt.store(true, Ordering::Relaxed);
    }
}

impl Drop for WorkerPool<'_> {
    fn drop(&mut self) {
        self.halt();
    }
}

/// The rows of one attempt; `None` when it was stopped.
pub(crate) fn measure(
    environments: &mut Environments,
    context: RunContext<'_>,
    task: &Task,
) -> Result<Option<Vec<Sample>>, Error> {
    let cell = &task.transfer.cell;
    match task.transfer.arm.policy {
        Some(policy) => environments.serve_anew(cell, policy)?,
        None => environments.keep_the_server_up(cell)?,
    }
    let network = environments.network(cell);
    let profile = context.profiles.cell(cell);
    network.restart(profile.up, profile.down, task.transfer.link_seed)?;
    let started_unix_ms = jiff::Timestamp::now().as_millisecond();
    let switches_before = environments.server_switches(cell);
    let cpu_before = environments.server_cpu(cell);
    if !profile.schedule.changes().is_empty() {
        network.set_schedule(profile.schedule)?;
    }
    let fetched = environments.fetch(cell, task.transfer.arm.protocol, context.halt);
    let report = network.report()?;
    let cpu_after = environments.server_cpu(cell);
    let server_switches = environments.server_switches(cell);
    let (fetched, client_switches, client_cpu) = match fetched {
        Fetched::Stopped => return Ok(None),
        Fetched::Failed(reason) => (Err(reason), 0, None),
        Fetched::Measured {
            records,
            involuntary_switches,
            cpu,
        } => (Ok(records), involuntary_switches, cpu),
    };
    let seen = Observation {
        task,
        started_unix_ms,
        report,
        client_switches,
        server_switches: server_switches.saturating_sub(switches_before),
        client_cpu,
        server_cpu: cpu_after.and_then(|after| after.since(&cpu_before?)),
        fetched,
    };
    Ok(Some(seen.rows(context.plan)))
}
