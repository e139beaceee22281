//! The residuals of a fit as a figure.

use super::cells::Cells;
use altway_report::figure::{
    Axis, Datum, Figure, Form, LegendEntry, Mark, MarkColor, Panel, Series, Spacing, Spread, Table,
};
use altway_report::with_minus;
use altway_select::fit::{Fit, Residual};

const COLORS: [MarkColor; 2] = [
    MarkColor::Step { at: 0, of: 2 },
    MarkColor::Step { at: 1, of: 2 },
];
const NAMES: [&str; 2] = ["fitted", "held out"];

pub(super) fn figure(cells: &Cells, fit: &Fit) -> Figure {
    let measured: Vec<f64> = cells
        .taken
        .iter()
        .map(|cell| 100.0 * cell.measured.difference)
        .collect();
    let both = [&fit.residuals, &fit.held_out];
    let points = both.map(|residuals| points(&measured, residuals));
    let ys = points.iter().flatten().map(|datum| datum.y);
    let (x, y) = (
        axis(
            "measured difference, 100 · ln(T3/T2)",
            measured.iter().copied(),
        ),
        axis("predicted − measured", ys),
    );
    let zero = Mark::Rule {
        name: "predicted as measured".into(),
        color: MarkColor::Faint,
        from: (x.range.start, 0.0),
        to: (x.range.end, 0.0),
        dashed: false,
    };
    let series = points
        .into_iter()
        .zip(NAMES)
        .zip(COLORS)
        .map(|((points, name), color)| {
            Mark::Series(Series {
                name: name.into(),
                value: "predicted − measured".into(),
                interval: String::new(),
                color,
                form: Form::Points,
                spread: Spread::None,
                aside: 0.0,
                points,
            })
        });
    Figure {
        name: "residuals".into(),
        title: "How far the fitted surface is from what was measured".into(),
        caption: format!("{} cells; left of 0 HTTP/3 is faster.", measured.len()),
        legend_text: "Each cell twice: as fitted, and as predicted by a fit to other cells.".into(),
        legend: NAMES
            .into_iter()
            .zip(COLORS)
            .map(|(name, color)| LegendEntry {
                color,
                name: name.into(),
            })
            .collect(),
        panels: vec![Panel {
            title: String::new(),
            x,
            y,
            marks: std::iter::once(zero).chain(series).collect(),
        }],
        table: Table::default(),
    }
}

fn points(measured: &[f64], residuals: &[Residual]) -> Vec<Datum> {
    let datum = |(x, residual): (&f64, &Residual)| Datum {
        x: *x,
        y: 100.0 * residual.difference,
        interval: None,
        of: None,
    };
    measured.iter().zip(residuals).map(datum).collect()
}

/// An axis that holds all values and 0, with ticks at round numbers.
fn axis(name: &str, values: impl Iterator<Item = f64>) -> Axis {
    let (low, high) = values.fold((0.0_f64, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let air = (high - low).max(1.0) / 20.0;
    let (low, high) = (low - air, high + air);
    let power = 10_f64.powf((high - low).log10().floor());
    let step = [0.1, 0.2, 0.5, 1.0].map(|share| share * power);
    let step = step
        .into_iter()
        .find(|step| (high - low) / step <= 10.0)
        .unwrap_or(power);
    let first = (low / step).ceil() as i32;
    let last = (high / step).floor() as i32;
    let text = |value: f64| with_minus(&((value * 1e3).round() / 1e3).to_string());
    let ticks = (first..=last).map(|index| f64::from(index) * step);
    Axis {
        name: name.into(),
        unit: String::new(),
        range: low..high,
        spacing: Spacing::Linear,
        ticks: ticks.map(|place| (place, text(place))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_holds_its_values_and_0_with_some_ticks() {
        for values in [vec![], vec![3.0, 3.5], vec![-40.0, 12.0], vec![1e-9]] {
            let axis = axis("x", values.iter().copied());
            let count = axis.ticks.len();
            assert!(
                axis.range.contains(&0.0) && (4..=11).contains(&count),
                "{axis:?}"
            );
            assert!(values.iter().all(|value| axis.range.contains(value)));
        }
    }
}
