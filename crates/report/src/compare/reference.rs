//! A run beside the figures of somebody else, of whom the means alone are known; two tables of such
//! figures are held against each other by `figures`.
//!
//! Only the run's own figures carry an interval; what the others' noise was, nobody can say.

use super::grown::{MeansAt, TimeGrowth};
use super::numbers::place;
use super::{Estimate, text};
use crate::analysis::{Analysis, Arm, CellResult, Series};
use crate::judge::LEVEL;
use crate::verdict::Verdict;
use crate::{Error, Run, words};
use altway_record::{Cell, Protocol, ReferenceRow};
use altway_stats::{CompareOptions, PlainCrossing, bootstrap, plain_crossings, theil_sen};
use serde::Serialize;
use std::collections::BTreeMap;

/// A run beside reference figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReferenceContrast {
    /// Series that both have, by everything but the delay, each protocol against the first.
    pub series: Vec<ReferenceSeries>,
    /// Number of conditions of the reference that the run does not have.
    pub only_in_reference: Vec<String>,
    /// Conclusions, in sentences.
    pub findings: Vec<String>,
}

/// A protocol against the plan's first over the delay, here and there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReferenceSeries {
    /// The link, in words.
    pub condition: String,
    /// The plan's first protocol.
    pub first: Protocol,
    /// The one that is held against it.
    pub second: Protocol,
    /// The delays that both have, rising.
    pub cells: Vec<ReferenceCell>,
    /// Delay from which on the second is faster, here.
    pub crossover_ms: Option<Estimate>,
    /// Verdict on who is faster where, here, in a sentence.
    pub finding: String,
    /// Places where straight lines between the reference's means cross, in ms.
    pub reference_crossovers_ms: Vec<f64>,
    /// Cost of a millisecond of one-way delay here, in ms: first and second protocol, by the means of
    /// the delays that both have; `None` with fewer than two.
    pub growth: Option<[f64; 2]>,
    /// The same in the reference.
    pub reference_growth: Option<[f64; 2]>,
    /// Growth of the times in per cent over these delays, A being here and B the reference.
    pub grown: Option<TimeGrowth>,
}

/// The comparison at one delay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReferenceCell {
    /// Delay of each direction.
    pub delay_us: u64,
    /// Mean time of the first protocol here.
    pub first_mean_us: Estimate,
    /// The same in the reference.
    pub first_reference_us: f64,
    /// Mean time of the second protocol here.
    pub second_mean_us: Estimate,
    /// The same in the reference.
    pub second_reference_us: f64,
    /// Difference of the second from the first here, in per cent.
    pub difference_percent: Estimate,
    /// The same in the reference, of the means.
    pub reference_difference_percent: f64,
    /// True if the reference's difference lies in the interval of ours, or within 3 % of it.
    pub agrees: bool,
}

impl ReferenceContrast {
    /// The tables and findings for a terminal of 100 columns, with a line end.
    #[must_use]
    pub fn table(&self) -> String {
        text::of_reference(self)
    }
}

/// Lays a run beside reference figures, where topology, rate, loss, size and delay are the same.
///
/// # Errors
/// They have no cell with two protocols in common.
pub fn compare_with_reference(
    run: &Run<'_>,
    rows: &[ReferenceRow],
) -> Result<ReferenceContrast, Error> {
    let analysis = Analysis::new(run)?;
    let reference = Reference::new(rows);
    let mut series = Vec::new();
    for one in &analysis.series {
        let seconds = analysis.others.iter();
        series.extend(seconds.filter_map(|second| of_series(&analysis, one, *second, &reference)));
    }
    if series.is_empty() {
        return Err(Error::NoCommonCell {
            differ: "topology, rate, loss, size or delay are others in the reference".into(),
        });
    }
    let named = |one: &ReferenceSeries| {
        let about = match series.len() {
            1 => String::new(),
            _ => format!(
                "{} against {} · {}: ",
                one.second.name(),
                one.first.name(),
                one.condition
            ),
        };
        let sentences = findings(one).into_iter();
        sentences
            .map(|sentence| format!("{about}{sentence}"))
            .collect::<Vec<_>>()
    };
    let findings = series.iter().flat_map(named).collect();
    Ok(ReferenceContrast {
        only_in_reference: reference.not_in(&analysis),
        series,
        findings,
    })
}

