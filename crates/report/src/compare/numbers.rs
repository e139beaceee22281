//! The figures of a comparison; every one with the error that it carries.

use super::axis::Axis;
use super::grown::{MeansAt, TimeGrowth};
use super::parts::{CIRCUMSTANCES, PARTS, Parts, mean, rows_by_transfer};
use super::sides::{Side, common_words, nothing_in_common};
use super::{
    CellContrast, CellSide, Circumstance, Contrast, Crossing, Estimate, Growth, PartContrast,
    SeriesContrast,
};
use crate::Error;
use crate::analysis::{self, CellResult, Pairing, Series, micros, points};
use crate::judge::LEVEL;
use crate::verdict::Verdict;
use crate::words;
use altway_record::{Protocol, Sample, Scenario};
use altway_stats::{
    Bootstrap, Crossover, CrossoverOptions, GrowthPoint, Interval, Winner, benjamini_hochberg,
    crossover_difference, shift,
};
use std::collections::{BTreeMap, BTreeSet};

/// Enough for intervals of slopes and places, of which there are several in a comparison.
const RESAMPLES: usize = 2_000;

type Rows<'a> = BTreeMap<u64, Vec<&'a Sample>>;

/// A cell, and what it says of the protocol that is held against the first.
type MeasuredCell<'s> = (&'s CellResult<'s>, &'s Pairing<'s>);

/// Computes the comparison, all but its names and findings.
pub(super) fn contrast(
    a: &Side<'_, '_>,
    b: &Side<'_, '_>,
    ignored: &[Axis],
) -> Result<Contrast, Error> {
    let rows = [a, b].map(|side| rows_by_transfer(side.analysis.run.samples));
    let (mut series, mut only_in_a, mut only_in_b) = (Vec::new(), Vec::new(), Vec::new());
    for of_a in &a.series {
        let cell = a.cell_of(of_a);
        let Some(of_b) = b.like(cell, ignored) else {
            only_in_a.push(words::series(cell));
            continue;
        };
        let sides = [
            SeriesSide::new(a, of_a, &rows[0]),
            SeriesSide::new(b, of_b, &rows[1]),
        ];
        only_in_a.extend(sides[0].delays_missing_in(&sides[1]));
        only_in_b.extend(sides[1].delays_missing_in(&sides[0]));
        let seconds = a.analysis.others.iter();
        let both = seconds.filter(|second| b.analysis.others.contains(second));
        series.extend(both.filter_map(|second| of_series(&sides, *second)));
    }
    let unknown = b.series.iter().map(|of_b| b.cell_of(of_b));
    let unknown = unknown.filter(|cell| a.like(cell, ignored).is_none());
    only_in_b.extend(unknown.map(words::series));
    if series.is_empty() {
        return Err(nothing_in_common(a, b));
    }
    Ok(Contrast {
        a: String::new(),
        b: String::new(),
        also_different: Vec::new(),
        series,
        only_in_a,
        only_in_b,
        findings: Vec::new(),
    })
}

/// A series in one of the environments.
struct SeriesSide<'s, 'a> {
    analysis: &'s analysis::Analysis<'a>,
    series: &'s Series,
    rows: &'s Rows<'s>,
}

impl<'s, 'a> SeriesSide<'s, 'a> {
    fn new(side: &Side<'s, 'a>, series: &'s Series, rows: &'s Rows<'s>) -> Self {
        Self {
            analysis: side.analysis,
            series,
            rows,
        }
    }

    /// The cells in which `second` has pairs, by delay.
    fn cells(
        &self,
        second: Protocol,
    ) -> impl Iterator<Item = (&'s CellResult<'a>, &'s Pairing<'a>)> {
        let cells = self.analysis.cells_of(self.series);
        cells.filter_map(move |cell| Some((cell, cell.pairings.get(&second)?)))
    }

    fn delays(&self) -> BTreeSet<std::time::Duration> {
        let measured = self
            .analysis
            .cells_of(self.series)
            .filter(|cell| !cell.pairings.is_empty());
        measured.map(|cell| cell.cell.delay).collect()
    }

