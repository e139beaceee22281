//! The result of a fit, as tables and as JSON.

use super::cells::{Cells, FittedCell};
use altway_record::Rate;
use altway_select::fit::{Coefficient, Fit, Residual};
use altway_select::{Congestion, Surface};
use altway_units::duration;
use serde::Serialize;
use std::collections::BTreeMap;

/// Cells that are named with their residuals.
const NAMED: usize = 8;

/// ln(1.03): from this difference on its sign counts.
const MATERIAL_DIFFERENCE: f64 = 0.0296;

/// The JSON of `--json`, of which the tables are made.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    left_out: BTreeMap<&'static str, usize>,
    coefficients: Vec<Row>,
    errors: Vec<Errors>,
    cells: Vec<CellRow>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    value: f64,
    /// Standard error; `None`: it was kept.
    error: Option<f64>,
    before: Option<f64>,
}

/// Errors of ln(T3/T2) over some cells.
#[derive(Debug, Serialize)]
struct Errors {
    of: String,
    cells: usize,
    median: f64,
    rms: f64,
    /// The residual of ln T2.
    median_h2: f64,
    /// Share of the right signs among differences of more than 3 %; `None`: there are none.
    right_sign: Option<f64>,
}

#[derive(Debug, Serialize)]
struct CellRow {
    run: String,
    cell: String,
    measured_difference: f64,
    residual: f64,
    residual_held_out: f64,
    residual_h2: f64,
}

impl Summary {
    pub(super) fn new(cells: &Cells, start: &Surface, fit: &Fit, before: &[Residual]) -> Self {
        let all: Vec<f64> = cells
            .taken
            .iter()
            .map(|cell| cell.measured.difference)
            .collect();
        let mut errors = vec![
            Errors::of("all cells", &all, &fit.residuals),
            Errors::of("cells held out", &all, &fit.held_out),
            Errors::of("as the fit began", &all, before),
        ];
        let mut from = 0;
        for run in cells.taken.chunk_by(|a, b| a.run == b.run) {
            let to = from + run.len();
            let residuals = &fit.residuals[from..to];
            errors.push(Errors::of(&run[0].run, &all[from..to], residuals));
            from = to;
        }
        let row = |it: &Coefficient| Row {
            name: it.name.clone(),
            value: it.value,
            error: it.error,
            before: start.coefficient(&it.name),
        };
        Self {
            left_out: cells.left_out.clone(),
            coefficients: fit.coefficients.iter().map(row).collect(),
            errors,
            cells: rows(cells, fit),
        }
    }

    /// Median of |ln(T3/T2) predicted − measured|, with four decimals.
    pub(super) fn median_error(&self) -> f64 {
        rounded(self.errors[0].median)
    }

    /// The same of cells that were held out.
    pub(super) fn held_out_error(&self) -> f64 {
        rounded(self.errors[1].median)
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{} cells", self.cells.len());
        for (reason, count) in &self.left_out {
            text.push_str(&format!("; {count} left out {reason}"));
        }
        text.push_str(&format!(
            "\n\n{:<26}{:>12}{:>12}{:>12}\n",
            "coefficient", "value", "± error", "before"
        ));
        for row in &self.coefficients {
            let error = row.error.map_or_else(|| "kept".to_owned(), short);
            let before = row.before.map_or_else(|| "–".to_owned(), short);
            text.push_str(&format!(
                "{:<26}{:>12}{error:>12}{before:>12}\n",
                row.name,
                short(row.value)
            ));
        }
        text.push_str(&format!(
            "\n{:<42}{:>6}{:>9}{:>8}{:>12}{:>12}\n",
            "error of ln(T3/T2)", "cells", "median", "rms", "right sign", "of ln T2"
        ));
        text.extend(self.errors.iter().map(Errors::text));
        text.push_str("\nfarthest off                                                      measured   predicted\n");
        let mut cells: Vec<&CellRow> = self.cells.iter().collect();
        cells.sort_by(|a, b| b.residual.abs().total_cmp(&a.residual.abs()));
        for cell in cells.iter().take(NAMED) {
            let percent = |ln: f64| altway_report::percent(100.0 * ln.exp_m1());
            text.push_str(&format!(
                "{:<64}{:>10}{:>12}\n",
                cell.cell,
                percent(cell.measured_difference),
                percent(cell.measured_difference + cell.residual)
            ));
        }
        text
    }
}

