//! Status of a run, from its folder alone: the figures that `altway lab watch` and `show` print.

use crate::progress::{DurationEstimate, Times};
use crate::schedule::id_of;
use crate::scheduler::{RemainingTransfers, Scheduler};
use altway_record::{Arm, Cell, Manifest, Plan, Protocol, Sample, transfers};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Status of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// The plan's name.
    pub plan: String,
    /// The protocol that the others are held against.
    pub first: Protocol,
    /// Planned transfers that are finished.
    pub done: u64,
    /// Planned transfers still to be made, at most.
    pub left: u64,
    /// Attempts that did not count.
    pub invalid: u64,
    /// Time that the rest will take, about, at the pace so far; in milliseconds.
    pub remaining_ms: u64,
    /// Time at which the newest transfer began, milliseconds since 1970 (UTC).
    pub newest_unix_ms: Option<i64>,
    /// The cells, in the plan's order.
    pub cells: Vec<CellStatus>,
}

/// Status of a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellStatus {
    /// The condition.
    pub cell: Cell,
    /// The protocol held against the plan's first.
    pub protocol: Protocol,
    /// Pairs so far.
    pub pairs: u64,
    /// Difference in time, in per cent; below 0: faster than the plan's first protocol.
    pub difference_percent: Option<f64>,
}

impl Status {
    /// Returns the status by a manifest and its rows.
    #[must_use]
    pub fn of(manifest: &Manifest, samples: &[Sample]) -> Self {
        let mut totals = StatusTotals::new(manifest);
        transfers(samples).for_each(|sample| totals.learn(sample));
        totals.status()
    }

    /// Time that the rest will take, about.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        Duration::from_millis(self.remaining_ms)
    }
}

/// Figures of a run's rows from which its status is made: of each transfer some numbers, whatever its rows hold.
/// At most [`altway_record::MAX_TRANSFERS`] of them, and those that did not count.
#[derive(Debug, Clone)]
pub(crate) struct StatusTotals {
    plan: Plan,
    /// Cells that the run measures.
    cells: BTreeMap<u32, Cell>,
    scheduler: Scheduler,
    times: Times,
    pace: DurationEstimate,
    /// The transfer learned last: it took until the next one began.
    last: Option<(u32, Arm, i64)>,
    invalid: u64,
}

impl StatusTotals {
    pub(crate) fn new(manifest: &Manifest) -> Self {
        let plan = manifest.plan.clone();
        let cells = plan.part(manifest.shard).into_iter();
        let cells = cells.map(|cell| (cell.index, cell));
        Self {
            cells: cells.collect(),
            scheduler: Scheduler::new(&plan, manifest.shard, &[]),
            times: Times::default(),
            pace: DurationEstimate::of(&plan),
            last: None,
            invalid: 0,
            plan,
        }
    }

    /// Takes in a transfer's first row.
    pub(crate) fn learn(&mut self, sample: &Sample) {
        /// A longer gap is a run that was stopped and resumed.
        const LONGEST: u64 = 10 * 60 * 1_000;
        self.scheduler.learn(sample);
        self.times.add(sample);
        self.invalid += u64::from(!sample.valid);
        let began = sample.started_unix_ms;
        if let Some((cell, arm, last)) = self.last {
            let took = u64::try_from(began - last).ok();
            let took = took.filter(|took| *took < LONGEST);
            if let (Some(took), Some(cell)) = (took, self.cells.get(&cell)) {
                self.pace.learn(cell, arm, Duration::from_millis(took));
            }
        }
        let (_, cell, arm) = id_of(sample);
        self.last = Some((cell, arm, began));
    }

    /// Returns the status of the run at this moment.
    pub(crate) fn status(&self) -> Status {
        let mut scheduler = self.scheduler.clone();
        // Goes to where the run is: looks at cells only when there is enough to look at.
        let _ = scheduler.next_batch();
        let left = scheduler.left();
        let first = self.plan.protocols[0];
        let all = self.plan.protocols.iter().copied();
        let others: Vec<Protocol> = all.filter(|one| *one != first).collect();
        let one = |cell: &Cell| {
            let cell = *cell;
            let status = |protocol: &Protocol| {
                let estimate = self.times.estimate(cell, *protocol, first);
                CellStatus {
                    cell,
                    protocol: *protocol,
                    pairs: estimate.map_or(0, |found| found.pairs),
                    difference_percent: estimate.map(|found| found.difference_percent),
                }
            };
            others.iter().map(status).collect::<Vec<_>>()
        };
        let remaining = self.pace.predict(&left);
        Status {
            plan: self.plan.name.clone(),
            first,
            done: scheduler.done() as u64,
            left: RemainingTransfers::total(&left),
            invalid: self.invalid,
            remaining_ms: u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX),
            newest_unix_ms: self.last.map(|(_, _, began)| began),
            cells: self.cells.values().flat_map(one).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_record::read_samples;

    #[test]
    fn a_run_of_the_first_schema_stands_complete() {
        let manifest = include_str!("../../report/tests/data/manifest.json");
        let samples = include_str!("../../report/tests/data/samples.csv");
        let manifest = Manifest::from_json(manifest).unwrap();
        let samples = read_samples(samples).unwrap();
        let status = Status::of(&manifest, &samples);
        assert_eq!(status.cells.len(), 3);
        assert!(status.cells.iter().all(|cell| cell.pairs > 0));
        let half = Status::of(&manifest, &samples[..samples.len() / 2]);
        assert!(half.left > status.left && half.remaining() > status.remaining());
        assert_eq!(half.done + half.left, 30);
    }
}
