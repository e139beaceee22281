//! From rows to results: samples by cell and protocol, pairs compared, crossovers found. Everything
//! that the tables, pictures and the page say is computed here, once.

use crate::{Error, Run};
use altway_record::{Cell, Protocol, Sample, transfers};
use altway_stats::{
    Bootstrap, CompareOptions, Comparison, Crossover, CrossoverPoint, Summary, benjamini_hochberg,
    compare, crossover, summarize,
};
use std::collections::BTreeMap;

/// A run, computed.
pub(crate) struct Analysis<'a> {
    pub(crate) run: Run<'a>,
    /// The protocol that the others are held against: the plan's first.
    pub(crate) baseline: Protocol,
    /// The plan's other protocols, in its order.
    pub(crate) others: Vec<Protocol>,
    /// One per cell of the plan, in its order.
    pub(crate) cells: Vec<CellResult<'a>>,
    /// The cells grouped by everything but their delay, in the plan's order.
    pub(crate) series: Vec<Series>,
}

/// One cell.
pub(crate) struct CellResult<'a> {
    pub(crate) cell: Cell,
    /// By protocol; every protocol of the plan is there.
    pub(crate) arms: BTreeMap<Protocol, Arm<'a>>,
    /// The other protocols against the baseline; absent without a pair.
    pub(crate) pairings: BTreeMap<Protocol, Pairing>,
    /// The baseline once more; empty when the plan has no null arm.
    pub(crate) null_arm: Arm<'a>,
    /// The baseline against itself; absent without a pair.
    pub(crate) null_pairing: Option<Pairing>,
}

/// One protocol in one cell.
#[derive(Default)]
pub(crate) struct Arm<'a> {
    /// Valid samples, by block.
    pub(crate) valid: Vec<&'a Sample>,
    /// Their times, in µs.
    pub(crate) times: Vec<f64>,
    /// The times described; `None` without any.
    pub(crate) summary: Option<Summary>,
    /// Transfers that did not count.
    pub(crate) invalid: usize,
}

/// One protocol against the baseline in one cell.
pub(crate) struct Pairing {
    pub(crate) comparison: Comparison,
    /// ln(other / baseline), a pair each.
    pub(crate) log_ratios: Vec<f64>,
    /// p after Benjamini–Hochberg over the whole run.
    pub(crate) p_adjusted: f64,
}

/// Cells that differ in their delay alone.
pub(crate) struct Series {
    /// Indices into [`Analysis::cells`], by delay.
    pub(crate) cells: Vec<usize>,
    /// Where each other protocol becomes faster; absent when no cell has a pair.
    pub(crate) crossings: BTreeMap<Protocol, Crossing>,
}

/// What a series says about the place from which one protocol is faster.
pub(crate) enum Crossing {
    /// What the falling fit found.
    Fitted(Crossover),
    /// The fit has a crossing, but on the wrong side of it a cell's whole interval contradicts it:
    /// the protocols take turns, and one crossing would mislead.
    Contradicted,
}

impl<'a> Analysis<'a> {
    pub(crate) fn new(run: &Run<'a>) -> Result<Self, Error> {
        let plan = &run.manifest.plan;
        let options = Bootstrap {
            seed: plan.seed,
            ..Bootstrap::default()
        };
        let baseline = plan.protocols[0];
        let others = plan.protocols[1..].to_vec();
        let mut cells = sort_into_cells(run)?;
        for cell in &mut cells {
            cell.finish(baseline, &others, &options);
        }
        adjust(&mut cells);
        let series = group(&cells, &others, &options);
        Ok(Self {
            run: *run,
            baseline,
            others,
            cells,
            series,
        })
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
        self.arms().map(|arm| arm.valid.len()).sum()
    }

    /// Transfers that did not count.
    pub(crate) fn invalid(&self) -> usize {
        self.arms().map(|arm| arm.invalid).sum()
    }

    /// Those of the null arm included.
    pub(crate) fn arms(&self) -> impl Iterator<Item = &Arm<'a>> {
        self.cells
            .iter()
            .flat_map(|cell| cell.arms.values().chain([&cell.null_arm]))
    }
}

