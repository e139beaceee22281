//! Share of transfers that are done by each time, per cell: what medians hide.

use super::axes;
use super::dimensions::Names;
use super::{MAX_PANELS, evenly, keys, left_out, quantile_of};
use crate::analysis::{Analysis, CellResult};
use crate::figure::{
    Axis, Datum, Figure, Form, LegendEntry, Mark, MarkColor, Panel, Series, Spacing, Spread, Table,
};
use crate::words::{self, TimeUnit};
use altway_record::Protocol;

/// The most steps of a staircase; more look the same.
const MAX_STEPS: usize = 250;

pub(super) fn figure(analysis: &Analysis<'_>) -> Option<Figure> {
    let names = Names::new(analysis);
    let all: Vec<&CellResult<'_>> = analysis
        .cells
        .iter()
        .filter(|cell| cell.arms.values().any(|arm| !arm.times.is_empty()))
        .collect();
    let count = all.len();
    let caption = caption(analysis, &all);
    let shown = evenly(all, MAX_PANELS);
    let first = &shown.first()?.cell;
    let panels = shown
        .iter()
        .map(|cell| panel(analysis, &names, cell))
        .collect();
    Some(Figure {
        name: "distribution".into(),
        title: "When transfers are done: further left is faster, steeper is steadier".into(),
        caption,
        legend_text: format!(
            "Share of transfers done by a time (empirical distribution), one panel per cell. Where \
             curves cross, the faster protocol at the median is not the faster one in bad luck.{}{}",
            names.common(first),
            left_out(shown.len(), count, "cells")
        ),
        legend: legend(analysis),
        panels,
        table: table(analysis, &names, &shown),
    })
}

fn legend(analysis: &Analysis<'_>) -> Vec<LegendEntry> {
    let mut legend = keys(analysis.protocols());
    if analysis
        .cells
        .iter()
        .any(|cell| !cell.null_arm.times.is_empty())
    {
        legend.push(LegendEntry {
            color: MarkColor::Null(analysis.baseline),
            name: format!("{} once more (null arm)", analysis.baseline.name()),
        });
    }
    legend
}

/// Says in how many cells a protocol is ahead at the median, and in how many among the slowest tenth.
fn caption(analysis: &Analysis<'_>, cells: &[&CellResult<'_>]) -> String {
    let baseline = analysis.baseline;
    let ahead = |other: &Protocol| {
        let both = cells.iter().filter_map(|cell| {
            let (first, second) = (&cell.arms[&baseline].times, &cell.arms[other].times);
            (!first.is_empty() && !second.is_empty()).then_some((first, second))
        });
        let both: Vec<_> = both.collect();
        let at = |q: f64| {
            let wins = |(first, second): &&(&Vec<f64>, &Vec<f64>)| {
                quantile_of(second, q) < quantile_of(first, q)
            };
            both.iter().filter(wins).count()
        };
        (!both.is_empty()).then(|| {
            format!(
                "At the median {} is ahead of {} in {} of {}; in bad luck (the slowest tenth, P90) \
                 in {}.",
                other.name(),
                baseline.name(),
                at(0.5),
                words::count(both.len(), "cell"),
                at(0.9)
            )
        })
    };
    let parts: Vec<String> = analysis.others.iter().filter_map(ahead).collect();
    parts.join(" ")
}

fn panel(analysis: &Analysis<'_>, names: &Names, cell: &CellResult<'_>) -> Panel {
    let arms = || cell.arms.values().chain([&cell.null_arm]);
    let unit = TimeUnit::for_axis(arms().filter_map(|arm| Some(arm.summary?.median)));
    let times = arms().flat_map(|arm| &arm.times);
    let times = times.map(|time| unit.convert(*time));
    let x = axes::around("time", unit.name(), times);
    let y = Axis {
        name: "share done".into(),
        unit: "%".into(),
        range: 0.0..102.0,
        spacing: Spacing::Linear,
        ticks: [0, 50, 100]
            .map(|share: i32| (f64::from(share), share.to_string()))
            .to_vec(),
    };
    let arms = analysis.protocols().map(|protocol| {
        let arm = &cell.arms[&protocol];
        (
            protocol.name().to_owned(),
            MarkColor::Protocol(protocol),
            arm,
        )
    });
    let baseline = analysis.baseline;
    let null_arm = (
        format!("{} once more", baseline.name()),
        MarkColor::Null(baseline),
        &cell.null_arm,
    );
    let marks = std::iter::once(null_arm)
        .chain(arms)
        .filter(|(.., arm)| !arm.times.is_empty())
        .map(|(name, color, arm)| {
            Mark::Series(Series {
                name,
                value: "share done".into(),
                interval: String::new(),
                color,
                form: Form::Steps,
                spread: Spread::None,
                aside: 0.0,
                points: steps(&arm.times, unit),
            })
        });
    Panel {
        title: names.of(&cell.cell, &[]),
        x,
        y,
        marks: marks.collect(),
    }
}

/// The empirical distribution: each time with the share of transfers done by then, in per cent.
fn steps(times: &[f64], unit: TimeUnit) -> Vec<Datum> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let stride = n.div_ceil(MAX_STEPS);
    let kept = sorted
        .iter()
        .enumerate()
        .filter(|(i, _)| (i + 1) % stride == 0 || i + 1 == n);
    let datum = |(i, time): (usize, &f64)| Datum {
        x: unit.convert(*time),
        y: 100.0 * (i + 1) as f64 / n as f64,
        interval: None,
        of: None,
    };
    kept.map(datum).collect()
}

fn table(analysis: &Analysis<'_>, names: &Names, cells: &[&CellResult<'_>]) -> Table {
    let head = [
        "cell", "protocol", "fastest", "25 %", "50 %", "75 %", "90 %", "slowest",
    ];
    let mut rows = Vec::new();
    for cell in cells {
        let arms = analysis
            .protocols()
            .map(|protocol| (protocol.name().to_owned(), &cell.arms[&protocol]));
        let again = format!("{} once more", analysis.baseline.name());
        for (name, arm) in arms.chain([(again, &cell.null_arm)]) {
            if arm.times.is_empty() {
                continue;
            }
            let mut row = vec![names.row(&cell.cell), name];
            let quantiles = [0.0, 0.25, 0.5, 0.75, 0.9, 1.0];
            row.extend(quantiles.map(|q| words::time(quantile_of(&arm.times, q))));
            rows.push(row);
        }
    }
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows,
    }
}
