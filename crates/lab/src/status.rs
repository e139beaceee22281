//! How a run stands, from its folder alone: what `altway lab watch` and `show` tell.

use crate::director::{Director, Left};
use crate::progress::{Pace, estimate};
use altway_record::{Cell, Manifest, Sample, transfers};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// How a run stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// The plan's name.
    pub plan: String,
    /// Planned transfers that are finished.
    pub done: u64,
    /// Those still to be made, at most.
    pub left: u64,
    /// Attempts that did not count.
    pub invalid: u64,
    /// Time that the rest will take, about, at the pace so far; in milliseconds.
    pub remaining_ms: u64,
    /// When the newest transfer began, milliseconds since 1970 (UTC).
    pub newest_unix_ms: Option<i64>,
    /// The cells, in the plan's order.
    pub cells: Vec<CellStatus>,
}

/// How a cell stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellStatus {
    /// The condition.
    pub cell: Cell,
    /// The protocol held against the plan's first.
    pub protocol: altway_record::Protocol,
    /// Pairs so far.
    pub pairs: u64,
    /// Difference in time, in per cent; below 0: faster than the plan's first protocol.
    pub difference_percent: Option<f64>,
}

impl Status {
    /// What a manifest and its rows say.
    #[must_use]
    pub fn of(manifest: &Manifest, samples: &[Sample]) -> Self {
        let plan = &manifest.plan;
        let mut director = Director::new(plan, manifest.shard, samples);
        // Goes to where the run is: looks at cells only when there is enough to look at.
        let _ = director.next_batch();
        let left = director.left();
        let first = plan.protocols[0];
        let others = || plan.protocols.iter().copied().filter(|one| *one != first);
        let cells = plan
            .cells()
            .into_iter()
            .filter(|cell| manifest.shard.has(cell));
        let one = |cell: Cell| {
            others().map(move |protocol| {
                let estimate = estimate(samples, cell, protocol, first);
                CellStatus {
                    cell,
                    protocol,
                    pairs: estimate.map_or(0, |found| found.pairs),
                    difference_percent: estimate.map(|found| found.difference_percent),
                }
            })
        };
        let remaining = pace_of(samples, &plan.cells()).predict(&left);
        Self {
            plan: plan.name.clone(),
            done: director.done() as u64,
            left: Left::total(&left),
            invalid: transfers(samples).filter(|one| !one.valid).count() as u64,
            remaining_ms: u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX),
            newest_unix_ms: samples.last().map(|sample| sample.started_unix_ms),
            cells: cells.flat_map(one).collect(),
        }
    }

    /// Time that the rest will take, about.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        Duration::from_millis(self.remaining_ms)
    }
}

/// The pace that the rows tell: a transfer took until the next one began.
fn pace_of(samples: &[Sample], cells: &[Cell]) -> Pace {
    /// A longer gap is a run that was stopped and resumed.
    const LONGEST: u64 = 10 * 60 * 1_000;
    let cells: BTreeMap<u32, &Cell> = cells.iter().map(|cell| (cell.index, cell)).collect();
    let mut pace = Pace::default();
    let rows: Vec<&Sample> = transfers(samples).collect();
    for pair in rows.windows(2) {
        let took = pair[1].started_unix_ms - pair[0].started_unix_ms;
        let took = u64::try_from(took).ok().filter(|took| *took < LONGEST);
        if let (Some(took), Some(cell)) = (took, cells.get(&pair[0].cell)) {
            pace.learn(cell, pair[0].protocol, Duration::from_millis(took));
        }
    }
    pace
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
