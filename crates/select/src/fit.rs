//! A surface fitted to measured times: least squares of its own form, with what the measurements leave open.
//!
//! For each cell, ln T2 and ln(T3/T2) are predicted; the coefficients are those with the least sum of squares, in
//! which a far-off cell counts as its distance and not as its square (Huber 1964). Coefficients that the cells
//! don't determine are named instead of made up, unless the caller keeps them. How well the surface does where
//! nobody measured is tried by leaving a part of the cells out at a time.

mod coefficient;
mod solve;

use crate::{ClientClass, Congestion, Exchange, Surface};
use coefficient::{Place, places};
use solve::{Normal, cost, minimize};

/// The weight of ln T2 beside ln(T3/T2), which is what is decided by: the form of the times is coarser than that
/// of their quotient.
const TIME_WEIGHT: f64 = 0.3;

/// ln: from this distance on a cell counts as its distance.
const HUBER_THRESHOLD: f64 = 0.05;

/// ln: no cell is known better than this, whatever its pairs agree in.
const LEAST_ERROR: f64 = 0.01;

/// Standard error, in a coefficient's own scale, above which it is not determined.
const MOST_ERROR: f64 = 0.5;

/// Squared deviations by which a fit is worse at least with another value: two standard errors.
const LEAST_RISE: f64 = 4.0;

/// A cell of the lab: what was loaded over which path, and how long that took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredCell {
    /// The client's class.
    pub class: ClientClass,
    /// Rate of the path, bit/s.
    pub rate: f64,
    /// Round-trip time, seconds.
    pub rtt: f64,
    /// Share of packets lost.
    pub loss: f64,
    /// Congestion control of TCP and of QUIC.
    pub congestion: [Congestion; 2],
    /// The load that was timed.
    pub exchange: Exchange,
    /// Seconds over HTTP/2, above 0.
    pub h2: f64,
    /// ln(T3/T2).
    pub difference: f64,
    /// Standard error of `difference`.
    pub error: f64,
}

/// Predicted minus measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residual {
    /// The residual of ln T2.
    pub h2: f64,
    /// The residual of ln(T3/T2).
    pub difference: f64,
}

/// A coefficient as fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Coefficient {
    /// The name in the file: `loss.numerator`, `limits.chromium-linux`.
    pub name: String,
    /// The value, in the file's unit.
    pub value: f64,
    /// The standard error in the same unit; `None` if the coefficient was kept.
    pub error: Option<f64>,
}

/// The result of a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The surface; its sources are left to the caller.
    pub surface: Surface,
    /// The coefficients, those of the file first, then the limits of the classes that were measured.
    pub coefficients: Vec<Coefficient>,
    /// The residuals of each cell.
    pub residuals: Vec<Residual>,
    /// The residuals of each cell, by a surface that was fitted to others.
    pub held_out: Vec<Residual>,
}

/// Reasons why nothing was fitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// Fewer cells than it takes.
    #[error("{cells} cells are too few for {coefficients} coefficients: it takes {least}")]
    TooFew {
        /// Cells that there are.
        cells: usize,
        /// Coefficients that are looked for.
        coefficients: usize,
        /// Cells that it takes.
        least: usize,
    },
    /// Several values of these coefficients fit the cells as well as each other.
    #[error("the runs don't determine {}", .0.join(", "))]
    Undetermined(Vec<String>),
    /// A coefficient that should be kept does not exist.
    #[error("there is no coefficient `{0}` to keep")]
    Unknown(String),
    /// A cell with a time, a rate or a difference that is no number or out of range.
    #[error("cell {0} has a value that is none")]
    Value(usize),
}