    /// Conditions with delays that were measured here alone.
    fn delays_missing_in(&self, other: &Self) -> Option<String> {
        let delays = self.delays();
        let missing: Vec<String> = delays
            .difference(&other.delays())
            .map(|delay| words::delay(*delay))
            .collect();
        let condition = words::series(&self.analysis.cells[self.series.cells[0]].cell);
        (!missing.is_empty()).then(|| format!("{condition} at {}", words::list(&missing)))
    }

    fn growth(&self, second: Protocol) -> Option<Growth> {
        let times = |of: fn(&(&Sample, &Sample)) -> Option<f64>, pairing: &Pairing<'_>| {
            pairing
                .pairs
                .iter()
                .filter_map(|pair| Some(of(pair)? / 1e3))
                .collect()
        };
        let point = |(cell, pairing): (&CellResult<'_>, &Pairing<'_>)| GrowthPoint {
            x: cell.delay_ms(),
            first: times(|pair| micros(pair.0), pairing),
            second: times(|pair| micros(pair.1), pairing),
        };
        let points: Vec<GrowthPoint> = self.cells(second).map(point).collect();
        let found = altway_stats::growth(&points, &resampled(self.analysis))?;
        Some(Growth {
            first: Estimate::new(found.first.slope, Some(found.first.interval)),
            second: Estimate::new(found.second.slope, Some(found.second.interval)),
            difference: Estimate::new(found.difference, Some(found.difference_interval)),
        })
    }

    fn crossing(&self, second: Protocol) -> Crossing {
        let crossing = self.series.crossings.get(&second);
        Crossing {
            at_ms: crossing.and_then(place),
            lead_ms: crossing.and_then(lead),
            finding: Verdict::new(self.analysis, self.series, second).sentence(),
        }
    }
}

/// Place where a series crosses, in ms, if it does.
pub(super) fn place(crossing: &analysis::Crossing) -> Option<Estimate> {
    match crossing {
        analysis::Crossing::Fitted { zero, .. } => estimate_of(zero),
        analysis::Crossing::Contradicted => None,
    }
}

/// Returns the delay from which on a series' second protocol leads by more than the margin, in ms, if it does.
fn lead(crossing: &analysis::Crossing) -> Option<Estimate> {
    match crossing {
        analysis::Crossing::Fitted { lead, .. } => estimate_of(lead),
        analysis::Crossing::Contradicted => None,
    }
}

fn estimate_of(found: &Crossover) -> Option<Estimate> {
    match found {
        Crossover::At { x, interval, .. } => Some(Estimate::new(*x, Some(*interval))),
        Crossover::None { .. } => None,
    }
}

impl Estimate {
    pub(super) fn new(value: f64, interval: Option<Interval>) -> Self {
        let end =
            |of: fn(&Interval) -> f64| interval.as_ref().map(of).filter(|end| end.is_finite());
        Self {
            value,
            low: end(|interval| interval.low),
            high: end(|interval| interval.high),
        }
    }

    /// Estimates how far `to` lies above `from`, samples that are not paired.
    fn of_shift(from: &[f64], to: &[f64]) -> Option<Self> {
        let found = shift(from, to, LEVEL)?;
        Some(Self::new(found.estimate, found.interval))
    }

    /// Log-ratios in per cent.
    pub(super) fn as_percent(self) -> Self {
        let percent = |log_ratio: f64| 100.0 * log_ratio.exp_m1();
        Self {
            value: percent(self.value),
            low: self.low.map(percent),
            high: self.high.map(percent),
        }
    }

    /// Returns whether the whole interval lies on one side of 0.
    pub(super) fn excludes_zero(&self) -> bool {
        self.low.is_some_and(|low| low > 0.0) || self.high.is_some_and(|high| high < 0.0)
    }
}

