//! The scheduler: the transfers that come next, as a function of the plan and of what has been measured.
//!
//! The grid goes block by block and leaves out the cells that are known well enough; adaptive
//! sampling goes in rounds through the cells that are least sure. Both start from the rows in the run
//! folder, so a run that was stopped goes on.

use crate::schedule::{Transfer, TransferId, block_of, id_of, transfers_of};
use crate::stopping_rule::{self, AdaptiveRound, InterimLooks};
use altway_record::{Arm, Cell, Plan, Protocol, Sample, Sampling, Shard, transfers};
use std::collections::{BTreeMap, BTreeSet};

/// Attempts of a transfer that does not count before it is given up.
pub(crate) const ATTEMPTS: u32 = 3;

/// Transfers of one kind that are still to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemainingTransfers {
    /// The condition.
    pub cell: Cell,
    /// Protocol or policy; the null arm's transfers count as those of the arm that it repeats.
    pub arm: Arm,
    /// Number of them.
    pub count: u64,
}

impl RemainingTransfers {
    fn of<'l>(all: &'l mut BTreeMap<(u32, Arm), Self>, cell: &Cell, arm: Arm) -> &'l mut Self {
        let arm = repeated(arm);
        all.entry((cell.index, arm)).or_insert(Self {
            cell: *cell,
            arm,
            count: 0,
        })
    }

    /// The number of all kinds together.
    #[must_use]
    pub fn total(all: &[Self]) -> u64 {
        all.iter().map(|left| left.count).sum()
    }
}

/// The arm that comes before all others in order.
const LEAST_ARM: Arm = Arm {
    protocol: Protocol::H1,
    null_arm: false,
    policy: None,
};

/// The arm that a null arm repeats, or itself.
pub(crate) fn repeated(arm: Arm) -> Arm {
    Arm {
        null_arm: false,
        ..arm
    }
}

/// Knows what has been measured and says what is next.
#[derive(Debug, Clone)]
pub struct Scheduler {
    plan: Plan,
    cells: Vec<Cell>,
    /// Transfers that need no further attempt.
    finished: BTreeSet<TransferId>,
    measured: stopping_rule::CellTimes,
    looks: Option<InterimLooks>,
    /// Cells of the grid that are known well enough, and after how many pairs.
    known: BTreeMap<u32, u32>,
    /// The block that the grid has come to.
    block: u32,
    /// Transfers that a batch of the grid has at least, if no look is in between.
    at_least: usize,
    /// The batch given last.
    batch: Vec<Transfer>,
    /// Cells of the maps of which adaptive sampling has not yet found what it looks for, nor spent their budget.
    open: Vec<Cell>,
}

impl Scheduler {
    /// Makes the scheduler of a part of `plan` of which `samples` are there already.
    #[must_use]
    pub fn new(plan: &Plan, shard: Shard, samples: &[Sample]) -> Self {
        let mut scheduler = Self {
            plan: plan.clone(),
            cells: plan.part(shard),
            finished: BTreeSet::new(),
            measured: stopping_rule::CellTimes::new(plan.protocols[0]),
            looks: plan
                .stopping
                .map(|stopping| InterimLooks::new(&stopping, plan.pairs)),
            known: BTreeMap::new(),
            block: 0,
            at_least: 1,
            batch: Vec::new(),
            open: Vec::new(),
        };
        transfers(samples).for_each(|sample| scheduler.learn(sample));
        if plan.sampling == Sampling::Adaptive {
            scheduler.open = scheduler.round().open;
        }
        scheduler
    }

    /// Counts a transfer that was made, by its first row.
    pub fn learn(&mut self, sample: &Sample) {
        if sample.valid || sample.attempt >= ATTEMPTS {
            self.finished.insert(id_of(sample));
        }
        self.measured.add(sample);
    }

    /// Sets the least number of transfers of a batch from now on, from several blocks if need be:
    /// enough to keep several workers at work. A look at the cells still ends a batch.
    pub(crate) fn give_at_least(&mut self, transfers: usize) {
        self.at_least = transfers.max(1);
    }

    /// The transfers to be made next, in order; none when the run is complete.
    pub fn next_batch(&mut self) -> Vec<Transfer> {
        self.batch = match self.plan.sampling {
            Sampling::Grid => self.next_blocks(),
            Sampling::Adaptive => self.next_round(),
        };
        self.batch.clone()
    }