/// Fits a surface to cells, beginning with `start`, of which the coefficients that are named in `keep` stay as
/// they are, and so do the limits of classes that were not measured. `folds`, 2 or more: parts that the cells are split into
/// for the residuals of cells that were held out.
///
/// # Errors
/// There are too few cells, they leave a coefficient open, or `keep` names an unknown one.
pub fn fit(
    cells: &[MeasuredCell],
    start: &Surface,
    keep: &[String],
    folds: usize,
) -> Result<Fit, FitError> {
    if let Some(bad) = cells.iter().position(|cell| !is_sound(cell)) {
        return Err(FitError::Value(bad));
    }
    let mut start = start.clone();
    let places = places(cells, &mut start);
    let known = |name: &String| places.iter().any(|place| place.name() == *name);
    if let Some(unknown) = keep.iter().find(|name| !known(name)) {
        return Err(FitError::Unknown(unknown.clone()));
    }
    let is_free = |place: &&Place| !keep.contains(&place.name());
    let free: Vec<Place> = places.iter().filter(is_free).cloned().collect();
    let least = 2 * free.len().max(folds);
    if cells.len() < least {
        return Err(FitError::TooFew {
            cells: cells.len(),
            coefficients: free.len(),
            least,
        });
    }
    let problem = Problem { cells, free: &free };
    let (surface, normal) = problem.best(&start);
    let errors = problem.errors(&surface, &normal)?;
    let surface = rounded(surface, &free);
    let coefficient = |place: &Place| {
        let index = free.iter().position(|it| it == place);
        let value = place.get(&surface);
        Coefficient {
            name: place.name(),
            value,
            error: index.map(|index| place.in_unit(value, errors[index])),
        }
    };
    Ok(Fit {
        coefficients: places.iter().map(coefficient).collect(),
        residuals: residuals(&surface, cells),
        held_out: held_out(cells, &free, &surface, folds.max(2)),
        surface,
    })
}

/// Rounds each coefficient to four digits: more than any fit knows.
fn rounded(mut surface: Surface, free: &[Place]) -> Surface {
    for place in free {
        place.round(&mut surface);
    }
    surface
}

fn is_sound(cell: &MeasuredCell) -> bool {
    let positive = [cell.h2, cell.rate, cell.rtt];
    let others = [cell.loss, cell.difference, cell.error];
    positive.iter().all(|it| it.is_finite() && *it > 0.0)
        && others.iter().all(|it| it.is_finite())
        && (0.0..1.0).contains(&cell.loss)
}

/// Predicted minus measured, of each cell.
#[must_use]
pub fn residuals(surface: &Surface, cells: &[MeasuredCell]) -> Vec<Residual> {
    let residual = |cell: &MeasuredCell| {
        let path_properties =
            surface.path_properties(cell.class, cell.rate, cell.rtt, cell.loss, cell.congestion);
        let times = surface.times(&path_properties, &cell.exchange);
        Residual {
            h2: times.h2.ln() - cell.h2.ln(),
            difference: times.difference() - cell.difference,
        }
    };
    cells.iter().map(residual).collect()
}

/// Cells, and the coefficients that they are to say.
struct Problem<'a> {
    cells: &'a [MeasuredCell],
    free: &'a [Place],
}

