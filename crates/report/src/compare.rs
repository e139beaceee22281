//! Two environments held against each other: who is faster where in each, how the lead of one protocol
//! over the other changes between them, and what explains the change.
//!
//! The two may be two runs, or two values of an axis of one run. What is compared pair by pair within
//! an environment stays so; between environments, whose blocks have nothing in common, samples that are
//! not paired are compared ([`shift`](altway_stats::shift())).

mod axis;
mod figures;
mod findings;
mod grown;
mod numbers;
mod parts;
mod reference;
mod sides;
mod text;

use crate::analysis::Analysis;
use crate::{Error, Run};
use altway_record::Protocol;
use serde::Serialize;

pub use axis::Axis;
pub use figures::{FiguresCell, FiguresContrast, FiguresSeries, compare_figures};
pub use grown::TimeGrowth;
pub use reference::{ReferenceCell, ReferenceContrast, ReferenceSeries, compare_with_reference};
use sides::Side;

/// A run and what to call it.
#[derive(Debug, Clone, Copy)]
pub struct NamedRun<'a> {
    /// Name by which its user knows it: its folder.
    pub name: &'a str,
    /// Records of the run.
    pub run: Run<'a>,
}

/// The comparison of one environment (A) with another (B). Differences and changes are of B against
/// A.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contrast {
    /// Name of A: a run, or a value of an axis.
    pub a: String,
    /// Name of B.
    pub b: String,
    /// Further differences between the two runs: version, machine, backend; empty for two parts of one
    /// run.
    pub also_different: Vec<String>,
    /// Series that both have, by everything but the delay, each protocol against the first.
    pub series: Vec<SeriesContrast>,
    /// Conditions that were measured in A alone.
    pub only_in_a: Vec<String>,
    /// Conditions that were measured in B alone.
    pub only_in_b: Vec<String>,
    /// Conclusions, in sentences.
    pub findings: Vec<String>,
}

/// A protocol against the plan's first one over the delay, in both environments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeriesContrast {
    /// Conditions that both have in common, in words.
    pub condition: String,
    /// The plan's first protocol.
    pub first: Protocol,
    /// The one that is held against it.
    pub second: Protocol,
    /// The delays that both have, rising.
    pub cells: Vec<CellContrast>,
    /// Growth of the times with the delay; `None` with fewer than two delays.
    pub growth_a: Option<Growth>,
    /// The same in B.
    pub growth_b: Option<Growth>,
    /// Growth of the times in per cent over the delays that both have; `None` with fewer than two.
    pub grown: Option<TimeGrowth>,
    /// Delay from which on the second is faster in A.
    pub crossover_a: Crossing,
    /// The same in B.
    pub crossover_b: Crossing,
    /// Shift of the crossover from A to B, in ms; `None` when one of them has none.
    pub crossover_shift_ms: Option<Estimate>,
    /// Circumstances of the transfers on average, over the delays that both have; only those that both
    /// environments record.
    pub circumstances: Vec<Circumstance>,
}

/// A value with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end; `None` with too few values, or where it lies below the measured range.
    pub low: Option<f64>,
    /// Upper end; `None` with too few values, or where it lies above the measured range.
    pub high: Option<f64>,
}

/// The comparison at one delay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellContrast {
    /// Delay of each direction.
    pub delay_us: u64,
    /// The faster protocol in A.
    pub a: CellSide,
    /// The faster protocol in B.
    pub b: CellSide,
    /// Change of T second / T first from A to B, in per cent: below 0, the second does
    /// better in B than in A.
    pub change_percent: Estimate,
    /// p of the rank-sum test of that change, after Benjamini–Hochberg over the series.
    pub p_adjusted: f64,
    /// Parts of the change, in ms: set-up, first byte, transfer, and the whole.
    pub parts: Vec<PartContrast>,
}

/// The measurements at one delay in one environment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellSide {
    /// Pairs of the comparison.
    pub pairs: usize,
    /// Mean time of the first protocol.
    pub first_mean_us: f64,
    /// Median time of the first protocol.
    pub first_median_us: f64,
    /// Mean time of the second protocol.
    pub second_mean_us: f64,
    /// Median time of the second protocol.
    pub second_median_us: f64,
    /// Difference of the second from the first, in per cent; below 0 it is faster.
    pub difference_percent: Estimate,
    /// `h2`, `h3`, `tie` or `unclear`.
    pub winner: String,
}

