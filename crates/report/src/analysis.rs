//! Results out of rows: samples by cell and protocol, pairs compared, crossovers found. Everything
//! that the tables, pictures and the page say is computed here, once.

use crate::judge::{Method, PairComparator};
use crate::selection::Selection;
use crate::{Error, Run};
use altway_record::{Cell, Policy, Protocol, Sample, transfers};
use altway_stats::{
    Bootstrap, CompareOptions, Comparison, Crossover, CrossoverOptions, CrossoverPoint, Summary,
    benjamini_hochberg, crossovers_at, log_ratios, summarize,
};
use std::collections::BTreeMap;

/// A run, computed.
pub(crate) struct Analysis<'a> {
    pub(crate) run: Run<'a>,
    /// Judge of the cells' comparisons.
    pub(crate) judge: PairComparator,
    /// The protocol that the others are held against: the plan's first.
    pub(crate) baseline: Protocol,
    /// The plan's other protocols, in its order.
    pub(crate) others: Vec<Protocol>,
    /// The results of each cell of the plan, in its order.
    pub(crate) cells: Vec<CellResult<'a>>,
    /// The policies beside each other, where the plan has some.
    pub(crate) selection: Option<Selection>,
    /// The cells grouped by everything but their delay, in the plan's order.
    pub(crate) series: Vec<Series>,
}

/// The results of one cell.
pub(crate) struct CellResult<'a> {
    pub(crate) cell: Cell,
    /// Arms by protocol; every protocol of the plan is there.
    pub(crate) arms: BTreeMap<Protocol, Arm<'a>>,
    /// The other protocols against the baseline; absent without a pair.
    pub(crate) pairings: BTreeMap<Protocol, Pairing<'a>>,
    /// The baseline once more; empty when the plan has no null arm.
    pub(crate) null_arm: Arm<'a>,
    /// The baseline against itself; absent with too few pairs for an interval.
    pub(crate) null_pairing: Option<Pairing<'a>>,
}

/// The transfers of one protocol in one cell.
#[derive(Default)]
pub(crate) struct Arm<'a> {
    /// Valid samples, by block.
    pub(crate) valid: Vec<&'a Sample>,
    /// Times of the valid samples, in µs.
    pub(crate) times: Vec<f64>,
    /// The times described; `None` without any.
    pub(crate) summary: Option<Summary>,
    /// Transfers that did not count.
    pub(crate) invalid: usize,
}

/// The comparison of one protocol with the baseline in one cell.
pub(crate) struct Pairing<'a> {
    pub(crate) comparison: Comparison,
    /// Method by which the comparison's interval was made.
    pub(crate) method: Method,
    /// The transfers of each pair: baseline, other.
    pub(crate) pairs: Vec<(&'a Sample, &'a Sample)>,
    /// ln(other / baseline), a pair each.
    pub(crate) log_ratios: Vec<f64>,
    /// p after Benjamini–Hochberg over the whole run.
    pub(crate) p_adjusted: f64,
}

/// Cells that differ in their delay alone.
pub(crate) struct Series {
    /// Indices into [`Analysis::cells`], by delay.
    pub(crate) cells: Vec<usize>,
    /// Crossing from which on each other protocol is faster; absent when no cell has a pair.
    pub(crate) crossings: BTreeMap<Protocol, Crossing>,
}

/// Result of a series on the place from which one protocol is faster.
pub(crate) enum Crossing {
    /// Crossover by the falling fit.
    Fitted {
        /// Place where the difference changes its sign.
        zero: Crossover,
        /// Place from which on the other protocol's lead is more than the margin.
        lead: Crossover,
    },
    /// The fit has a crossing, but on the wrong side of it a cell's whole interval contradicts it:
    /// the protocols take turns, and one crossing would mislead.
    Contradicted,
}

impl<'a> Analysis<'a> {
    pub(crate) fn new(run: &Run<'a>) -> Result<Self, Error> {
        let mut analysis = Self::of_cells(run)?;
        analysis.find_crossings();
        Ok(analysis)
    }

    /// Makes the analysis without the crossings, which cost most of the time.
    pub(crate) fn of_cells(run: &Run<'a>) -> Result<Self, Error> {
        let plan = &run.manifest.plan;
        let judge = PairComparator::new(plan);
        let baseline = plan.protocols[0];
        let others = plan.protocols[1..].to_vec();
        let mut cells = sort_into_cells(run)?;
        for cell in &mut cells {
            cell.finish(baseline, &others, &judge);
        }
        adjust(&mut cells);
        let series = group(&cells);
        let mut analysis = Self {
            run: *run,
            judge,
            baseline,
            others,
            cells,
            selection: None,
            series,
        };
        analysis.selection = Selection::of(&analysis);
        Ok(analysis)
    }