impl Problem<'_> {
    /// The best of a few beginnings, for a slow lead over a wide range looks much like a fast one over a narrow.
    fn best(&self, start: &Surface) -> (Surface, Normal) {
        const STARTING_LEADS: [(f64, f64); 3] = [(1.0, 1.0), (0.5, 3.0), (1.5, 0.4)];
        let fits = STARTING_LEADS.map(|(growth, pace)| {
            let mut other = start.clone();
            for place in self.free {
                place.scale(&mut other, growth, pace);
            }
            self.fit_from(&other)
        });
        let best = fits
            .into_iter()
            .min_by(|a, b| a.1.cost.total_cmp(&b.1.cost));
        best.expect("there are three beginnings")
    }

    fn fit_from(&self, start: &Surface) -> (Surface, Normal) {
        let at = |point: &[f64]| {
            let mut surface = start.clone();
            for (place, value) in self.free.iter().zip(point) {
                place.set(&mut surface, *value);
            }
            surface
        };
        let point: Vec<f64> = self.free.iter().map(|place| place.scaled(start)).collect();
        let within = |index: usize, value: f64| self.free[index].within(value);
        let residuals = |point: &[f64]| self.scaled_residuals(&at(point));
        let (point, normal) = minimize(&point, HUBER_THRESHOLD, within, residuals);
        (at(&point), normal)
    }

    /// Returns both residuals of each cell, weighted.
    fn scaled_residuals(&self, surface: &Surface) -> Vec<f64> {
        let residuals = residuals(surface, self.cells);
        let both = self
            .cells
            .iter()
            .zip(residuals)
            .flat_map(|(cell, residual)| {
                let weight = LEAST_ERROR / LEAST_ERROR.hypot(cell.error);
                [residual.difference * weight, residual.h2 * TIME_WEIGHT]
            });
        both.collect()
    }

    /// Standard errors in the scales of the coefficients.
    fn errors(&self, surface: &Surface, normal: &Normal) -> Result<Vec<f64>, FitError> {
        let spare = (2 * self.cells.len())
            .saturating_sub(self.free.len())
            .max(1) as f64;
        let mut squares: f64 = 0.0;
        for residual in self.scaled_residuals(surface) {
            squares += residual.abs().min(HUBER_THRESHOLD).powi(2);
        }
        let deviation = (squares / spare).sqrt().max(LEAST_ERROR);
        let errors = normal.errors(deviation);
        let is_open = |(place, error): (&Place, &f64)| {
            let flat =
                self.least_rise(surface, place, normal.cost) < LEAST_RISE * deviation.powi(2);
            (flat || error.is_nan() || *error > MOST_ERROR).then(|| place.name())
        };
        let open: Vec<String> = self.free.iter().zip(&errors).filter_map(is_open).collect();
        if open.is_empty() {
            Ok(errors)
        } else {
            Err(FitError::Undetermined(open))
        }
    }

    /// The least by which the fit is worse with a coefficient that is 1 more or less in its scale. A limit of which
    /// nothing is seen has a small error where the noise seems to show it, but a larger one does as well.
    fn least_rise(&self, surface: &Surface, place: &Place, least: f64) -> f64 {
        let scaled = place.scaled(surface);
        let rise = |by: f64| {
            let mut other = surface.clone();
            place.set(&mut other, scaled + by);
            let is_other = place.get(&other) != place.get(surface);
            is_other.then(|| cost(&self.scaled_residuals(&other), HUBER_THRESHOLD) - least)
        };
        [1.0, -1.0]
            .into_iter()
            .filter_map(rise)
            .fold(f64::INFINITY, f64::min)
    }
}

/// Residuals of each cell by the fit to the parts that it is not in.
fn held_out(
    cells: &[MeasuredCell],
    free: &[Place],
    start: &Surface,
    folds: usize,
) -> Vec<Residual> {
    let mut order: Vec<usize> = (0..cells.len()).collect();
    // Neighbours in a plan come into different parts, in no rhythm of its axes.
    order.sort_by_key(|index| (*index as u32).wrapping_mul(0x9E37_79B1));
    let mut held_out = vec![
        Residual {
            h2: 0.0,
            difference: 0.0
        };
        cells.len()
    ];
    for fold in 0..folds {
        let part = order.iter().skip(fold).step_by(folds);
        let part: Vec<usize> = part.copied().collect();
        let others = (0..cells.len()).filter(|index| !part.contains(index));
        let others: Vec<MeasuredCell> = others.map(|index| cells[index]).collect();
        let problem = Problem {
            cells: &others,
            free,
        };
        let (surface, _) = problem.fit_from(start);
        for index in part {
            held_out[index] = residuals(&surface, &cells[index..=index])[0];
        }
    }
    held_out
}

#[cfg(test)]
mod tests;