fn of_series(sides: &[SeriesSide<'_, '_>; 2], second: Protocol) -> Option<SeriesContrast> {
    let [a, b] = sides;
    let of_b: Vec<_> = b.cells(second).collect();
    let of_a = a.cells(second).filter_map(|one| {
        let same = of_b
            .iter()
            .find(|(cell, _)| cell.cell.delay == one.0.cell.delay)?;
        Some((one, *same))
    });
    let common: Vec<_> = of_a.collect();
    let (example_a, example_b) = common.first()?;
    let cells = common
        .iter()
        .filter_map(|(of_a, of_b)| of_cell(sides, second, *of_a, *of_b));
    let mut cells: Vec<CellContrast> = cells.collect();
    let p: Vec<f64> = cells.iter().map(|cell| cell.p_adjusted).collect();
    for (cell, adjusted) in cells.iter_mut().zip(benjamini_hochberg(&p)) {
        cell.p_adjusted = adjusted;
    }
    let (crossover_a, crossover_b) = (a.crossing(second), b.crossing(second));
    let both_cross = crossover_a.at_ms.is_some() && crossover_b.at_ms.is_some();
    let pairings = |which: usize| -> Vec<&Pairing<'_>> {
        let of = |(a, b): &((_, _), (_, _))| -> &Pairing<'_> { if which == 0 { a.1 } else { b.1 } };
        common.iter().map(of).collect()
    };
    Some(SeriesContrast {
        condition: common_words(&example_a.0.cell, &example_b.0.cell),
        first: a.analysis.baseline,
        second,
        grown: TimeGrowth::over(cells.iter().map(means)),
        cells,
        growth_a: a.growth(second),
        growth_b: b.growth(second),
        crossover_a,
        crossover_b,
        crossover_shift_ms: both_cross.then(|| crossover_shift(a, b, second)).flatten(),
        circumstances: circumstances(&pairings(0), &pairings(1)),
    })
}

fn means(cell: &CellContrast) -> MeansAt {
    let (a, b) = (&cell.a, &cell.b);
    let first = [a.first_mean_us, b.first_mean_us];
    let second = [a.second_mean_us, b.second_mean_us];
    (cell.delay_us, [first[0], first[1], second[0], second[1]])
}

/// Returns the resampling for the figures that only a comparison has.
fn resampled(analysis: &analysis::Analysis<'_>) -> Bootstrap {
    Bootstrap {
        resamples: RESAMPLES,
        ..*analysis.judge.bootstrap()
    }
}

fn crossover_shift(
    a: &SeriesSide<'_, '_>,
    b: &SeriesSide<'_, '_>,
    second: Protocol,
) -> Option<Estimate> {
    let of = |side: &SeriesSide<'_, '_>| points(&side.analysis.cells, &side.series.cells, second);
    let options = CrossoverOptions {
        bootstrap: resampled(a.analysis),
        ..CrossoverOptions::default()
    };
    let found = crossover_difference(&of(a), &of(b), &options)?;
    Some(Estimate::new(found.estimate?, Some(found.interval)))
}

fn of_cell(
    sides: &[SeriesSide<'_, '_>; 2],
    second: Protocol,
    (cell_a, pairing_a): MeasuredCell<'_>,
    (cell_b, pairing_b): MeasuredCell<'_>,
) -> Option<CellContrast> {
    let first = sides[0].analysis.baseline;
    let change = shift(&pairing_a.log_ratios, &pairing_b.log_ratios, LEVEL)?;
    let scenario = &sides[0].analysis.run.manifest.plan.scenario;
    Some(CellContrast {
        delay_us: u64::try_from(cell_a.cell.delay.as_micros()).unwrap_or(u64::MAX),
        a: cell_side(cell_a, pairing_a, first, second)?,
        b: cell_side(cell_b, pairing_b, first, second)?,
        change_percent: Estimate::new(change.estimate, change.interval).as_percent(),
        p_adjusted: change.p,
        parts: parts(
            &Times::of(pairing_a, scenario, sides[0].rows),
            &Times::of(pairing_b, scenario, sides[1].rows),
        ),
    })
}

