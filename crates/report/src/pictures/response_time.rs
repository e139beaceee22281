//! The time that is compared, over delay: the picture to look at first.

use super::axes;
use super::dimensions::{Curves, Names};
use super::{MAX_PANELS, evenly, finding, keys, left_out, quantile_of, thinned};
use crate::analysis::{Analysis, CellResult};
use crate::figure::{Axis, Datum, Figure, Form, Mark, MarkColor, Panel, Series, Spread, Table};
use crate::verdict::Verdict;
use crate::words::{self, TimeUnit};
use altway_record::{Protocol, Scenario};

/// The most transfers that are drawn; more are thinned evenly, so that a picture of a large run
/// stays small.
const MAX_SMALL_POINTS: usize = 200;

pub(super) fn figure(analysis: &Analysis<'_>) -> Option<Figure> {
    let (curves, names) = (Curves::new(analysis), Names::new(analysis));
    let measured = |curve: &&Vec<&CellResult<'_>>| {
        curve
            .iter()
            .any(|cell| cell.arms.values().any(|arm| !arm.times.is_empty()))
    };
    let all: Vec<_> = curves.curves.iter().filter(measured).collect();
    let count = all.len();
    let shown = evenly(all, MAX_PANELS);
    let first = &shown.first()?.first()?.cell;
    let panels = shown
        .iter()
        .map(|curve| panel(analysis, &curves, &names, curve))
        .collect();
    Some(Figure {
        name: "response-time".into(),
        title: title(analysis, &curves),
        caption: caption(analysis, &curves, &shown),
        legend_text: format!(
            "{}: median, band from P10 to P90, each speck one transfer.{}{}",
            compared_time(analysis),
            names.common(first),
            left_out(shown.len(), count, "series")
        ),
        legend: keys(analysis.protocols()),
        panels,
        table: table(analysis, &names, &shown),
    })
}

