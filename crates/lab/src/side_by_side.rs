//! Several transfers at once: how many, which of them, and whether that changes what they take.
//!
//! Only transfers that mostly wait are made side by side, each over networks of its own: both
//! directions of their links are slow, or loss keeps them from being fast, the link alone takes a while
//! for them, and their client is a light one. Whether it changes nothing is measured, not assumed: of every fourth cell of a block
//! one transfer is made once more with nothing beside it, before or after by chance, and what the two
//! took is held against each other.

use crate::link_profile::{LinkProfiles, SLOW};
use crate::progress::{guess, lossy_pace};
use crate::schedule::{Purpose, Transfer, TransferId, generator, id_of, transfers_of};
use altway_record::{Cell, Client, ConcurrencyCheck, Plan, Sample, SideBySide, transfers};
use altway_stats::{hodges_lehmann, signed_rank_interval};
use rand_core::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Workers that `auto` gives each processor. A transfer of a second over a slow link costs its ends and
/// the link some 50 ms of a processor.
const WORKERS_PER_PROCESSOR: usize = 2;

/// The most networks of a run, those of all workers together: each is a link thread and namespaces.
const MAX_NETWORKS: usize = 64;

/// A transfer that its link alone makes shorter is mostly the work of processes.
const LEAST_WAIT: Duration = Duration::from_millis(300);

/// Number of a block's cells of which one has a transfer that is made alone as well.
const ALONE_EVERY: u64 = 4;

/// The level of the interval of the check.
const LEVEL: f64 = 0.95;

/// The number of workers of a run of `plan` on a machine with so many processors.
#[must_use]
pub fn worker_count(plan: &Plan, processors: usize) -> usize {
    let environments = plan.environment_count();
    let wanted = match plan.side_by_side {
        SideBySide::Off => 1,
        SideBySide::Auto => (processors * WORKERS_PER_PROCESSOR).min(SideBySide::MOST.into()),
        SideBySide::AtMost(count) => count.into(),
    };
    wanted.min(MAX_NETWORKS / environments.max(1)).max(1)
}

/// The cells whose transfers may be made side by side.
#[derive(Debug, Clone)]
pub(crate) struct Sharing(BTreeSet<u32>);

impl Sharing {
    pub(crate) fn of(plan: &Plan, profiles: &LinkProfiles) -> Self {
        let may = |cell: &Cell| {
            let light = matches!(cell.client, Client::Altway | Client::Curl);
            let slowed = lossy_pace(cell).is_some_and(|pace| pace <= SLOW);
            let slow = profiles.cell(cell).is_slow() || slowed;
            light && guess(cell) >= LEAST_WAIT && slow
        };
        let cells = plan.cells();
        Self(
            cells
                .iter()
                .filter(|cell| may(cell))
                .map(|cell| cell.index)
                .collect(),
        )
    }

    /// Returns whether transfers of the cell may have others beside them.
    pub(crate) fn has(&self, cell: &Cell) -> bool {
        self.0.contains(&cell.index)
    }