impl Pairing {
    /// Whether the whole interval lies on one side of zero.
    pub(crate) fn excludes_zero(&self) -> bool {
        let interval = self.comparison.interval;
        interval.is_some_and(|interval| interval.low > 0.0 || interval.high < 0.0)
    }
}

impl CellResult<'_> {
    pub(crate) fn delay_ms(&self) -> f64 {
        self.cell.delay.as_secs_f64() * 1e3
    }

    fn finish(&mut self, baseline: Protocol, others: &[Protocol], options: &Bootstrap) {
        for arm in self.arms.values_mut().chain([&mut self.null_arm]) {
            arm.finish();
        }
        self.null_pairing = pair(&self.arms[&baseline], &self.null_arm, options);
        for other in others {
            if let Some(pairing) = pair(&self.arms[&baseline], &self.arms[other], options) {
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
    for sample in transfers(run.samples) {
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

/// The time that is compared, in µs; `None` when the transfer does not count.
fn micros(sample: &Sample) -> Option<f64> {
    let time = sample
        .compared_us
        .filter(|time| sample.valid && *time > 0)?;
    Some(time as f64)
}

/// Compares what both measured in the same blocks.
fn pair(baseline: &Arm<'_>, other: &Arm<'_>, options: &Bootstrap) -> Option<Pairing> {
    let time_of_block: BTreeMap<u32, f64> = baseline
        .valid
        .iter()
        .map(|sample| sample.block)
        .zip(baseline.times.clone())
        .collect();
    let (first, second): (Vec<f64>, Vec<f64>) = other
        .valid
        .iter()
        .zip(&other.times)
        .filter_map(|(sample, time)| Some((*time_of_block.get(&sample.block)?, *time)))
        .unzip();
    let options = CompareOptions {
        bootstrap: *options,
        ..CompareOptions::default()
    };
    let comparison = compare(&first, &second, &options)?;
    let log_ratios = first
        .iter()
        .zip(&second)
        .map(|(a, b)| (b / a).ln())
        .collect();
    Some(Pairing {
        comparison,
        log_ratios,
        p_adjusted: comparison.p,
    })
}

fn adjust(cells: &mut [CellResult<'_>]) {
    let all = || cells.iter().flat_map(|cell| cell.pairings.values());
    let p: Vec<f64> = all().map(|pairing| pairing.comparison.p).collect();
    let pairings = cells.iter_mut().flat_map(|cell| cell.pairings.values_mut());
    for (pairing, adjusted) in pairings.zip(benjamini_hochberg(&p)) {
        pairing.p_adjusted = adjusted;
    }
}

fn group(cells: &[CellResult<'_>], others: &[Protocol], options: &Bootstrap) -> Vec<Series> {
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
        let found =
            |other: &Protocol| Some((*other, crossing(cells, &series.cells, *other, options)?));
        series.crossings = others.iter().filter_map(found).collect();
    }
    all
}

fn crossing(
    cells: &[CellResult<'_>],
    indices: &[usize],
    other: Protocol,
    options: &Bootstrap,
) -> Option<Crossing> {
    let fitted = crossover(&points(cells, indices, other), options)?;
    let Crossover::At { x, .. } = &fitted else {
        return Some(Crossing::Fitted(fitted));
    };
    let contradicts = |index: &usize| {
        let cell = &cells[*index];
        let pairing = cell.pairings.get(&other);
        let interval = pairing.and_then(|pairing| pairing.comparison.interval);
        interval.is_some_and(|interval| {
            let delay = cell.delay_ms();
            (delay < *x && interval.high < 0.0) || (delay > *x && interval.low > 0.0)
        })
    };
    let contradicted = indices.iter().any(contradicts);
    Some(if contradicted {
        Crossing::Contradicted
    } else {
        Crossing::Fitted(fitted)
    })
}

fn points(cells: &[CellResult<'_>], indices: &[usize], other: Protocol) -> Vec<CrossoverPoint> {
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
