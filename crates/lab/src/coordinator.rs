//! The coordinator of a run: which transfer each worker makes next, whether one counts, and that every row is kept.

use crate::Error;
use crate::experiment::End;
use crate::folder::RunFolder;
use crate::progress::{DurationEstimate, Progress, Times};
use crate::schedule::{Transfer, TransferId, id_of};
use crate::scheduler::{ATTEMPTS, RemainingTransfers, Scheduler};
use crate::side_by_side::{Sharing, alone, check};
use crate::workers::{TaskResult, WorkerPool};
use altway_record::{Plan, Running, Sample, transfers};
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// Number of transfers in a row that did not count, in each worker, after which the run ends: something
/// is wrong that repeating won't mend.
const MAX_CONSECUTIVE_FAILURES: u32 = 2 * ATTEMPTS;

/// Cells of a block that are given out at once for each of several workers: a worker that is
/// done waits for the others at the end.
const CELLS_AT_ONCE: usize = 4;

/// The table that rows are written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    /// Table of the run.
    Run,
    /// Table of the transfers that were made alone, to be held against the run's.
    Alone,
}

/// Transfers of one block and cell, which are made after each other in one worker.
type Group = VecDeque<Transfer>;

/// The state of a run.
#[derive(Debug)]
pub(crate) struct Coordinator {
    plan: Plan,
    sharing: Sharing,
    pub(crate) folder: RunFolder,
    pub(crate) scheduler: Scheduler,
    worker_count: usize,
    pace: DurationEstimate,
    times: Times,
    failures_in_a_row: u32,
    /// Transfers that were made alone as well.
    made_alone: BTreeSet<TransferId>,
    /// Times of the transfers since [`Coordinator::work`] began.
    transferred: Duration,
}

impl Coordinator {
    pub(crate) fn new(folder: RunFolder, sharing: Sharing, worker_count: usize) -> Self {
        let manifest = folder.manifest();
        let plan = manifest.plan.clone();
        let mut scheduler = Scheduler::new(&plan, manifest.shard, folder.samples());
        if worker_count > 1 {
            scheduler.give_at_least(worker_count * CELLS_AT_ONCE * plan.arms().len());
        }
        let made_alone = folder.alone().iter().filter(|row| row.valid);
        let mut times = Times::default();
        transfers(folder.samples()).for_each(|sample| times.add(sample));
        Self {
            made_alone: made_alone.map(id_of).collect(),
            sharing,
            scheduler,
            pace: DurationEstimate::of(&plan),
            plan,
            folder,
            worker_count,
            times,
            failures_in_a_row: 0,
            transferred: Duration::ZERO,
        }
    }

    /// Makes the transfers that are still to be made.
    pub(crate) fn work(
        &mut self,
        workers: &mut WorkerPool<'_>,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<End, Error> {
        let begun = Instant::now();
        self.transferred = Duration::ZERO;
        observe(&self.progress(None));
        let end = self.make_all(workers, observe)?;
        self.conclude(begun.elapsed())?;
        Ok(end)
    }

    /// Time that what is left will take, about.
    pub(crate) fn time_left(&self) -> Duration {
        let worker_count = u32::try_from(self.worker_count).unwrap_or(u32::MAX);
        let left = self.scheduler.left();
        self.pace.predict_shared(&left, worker_count, &self.sharing)
    }

    fn make_all(
        &mut self,
        workers: &mut WorkerPool<'_>,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<End, Error> {
        loop {
            let batch = self.scheduler.next_batch();
            if batch.is_empty() {
                return Ok(End::Complete);
            }
            for (book, groups, worker_count) in self.in_turn(&batch) {
                if self.make(workers, book, groups, worker_count, observe)? == End::Stopped {
                    return Ok(End::Stopped);
                }
            }
        }
    }

    /// The order of a batch: with one worker as it is. With several, first what may be made side by side
    /// and then the rest; before and after it what is made alone for the check.
    fn in_turn(&self, batch: &[Transfer]) -> Vec<(Destination, Vec<Group>, usize)> {
        if self.worker_count == 1 {
            return vec![(Destination::Run, groups(batch.iter()), 1)];
        }
        let [before, after] = alone(&self.plan, batch, &self.sharing, &self.made_alone);
        let shared = batch.iter().filter(|one| self.sharing.has(&one.cell));
        let others = batch.iter().filter(|one| !self.sharing.has(&one.cell));
        vec![
            (Destination::Alone, groups(before.iter()), 1),
            (Destination::Run, groups(shared), self.worker_count),
            (Destination::Run, groups(others), 1),
            (Destination::Alone, groups(after.iter()), 1),
        ]
    }

