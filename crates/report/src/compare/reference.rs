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
use altway_record::{Cell, Protocol, ReferenceRow, STATED_CONDITIONS, StatedConditions};
use altway_stats::{CompareOptions, PlainCrossing, bootstrap, plain_crossings, theil_sen};
use altway_units::DataSize;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

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

/// Lays a run beside reference figures, where topology, rate, loss, size and delay are the same, and all else that the
/// figures state, unless the run and they have one value of it each.
///
/// # Errors
/// They have no cell with two protocols in common.
pub fn compare_with_reference(
    run: &Run<'_>,
    rows: &[ReferenceRow],
) -> Result<ReferenceContrast, Error> {
    let analysis = Analysis::new(run)?;
    let reference = Reference::new(rows);
    let here: Vec<Condition> = analysis
        .cells
        .iter()
        .map(|cell| condition(&cell.cell))
        .collect();
    let over = Over {
        // Where a link stands is what such figures are of.
        topology: false,
        ..Over::of(&here.iter().collect::<Vec<_>>(), &reference.conditions())
    };
    let mut series = Vec::new();
    for one in &analysis.series {
        let seconds = analysis.others.iter();
        series.extend(
            seconds.filter_map(|second| of_series(&analysis, one, *second, (&reference, &over))),
        );
    }
    if series.is_empty() {
        return Err(Error::NoCommonCell {
            differ: "topology, rate, loss, size, delay or another condition that it states are others in the reference"
                .into(),
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
        only_in_reference: reference.not_in(&analysis, &over),
        series,
        findings,
    })
}

/// Condition of figures, whoever measured them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Condition {
    pub(super) topology: String,
    /// Rate in bit/s, loss in parts per billion, size in bytes.
    pub(super) link: (Option<u64>, u32, u64),
    /// Conditions beside, where the figures state them.
    pub(super) stated: StatedConditions,
}

impl Condition {
    /// Returns whether both are the same as far as both state it, but for what two tables are compared `over`.
    pub(super) fn is_as(&self, other: &Self, over: &Over) -> bool {
        let stated = self.stated.iter().zip(&other.stated).zip(over.stated);
        let mut alike = stated.map(|((one, other), is_over)| {
            is_over || one.is_none() || other.is_none() || one == other
        });
        let topology = over.topology || self.topology == other.topology;
        topology && self.link == other.link && alike.all(|alike| alike)
    }
}

/// Conditions of which each of two tables has one value: the tables are compared over these, whether they differ or not.
pub(super) struct Over {
    pub(super) topology: bool,
    stated: [bool; STATED_CONDITIONS],
}

impl Over {
    pub(super) fn of(a: &[&Condition], b: &[&Condition]) -> Self {
        let one_each = |of: &dyn Fn(&Condition) -> Option<String>| {
            let count = |table: &[&Condition]| {
                let values: BTreeSet<_> = table.iter().map(|condition| of(condition)).collect();
                values.len()
            };
            count(a) <= 1 && count(b) <= 1
        };
        Self {
            topology: one_each(&|condition| Some(condition.topology.clone())),
            stated: std::array::from_fn(|at| one_each(&|condition| condition.stated[at].clone())),
        }
    }
}

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
            let condition = Condition {
                topology: row.topology.to_string(),
                link: (row.rate_bps, row.loss_ppb, row.size_bytes),
                stated: row.stated(),
            };
            let delays = means.entry(condition).or_default();
            let of_delay = delays.entry(row.delay_us).or_default();
            of_delay.extend(row.mean_us.map(|mean| (row.protocol, mean)));
        }
        Self { means }
    }

    pub(super) fn conditions(&self) -> Vec<&Condition> {
        self.means.keys().collect()
    }

    /// Delays in µs with the means of both protocols, under the conditions of a cell.
    fn of(&self, cell: &Cell, over: &Over, first: Protocol, second: Protocol) -> Means {
        let here = condition(cell);
        let there = self.means.iter().find(|(there, _)| here.is_as(there, over));
        let delays = there.into_iter().flat_map(|(_, delays)| delays);
        let both = |(delay, means): (&u64, &BTreeMap<Protocol, f64>)| {
            Some((*delay, (*means.get(&first)?, *means.get(&second)?)))
        };
        delays.filter_map(both).collect()
    }

    /// Conditions and delays that no cell of the run has, in words.
    fn not_in(&self, analysis: &Analysis<'_>, over: &Over) -> Vec<String> {
        let has = |condition_there: &Condition, delay: u64| {
            analysis.cells.iter().any(|cell| {
                !cell.pairings.is_empty()
                    && condition(&cell.cell).is_as(condition_there, over)
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
    let rate = cell.rate.limit().map(altway_units::Bandwidth::as_bps);
    Condition {
        topology: cell.topology.to_string(),
        link: (rate, cell.loss.as_parts_per_billion(), cell.size.as_bytes()),
        stated: cell.stated(),
    }
}

fn in_words(condition: &Condition, delay: u64) -> String {
    format!(
        "{} at {} ms",
        condition_words(condition),
        delay as f64 / 1e3
    )
}

/// `direct · 5 Mbit/s · 0 % loss · 1 MB · client altway · server nginx`: of what is stated beside the link, client and
/// server, and all that is not as by default.
pub(super) fn condition_words(condition: &Condition) -> String {
    let (rate, loss, size) = condition.link;
    let rate = rate.map_or_else(
        || "no rate limit".to_owned(),
        |rate| format!("{} Mbit/s", rate as f64 / 1e6),
    );
    let (size, loss) = (
        words::size(DataSize::from_bytes(size)),
        f64::from(loss) / 1e7,
    );
    let link = format!("{} · {rate} · {loss} % loss · {size}", condition.topology);
    let [
        server,
        client,
        congestion,
        window,
        certificate,
        compressed,
        connection,
        more,
        queue,
    ] = &condition.stated;
    let named = [
        (congestion, "", "cubic"),
        (window, "initial window ", "10"),
        (certificate, "", "ecdsa"),
        (compressed, "certificate compression ", "true"),
        (connection, "", "cold"),
        (more, "link ", "plain"),
        (queue, "queue ", "default"),
        (client, "client ", ""),
        (server, "server ", ""),
    ];
    let told = named.into_iter().filter_map(|(value, name, default)| {
        let value = value.as_deref().filter(|value| *value != default)?;
        Some(format!("{name}{value}"))
    });
    std::iter::once(link)
        .chain(told)
        .collect::<Vec<_>>()
        .join(" · ")
}

fn delay_us(cell: &Cell) -> u64 {
    u64::try_from(cell.delay.as_micros()).unwrap_or(u64::MAX)
}

fn of_series(
    analysis: &Analysis<'_>,
    series: &Series,
    second: Protocol,
    (reference, over): (&Reference, &Over),
) -> Option<ReferenceSeries> {
    let first = analysis.baseline;
    let example = &analysis.cells[series.cells[0]].cell;
    let there = reference.of(example, over, first, second);
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
