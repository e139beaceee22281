//! Spread of single transfers around their protocol's median: can a user rely on it?

use super::axes;
use super::dimensions::{Curves, Names};
use super::{MAX_PANELS, evenly, keys, left_out, quantile_of, thinned};
use crate::analysis::{Analysis, Arm, CellResult};
use crate::figure::{Datum, Figure, Form, Mark, MarkColor, Panel, Series, Spread, Table};
use crate::words;
use altway_record::Protocol;

const MAX_SMALL_POINTS: usize = 200;

pub(super) fn figure(analysis: &Analysis<'_>) -> Option<Figure> {
    let (curves, names) = (Curves::new(analysis), Names::new(analysis));
    let spread = |curve: &&Vec<&CellResult<'_>>| {
        curve
            .iter()
            .any(|cell| cell.arms.values().any(|arm| arm.times.len() > 1))
    };
    let all: Vec<_> = curves.curves.iter().filter(spread).collect();
    let count = all.len();
    let shown = evenly(all, MAX_PANELS);
    let first = &shown.first()?.first()?.cell;
    let panels = shown
        .iter()
        .map(|curve| panel(analysis, &curves, &names, curve))
        .collect();
    Some(Figure {
        name: "stability".into(),
        title: title(analysis),
        caption: caption(analysis, &names),
        legend_text: format!(
            "Deviation of each transfer from the median of its protocol and cell: bars from P10 to \
             P90, each speck one transfer.{}{}",
            names.common(first),
            left_out(shown.len(), count, "series")
        ),
        legend: keys(analysis.protocols()),
        panels,
        table: table(analysis, &names, &shown),
    })
}

/// Deviations from the median, in per cent.
fn deviations(arm: &Arm<'_>) -> Vec<f64> {
    let Some(summary) = arm.summary else {
        return Vec::new();
    };
    arm.times
        .iter()
        .map(|time| 100.0 * (time / summary.median - 1.0))
        .collect()
}

/// A protocol's coefficients of variation in per cent, each with its cell.
fn variations<'b>(
    analysis: &'b Analysis<'_>,
    protocol: Protocol,
) -> Vec<(f64, &'b CellResult<'b>)> {
    let of_cell = |cell: &'b CellResult<'_>| -> Option<(f64, &'b CellResult<'b>)> {
        let variation = cell.arms[&protocol].summary?.coefficient_of_variation?;
        Some((100.0 * variation, cell))
    };
    analysis.cells.iter().filter_map(of_cell).collect()
}

/// Each protocol's typical coefficient of variation.
fn title(analysis: &Analysis<'_>) -> String {
    let typical = |protocol: Protocol| {
        let all = variations(analysis, protocol);
        let all: Vec<f64> = all.into_iter().map(|(variation, _)| variation).collect();
        let value = quantile_of(&all, 0.5);
        (!all.is_empty()).then(|| format!("{value:.1} % for {}", protocol.name()))
    };
    let parts: Vec<String> = analysis.protocols().filter_map(typical).collect();
    format!("Typical spread: {}", words::list(&parts))
}

/// Text that says where each protocol is least to be relied on.
fn caption(analysis: &Analysis<'_>, names: &Names) -> String {
    let worst = |protocol: Protocol| {
        let all = variations(analysis, protocol);
        let (most, cell) = all.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let arm = deviations(&cell.arms[&protocol]);
        let place = match names.of(&cell.cell, &[]) {
            text if text.is_empty() => String::new(),
            text => format!(" ({text})"),
        };
        Some(format!(
            "{} spreads by {most:.1} % at worst{place}, where one transfer in ten takes {} or more",
            protocol.name(),
            over_the_median(quantile_of(&arm, 0.9)),
        ))
    };
    let parts: Vec<String> = analysis.protocols().filter_map(worst).collect();
    format!("{}.", parts.join("; "))
}

fn over_the_median(percent: f64) -> String {
    format!("{:.1} % over the median", percent.max(0.0))
}

fn panel(
    analysis: &Analysis<'_>,
    curves: &Curves<'_, '_>,
    names: &Names,
    curve: &[&CellResult<'_>],
) -> Panel {
    let protocols: Vec<Protocol> = analysis.protocols().collect();
    let all = curve
        .iter()
        .flat_map(|cell| cell.arms.values())
        .flat_map(deviations);
    let y = axes::around("deviation from median", "%", all.chain([-1.0, 1.0]));
    let x = curves.ranks();
    let zero = Mark::Rule {
        name: "median".into(),
        color: MarkColor::Plain,
        from: (x.range.start, 0.0),
        to: (x.range.end, 0.0),
        dashed: false,
    };
    let mut marks = vec![zero];
    for (which, protocol) in protocols.iter().enumerate() {
        let aside = 0.26 * (which as f64 - (protocols.len() as f64 - 1.0) / 2.0);
        marks.extend(strips(curves, curve, *protocol, aside));
    }
    Panel {
        title: names.of(&curve[0].cell, &[curves.dim]),
        x,
        y,
        marks,
    }
}

fn strips(
    curves: &Curves<'_, '_>,
    curve: &[&CellResult<'_>],
    protocol: Protocol,
    aside: f64,
) -> [Mark; 2] {
    let (mut bars, mut small_points) = (Vec::new(), Vec::new());
    for cell in curve {
        let deviations = deviations(&cell.arms[&protocol]);
        if deviations.is_empty() {
            continue;
        }
        let x = curves.rank(&cell.cell);
        let ends = (quantile_of(&deviations, 0.1), quantile_of(&deviations, 0.9));
        bars.push(Datum {
            x,
            y: 0.0,
            interval: Some(ends),
            of: Some(deviations.len()),
        });
        small_points.extend(thinned(&deviations, MAX_SMALL_POINTS).map(|y| Datum {
            x,
            y,
            interval: None,
            of: None,
        }));
    }
    let series = |value: &str, interval: &str, form, spread, points| {
        Mark::Series(Series {
            name: protocol.name().into(),
            value: value.into(),
            interval: interval.into(),
            color: MarkColor::Protocol(protocol),
            form,
            spread,
            aside,
            points,
        })
    };
    [
        series("median", "P10 to P90", Form::Points, Spread::Bars, bars),
        series(
            "a transfer",
            "",
            Form::SmallPoints,
            Spread::None,
            small_points,
        ),
    ]
}

fn table(analysis: &Analysis<'_>, names: &Names, shown: &[&Vec<&CellResult<'_>>]) -> Table {
    let head = [
        "cell",
        "protocol",
        "coefficient of variation",
        "P10 deviation",
        "P90 deviation",
    ];
    let mut rows = Vec::new();
    for cell in shown.iter().flat_map(|curve| curve.iter()) {
        for protocol in analysis.protocols() {
            let arm = &cell.arms[&protocol];
            let Some(summary) = arm.summary else { continue };
            let spread = summary.coefficient_of_variation;
            let spread = spread.map_or_else(|| "–".to_owned(), |v| format!("{:.2} %", 100.0 * v));
            let deviations = deviations(arm);
            rows.push(vec![
                names.row(&cell.cell),
                protocol.name().to_owned(),
                spread,
                words::percent(quantile_of(&deviations, 0.1)),
                words::percent(quantile_of(&deviations, 0.9)),
            ]);
        }
    }
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows,
    }
}
