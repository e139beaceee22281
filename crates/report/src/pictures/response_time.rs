//! Time to the last byte over delay: the picture to look at first.

use super::axis::Axis;
use super::chart::{Chart, Panel, Shape};
use super::{Draft, quantile_of, shown, thinned};
use crate::analysis::{Analysis, CellResult, Series};
use crate::canvas::look;
use crate::verdict::Verdict;
use crate::words::{self, TimeUnit};
use altway_record::Protocol;
use plotters::style::Color;

/// More transfers than this are thinned evenly, so that a picture of a large run stays small.
const MAX_SPECKS: usize = 200;

pub(super) fn draft(analysis: &Analysis<'_>) -> Option<Draft> {
    let measured = |series: &Series| {
        analysis
            .cells_of(series)
            .any(|cell| cell.arms.values().any(|arm| !arm.times.is_empty()))
    };
    let (series, rest) = shown(analysis, measured);
    if series.is_empty() {
        return None;
    }
    let unit = TimeUnit::for_times(medians(analysis));
    let panels = series
        .iter()
        .map(|one| panel(analysis, one, unit, series.len() > 1))
        .collect();
    let (head, rows) = table(analysis, &series, unit);
    Some(Draft {
        name: "response-time",
        caption: format!(
            "How long a fetch takes as the delay grows: the line is the median, the band holds the \
             middle 80 % of transfers, each speck is one transfer. Where the lines part by more \
             than the bands are wide, the difference is no accident.{rest}"
        ),
        chart: Chart {
            title: title(analysis, &series),
            subtitle: "Time from the socket call to the last byte: median, band from P10 to P90, \
                       and each transfer"
                .into(),
            protocols: analysis.protocols().collect(),
            panels,
        },
        head,
        rows,
    })
}

fn medians(analysis: &Analysis<'_>) -> impl Iterator<Item = f64> {
    analysis.arms().filter_map(|arm| Some(arm.summary?.median))
}

fn title(analysis: &Analysis<'_>, series: &[&Series]) -> String {
    match (series, analysis.others.as_slice()) {
        ([one], [other]) => Verdict::new(analysis, one, *other).title(),
        (_, []) => format!(
            "How long {} takes as the delay grows",
            analysis.baseline.name()
        ),
        _ => "How long each protocol takes as the delay grows".into(),
    }
}

fn panel(analysis: &Analysis<'_>, series: &Series, unit: TimeUnit, titled: bool) -> Panel {
    let cells: Vec<&CellResult<'_>> = analysis.cells_of(series).collect();
    let delays: Vec<f64> = cells.iter().map(|cell| cell.delay_ms()).collect();
    let x = Axis::delays(&delays);
    let times = cells
        .iter()
        .flat_map(|cell| cell.arms.values())
        .flat_map(|arm| &arm.times);
    let y = Axis::around(
        format!("time ({})", unit.name()),
        times.map(|time| unit.convert(*time)),
    );
    let protocols: Vec<Protocol> = analysis.protocols().collect();
    let mut shapes = Vec::new();
    for protocol in &protocols {
        shapes.push(band(&cells, *protocol, unit));
    }
    for (which, protocol) in protocols.iter().enumerate() {
        let aside = Panel::aside(&x, protocols.len(), which);
        shapes.push(specks(&cells, *protocol, unit, aside));
    }
    for protocol in &protocols {
        let points = line(&cells, *protocol, unit, 0.5);
        shapes.push(Shape::Curve {
            points: points.clone(),
            protocol: *protocol,
        });
        shapes.push(Shape::Markers {
            points,
            protocol: *protocol,
        });
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

fn line(cells: &[&CellResult<'_>], protocol: Protocol, unit: TimeUnit, q: f64) -> Vec<(f64, f64)> {
    let with_times = cells
        .iter()
        .filter(|cell| !cell.arms[&protocol].times.is_empty());
    with_times
        .map(|cell| {
            let time = quantile_of(&cell.arms[&protocol].times, q);
            (cell.delay_ms(), unit.convert(time))
        })
        .collect()
}

fn band(cells: &[&CellResult<'_>], protocol: Protocol, unit: TimeUnit) -> Shape {
    let mut outline = line(cells, protocol, unit, 0.1);
    outline.extend(line(cells, protocol, unit, 0.9).into_iter().rev());
    Shape::Fill {
        outline,
        color: look(protocol).color.mix(0.18),
    }
}

fn specks(cells: &[&CellResult<'_>], protocol: Protocol, unit: TimeUnit, aside: f64) -> Shape {
    let of_cell = |cell: &&CellResult<'_>| {
        let x = cell.delay_ms() + aside;
        let times = thinned(&cell.arms[&protocol].times, MAX_SPECKS);
        times
            .map(|time| (x, unit.convert(time)))
            .collect::<Vec<_>>()
    };
    Shape::Specks {
        points: cells.iter().flat_map(of_cell).collect(),
        protocol,
    }
}

fn table(
    analysis: &Analysis<'_>,
    series: &[&Series],
    unit: TimeUnit,
) -> (Vec<String>, Vec<Vec<String>>) {
    let head = [
        "link",
        "delay",
        "protocol",
        "transfers",
        "P10",
        "median",
        "P90",
    ];
    let mut rows = Vec::new();
    for cell in series.iter().flat_map(|one| analysis.cells_of(one)) {
        for protocol in analysis.protocols() {
            let times = &cell.arms[&protocol].times;
            if times.is_empty() {
                continue;
            }
            let quantiles = [0.1, 0.5, 0.9].map(|q| unit.text(quantile_of(times, q)));
            let mut row = vec![
                words::series(&cell.cell),
                words::delay(cell.cell.delay),
                protocol.name().to_owned(),
                times.len().to_string(),
            ];
            row.extend(quantiles);
            rows.push(row);
        }
    }
    (head.map(str::to_owned).to_vec(), rows)
}