/// Describes the time of a transfer in the scenario of the plan.
pub(super) fn compared_time(analysis: &Analysis<'_>) -> &'static str {
    match analysis.run.manifest.plan.scenario {
        Scenario::Download => "Time of a fetch to its last byte",
        Scenario::Page(_) => "Time from the start to the last byte of a page's last object",
        Scenario::Mixed(_) => "Mean time of small objects beside a large one",
        Scenario::Repeat(_) => "Sum of the times of a returning client's visits",
    }
}

fn title(analysis: &Analysis<'_>, curves: &Curves<'_, '_>) -> String {
    let grows = format!("as the {} grows", curves.dim.name());
    match (analysis.series.as_slice(), analysis.others.as_slice()) {
        ([series], [other]) => Verdict::new(analysis, series, *other).title(),
        (_, []) => format!("How long {} takes {grows}", analysis.baseline.name()),
        _ => format!("How long each protocol takes {grows}"),
    }
}

/// The verdict, and how each protocol's median goes from one end of the first panel to the other.
fn caption(
    analysis: &Analysis<'_>,
    curves: &Curves<'_, '_>,
    shown: &[&Vec<&CellResult<'_>>],
) -> String {
    let verdict = finding::overall(analysis, curves.dim == super::dimensions::Dimension::Delay);
    let ends = |protocol: Protocol| {
        let curve = shown.first()?;
        let mut medians = curve.iter().filter_map(|cell| {
            let median = cell.arms[&protocol].summary?.median;
            Some((curves.dim.text(&cell.cell), words::time(median)))
        });
        let (from, last) = (medians.next()?, medians.next_back()?);
        let name = protocol.name();
        Some(format!(
            "{name} takes {} at {} and {} at {}",
            from.1, from.0, last.1, last.0
        ))
    };
    let ends: Vec<String> = match shown {
        [_] => analysis.protocols().filter_map(ends).collect(),
        _ => Vec::new(),
    };
    match ends.as_slice() {
        [] => verdict,
        ends => format!("{verdict} In the median {}.", words::list(ends))
            .trim_start()
            .to_owned(),
    }
}

fn panel(
    analysis: &Analysis<'_>,
    curves: &Curves<'_, '_>,
    names: &Names,
    curve: &[&CellResult<'_>],
) -> Panel {
    let x = curves.axis(curve);
    let arms = || curve.iter().flat_map(|cell| cell.arms.values());
    let times = arms().flat_map(|arm| &arm.times);
    let unit = TimeUnit::for_axis(arms().filter_map(|arm| Some(arm.summary?.median)));
    let y = axes::around("time", unit.name(), times.map(|time| unit.convert(*time)));
    let protocols: Vec<Protocol> = analysis.protocols().collect();
    let mut marks = Vec::new();
    for (which, protocol) in protocols.iter().enumerate() {
        let aside = aside(&x, protocols.len(), which);
        marks.push(small_points(curves, curve, *protocol, unit, aside));
    }
    for protocol in &protocols {
        marks.push(line(curves, curve, *protocol, unit));
    }
    Panel {
        title: names.of(&curve[0].cell, &[curves.dim]),
        x,
        y,
        marks,
    }
}

/// A part of the x-axis's length, to set marks beside each other.
pub(super) fn aside(axis: &Axis, protocols: usize, which: usize) -> f64 {
    let step = axes::span(axis) / 130.0;
    step * (which as f64 - (protocols as f64 - 1.0) / 2.0)
}

fn line(
    curves: &Curves<'_, '_>,
    curve: &[&CellResult<'_>],
    protocol: Protocol,
    unit: TimeUnit,
) -> Mark {
    let with_times = curve
        .iter()
        .filter(|cell| !cell.arms[&protocol].times.is_empty());
    let points = with_times.map(|cell| {
        let at = |q| unit.convert(quantile_of(&cell.arms[&protocol].times, q));
        Datum {
            x: curves.place(&cell.cell),
            y: at(0.5),
            interval: Some((at(0.1), at(0.9))),
            of: Some(cell.arms[&protocol].times.len()),
        }
    });
    Mark::Series(Series {
        name: protocol.name().into(),
        value: "median".into(),
        interval: "P10 to P90".into(),
        color: MarkColor::Protocol(protocol),
        form: Form::LineAndPoints,
        spread: Spread::Ribbon,
        aside: 0.0,
        points: points.collect(),
    })
}

fn small_points(
    curves: &Curves<'_, '_>,
    curve: &[&CellResult<'_>],
    protocol: Protocol,
    unit: TimeUnit,
    aside: f64,
) -> Mark {
    let of_cell = |cell: &&CellResult<'_>| {
        let x = curves.place(&cell.cell);
        let datum = |time| Datum {
            x,
            y: unit.convert(time),
            interval: None,
            of: None,
        };
        let times = thinned(&cell.arms[&protocol].times, MAX_SMALL_POINTS);
        times.map(datum).collect::<Vec<_>>()
    };
    Mark::Series(Series {
        name: protocol.name().into(),
        value: "a transfer".into(),
        interval: String::new(),
        color: MarkColor::Protocol(protocol),
        form: Form::SmallPoints,
        spread: Spread::None,
        aside,
        points: curve.iter().flat_map(of_cell).collect(),
    })
}

fn table(analysis: &Analysis<'_>, names: &Names, shown: &[&Vec<&CellResult<'_>>]) -> Table {
    let head = ["cell", "protocol", "transfers", "P10", "median", "P90"];
    let mut rows = Vec::new();
    for cell in shown.iter().flat_map(|curve| curve.iter()) {
        for protocol in analysis.protocols() {
            let times = &cell.arms[&protocol].times;
            if times.is_empty() {
                continue;
            }
            let quantiles = [0.1, 0.5, 0.9].map(|q| words::time(quantile_of(times, q)));
            let mut row = vec![
                names.row(&cell.cell),
                protocol.name().to_owned(),
                times.len().to_string(),
            ];
            row.extend(quantiles);
            rows.push(row);
        }
    }
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows,
    }
}