    fn find_crossings(&mut self) {
        let (cells, options) = (&self.cells, self.judge.bootstrap());
        for series in &mut self.series {
            let found =
                |other: &Protocol| Some((*other, crossing(cells, &series.cells, *other, options)?));
            series.crossings = self.others.iter().filter_map(found).collect();
        }
    }

    /// All protocols, the baseline first.
    pub(crate) fn protocols(&self) -> impl Iterator<Item = Protocol> {
        std::iter::once(self.baseline).chain(self.others.iter().copied())
    }

    /// The cells of a series, by delay.
    pub(crate) fn cells_of(&self, series: &Series) -> impl Iterator<Item = &CellResult<'a>> {
        series.cells.iter().map(|index| &self.cells[*index])
    }

    /// Transfers that count.
    pub(crate) fn valid(&self) -> usize {
        transfers(self.run.samples).filter(counts).count()
    }

    /// Transfers that did not count.
    pub(crate) fn invalid(&self) -> usize {
        transfers(self.run.samples).count() - self.valid()
    }

    /// Transfers that ran into the time-out, by the protocol that was asked for, or by the policy by which the server chose.
    pub(crate) fn timed_out(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for sample in transfers(self.run.samples).filter(|sample| sample.timed_out()) {
            let policy = sample.policy.filter(|_| sample.is_chosen());
            let name = policy.map_or(sample.protocol.name(), Policy::name);
            *counts.entry(name).or_default() += 1;
        }
        counts
    }
}

/// Judges log-ratios.
type Compare<'f> = dyn Fn(&[f64]) -> Option<(Comparison, Method)> + 'f;

impl<'a> Pairing<'a> {
    fn new(pairs: Vec<(&'a Sample, &'a Sample)>, compare: &Compare<'_>) -> Option<Self> {
        let (first, second): (Vec<f64>, Vec<f64>) = pairs
            .iter()
            .filter_map(|(first, second)| Some((micros(first)?, micros(second)?)))
            .unzip();
        let log_ratios = log_ratios(&first, &second)?;
        let (comparison, method) = compare(&log_ratios)?;
        Some(Self {
            comparison,
            method,
            pairs,
            log_ratios,
            p_adjusted: comparison.p,
        })
    }

    /// Returns whether the whole interval lies on one side of zero.
    pub(crate) fn excludes_zero(&self) -> bool {
        let interval = self.comparison.interval;
        interval.is_some_and(|interval| interval.low > 0.0 || interval.high < 0.0)
    }
}

impl<'a> CellResult<'a> {
    pub(crate) fn delay_ms(&self) -> f64 {
        self.cell.delay.as_secs_f64() * 1e3
    }

    fn finish(&mut self, baseline: Protocol, others: &[Protocol], judge: &PairComparator) {
        for arm in self.arms.values_mut().chain([&mut self.null_arm]) {
            arm.finish();
        }
        let against = |arm: &Arm<'a>, compare: &Compare<'_>| {
            Pairing::new(pairs(&self.arms[&baseline], arm), compare)
        };
        self.null_pairing = against(&self.null_arm, &|ratios| judge.compare_null(ratios));
        for other in others {
            if let Some(pairing) = against(&self.arms[other], &|ratios| judge.compare(ratios)) {
                self.pairings.insert(*other, pairing);
            }
        }
    }
}

impl Arm<'_> {
    fn finish(&mut self) {
        self.valid
            .sort_by_key(|sample| (sample.block, sample.ordinal));
        self.valid.dedup_by_key(|sample| sample.block);
        self.times = self
            .valid
            .iter()
            .filter_map(|sample| micros(sample))
            .collect();
        self.summary = summarize(&self.times);
    }
}