    /// Returns whether there is any such cell.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Transfers to be made alone as well: those before the `batch`, and those after it.
pub(crate) fn alone(
    plan: &Plan,
    batch: &[Transfer],
    sharing: &Sharing,
    made: &BTreeSet<TransferId>,
) -> [Vec<Transfer>; 2] {
    let shared = batch.iter().filter(|one| sharing.has(&one.cell));
    let groups: BTreeSet<_> = shared.map(|one| (one.block, one.cell.index)).collect();
    let mut chosen = [Vec::new(), Vec::new()];
    for (block, index) in groups {
        let mut random = generator(plan.seed, Purpose::Alone, block, index);
        if !random.next_u64().is_multiple_of(ALONE_EVERY) {
            continue;
        }
        let cell = batch.iter().find(|one| one.cell.index == index);
        let Some(cell) = cell.map(|one| one.cell) else {
            continue;
        };
        let arms = transfers_of(plan, &cell, block);
        let arm = random.next_u64() % arms.len() as u64;
        let arm = arms[usize::try_from(arm).expect("an index of the arms")];
        let place = usize::from(random.next_u64() & 1 == 1);
        if !made.contains(&arm.id()) {
            chosen[place].push(arm);
        }
    }
    chosen
}

/// The times of transfers side by side, held against the same transfers alone; `None` before there
/// is one such pair.
pub(crate) fn check(samples: &[Sample], alone: &[Sample]) -> Option<ConcurrencyCheck> {
    let time = |sample: &Sample| sample.compared_us.filter(|time| *time > 0 && sample.valid);
    let beside = transfers(samples).filter(|sample| sample.beside > 0);
    let beside: BTreeMap<_, _> = beside
        .filter_map(|sample| Some((id_of(sample), time(sample)?)))
        .collect();
    let log_ratio = |sample: &Sample| {
        let (beside, alone) = (*beside.get(&id_of(sample))?, time(sample)?);
        #[expect(
            clippy::cast_precision_loss,
            reason = "microseconds of a transfer fit 2^53"
        )]
        Some((beside as f64 / alone as f64).ln())
    };
    let ratios: Vec<f64> = transfers(alone).filter_map(log_ratio).collect();
    let percent = |log_ratio: f64| (log_ratio.exp() - 1.0) * 100.0;
    let interval = signed_rank_interval(&ratios, LEVEL);
    Some(ConcurrencyCheck {
        pairs: ratios.len() as u64,
        difference_percent: percent(hodges_lehmann(&ratios)?),
        low_percent: interval.map(|interval| percent(interval.low)),
        high_percent: interval.map(|interval| percent(interval.high)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule;
    use altway_record::{CSV_HEADER, Shard, read_samples};

    fn plan(more: &str) -> Plan {
        let text = "name = \"p\"\ndelay = \"0ms..9ms by 1ms\"\npairs = 12";
        format!("{text}\n{more}").parse().unwrap()
    }

    fn sharing(plan: &Plan) -> Sharing {
        Sharing::of(plan, &LinkProfiles::of(plan).unwrap())
    }

    const SLOW: &str = "rate = \"5mbit\"\nsize = \"1MB\"";

    #[test]
    fn workers_follow_from_the_plan_and_the_processors() {
        let count = |more: &str| worker_count(&plan(&format!("{SLOW}\n{more}")), 2);
        assert_eq!(count(""), 1);
        assert_eq!(count("side_by_side = \"auto\""), 4);
        assert_eq!(count("side_by_side = 8"), 8);
        let many = "side_by_side = 32\ntopology = [\"direct\", \"router\", \"proxied\"]\ncongestion = [\"cubic\", \"reno\"]";
        assert_eq!(count(many), 10);
    }

    #[test]
    fn only_transfers_that_mostly_wait_are_made_side_by_side() {
        let shares = |more: &str| !sharing(&plan(more)).is_empty();
        assert!(shares(SLOW));
        assert!(!shares("rate = \"unlimited\"\nsize = \"1MB\""));
        assert!(!shares("rate = \"50mbit\"\nsize = \"10MB\""));
        assert!(shares("rate = \"50mbit\"\nsize = \"10MB\"\nloss = \"3%\""));
        assert!(!shares("rate = \"20mbit\"\nsize = \"10KB\""));
    }

    #[test]
    fn about_every_fourth_cell_of_a_block_has_one_transfer_alone_half_of_them_before() {
        let plan = plan(SLOW);
        let batch = schedule(&plan, Shard::WHOLE);
        let sharing = sharing(&plan);
        let [before, after] = alone(&plan, &batch, &sharing, &BTreeSet::new());
        let chosen = before.len() + after.len();
        assert!((15..=45).contains(&chosen), "{chosen} of 120");
        assert!(before.len() > 5 && after.len() > 5);
        assert!(before.iter().chain(&after).all(|one| batch.contains(one)));
        let made = before.iter().map(Transfer::id).collect();
        let [none, same] = alone(&plan, &batch, &sharing, &made);
        assert_eq!((none.len(), same), (0, after));
    }

    fn rows(beside: u32, time: impl Fn(u32) -> u32) -> Vec<Sample> {
        let row = "0,0,0,1,0,1,h2,false,h2,direct,altway,altway,cubic,10,ecdsa,true,cold,plain,default,,0,0,1,0,0,0,1,1,1,1,1,0,0,0,0,0,0,0,0,0,0,0,0,0.0,0,0,0,,,,0,,true,\n";
        let sample = read_samples(&format!("{CSV_HEADER}{row}"))
            .unwrap()
            .remove(0);
        let one = |block| Sample {
            block,
            beside,
            compared_us: Some(u64::from(time(block))),
            ..sample.clone()
        };
        (0..12).map(one).collect()
    }

    #[test]
    fn the_check_holds_each_transfer_against_the_same_one_alone() {
        let alone = rows(0, |block| 1_000_000 + block * 10_000);
        let beside = rows(1, |block| 1_010_000 + block * 10_100);
        let check = check(&beside, &alone).unwrap();
        assert_eq!(check.pairs, 12);
        assert!((check.difference_percent - 1.0).abs() < 1e-6);
        let (low, high) = (check.low_percent.unwrap(), check.high_percent.unwrap());
        assert!(low <= check.difference_percent && check.difference_percent <= high);
    }

    #[test]
    fn what_was_made_without_others_beside_it_says_nothing() {
        let time = |block: u32| 1_000_000 + block;
        assert_eq!(check(&rows(0, time), &rows(0, time)), None);
        let few = check(&rows(1, time), &rows(0, time)[..3]).unwrap();
        assert_eq!((few.pairs, few.low_percent), (3, None));
    }
}