fn cell_side(
    cell: &CellResult<'_>,
    pairing: &Pairing<'_>,
    first: Protocol,
    second: Protocol,
) -> Option<CellSide> {
    let (of_first, of_second) = (cell.arms[&first].summary?, cell.arms[&second].summary?);
    let comparison = &pairing.comparison;
    Some(CellSide {
        pairs: comparison.n,
        first_mean_us: of_first.mean,
        first_median_us: of_first.median,
        second_mean_us: of_second.mean,
        second_median_us: of_second.median,
        difference_percent: Estimate::new(comparison.estimate, comparison.interval).as_percent(),
        winner: match comparison.winner {
            Winner::First => first.to_string(),
            Winner::Second => second.to_string(),
            Winner::Tie => "tie".into(),
            Winner::Unclear => "unclear".into(),
        },
    })
}

/// The whole times of a cell's pairs, in ms, and their parts where they can be told of every one.
struct Times {
    /// First protocol and second, a pair each.
    whole: Vec<(f64, f64)>,
    parts: Option<Vec<([f64; 3], [f64; 3])>>,
}

impl Times {
    fn of(pairing: &Pairing<'_>, scenario: &Scenario, rows: &Rows<'_>) -> Self {
        let whole = |(first, second): &(&Sample, &Sample)| {
            Some((micros(first)? / 1e3, micros(second)? / 1e3))
        };
        let parts_of = |sample: &Sample| {
            Parts::of(scenario, rows.get(&sample.ordinal)?).map(|parts| parts.all())
        };
        let parts =
            |(first, second): &(&Sample, &Sample)| Some((parts_of(first)?, parts_of(second)?));
        Self {
            whole: pairing.pairs.iter().filter_map(whole).collect(),
            parts: pairing.pairs.iter().map(parts).collect(),
        }
    }

    /// A part of each pair.
    fn part(&self, which: usize) -> Option<Vec<(f64, f64)>> {
        let parts = self.parts.as_ref()?;
        Some(
            parts
                .iter()
                .map(|(first, second)| (first[which], second[which]))
                .collect(),
        )
    }
}

/// The parts that both sides tell, and the whole.
fn parts(a: &Times, b: &Times) -> Vec<PartContrast> {
    let of_part =
        |(which, name): (usize, &&'static str)| part(name, &a.part(which)?, &b.part(which)?);
    let mut found: Vec<PartContrast> = PARTS.iter().enumerate().filter_map(of_part).collect();
    let Some(whole) = part("whole", &a.whole, &b.whole) else {
        return found;
    };
    let sum: f64 = found.iter().map(|part| part.lead_ms.value).sum();
    if whole.lead_ms.excludes_zero() && sum != 0.0 {
        for part in &mut found {
            part.share_percent = Some(100.0 * part.lead_ms.value / sum);
        }
    }
    found.push(whole);
    found
}

fn part(name: &'static str, a: &[(f64, f64)], b: &[(f64, f64)]) -> Option<PartContrast> {
    let change = |of: fn(&(f64, f64)) -> f64| {
        let values = |pairs: &[(f64, f64)]| pairs.iter().map(of).collect::<Vec<_>>();
        Estimate::of_shift(&values(a), &values(b))
    };
    Some(PartContrast {
        part: name,
        first_ms: change(|pair| pair.0)?,
        second_ms: change(|pair| pair.1)?,
        lead_ms: change(|pair| pair.1 - pair.0)?,
        share_percent: None,
    })
}

fn circumstances(a: &[&Pairing<'_>], b: &[&Pairing<'_>]) -> Vec<Circumstance> {
    let first = |cells: &[&Pairing<'_>], met| {
        mean(
            met,
            cells.iter().flat_map(|cell| &cell.pairs).map(|pair| pair.0),
        )
    };
    let second = |cells: &[&Pairing<'_>], met| {
        mean(
            met,
            cells.iter().flat_map(|cell| &cell.pairs).map(|pair| pair.1),
        )
    };
    CIRCUMSTANCES
        .iter()
        .map(|(name, met)| Circumstance {
            name,
            first_a: first(a, *met),
            first_b: first(b, *met),
            second_a: second(a, *met),
            second_b: second(b, *met),
        })
        .filter(Circumstance::is_of_both)
        .collect()
}