    /// The transfers that are still to be made at most, by cell and protocol.
    #[must_use]
    pub fn left(&self) -> Vec<RemainingTransfers> {
        match self.plan.sampling {
            Sampling::Grid => self.left_of_grid(),
            Sampling::Adaptive => self.left_of_budget(),
        }
    }

    fn left_of_grid(&self) -> Vec<RemainingTransfers> {
        let mut left: BTreeMap<(u32, Arm), RemainingTransfers> = BTreeMap::new();
        let blocks = u64::from(self.plan.pairs.saturating_sub(self.block));
        let arms = self.plan.arms();
        let is_open = |cell: &&Cell| !self.known.contains_key(&cell.index);
        for cell in self.cells.iter().filter(is_open) {
            for arm in &arms {
                RemainingTransfers::of(&mut left, cell, *arm).count += blocks;
            }
        }
        let made_early = self.finished.range((self.block, 0, LEAST_ARM)..);
        for (_, cell, arm) in made_early {
            if let Some(left) = left.get_mut(&(*cell, repeated(*arm))) {
                left.count = left.count.saturating_sub(1);
            }
        }
        for transfer in self
            .batch
            .iter()
            .filter(|one| !self.finished.contains(&one.id()))
        {
            RemainingTransfers::of(&mut left, &transfer.cell, transfer.arm).count += 1;
        }
        left.into_values().filter(|left| left.count > 0).collect()
    }

    /// Number of transfers that are finished.
    #[must_use]
    pub fn done(&self) -> usize {
        self.finished.len()
    }

    /// Cells that were left before they had all their pairs, and after how many.
    #[must_use]
    pub fn known_early(&self) -> &BTreeMap<u32, u32> {
        &self.known
    }

    /// The rest of the budget of the maps that are open, as if each of their cells got the same of it.
    fn left_of_budget(&self) -> Vec<RemainingTransfers> {
        let open: BTreeSet<u32> = self.open.iter().map(|cell| cell.index).collect();
        let pairs = stopping_rule::adaptive_budget(&self.plan, &self.open);
        let null = |arm: &&Arm| arm.null_arm;
        let null_arms = self.plan.arms().iter().filter(null).count() as u64;
        let arms = self.plan.arms().len() as u64 - null_arms;
        let null_pairs = pairs.min(open.len() as u64 * u64::from(stopping_rule::PAIRS_AT_ONCE));
        let done = self
            .finished
            .iter()
            .filter(|(_, cell, _)| open.contains(cell));
        let budget = pairs * arms + null_pairs * null_arms;
        let left = budget.saturating_sub(done.count() as u64);
        let cells = open.len().max(1) as u64;
        let of_cell = |(place, cell): (u64, &Cell)| RemainingTransfers {
            cell: *cell,
            arm: self.plan.arms()[0],
            count: left / cells + u64::from(place < left % cells),
        };
        let all = (0..).zip(&self.open).map(of_cell);
        all.filter(|left| left.count > 0).collect()
    }

    fn round(&self) -> AdaptiveRound {
        stopping_rule::adaptive_round(&self.plan, &self.cells, &self.measured)
    }

    /// The transfers of a cell and block that adaptive sampling makes, finished ones included.
    fn adaptive_transfers(&self, cell: &Cell, block: u32) -> Vec<Transfer> {
        let mut transfers = transfers_of(&self.plan, cell, block);
        transfers.retain(|one| !one.arm.null_arm || block < stopping_rule::PAIRS_AT_ONCE);
        transfers
    }

    /// A few blocks of the cells that are least sure, interleaved.
    fn next_round(&mut self) -> Vec<Transfer> {
        let AdaptiveRound { chosen, open } = self.round();
        let is_open = |cell: &Cell, block: u32| {
            let transfers = self.adaptive_transfers(cell, block);
            transfers
                .iter()
                .any(|one| !self.finished.contains(&one.id()))
        };
        let mut transfers = Vec::new();
        for turn in 0..stopping_rule::PAIRS_AT_ONCE {
            let order = block_of(&self.plan, &chosen, turn);
            for first in order
                .chunks(self.plan.arms().len())
                .map(|arms| arms[0].cell)
            {
                let mut open = (0..self.plan.pairs).filter(|block| is_open(&first, *block));
                if let Some(block) = open.nth(turn as usize) {
                    transfers.extend(self.adaptive_transfers(&first, block));
                }
            }
        }
        transfers.retain(|one| !self.finished.contains(&one.id()));
        self.open = match transfers.is_empty() {
            true => Vec::new(),
            false => open,
        };
        transfers
    }