impl Errors {
    /// The spread of differences as measured.
    fn of(name: &str, measured: &[f64], residuals: &[Residual]) -> Self {
        let both: Vec<(f64, Residual)> = measured
            .iter()
            .copied()
            .zip(residuals.iter().copied())
            .collect();
        let squares: f64 = both.iter().map(|(_, it)| it.difference.powi(2)).sum();
        let clear = both
            .iter()
            .filter(|(measured, _)| measured.abs() > MATERIAL_DIFFERENCE);
        let right = |(measured, it): &&(f64, Residual)| (measured + it.difference) * measured > 0.0;
        let count = clear.clone().count();
        Self {
            of: name.into(),
            cells: both.len(),
            median: median(both.iter().map(|(_, it)| it.difference.abs())),
            rms: (squares / both.len().max(1) as f64).sqrt(),
            median_h2: median(both.iter().map(|(_, it)| it.h2.abs())),
            right_sign: (count > 0).then(|| clear.filter(right).count() as f64 / count as f64),
        }
    }

    fn text(&self) -> String {
        let sign = self
            .right_sign
            .map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", 100.0 * share));
        format!(
            "{:<42}{:>6}{:>9.3}{:>8.3}{sign:>12}{:>12.3}\n",
            self.of, self.cells, self.median, self.rms, self.median_h2
        )
    }
}

fn rows(cells: &Cells, fit: &Fit) -> Vec<CellRow> {
    let residuals = fit.residuals.iter().zip(&fit.held_out);
    let row = |(cell, (residual, held_out)): (&FittedCell, (&Residual, &Residual))| CellRow {
        run: cell.run.clone(),
        cell: described(cell),
        measured_difference: cell.measured.difference,
        residual: residual.difference,
        residual_held_out: held_out.difference,
        residual_h2: residual.h2,
    };
    cells.taken.iter().zip(residuals).map(row).collect()
}

/// `20mbit, 25ms one way, 1% loss, 1MB, cold, altway-linux`, and congestion control other than CUBIC.
fn described(cell: &FittedCell) -> String {
    let it = &cell.condition;
    let rate = match it.rate {
        Rate::Limited(rate) => rate.to_string(),
        Rate::Unlimited => "unlimited".into(),
    };
    format!(
        "{rate}, {} one way, {} loss, {}, {}, {}{}",
        duration::format(it.delay),
        it.loss,
        it.size,
        it.connection,
        cell.measured.class,
        congestion(cell.measured.congestion)
    )
}

fn congestion([tcp, quic]: [Congestion; 2]) -> String {
    match (tcp, quic) {
        (Congestion::LossBased, Congestion::LossBased) => String::new(),
        _ if tcp == quic => format!(", {tcp}"),
        _ => format!(", {tcp} over TCP and {quic} over QUIC"),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    altway_stats::summarize(&values).map_or(0.0, |summary| summary.median)
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Three digits or four, with an exponent from a million on.
fn short(value: f64) -> String {
    if value.abs() >= 1e6 {
        format!("{:.0}e6", value / 1e6)
    } else if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value == 0.0 {
        "0".into()
    } else {
        let decimals = (2 - value.abs().log10().floor() as i32).clamp(0, 8) as usize;
        format!("{value:.decimals$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_whatever_their_size() {
        let values = [735e6, 2600.0, 15.71, 0.8, 0.0005, 0.0];
        let texts = values.map(short);
        assert_eq!(texts, ["735e6", "2600", "15.7", "0.800", "0.000500", "0"]);
    }

    #[test]
    fn a_sign_counts_where_the_difference_matters() {
        let residual = |difference| Residual {
            h2: 0.0,
            difference,
        };
        // Within 3 %; right; wrong: predicted above 0 where it is below.
        let errors = Errors::of(
            "three",
            &[-0.01, 0.2, -0.3],
            &[residual(0.02), residual(0.1), residual(0.4)],
        );
        assert_eq!((errors.cells, errors.right_sign), (3, Some(0.5)));
        assert!((errors.median - 0.1).abs() < 1e-12, "{errors:?}");
        assert_eq!(Errors::of("none", &[], &[]).right_sign, None);
    }
}
