//! The questions that the lab has for the statistics while a run goes on.
//!
//! The one place that calls them, so that what decides a run can be read in one go.

use altway_record::{Cell, Plan, Protocol, Sample, Stopping};
use altway_stats::{
    AdaptiveOptions, Grid, GridAxis, Next, Scale, Sequential, SequentialOptions, Step, log_ratios,
    next_cells,
};
use std::collections::{BTreeMap, BTreeSet};

/// Times that count, by cell, protocol and block.
#[derive(Debug, Clone, Default)]
pub(crate) struct CellTimes {
    baseline: Option<Protocol>,
    times: BTreeMap<(u32, Protocol), BTreeMap<u32, f64>>,
}

impl CellTimes {
    /// The others are held against `baseline`.
    pub(crate) fn new(baseline: Protocol) -> Self {
        Self {
            baseline: Some(baseline),
            times: BTreeMap::new(),
        }
    }

    /// Takes in a transfer's first row. The null arm decides nothing, and policies that choose neither.
    pub(crate) fn add(&mut self, sample: &Sample) {
        let time = sample.compared_us.filter(|time| *time > 0 && sample.valid);
        let Some(time) = time.filter(|_| !sample.null_arm && !sample.is_chosen()) else {
            return;
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "microseconds of a transfer fit 2^53"
        )]
        let time = time as f64;
        let arm = self.times.entry((sample.cell, sample.protocol));
        arm.or_default().insert(sample.block, time);
    }

    /// Times of the baseline and of `other` in the same blocks, those before `end` alone.
    fn pairs(&self, cell: u32, other: Protocol, end: u32) -> (Vec<f64>, Vec<f64>) {
        let baseline = self.baseline.and_then(|one| self.times.get(&(cell, one)));
        let other = self.times.get(&(cell, other));
        let (Some(baseline), Some(other)) = (baseline, other) else {
            return (Vec::new(), Vec::new());
        };
        let pair = |(block, time): (&u32, &f64)| Some((*baseline.get(block)?, *time));
        other.range(..end).filter_map(pair).unzip()
    }

    /// The protocols that a cell has times of, but for the baseline.
    fn others(&self, cell: u32) -> Vec<Protocol> {
        let of_cell = self.times.keys().filter(|(one, _)| *one == cell);
        let protocols = of_cell.map(|(_, protocol)| *protocol);
        protocols
            .filter(|one| Some(*one) != self.baseline)
            .collect()
    }
}

/// Pairs that an adaptive round makes in each of its cells. The null arm has as many in each cell and no more: they
/// say whether the machine can be believed, and decide nothing.
pub(crate) const PAIRS_AT_ONCE: u32 = 6;

/// An adaptive run has at most this part of the grid's pairs: a tenth.
const GRID_SHARE: u64 = 10;

/// The most pairs of an adaptive run, all cells together.
pub(crate) fn adaptive_budget(plan: &Plan, cells: &[Cell]) -> u64 {
    let grid = cells.len() as u64 * u64::from(plan.pairs);
    grid.div_ceil(GRID_SHARE)
}

/// An adaptive round, over the maps of delay and loss that the other conditions have.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdaptiveRound {
    /// The cells that are measured next; none when the lines of equal times are known, or the budget is spent.
    pub chosen: Vec<Cell>,
    /// All cells of the maps that have one of these.
    pub open: Vec<Cell>,
}

/// Returns the next round.
pub(crate) fn adaptive_round(plan: &Plan, cells: &[Cell], measured: &CellTimes) -> AdaptiveRound {
    let maps = cells
        .iter()
        .fold(Vec::<Vec<Cell>>::new(), |mut maps, cell| {
            match maps.iter_mut().find(|map| map[0].is_of_map_of(cell)) {
                Some(map) => map.push(*cell),
                None => maps.push(vec![*cell]),
            }
            maps
        });
    let mut round = AdaptiveRound::default();
    for mut map in maps {
        let mut chosen = next_of_map(plan, &map, measured);
        if !chosen.is_empty() {
            round.chosen.append(&mut chosen);
            round.open.append(&mut map);
        }
    }
    round
}

fn next_of_map(plan: &Plan, map: &[Cell], measured: &CellTimes) -> Vec<Cell> {
    let place = |cell: &Cell| (cell.loss, cell.delay);
    let delays: BTreeSet<_> = map.iter().map(|cell| cell.delay).collect();
    let losses: BTreeSet<_> = map.iter().map(|cell| cell.loss).collect();
    let x: Vec<f64> = delays.iter().map(|one| one.as_secs_f64() * 1e3).collect();
    let y: Vec<f64> = losses.iter().map(|one| one.as_f64() * 100.0).collect();
    let axes = GridAxis::new(&x, Scale::Linear).zip(GridAxis::new(&y, Scale::Log1p));
    let Some(mut grid) = axes.and_then(|(x, y)| Grid::new(x, y)) else {
        return Vec::new();
    };
    // Row by row, as the grid numbers its cells.
    let mut by_place = map.to_vec();
    by_place.sort_by_key(place);
    for (number, cell) in by_place.iter().enumerate() {
        let (first, second) = measured.pairs(cell.index, plan.protocols[1], u32::MAX);
        let log_ratio = |(first, second): (&f64, &f64)| (second / first).ln();
        let log_ratios: Vec<f64> = first.iter().zip(&second).map(log_ratio).collect();
        grid.add(number, &log_ratios);
    }
    let budget = usize::try_from(adaptive_budget(plan, map)).unwrap_or(usize::MAX);
    let options = AdaptiveOptions {
        pairs_at_once: PAIRS_AT_ONCE as usize,
        max_pairs_per_cell: plan.pairs as usize,
        ..AdaptiveOptions::up_to(budget)
    };
    match next_cells(&grid, &options) {
        Some(Next::Measure(chosen)) => chosen.iter().map(|number| by_place[*number]).collect(),
        _ => Vec::new(),
    }
}