/// Condition that figures have in common, whoever measured them: topology, rate, loss, size.
pub(super) type Condition = (String, Option<u64>, u32, u64);

/// Means of both protocols by delay, in µs.
pub(super) type Means = BTreeMap<u64, (f64, f64)>;

/// Mean times by condition, delay and protocol.
pub(super) struct Reference {
    pub(super) means: BTreeMap<Condition, BTreeMap<u64, BTreeMap<Protocol, f64>>>,
}

impl Reference {
    pub(super) fn new(rows: &[ReferenceRow]) -> Self {
        let mut means: BTreeMap<_, BTreeMap<_, BTreeMap<_, _>>> = BTreeMap::new();
        for row in rows {
            let condition = (
                row.topology.to_string(),
                row.rate_bps,
                row.loss_ppb,
                row.size_bytes,
            );
            let delays = means.entry(condition).or_default();
            let of_delay = delays.entry(row.delay_us).or_default();
            of_delay.extend(row.mean_us.map(|mean| (row.protocol, mean)));
        }
        Self { means }
    }

    /// Delays in µs with the means of both protocols.
    fn of(&self, cell: &Cell, first: Protocol, second: Protocol) -> Means {
        let delays = self.means.get(&condition(cell)).into_iter().flatten();
        let both = |(delay, means): (&u64, &BTreeMap<Protocol, f64>)| {
            Some((*delay, (*means.get(&first)?, *means.get(&second)?)))
        };
        delays.filter_map(both).collect()
    }

    /// Conditions and delays that no cell of the run has, in words.
    fn not_in(&self, analysis: &Analysis<'_>) -> Vec<String> {
        let has = |condition_there: &Condition, delay: u64| {
            analysis.cells.iter().any(|cell| {
                !cell.pairings.is_empty()
                    && condition(&cell.cell) == *condition_there
                    && delay_us(&cell.cell) == delay
            })
        };
        let missing = self.means.iter().flat_map(|(there, delays)| {
            let absent = delays.keys().filter(|delay| !has(there, **delay));
            absent
                .map(|delay| in_words(there, *delay))
                .collect::<Vec<_>>()
        });
        missing.collect()
    }
}

fn condition(cell: &Cell) -> Condition {
    (
        cell.topology.to_string(),
        cell.rate.limit().map(altway_units::Bandwidth::as_bps),
        cell.loss.as_parts_per_billion(),
        cell.size.as_bytes(),
    )
}

fn in_words(condition: &Condition, delay: u64) -> String {
    format!(
        "{} at {} ms",
        condition_words(condition),
        delay as f64 / 1e3
    )
}

/// `direct · 5 Mbit/s · 0 % loss · 1 MB`.
pub(super) fn condition_words((topology, rate, loss, size): &Condition) -> String {
    let rate = rate.map_or_else(
        || "no rate limit".to_owned(),
        |rate| format!("{} Mbit/s", rate as f64 / 1e6),
    );
    let (size, loss) = (*size as f64 / 1e6, f64::from(*loss) / 1e7);
    format!("{topology} · {rate} · {loss} % loss · {size} MB")
}

fn delay_us(cell: &Cell) -> u64 {
    u64::try_from(cell.delay.as_micros()).unwrap_or(u64::MAX)
}

fn of_series(
    analysis: &Analysis<'_>,
    series: &Series,
    second: Protocol,
    reference: &Reference,
) -> Option<ReferenceSeries> {
    let first = analysis.baseline;
    let example = &analysis.cells[series.cells[0]].cell;
    let there = reference.of(example, first, second);
    let of_cell = |cell: &CellResult<'_>| {
        let means = there.get(&delay_us(&cell.cell))?;
        of_cell(analysis, cell, second, *means)
    };
    let cells: Vec<ReferenceCell> = analysis.cells_of(series).filter_map(of_cell).collect();
    cells.first()?;
    let crossing = series.crossings.get(&second);
    let means = |of: fn(&ReferenceCell) -> [f64; 2]| -> Means {
        cells
            .iter()
            .map(|cell| (cell.delay_us, of(cell).into()))
            .collect()
    };
    Some(ReferenceSeries {
        condition: words::series(example),
        first,
        second,
        crossover_ms: crossing.and_then(place),
        finding: Verdict::new(analysis, series, second).sentence(),
        reference_crossovers_ms: crossovers(&there),
        growth: growth(&means(|cell| {
            [cell.first_mean_us.value, cell.second_mean_us.value]
        })),
        reference_growth: growth(&means(|cell| {
            [cell.first_reference_us, cell.second_reference_us]
        })),
        grown: TimeGrowth::over(cells.iter().map(means_at)),
        cells,
    })
}