    fn next_blocks(&mut self) -> Vec<Transfer> {
        let mut given = Vec::new();
        while self.block < self.plan.pairs && given.len() < self.at_least {
            let looks = self.looks.as_ref();
            if !given.is_empty() && looks.is_some_and(|looks| looks.is_due(self.block)) {
                break;
            }
            self.look();
            let mut transfers = block_of(&self.plan, &self.cells, self.block);
            transfers.retain(|one| {
                !self.known.contains_key(&one.cell.index) && !self.finished.contains(&one.id())
            });
            self.block += 1;
            given.append(&mut transfers);
        }
        given
    }

    /// Looks at the cells, if it is time for it.
    fn look(&mut self) {
        let Some(looks) = self.looks.as_ref().filter(|looks| looks.is_due(self.block)) else {
            return;
        };
        for cell in &self.cells {
            let open = !self.known.contains_key(&cell.index);
            if open && looks.is_known(&self.measured, cell.index, self.block) {
                self.known.insert(cell.index, self.block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_record::{CSV_HEADER, read_samples};

    fn plan(more: &str) -> Plan {
        let text = "name = \"p\"\nrate = \"5mbit\"\ndelay = [\"0ms\", \"9ms\"]\nsize = \"1MB\"";
        format!("{text}\n{more}").parse().unwrap()
    }

    fn row(transfer: &Transfer, total_us: u64) -> Sample {
        let row = "0,0,0,1,0,1,h2,false,h2,direct,altway,altway,cubic,10,ecdsa,true,cold,plain,default,,0,0,1,0,0,0,1,1,1,1,1,0,0,0,0,0,0,0,0,0,0,0,0,0.0,0,0,0,,,,0,,true,\n";
        let mut sample = read_samples(&format!("{CSV_HEADER}{row}"))
            .unwrap()
            .remove(0);
        sample.block = transfer.block;
        sample.cell = transfer.cell.index;
        sample.protocol = transfer.arm.protocol;
        sample.null_arm = transfer.arm.null_arm;
        sample.total_us = Some(total_us);
        sample.compared_us = Some(total_us);
        sample
    }

    /// Makes all transfers; HTTP/3 is far faster in cell 0, and as noisy as can be in cell 1.
    fn run(scheduler: &mut Scheduler) -> Vec<Sample> {
        let mut made = Vec::new();
        loop {
            let batch = scheduler.next_batch();
            if batch.is_empty() {
                return made;
            }
            for transfer in batch {
                let time = match (transfer.arm.protocol, transfer.cell.index) {
                    (Protocol::H3, 0) => 500,
                    (Protocol::H3, _) if transfer.block % 2 == 0 => 4_000,
                    (Protocol::H3, _) => 250,
                    _ => 1_000,
                };
                let sample = row(&transfer, time + u64::from(transfer.block));
                scheduler.learn(&sample);
                made.push(sample);
            }
        }
    }

    #[test]
    fn without_stopping_the_grid_is_the_schedule() {
        let plan = plan("pairs = 3");
        let mut scheduler = Scheduler::new(&plan, Shard::WHOLE, &[]);
        assert_eq!(
            RemainingTransfers::total(&scheduler.left()),
            plan.transfers()
        );
        let ids: Vec<_> = run(&mut scheduler).iter().map(id_of).collect();
        let schedule = crate::schedule(&plan, Shard::WHOLE);
        assert_eq!(ids, schedule.iter().map(Transfer::id).collect::<Vec<_>>());
        assert!(scheduler.left().is_empty());
    }

    #[test]
    fn a_clear_cell_stops_at_the_first_look_and_a_noisy_one_goes_on() {
        let plan = plan("pairs = 30\n[stop]");
        let mut scheduler = Scheduler::new(&plan, Shard::WHOLE, &[]);
        let made = run(&mut scheduler);
        let blocks = |cell| {
            made.iter()
                .filter(|one| one.cell == cell)
                .map(|one| one.block)
                .max()
        };
        assert_eq!((blocks(0), blocks(1)), (Some(11), Some(29)));
        assert_eq!(scheduler.known_early(), &BTreeMap::from([(0, 12)]));
        assert!(scheduler.left().is_empty());
    }

    #[test]
    fn a_run_that_was_stopped_anywhere_goes_on_as_if_it_had_not_been() {
        let plan = plan("pairs = 20\n[stop]\nlooks = 2");
        let whole = run(&mut Scheduler::new(&plan, Shard::WHOLE, &[]));
        for stopped_after in [0, 1, 35, 72, 73, whole.len()] {
            let kept = &whole[..stopped_after];
            let mut resumed = Scheduler::new(&plan, Shard::WHOLE, kept);
            let left = RemainingTransfers::total(&resumed.left());
            let rest = run(&mut resumed);
            assert!(left >= rest.len() as u64 && RemainingTransfers::total(&resumed.left()) == 0);
            let ids: Vec<_> = kept.iter().chain(&rest).map(id_of).collect();
            assert_eq!(
                ids,
                whole.iter().map(id_of).collect::<Vec<_>>(),
                "{stopped_after}"
            );
        }
    }

    #[test]
    fn a_batch_of_several_blocks_ends_at_a_look() {
        let plan = plan("pairs = 30\n[stop]");
        let mut scheduler = Scheduler::new(&plan, Shard::WHOLE, &[]);
        scheduler.give_at_least(40);
        let blocks = |batch: &[Transfer]| {
            let mut blocks: Vec<u32> = batch.iter().map(|one| one.block).collect();
            blocks.dedup();
            blocks.len()
        };
        let left = RemainingTransfers::total(&scheduler.left());
        let batch = scheduler.next_batch();
        assert_eq!((batch.len(), blocks(&batch)), (42, 7));
        assert_eq!(RemainingTransfers::total(&scheduler.left()), left);
        assert_eq!(blocks(&scheduler.next_batch()), 5);
        let mut whole = Scheduler::new(&plan, Shard::WHOLE, &[]);
        let mut large = Scheduler::new(&plan, Shard::WHOLE, &[]);
        large.give_at_least(100);
        let ids = |made: Vec<Sample>| made.iter().map(id_of).collect::<Vec<_>>();
        assert_eq!(ids(run(&mut whole)), ids(run(&mut large)));
    }

    #[test]
    fn a_transfer_is_finished_when_it_counts_or_has_used_up_its_attempts() {
        let plan = plan("pairs = 1");
        let transfer = crate::schedule(&plan, Shard::WHOLE)[0];
        let failed = |attempt| Sample {
            valid: false,
            attempt,
            ..row(&transfer, 1)
        };
        let done = |samples: &[Sample]| Scheduler::new(&plan, Shard::WHOLE, samples).done();
        assert_eq!(done(&[failed(1), failed(2)]), 0);
        assert_eq!(done(&[failed(ATTEMPTS)]), 1);
        assert_eq!(done(&[row(&transfer, 1)]), 1);
    }

    #[test]
    fn adaptive_sampling_keeps_to_its_budget_and_tells_when_it_is_over() {
        let text = "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms..90ms by 10ms\"\nsize = \"1MB\"\n\
                    pairs = 40\nsampling = \"adaptive\"";
        let plan: Plan = text.parse().unwrap();
        let mut scheduler = Scheduler::new(&plan, Shard::WHOLE, &[]);
        let budget = RemainingTransfers::total(&scheduler.left());
        assert_eq!(budget, plan.transfers() / 10);
        let made = run(&mut scheduler);
        assert!(
            !made.is_empty() && made.len() as u64 <= budget,
            "{}",
            made.len()
        );
        assert!(scheduler.left().is_empty());
        let mut resumed = Scheduler::new(&plan, Shard::WHOLE, &made);
        assert!(resumed.left().is_empty() && resumed.next_batch().is_empty());
    }

    #[test]
    fn adaptive_sampling_measures_a_cells_null_arm_six_times_and_parts_by_maps() {
        let text = "name = \"p\"\nrate = [\"5mbit\", \"9mbit\"]\ndelay = \"0ms..90ms by 10ms\"\n\
                    loss = [\"0%\", \"1%\"]\nsize = \"1MB\"\npairs = 60\nsampling = \"adaptive\"";
        let plan: Plan = text.parse().unwrap();
        let second = Shard::new(2, 2).unwrap();
        let made = run(&mut Scheduler::new(&plan, second, &[]));
        assert!(made.iter().all(|one| (20..40).contains(&one.cell)));
        let count = |cell, null| {
            let of_cell = made
                .iter()
                .filter(|one| one.cell == cell && one.protocol == Protocol::H2);
            of_cell.filter(|one| one.null_arm == null).count()
        };
        let cells: BTreeSet<u32> = made.iter().map(|one| one.cell).collect();
        assert!(cells.iter().all(|cell| count(*cell, true) == 6));
        assert!(cells.iter().any(|cell| count(*cell, false) > 6));
    }
}