    /// Makes these groups in so many workers, each group in one of them.
    fn make(
        &mut self,
        workers: &mut WorkerPool<'_>,
        book: Destination,
        groups: Vec<Group>,
        worker_count: usize,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<End, Error> {
        let mut waiting = VecDeque::from(groups);
        let mut at_work: Vec<Group> = Vec::new();
        for worker in 0..worker_count.min(workers.len()) {
            let group = waiting.pop_front().unwrap_or_default();
            if let Some(first) = group.front().filter(|_| !workers.is_stopped()) {
                workers.give(worker, *first, 1);
            }
            at_work.push(group);
        }
        let mut failure = None;
        while workers.under_way() > 0 {
            // What other workers have measured is kept, whatever becomes of this one.
            let made = match workers.next() {
                Ok(made) => made,
                Err(error) => {
                    workers.halt();
                    failure.get_or_insert(error);
                    continue;
                }
            };
            let (worker, task) = (made.worker, made.task);
            let Some(again) = self.keep(book, made)? else {
                continue;
            };
            let mut attempt = task.attempt + 1;
            if !again {
                observe(&self.progress(Some(&task.transfer)));
                attempt = 1;
                at_work[worker].pop_front();
                if at_work[worker].is_empty() {
                    at_work[worker] = waiting.pop_front().unwrap_or_default();
                }
            }
            if let Some(next) = at_work[worker].front().filter(|_| !workers.is_stopped()) {
                workers.give(worker, *next, attempt);
            }
        }
        let done = waiting.is_empty() && at_work.iter().all(VecDeque::is_empty);
        match failure {
            Some(error) => Err(error),
            None if done => Ok(End::Complete),
            None => Ok(End::Stopped),
        }
    }

    /// Keeps what was made: whether it is to be made again, or `None` when it was stopped.
    fn keep(&mut self, book: Destination, made: TaskResult) -> Result<Option<bool>, Error> {
        let Some(rows) = made.rows else {
            return Ok(None);
        };
        let first = rows[0].clone();
        self.transferred += time_of(&rows);
        match book {
            Destination::Run => {
                self.folder.append(rows)?;
                self.scheduler.learn(&first);
                self.times.add(&first);
            }
            Destination::Alone => self.folder.append_alone(rows)?,
        }
        let transfer = &made.task.transfer;
        self.pace.learn(&transfer.cell, transfer.arm, made.took);
        if first.valid {
            self.failures_in_a_row = 0;
            if book == Destination::Alone {
                self.made_alone.insert(transfer.id());
            }
            return Ok(Some(false));
        }
        tracing::debug!(fault = %first.fault, attempt = first.attempt, "the transfer does not count");
        self.failures_in_a_row += 1;
        let worker_count = u32::try_from(self.worker_count).unwrap_or(u32::MAX);
        if self.failures_in_a_row >= MAX_CONSECUTIVE_FAILURES.saturating_mul(worker_count) {
            return Err(Error::TooManyFailures {
                attempts: self.failures_in_a_row,
                fault: first.fault,
            });
        }
        Ok(Some(first.attempt < ATTEMPTS))
    }

    /// Writes down how the run went, what it was before a resume included.
    fn conclude(&mut self, wall: Duration) -> Result<(), Error> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let before = self.folder.manifest().running.clone().unwrap_or_default();
        let running = Running {
            side_by_side: u32::try_from(self.worker_count).unwrap_or(u32::MAX),
            wall_ms: before.wall_ms + millis(wall),
            transfers_ms: before.transfers_ms + millis(self.transferred),
            alone: check(self.folder.samples(), self.folder.alone()),
        };
        self.folder.conclude(running)
    }

    fn progress(&self, last: Option<&Transfer>) -> Progress {
        let first = self.plan.protocols[0];
        let others = || {
            let all = self.plan.protocols.iter().copied();
            all.filter(|one| *one != first)
        };
        let estimate = last.and_then(|last| {
            let held_against = others().find(|one| *one == last.arm.protocol);
            let held_against = held_against.or_else(|| others().next())?;
            self.times.estimate(last.cell, held_against, first)
        });
        let done = self.scheduler.done() as u64;
        Progress {
            done,
            total: done + RemainingTransfers::total(&self.scheduler.left()),
            remaining: self.time_left(),
            estimate,
        }
    }
}

/// The transfers by block and cell, in their order.
fn groups<'t>(transfers: impl Iterator<Item = &'t Transfer>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for transfer in transfers {
        let place = |one: &Transfer| (one.block, one.cell.index);
        match groups.last_mut() {
            Some(group) if group.back().map(place) == Some(place(transfer)) => {
                group.push_back(*transfer);
            }
            _ => groups.push(VecDeque::from([*transfer])),
        }
    }
    groups
}

/// Returns the time of a transfer itself: from its first request to the last byte.
fn time_of(rows: &[Sample]) -> Duration {
    let ends = rows
        .iter()
        .filter_map(|row| Some(row.start_us + row.total_us?));
    Duration::from_micros(ends.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_record::Shard;

    #[test]
    fn a_group_holds_all_arms_of_a_block_and_cell_in_their_order() {
        let text =
            "name = \"p\"\nrate = \"5mbit\"\ndelay = [\"0ms\", \"9ms\"]\nsize = \"1MB\"\npairs = 2";
        let transfers = crate::schedule(&text.parse().unwrap(), Shard::WHOLE);
        let groups = groups(transfers.iter());
        assert_eq!(groups.len(), 4);
        assert!(groups.iter().all(|group| group.len() == 3));
        let all: Vec<Transfer> = groups.into_iter().flatten().collect();
        assert_eq!(all, transfers);
    }
}
