//! The difference in per cent over delay, with its interval and the crossover.

use super::axis::Axis;
use super::chart::{Chart, Panel, Shape};
use super::{Draft, shown};
use crate::analysis::{Analysis, CellResult, Crossing, Series};
use crate::canvas::{GREY, INK, look};
use crate::words;
use altway_record::Protocol;
use altway_stats::{CompareOptions, Crossover};
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::time::Duration;

pub(super) fn draft(analysis: &Analysis<'_>) -> Option<Draft> {
    let compared = |series: &Series| {
        analysis
            .cells_of(series)
            .any(|cell| !cell.pairings.is_empty())
    };
    let (series, rest) = shown(analysis, compared);
    if series.is_empty() {
        return None;
    }
    let panels = series
        .iter()
        .map(|one| panel(analysis, one, series.len() > 1))
        .collect();
    let (head, rows) = table(analysis, &series);
    let baseline = analysis.baseline.name();
    Some(Draft {
        name: "gain",
        caption: format!(
            "The difference in time from {baseline}, per pair of transfers in the same block: \
             below zero is faster than {baseline}, above is slower. A whisker that touches zero \
             leaves open who is faster; within the grey band the difference is too small to \
             matter.{rest}"
        ),
        chart: Chart {
            title: title(analysis, &series),
            subtitle:
                "Difference in time: estimate and 95 % interval; grey: within ±3 %; vertical: \
                       crossover with its interval"
                    .into(),
            protocols: analysis.others.clone(),
            panels,
        },
        head,
        rows,
    })
}

/// The largest and smallest difference of a single series, in words.
fn title(analysis: &Analysis<'_>, series: &[&Series]) -> String {
    let baseline = analysis.baseline.name();
    let ([one], [other]) = (series, analysis.others.as_slice()) else {
        return format!("Difference in time from {baseline} as the delay grows");
    };
    let of_cell = |cell: &CellResult<'_>| {
        let pairing = cell.pairings.get(other)?;
        Some((pairing.comparison.percent(), cell.cell.delay))
    };
    let all: Vec<(f64, Duration)> = analysis.cells_of(one).filter_map(of_cell).collect();
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

fn panel(analysis: &Analysis<'_>, series: &Series, titled: bool) -> Panel {
    let cells: Vec<&CellResult<'_>> = analysis.cells_of(series).collect();
    let delays: Vec<f64> = cells.iter().map(|cell| cell.delay_ms()).collect();
    let x = Axis::delays(&delays);
    let band = 100.0 * CompareOptions::default().band;
    let ends = cells
        .iter()
        .flat_map(|cell| cell.pairings.values())
        .flat_map(|pairing| {
            let (low, high) = pairing.comparison.percent_interval().unwrap_or((0.0, 0.0));
            [low, high, pairing.comparison.percent()]
        });
    let y = Axis::around(
        format!("difference from {} (%)", analysis.baseline.name()),
        ends.chain([-band * 1.5, band * 1.5]),
    )
    .with_room_for_notes();
    let mut shapes = background(&x, &y, band, analysis);
    for other in &analysis.others {
        shapes.extend(crossing(series, *other, &x, &y));
    }
    for (which, other) in analysis.others.iter().enumerate() {
        let aside = Panel::aside(&x, analysis.others.len(), which);
        shapes.extend(differences(&cells, *other, aside));
    }
    let title = if titled {
        words::series(&cells[0].cell)
    } else {
        String::new()
    };
    Panel {
        title,
        x,
        y,
        shapes,
    }
}

fn background(x: &Axis, y: &Axis, band: f64, analysis: &Analysis<'_>) -> Vec<Shape> {
    let (left, right) = (x.range.start, x.range.end);
    let note = |at: f64, text: String, vertical| Shape::Note {
        at: (right, at),
        text,
        anchor: Pos::new(HPos::Right, vertical),
    };
    let baseline = analysis.baseline.name();
    let air = (y.range.end - y.range.start) / 60.0;
    vec![
        rectangle((left, right), (-band, band), GREY.mix(0.12)),
        Shape::Rule {
            from: (left, 0.0),
            to: (right, 0.0),
            color: INK,
            dashed: false,
        },
        note(
            y.range.end - air,
            format!("slower than {baseline} "),
            VPos::Top,
        ),
        note(
            y.range.start + air,
            format!("faster than {baseline} "),
            VPos::Bottom,
        ),
    ]
}

fn differences(cells: &[&CellResult<'_>], other: Protocol, aside: f64) -> Vec<Shape> {
    let mut shapes = Vec::new();
    let mut points = Vec::new();
    for cell in cells {
        let Some(pairing) = cell.pairings.get(&other) else {
            continue;
        };
        let x = cell.delay_ms() + aside;
        points.push((x, pairing.comparison.percent()));
        if let Some((low, high)) = pairing.comparison.percent_interval() {
            shapes.push(Shape::Whisker {
                x,
                low,
                high,
                protocol: other,
            });
        }
    }
    shapes.push(Shape::Curve {
        points: points.clone(),
        protocol: other,
    });
    shapes.push(Shape::Markers {
        points,
        protocol: other,
    });
    shapes
}

/// The crossover as a line with its interval behind it, cut to the axis.
fn crossing(series: &Series, other: Protocol, x: &Axis, y: &Axis) -> Vec<Shape> {
    let Some(Crossing::Fitted(Crossover::At {
        x: at, interval, ..
    })) = series.crossings.get(&other)
    else {
        return Vec::new();
    };
    let color = look(other).color;
    let cut = |place: f64| place.clamp(x.range.start, x.range.end);
    let (bottom, top) = (y.range.start, y.range.end);
    let air = (top - bottom) / 60.0;
    // Left of its line where the notes on the right would be in its way.
    let right = *at <= x.range.start + 0.6 * x.span();
    let step = x.span() / 150.0;
    let (side, beside) = if right {
        (HPos::Left, step)
    } else {
        (HPos::Right, -step)
    };
    vec![
        rectangle(
            (cut(interval.low), cut(interval.high)),
            (bottom, top),
            color.mix(0.12),
        ),
        Shape::Rule {
            from: (*at, bottom),
            to: (*at, top),
            color,
            dashed: true,
        },
        Shape::Note {
            at: (*at + beside, top - air),
            text: words::milliseconds(*at),
            anchor: Pos::new(side, VPos::Top),
        },
    ]
}

fn rectangle(x: (f64, f64), y: (f64, f64), color: plotters::style::RGBAColor) -> Shape {
    Shape::Fill {
        outline: vec![(x.0, y.0), (x.1, y.0), (x.1, y.1), (x.0, y.1)],
        color,
    }
}

fn table(analysis: &Analysis<'_>, series: &[&Series]) -> (Vec<String>, Vec<Vec<String>>) {
    let head = [
        "link",
        "delay",
        "protocol",
        "pairs",
        "difference",
        "95 % interval",
        "p (adjusted)",
    ];
    let mut rows = Vec::new();
    for cell in series.iter().flat_map(|one| analysis.cells_of(one)) {
        for (other, pairing) in &cell.pairings {
            let comparison = &pairing.comparison;
            let interval = comparison.percent_interval().map_or_else(
                || "–".to_owned(),
                |(low, high)| format!("{} to {} %", words::signed(low), words::signed(high)),
            );
            rows.push(vec![
                words::series(&cell.cell),
                words::delay(cell.cell.delay),
                other.name().to_owned(),
                comparison.n.to_string(),
                words::percent(comparison.percent()),
                interval,
                format!("{:.4}", pairing.p_adjusted),
            ]);
        }
    }
    (head.map(str::to_owned).to_vec(), rows)
}
