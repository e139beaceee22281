//! The difference in per cent over delay, with its interval and the crossover.

use super::axes;
use super::dimensions::{Curves, Dimension, Names};
use super::response_time::aside;
use super::{MAX_PANELS, evenly, finding, keys, left_out};
use crate::analysis::{Analysis, CellResult, Crossing, Series as Line};
use crate::figure::{
    Align, Axis, Datum, Figure, Form, Mark, MarkColor, Panel, Series, Spread, Table,
};
use crate::verdict::has_sign;
use crate::words;
use altway_record::Protocol;
use altway_stats::{CompareOptions, Crossover};
use std::time::Duration;

pub(super) fn figure(analysis: &Analysis<'_>) -> Option<Figure> {
    let (curves, names) = (Curves::new(analysis), Names::new(analysis));
    let compared =
        |curve: &&Vec<&CellResult<'_>>| curve.iter().any(|cell| !cell.pairings.is_empty());
    let all: Vec<_> = curves.curves.iter().filter(compared).collect();
    let count = all.len();
    let shown = evenly(all, MAX_PANELS);
    let first = &shown.first()?.first()?.cell;
    let panels = shown
        .iter()
        .map(|curve| panel(analysis, &curves, &names, curve, shown.len() == 1))
        .collect();
    Some(Figure {
        name: "gain".into(),
        title: title(analysis, &curves),
        caption: caption(analysis, &curves, &names),
        legend_text: format!(
            "Difference in time per pair of transfers: estimate and 95 % interval; below zero is \
             faster than {}. A whisker on zero leaves open who is; within the grey band (±3 %) it \
             hardly matters.{}{}{}",
            analysis.baseline.name(),
            if curves.dim == Dimension::Delay {
                " Vertical: the interval of the crossover, with a line at its estimate where the measured \
                 delays tell so much."
            } else {
                ""
            },
            names.common(first),
            left_out(shown.len(), count, "series")
        ),
        legend: keys(analysis.others.iter().copied()),
        panels,
        table: table(analysis, &names, &shown),
    })
}

/// The largest and smallest difference of a single series, in words, of cells whose pairs tell its sign.
fn title(analysis: &Analysis<'_>, curves: &Curves<'_, '_>) -> String {
    let baseline = analysis.baseline.name();
    let ([one], [other]) = (analysis.series.as_slice(), analysis.others.as_slice()) else {
        return format!(
            "Difference in time from {baseline} as the {} grows",
            curves.dim.name()
        );
    };
    let of_cell = |cell: &CellResult<'_>| {
        let pairing = cell.pairings.get(other).filter(|one| has_sign(one))?;
        Some((pairing.comparison.percent(), cell.cell.delay))
    };
    let all: Vec<(f64, Duration)> = analysis.cells_of(one).filter_map(of_cell).collect();
    if all.is_empty() {
        return format!("Difference in time from {baseline}: no delay is decided");
    }
    let least = all.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let most = all.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let mut extremes: Vec<_> = [least, most].into_iter().flatten().collect();
    extremes.sort_by_key(|(_, delay)| *delay);
    extremes.dedup();
    let part = |(percent, delay): &&(f64, Duration)| {
        let word = if *percent < 0.0 { "less" } else { "more" };
        format!(
            "{:.1} % {word} time at {}",
            percent.abs(),
            words::delay(*delay)
        )
    };
    let parts: Vec<String> = extremes.iter().map(part).collect();
    format!(
        "{} takes {} than {baseline}",
        other.name(),
        words::list(&parts)
    )
}

fn caption(analysis: &Analysis<'_>, curves: &Curves<'_, '_>, names: &Names) -> String {
    let mut text = finding::overall(analysis, curves.dim == Dimension::Delay);
    if analysis.series.len() > 1 || analysis.others.len() > 1 {
        for other in &analysis.others {
            text.push_str(&finding::extremes(analysis, names, *other));
        }
    }
    text
}

fn panel(
    analysis: &Analysis<'_>,
    curves: &Curves<'_, '_>,
    names: &Names,
    curve: &[&CellResult<'_>],
    alone: bool,
) -> Panel {
    let x = curves.axis(curve);
    let band = 100.0 * CompareOptions::default().band;
    let ends = curve
        .iter()
        .flat_map(|cell| cell.pairings.values())
        .flat_map(|pairing| {
            let (low, high) = pairing.comparison.percent_interval().unwrap_or((0.0, 0.0));
            [low, high, pairing.comparison.percent()]
        });
    let name = format!("difference from {}", analysis.baseline.name());
    let ends = ends.chain([-band * 1.5, band * 1.5]);
    let y = axes::with_room_for_notes(axes::around(name, "%", ends));
    let mut marks = background(&x, &y, band).to_vec();
    if alone {
        marks.extend(directions(&x, &y, analysis));
    }
    for other in &analysis.others {
        if let Some(line) = crossed(analysis, curves, curve) {
            marks.extend(crossing(line, *other, &x, &y));
        }
    }
    for (which, other) in analysis.others.iter().enumerate() {
        let aside = aside(&x, analysis.others.len(), which);
        marks.push(differences(curves, curve, *other, aside));
    }
    Panel {
        title: names.of(&curve[0].cell, &[curves.dim]),
        x,
        y,
        marks,
    }
}

/// The series whose crossovers stand in the curve's panel: when the curve goes along the delay.
fn crossed<'b>(
    analysis: &'b Analysis<'_>,
    curves: &Curves<'_, '_>,
    curve: &[&CellResult<'_>],
) -> Option<&'b Line> {
    let first = curve.first().filter(|_| curves.dim == Dimension::Delay)?;
    let holds = |line: &&Line| {
        let mut cells = analysis.cells_of(line);
        cells.any(|cell| cell.cell.index == first.cell.index)
    };
    analysis.series.iter().find(holds)
}