/// A part of the time: how it changes from A to B.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PartContrast {
    /// `set-up`, `first byte`, `transfer`, or `whole`.
    pub part: &'static str,
    /// Time by which the first protocol takes longer in B: what B's environment adds to it.
    pub first_ms: Estimate,
    /// Time by which the second takes longer in B.
    pub second_ms: Estimate,
    /// Time by which the second grows more than the first: below 0 it gains by B.
    pub lead_ms: Estimate,
    /// The part's share of the whole change of the lead, in per cent; the three add up to 100. `None`
    /// where the interval of the whole holds 0.
    pub share_percent: Option<f64>,
}

/// Cost of a millisecond of one-way delay, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Growth {
    /// The first protocol.
    pub first: Estimate,
    /// The second.
    pub second: Estimate,
    /// The second less the first.
    pub difference: Estimate,
}

/// The delay of each direction from which on the second protocol is faster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Crossing {
    /// The delay in ms, with straight lines between the measured ones; its interval ends at measured
    /// delays, whatever lies between them. `None` when there is no such place.
    pub at_ms: Option<Estimate>,
    /// Delay from which on it is faster by more than 3 %, in the same way.
    pub lead_ms: Option<Estimate>,
    /// Verdict on who is faster where, in a sentence.
    pub finding: String,
}

/// A circumstance of transfers, on average; `None` where it is not recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Circumstance {
    /// Name of the circumstance, with its unit.
    pub name: &'static str,
    /// The first protocol in A.
    pub first_a: Option<f64>,
    /// The first protocol in B.
    pub first_b: Option<f64>,
    /// The second protocol in A.
    pub second_a: Option<f64>,
    /// The second protocol in B.
    pub second_b: Option<f64>,
}

impl Circumstance {
    /// Returns whether there is something to hold against each other.
    fn is_of_both(&self) -> bool {
        let first = self.first_a.is_some() && self.first_b.is_some();
        first || (self.second_a.is_some() && self.second_b.is_some())
    }
}

impl Contrast {
    /// The tables and findings for a terminal of 100 columns, with a line end.
    #[must_use]
    pub fn table(&self) -> String {
        text::of(self)
    }
}

/// Holds `b` against `a`, cell by cell: cells of the same conditions, or those that differ in no more
/// than what stands around the link (topology, server, client, congestion control, connection, queue)
/// where each run has one value of it.
///
/// # Errors
/// The runs have no cell in common, or their times are of different kinds.
pub fn compare(a: &NamedRun<'_>, b: &NamedRun<'_>) -> Result<Contrast, Error> {
    sides::check_alike(&a.run, &b.run)?;
    let (of_a, of_b) = (Analysis::new(&a.run)?, Analysis::new(&b.run)?);
    let ignored = sides::apart(&of_a, &of_b);
    let side = |analysis| Side::whole(analysis);
    let mut contrast = numbers::contrast(&side(&of_a), &side(&of_b), &ignored)?;
    let name = |run: &NamedRun<'_>, analysis: &Analysis<'_>| match sides::values(analysis, &ignored)
    {
        none if none.is_empty() => run.name.to_owned(),
        values => format!("{values} ({})", run.name),
    };
    (contrast.a, contrast.b) = (name(a, &of_a), name(b, &of_b));
    contrast.also_different = sides::also_different(a.run.manifest, b.run.manifest);
    contrast.findings = findings::of(&contrast);
    Ok(contrast)
}

/// Holds the parts of one run against each other that differ in `axis` alone: each of its values
/// against the first.
///
/// # Errors
/// The run has one value there, or nothing in common between two of them.
pub fn compare_by(run: &Run<'_>, axis: Axis) -> Result<Vec<Contrast>, Error> {
    let analysis = Analysis::new(run)?;
    let parts = Side::by(&analysis, axis);
    let [first, others @ ..] = parts.as_slice() else {
        return Err(Error::NothingMeasured);
    };
    if others.is_empty() {
        return Err(Error::OneValue {
            axis: axis.name(),
            value: first.0.clone(),
        });
    }
    let against_first = |(value, side): &(String, Side<'_, '_>)| {
        let mut contrast = numbers::contrast(&first.1, side, &[axis])?;
        (contrast.a, contrast.b) = (first.0.clone(), value.clone());
        contrast.findings = findings::of(&contrast);
        Ok(contrast)
    };
    others.iter().map(against_first).collect()
}
