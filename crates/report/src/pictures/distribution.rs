//! Which share of transfers is done by which time, per cell: what medians hide.

use super::axis::Axis;
use super::chart::{Chart, Panel, Shape};
use super::{Draft, MAX_PANELS, left_out, quantile_of};
use crate::analysis::{Analysis, CellResult};
use crate::words::{self, TimeUnit};
use altway_record::Protocol;

/// More steps than this look the same.
const MAX_STEPS: usize = 250;

pub(super) fn draft(analysis: &Analysis<'_>) -> Option<Draft> {
    let all: Vec<&CellResult<'_>> = analysis
        .cells
        .iter()
        .filter(|cell| cell.arms.values().any(|arm| !arm.times.is_empty()))
        .collect();
    if all.is_empty() {
        return None;
    }
    let cells = evenly(&all);
    let one_series = analysis.series.len() == 1;
    let unit = TimeUnit::for_times(all.iter().flat_map(|cell| {
        cell.arms
            .values()
            .filter_map(|arm| Some(arm.summary?.median))
            .collect::<Vec<_>>()
    }));
    let panels = cells
        .iter()
        .map(|cell| panel(analysis, cell, unit, one_series))
        .collect();
    let (head, rows) = table(analysis, &cells, unit);
    Some(Draft {
        name: "distribution",
        caption: format!(
            "Per cell, the share of transfers that were done by a time: the curve further left is \
             the faster protocol, a steep curve the steadier one. Where curves cross, the faster \
             protocol at the median is not the faster one in bad luck.{}",
            left_out(all.len(), "cells")
        ),
        chart: Chart {
            title: "When transfers are done: further left is faster, steeper is steadier".into(),
            subtitle: format!(
                "Share of transfers done by a time (empirical distribution), one panel per {}",
                if one_series { "one-way delay" } else { "cell" }
            ),
            protocols: analysis.protocols().collect(),
            panels,
        },
        head,
        rows,
    })
}

/// At most [`MAX_PANELS`] of them, evenly spread, the first and last included.
fn evenly<'a, 'b>(all: &[&'a CellResult<'b>]) -> Vec<&'a CellResult<'b>> {
    if all.len() <= MAX_PANELS {
        return all.to_vec();
    }
    let last = all.len() - 1;
    (0..MAX_PANELS)
        .map(|i| all[i * last / (MAX_PANELS - 1)])
        .collect()
}

fn panel(
    analysis: &Analysis<'_>,
    cell: &CellResult<'_>,
    unit: TimeUnit,
    one_series: bool,
) -> Panel {
    let delay = words::delay(cell.cell.delay);
    let title = if one_series {
        delay
    } else {
        format!("{} · {delay}", words::series(&cell.cell))
    };
    let times = cell
        .arms
        .values()
        .flat_map(|arm| &arm.times)
        .map(|time| unit.convert(*time));
    let x = Axis::around(format!("time ({})", unit.name()), times);
    let y = Axis {
        label: "share done".into(),
        range: 0.0..1.02,
        ticks: [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")]
            .map(|(place, text)| (place, text.to_owned()))
            .to_vec(),
    };
    let with_times = analysis
        .protocols()
        .filter(|protocol| !cell.arms[protocol].times.is_empty());
    let shapes = with_times
        .map(|protocol| Shape::Curve {
            points: steps(cell, protocol, unit, &x),
            protocol,
        })
        .collect();
    Panel {
        title,
        x,
        y,
        shapes,
    }
}

/// The staircase of the empirical distribution, from edge to edge of the axis.
fn steps(cell: &CellResult<'_>, protocol: Protocol, unit: TimeUnit, x: &Axis) -> Vec<(f64, f64)> {
    let mut sorted = cell.arms[&protocol].times.clone();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let stride = n.div_ceil(MAX_STEPS);
    let mut points = vec![(x.range.start, 0.0)];
    let mut level = 0.0;
    for (i, time) in sorted.iter().enumerate() {
        if (i + 1) % stride != 0 && i + 1 != n {
            continue;
        }
        let at = unit.convert(*time);
        points.push((at, level));
        level = (i + 1) as f64 / n as f64;
        points.push((at, level));
    }
    points.push((x.range.end, 1.0));
    points
}

fn table(
    analysis: &Analysis<'_>,
    cells: &[&CellResult<'_>],
    unit: TimeUnit,
) -> (Vec<String>, Vec<Vec<String>>) {
    let head = [
        "link", "delay", "protocol", "fastest", "25 %", "50 %", "75 %", "90 %", "slowest",
    ];
    let mut rows = Vec::new();
    for cell in cells {
        for protocol in analysis.protocols() {
            let times = &cell.arms[&protocol].times;
            if times.is_empty() {
                continue;
            }
            let mut row = vec![
                words::series(&cell.cell),
                words::delay(cell.cell.delay),
                protocol.name().to_owned(),
            ];
            let quantiles = [0.0, 0.25, 0.5, 0.75, 0.9, 1.0];
            row.extend(quantiles.map(|q| unit.text(quantile_of(times, q))));
            rows.push(row);
        }
    }
    (head.map(str::to_owned).to_vec(), rows)
}