/// Rule for when cells are looked at, and when one is known well enough.
#[derive(Debug, Clone)]
pub(crate) struct InterimLooks(Sequential);

impl InterimLooks {
    /// Looks as the plan says, the last at `pairs`.
    pub(crate) fn new(stopping: &Stopping, pairs: u32) -> Self {
        let options = SequentialOptions {
            min_pairs: stopping.least_pairs as usize,
            looks: stopping.looks as usize,
            half_width: stopping.half_width.as_f64(),
            ..SequentialOptions::up_to(pairs as usize)
        };
        Self(Sequential::new(&options).expect("a plan's rule for stopping is valid"))
    }

    /// Returns whether cells are looked at after so many blocks.
    pub(crate) fn is_due(&self, blocks: u32) -> bool {
        self.0.looks().contains(&(blocks as usize))
    }

    /// Returns whether what the first `blocks` say of a cell is enough, for every protocol. Where a pair
    /// could not be had, the look before counts: nothing is decided between looks.
    pub(crate) fn is_known(&self, measured: &CellTimes, cell: u32, blocks: u32) -> bool {
        let others = measured.others(cell);
        let known = |other: &Protocol| {
            let (first, second) = measured.pairs(cell, *other, blocks);
            let look = self.0.looks().iter().rfind(|look| **look <= first.len());
            let pairs = look.zip(log_ratios(&first, &second));
            let step = pairs.and_then(|(look, ratios)| self.0.step(&ratios[..*look]));
            matches!(step, Some(Step::Stop(_)))
        };
        !others.is_empty() && others.iter().all(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(pairs: u32) -> InterimLooks {
        InterimLooks::new(&Stopping::default(), pairs)
    }

    #[test]
    fn looks_go_from_the_least_pairs_to_the_last() {
        assert!(looks(100).is_due(12) && looks(100).is_due(100));
        assert!(!looks(100).is_due(13));
    }

    fn measured(ratio: impl Fn(u32) -> f64) -> CellTimes {
        let mut measured = CellTimes::new(Protocol::H2);
        for block in 0..24 {
            let arm = |protocol, time| ((0, protocol), BTreeMap::from([(block, time)]));
            for (key, times) in [arm(Protocol::H2, 1.0), arm(Protocol::H3, ratio(block))] {
                measured.times.entry(key).or_default().extend(times);
            }
        }
        measured
    }

    #[test]
    fn a_clear_winner_and_a_tie_are_known_and_noise_is_not() {
        let known = |ratio: fn(u32) -> f64| looks(50).is_known(&measured(ratio), 0, 24);
        assert!(known(|block| 0.8 + f64::from(block) / 1e3));
        assert!(known(|block| 1.0 + f64::from(block) / 1e3 - 0.012));
        assert!(!known(|block| if block % 2 == 0 { 0.5 } else { 2.1 }));
    }

    #[test]
    fn a_cell_is_known_when_every_protocol_is() {
        let mut measured = measured(|_| 0.5);
        let noisy = (0..24).map(|block| (block, if block % 2 == 0 { 0.3 } else { 3.0 }));
        measured.times.insert((0, Protocol::H1), noisy.collect());
        assert!(!looks(50).is_known(&measured, 0, 24));
        assert!(!looks(50).is_known(&CellTimes::new(Protocol::H2), 0, 24));
    }

    #[test]
    fn blocks_after_the_look_are_not_peeked_at() {
        let measured = measured(|block| if block < 12 { 1.0 } else { 0.5 });
        assert_eq!(measured.pairs(0, Protocol::H3, 12).1, vec![1.0; 12]);
    }

    #[test]
    fn an_adaptive_round_goes_where_the_sign_is_least_sure() {
        let text = "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms..100ms by 10ms\"\nsize = \"1MB\"\n\
                    pairs = 60\nsampling = \"adaptive\"";
        let plan: Plan = text.parse().unwrap();
        let cells = plan.cells();
        let mut measured = CellTimes::new(Protocol::H2);
        let mut rounds = 0;
        loop {
            let round = adaptive_round(&plan, &cells, &measured).chosen;
            if round.is_empty() {
                break;
            }
            rounds += 1;
            for cell in round {
                // Equal at 62 ms.
                let middle = 0.004 * (62.0 - cell.delay.as_secs_f64() * 1e3);
                let arm = |protocol| (cell.index, protocol);
                for noise in [-0.01, -0.006, -0.002, 0.002, 0.006, 0.01] {
                    let h2 = measured.times.entry(arm(Protocol::H2)).or_default();
                    let block = u32::try_from(h2.len()).unwrap();
                    h2.insert(block, 1.0);
                    let h3 = measured.times.entry(arm(Protocol::H3)).or_default();
                    h3.insert(block, f64::exp(middle + noise));
                }
            }
        }
        let pairs: usize = measured.times.values().map(BTreeMap::len).sum::<usize>() / 2;
        assert!(
            rounds >= 2 && pairs as u64 <= adaptive_budget(&plan, &cells),
            "{pairs}"
        );
    }
}
