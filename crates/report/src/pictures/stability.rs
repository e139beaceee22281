//! How far single transfers stray from their protocol's median: can a user rely on it?

use super::axis::Axis;
use super::chart::{Chart, Panel, Shape};
use super::{Draft, quantile_of, shown, thinned};
use crate::analysis::{Analysis, Arm, CellResult, Series};
use crate::canvas::{INK, look};
use crate::words;
use altway_record::Protocol;
use plotters::style::Color;

const MAX_SPECKS: usize = 200;
/// Width of a bar; the distance between two delays is 1.
const BAR: f64 = 0.16;

pub(super) fn draft(analysis: &Analysis<'_>) -> Option<Draft> {
    let spread = |series: &Series| {
        analysis
            .cells_of(series)
            .any(|cell| cell.arms.values().any(|arm| arm.times.len() > 1))
    };
    let (series, rest) = shown(analysis, spread);
    if series.is_empty() {
        return None;
    }
    let panels = series
        .iter()
        .map(|one| panel(analysis, one, series.len() > 1))
        .collect();
    let (head, rows) = table(analysis, &series);
    Some(Draft {
        name: "stability",
        caption: format!(
            "How far transfers of the same kind stray from their median: the bar holds the middle \
             80 %, each speck is one transfer. Long bars mean that a user cannot rely on the \
             median.{rest}"
        ),
        chart: Chart {
            title: title(analysis),
            subtitle: "Deviation of each transfer from the median of its protocol and delay; bars \
                       from P10 to P90"
                .into(),
            protocols: analysis.protocols().collect(),
            panels,
        },
        head,
        rows,
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

/// Each protocol's typical coefficient of variation.
fn title(analysis: &Analysis<'_>) -> String {
    let typical = |protocol: Protocol| {
        let arms = analysis.cells.iter().map(|cell| &cell.arms[&protocol]);
        let all: Vec<f64> = arms
            .filter_map(|arm| arm.summary?.coefficient_of_variation)
            .collect();
        let value = 100.0 * quantile_of(&all, 0.5);
        (!all.is_empty()).then(|| format!("{:.1} % for {}", value, protocol.name()))
    };
    let parts: Vec<String> = analysis.protocols().filter_map(typical).collect();
    format!("Typical spread: {}", words::list(&parts))
}

fn panel(analysis: &Analysis<'_>, series: &Series, titled: bool) -> Panel {
    let cells: Vec<&CellResult<'_>> = analysis.cells_of(series).collect();
    let protocols: Vec<Protocol> = analysis.protocols().collect();
    let all = cells
        .iter()
        .flat_map(|cell| cell.arms.values())
        .flat_map(deviations);
    let y = Axis::around("deviation from median (%)".into(), all.chain([-1.0, 1.0]));
    let x = delays_in_order(&cells);
    let zero = Shape::Rule {
        from: (x.range.start, 0.0),
        to: (x.range.end, 0.0),
        color: INK,
        dashed: false,
    };
    let mut shapes = vec![zero];
    for (which, protocol) in protocols.iter().enumerate() {
        let aside = 0.26 * (which as f64 - (protocols.len() as f64 - 1.0) / 2.0);
        shapes.extend(strips(&cells, *protocol, aside));
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

/// One place per delay, whatever their distance: bars never overlap.
fn delays_in_order(cells: &[&CellResult<'_>]) -> Axis {
    let step = cells.len().div_ceil(16);
    let name = |(i, cell): (usize, &&CellResult<'_>)| {
        let text = if i % step == 0 {
            words::significant(cell.delay_ms())
        } else {
            String::new()
        };
        (i as f64, text)
    };
    Axis {
        label: "one-way delay (ms)".into(),
        range: -0.6..cells.len() as f64 - 0.4,
        ticks: cells.iter().enumerate().map(name).collect(),
    }
}

fn strips(cells: &[&CellResult<'_>], protocol: Protocol, aside: f64) -> Vec<Shape> {
    let mut shapes = Vec::new();
    let mut specks = Vec::new();
    for (i, cell) in cells.iter().enumerate() {
        let deviations = deviations(&cell.arms[&protocol]);
        if deviations.is_empty() {
            continue;
        }
        let x = i as f64 + aside;
        let (low, high) = (quantile_of(&deviations, 0.1), quantile_of(&deviations, 0.9));
        let (left, right) = (x - BAR / 2.0, x + BAR / 2.0);
        shapes.push(Shape::Fill {
            outline: vec![(left, low), (right, low), (right, high), (left, high)],
            color: look(protocol).color.mix(0.3),
        });
        shapes.push(Shape::Markers {
            points: vec![(x, 0.0)],
            protocol,
        });
        specks.extend(thinned(&deviations, MAX_SPECKS).map(|deviation| (x, deviation)));
    }
    shapes.push(Shape::Specks {
        points: specks,
        protocol,
    });
    shapes
}

fn table(analysis: &Analysis<'_>, series: &[&Series]) -> (Vec<String>, Vec<Vec<String>>) {
    let head = [
        "link",
        "delay",
        "protocol",
        "coefficient of variation",
        "P10 deviation",
        "P90 deviation",
    ];
    let mut rows = Vec::new();
    for cell in series.iter().flat_map(|one| analysis.cells_of(one)) {
        for protocol in analysis.protocols() {
            let arm = &cell.arms[&protocol];
            let Some(summary) = arm.summary else { continue };
            let spread = summary.coefficient_of_variation;
            let spread = spread.map_or_else(|| "–".to_owned(), |v| format!("{:.2} %", 100.0 * v));
            let deviations = deviations(arm);
            rows.push(vec![
                words::series(&cell.cell),
                words::delay(cell.cell.delay),
                protocol.name().to_owned(),
                spread,
                words::percent(quantile_of(&deviations, 0.1)),
                words::percent(quantile_of(&deviations, 0.9)),
            ]);
        }
    }
    (head.map(str::to_owned).to_vec(), rows)
}