fn means_at(cell: &ReferenceCell) -> MeansAt {
    let first = [cell.first_mean_us.value, cell.first_reference_us];
    let second = [cell.second_mean_us.value, cell.second_reference_us];
    (cell.delay_us, [first[0], first[1], second[0], second[1]])
}

fn of_cell(
    analysis: &Analysis<'_>,
    cell: &CellResult<'_>,
    second: Protocol,
    (first_there, second_there): (f64, f64),
) -> Option<ReferenceCell> {
    let comparison = &cell.pairings.get(&second)?.comparison;
    let difference = Estimate::new(comparison.estimate, comparison.interval).as_percent();
    let there = 100.0 * (second_there / first_there - 1.0);
    let band = 100.0 * CompareOptions::default().band;
    let inside = difference.low.is_none_or(|low| low <= there)
        && difference.high.is_none_or(|high| there <= high);
    let mean = |protocol| mean(analysis, &cell.arms[&protocol]);
    Some(ReferenceCell {
        delay_us: delay_us(&cell.cell),
        first_mean_us: mean(analysis.baseline)?,
        first_reference_us: first_there,
        second_mean_us: mean(second)?,
        second_reference_us: second_there,
        difference_percent: difference,
        reference_difference_percent: there,
        agrees: inside || (there - difference.value).abs() <= band,
    })
}

/// The mean of an arm's times, with its interval by resampling.
fn mean(analysis: &Analysis<'_>, arm: &Arm<'_>) -> Option<Estimate> {
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    let options = altway_stats::Bootstrap {
        level: LEVEL,
        ..*analysis.judge.bootstrap()
    };
    let interval = bootstrap(&arm.times, mean, &options);
    Some(Estimate::new(arm.summary?.mean, interval))
}

pub(super) fn crossovers(there: &Means) -> Vec<f64> {
    let means: Vec<_> = there
        .iter()
        .map(|(delay, (first, second))| (*delay as f64 / 1e3, *first, *second))
        .collect();
    let found = plain_crossings(&means).unwrap_or_default();
    found
        .iter()
        .map(|crossing: &PlainCrossing| crossing.x)
        .collect()
}

pub(super) fn growth(there: &Means) -> Option<[f64; 2]> {
    let delays: Vec<f64> = there.keys().map(|delay| *delay as f64 / 1e3).collect();
    let slope = |of: fn(&(f64, f64)) -> f64| {
        let times: Vec<f64> = there.values().map(|means| of(means) / 1e3).collect();
        theil_sen(&delays, &times, LEVEL).map(|line| line.slope)
    };
    Some([slope(|means| means.0)?, slope(|means| means.1)?])
}

fn findings(series: &ReferenceSeries) -> Vec<String> {
    let (first, second) = (series.first.name(), series.second.name());
    let agreeing = series.cells.iter().filter(|cell| cell.agrees).count();
    let all = words::count(series.cells.len(), "delay");
    let mut sentences = vec![format!(
        "The difference agrees at {agreeing} of {all}, within 3 % or its interval."
    )];
    let Some((here, there)) = series.growth.zip(series.reference_growth) else {
        return sentences;
    };
    let places = series.reference_crossovers_ms.iter();
    let places: Vec<String> = places.map(|place| words::milliseconds(*place)).collect();
    let cross = match places.as_slice() {
        [] => "its lines cross nowhere".to_owned(),
        places => format!("its lines cross at {}", words::list(places)),
    };
    sentences.push(format!(
        "Here: {} In the reference {cross}.",
        series.finding
    ));
    sentences.push(format!(
        "A millisecond of one-way delay costs {first} {:.1} ms here and {:.1} ms there, {second} {:.1} ms \
         and {:.1} ms.",
        here[0], there[0], here[1], there[1]
    ));
    let grown = series.grown;
    sentences.extend(grown.map(|grown| grown.sentence([first, second], ["here", "there"])));
    sentences
}