fn sort_into_cells<'a>(run: &Run<'a>) -> Result<Vec<CellResult<'a>>, Error> {
    let plan = &run.manifest.plan;
    let empty = |cell| CellResult {
        cell,
        arms: plan
            .protocols
            .iter()
            .map(|protocol| (*protocol, Arm::default()))
            .collect(),
        pairings: BTreeMap::new(),
        null_arm: Arm::default(),
        null_pairing: None,
    };
    let mut cells: Vec<_> = plan.cells().into_iter().map(empty).collect();
    let count = cells.len();
    // Those whose server chooses the protocol are compared by `selection`.
    for sample in transfers(run.samples).filter(|sample| !sample.is_chosen()) {
        let (ordinal, protocol) = (sample.ordinal, sample.protocol);
        let cell = cells
            .get_mut(sample.cell as usize)
            .ok_or(Error::UnknownCell {
                ordinal,
                cell: sample.cell,
                cells: count,
            })?;
        let arm = cell
            .arms
            .get_mut(&protocol)
            .ok_or(Error::UnknownProtocol { ordinal, protocol })?;
        let arm = if sample.null_arm {
            &mut cell.null_arm
        } else {
            arm
        };
        if micros(sample).is_some() {
            arm.valid.push(sample);
        } else {
            arm.invalid += 1;
        }
    }
    Ok(cells)
}

fn counts(sample: &&Sample) -> bool {
    micros(sample).is_some()
}

/// The time that is compared, in µs; `None` when the transfer does not count.
pub(crate) fn micros(sample: &Sample) -> Option<f64> {
    let time = sample
        .compared_us
        .filter(|time| sample.valid && *time > 0)?;
    Some(time as f64)
}

/// Pairs the transfers of both that were measured in the same blocks.
fn pairs<'a>(baseline: &Arm<'a>, other: &Arm<'a>) -> Vec<(&'a Sample, &'a Sample)> {
    let of_block: BTreeMap<u32, &Sample> = baseline
        .valid
        .iter()
        .map(|sample| (sample.block, *sample))
        .collect();
    let pair = |sample: &&'a Sample| Some((*of_block.get(&sample.block)?, *sample));
    other.valid.iter().filter_map(pair).collect()
}

fn adjust(cells: &mut [CellResult<'_>]) {
    let all = || cells.iter().flat_map(|cell| cell.pairings.values());
    let p: Vec<f64> = all().map(|pairing| pairing.comparison.p).collect();
    let pairings = cells.iter_mut().flat_map(|cell| cell.pairings.values_mut());
    for (pairing, adjusted) in pairings.zip(benjamini_hochberg(&p)) {
        pairing.p_adjusted = adjusted;
    }
}

fn group(cells: &[CellResult<'_>]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for (index, result) in cells.iter().enumerate() {
        match all
            .iter_mut()
            .find(|series| cells[series.cells[0]].cell.is_of_series_of(&result.cell))
        {
            Some(series) => series.cells.push(index),
            None => all.push(Series {
                cells: vec![index],
                crossings: BTreeMap::new(),
            }),
        }
    }
    for series in &mut all {
        series.cells.sort_by_key(|index| cells[*index].cell.delay);
    }
    all
}

fn crossing(
    cells: &[CellResult<'_>],
    indices: &[usize],
    other: Protocol,
    options: &Bootstrap,
) -> Option<Crossing> {
    let options = CrossoverOptions {
        bootstrap: *options,
        ..CrossoverOptions::default()
    };
    let levels = [0.0, -CompareOptions::default().band];
    let found = crossovers_at(&points(cells, indices, other), &options, &levels)?;
    let [zero, lead] = found.try_into().ok()?;
    let Crossover::At { x, .. } = zero else {
        return Some(Crossing::Fitted { zero, lead });
    };
    let contradicts = |index: &usize| {
        let cell = &cells[*index];
        let pairing = cell.pairings.get(&other);
        let interval = pairing.and_then(|pairing| pairing.comparison.interval);
        interval.is_some_and(|interval| {
            let delay = cell.delay_ms();
            (delay < x && interval.high < 0.0) || (delay > x && interval.low > 0.0)
        })
    };
    let contradicted = indices.iter().any(contradicts);
    Some(if contradicted {
        Crossing::Contradicted
    } else {
        Crossing::Fitted { zero, lead }
    })
}

/// Returns the points of a series in which a crossover is sought.
pub(crate) fn points(
    cells: &[CellResult<'_>],
    indices: &[usize],
    other: Protocol,
) -> Vec<CrossoverPoint> {
    let point = |index: &usize| {
        let cell = &cells[*index];
        let log_ratios = cell.pairings.get(&other)?.log_ratios.clone();
        Some(CrossoverPoint {
            x: cell.delay_ms(),
            log_ratios,
        })
    };
    indices.iter().filter_map(point).collect()
}