fn background(x: &Axis, y: &Axis, band: f64) -> [Mark; 2] {
    let (left, right) = (x.range.start, x.range.end);
    let band = (y.range.start.max(-band), y.range.end.min(band));
    [
        Mark::Area {
            name: "too little to matter".into(),
            color: MarkColor::Faint,
            outline: rectangle((left, right), band),
        },
        Mark::Rule {
            name: "no difference".into(),
            color: MarkColor::Plain,
            from: (left, 0.0),
            to: (right, 0.0),
            dashed: false,
        },
    ]
}

/// Notes that explain up and down, where there is room for them.
fn directions(x: &Axis, y: &Axis, analysis: &Analysis<'_>) -> [Mark; 2] {
    let air = axes::span(y) / 60.0;
    let note = |at: f64, word: &str, align| Mark::Note {
        at: (x.range.end - axes::span(x) / 200.0, at),
        text: format!("{word} than {}", analysis.baseline.name()),
        align: (Align::Before, align),
    };
    [
        note(y.range.end - air, "slower", Align::Before),
        note(y.range.start + air, "faster", Align::After),
    ]
}

fn differences(
    curves: &Curves<'_, '_>,
    curve: &[&CellResult<'_>],
    other: Protocol,
    aside: f64,
) -> Mark {
    let datum = |cell: &&CellResult<'_>| {
        let pairing = cell.pairings.get(&other)?;
        Some(Datum {
            x: curves.place(&cell.cell),
            y: pairing.comparison.percent(),
            interval: pairing.comparison.percent_interval(),
            of: Some(pairing.comparison.n),
        })
    };
    Mark::Series(Series {
        name: other.name().into(),
        value: "difference".into(),
        interval: "95 % interval".into(),
        color: MarkColor::Protocol(other),
        form: Form::LineAndPoints,
        spread: Spread::Whiskers,
        aside,
        points: curve.iter().filter_map(datum).collect(),
    })
}

/// The crossover as a line with its interval behind it, cut to the axis.
fn crossing(series: &Line, other: Protocol, x: &Axis, y: &Axis) -> Vec<Mark> {
    let Some(Crossing::Fitted { zero, .. }) = series.crossings.get(&other) else {
        return Vec::new();
    };
    let Crossover::At {
        x: at, interval, ..
    } = zero
    else {
        return Vec::new();
    };
    let cut = |place: f64| place.clamp(x.range.start, x.range.end);
    let (bottom, top) = (y.range.start, y.range.end);
    let air = axes::span(y) / 60.0;
    // Left of its line where the notes on the right would be in its way.
    let right = *at <= x.range.start + 0.6 * axes::span(x);
    let step = axes::span(x) / 100.0;
    let (side, beside) = if right {
        (Align::After, step)
    } else {
        (Align::Before, -step)
    };
    let color = MarkColor::Protocol(other);
    let area = Mark::Area {
        name: "95 % interval of the crossover".into(),
        color,
        outline: rectangle((cut(interval.low), cut(interval.high)), (bottom, top)),
    };
    if zero.is_coarse() {
        return vec![area];
    }
    vec![
        area,
        Mark::Rule {
            name: format!("crossover at {}", words::milliseconds(*at)),
            color,
            from: (*at, bottom),
            to: (*at, top),
            dashed: true,
        },
        Mark::Note {
            at: (*at + beside, top - air),
            text: words::milliseconds(*at),
            align: (side, Align::Before),
        },
    ]
}

fn rectangle(x: (f64, f64), y: (f64, f64)) -> Vec<(f64, f64)> {
    vec![(x.0, y.0), (x.1, y.0), (x.1, y.1), (x.0, y.1)]
}

fn table(analysis: &Analysis<'_>, names: &Names, shown: &[&Vec<&CellResult<'_>>]) -> Table {
    let head = [
        "cell",
        "protocol",
        "pairs",
        "difference",
        "95 % interval",
        "p (adjusted)",
    ];
    let mut rows = Vec::new();
    for cell in shown.iter().flat_map(|curve| curve.iter()) {
        for other in &analysis.others {
            let Some(pairing) = cell.pairings.get(other) else {
                continue;
            };
            let comparison = &pairing.comparison;
            let interval = words::interval(comparison.percent_interval());
            rows.push(vec![
                names.row(&cell.cell),
                other.name().to_owned(),
                words::pairs_in_table(comparison.n),
                words::percent(comparison.percent()),
                interval,
                format!("{:.4}", pairing.p_adjusted),
            ]);
        }
    }
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows,
    }
}
