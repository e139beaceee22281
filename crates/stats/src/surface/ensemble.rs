//! Surfaces as they might have been with other luck: their values at the nodes of a grid, many
//! times.

use super::grid::Grid;
use super::kriging::{Kriging, Observation};
use crate::bootstrap::Bootstrap;
use crate::hodges_lehmann::estimate_in_place;
use crate::resample::Resampler;
use crate::summary::mean;

/// Standard deviation of a cell's estimate that is never undercut, as a log-ratio: what cells owe to
/// more than chance (0.1 %).
const LEAST_SPREAD: f64 = 0.001;
/// Number of pairs that the spread of all cells together counts for in each cell's spread.
const PRIOR_PAIRS: f64 = 4.0;
/// Variance of the Hodges–Lehmann estimate over that of the mean, under normal noise: π / 3.
const VARIANCE_OF_ESTIMATE: f64 = std::f64::consts::FRAC_PI_3;
/// Spread of a pair that is assumed when no cell has enough pairs to tell.
const SPREAD_UNSEEN: f64 = 0.1;

/// Surfaces, each as a value for every cell of a grid.
pub(super) struct Ensemble {
    /// The best single surface.
    pub(super) centre: Vec<f64>,
    /// Further surfaces: each is drawn as often as it is likely.
    pub(super) members: Vec<Vec<f64>>,
}

impl Ensemble {
    /// Each cell's own estimate; members by resampling the pairs within each cell. `None` when a
    /// cell has fewer than two pairs.
    pub(super) fn resampled(grid: &Grid, options: &Bootstrap) -> Option<Self> {
        let cells = grid.cells();
        if cells.iter().any(|pairs| pairs.len() < 2) {
            return None;
        }
        let centre = (0..cells.len()).map(|cell| grid.centre(cell)).collect();
        let mut resampler = Resampler::new(options.seed);
        let mut drawn = cells.to_vec();
        let member = |_| {
            let cells = cells.iter().zip(&mut drawn);
            cells
                .map(|(pairs, drawn)| {
                    resampler.fill(pairs, drawn);
                    estimate_in_place(drawn)
                })
                .collect()
        };
        let members = (0..options.resamples).map(member).collect();
        Some(Self { centre, members })
    }

    /// The surface between the cells that have pairs; members drawn from what it might be. `None`
    /// when none has.
    pub(super) fn smoothed(grid: &Grid, options: &Bootstrap) -> Option<Self> {
        let model = Kriging::fit(&observations(grid))?;
        let places: Vec<_> = (0..grid.cells().len())
            .map(|cell| grid.normalised(cell))
            .collect();
        let centre = places.iter().map(|at| model.predict(*at).mean).collect();
        let mut resampler = Resampler::new(options.seed);
        let members = model.draw(&places, options.resamples, &mut resampler);
        Some(Self { centre, members })
    }
}

/// The cells of a grid that have pairs.
pub(super) fn observations(grid: &Grid) -> Vec<Observation> {
    let variances = variances_of_pairs(grid.cells());
    let cells = grid.cells().iter().zip(variances).enumerate();
    cells
        .filter(|(_, (pairs, _))| !pairs.is_empty())
        .map(|(cell, (pairs, variance))| Observation {
            at: grid.normalised(cell),
            value: grid.centre(cell),
            variance: variance_of_estimate(variance, pairs.len()),
        })
        .collect()
}

/// Variance of the estimate of `pairs` pairs whose own variance is `variance`.
pub(super) fn variance_of_estimate(variance: f64, pairs: usize) -> f64 {
    variance * VARIANCE_OF_ESTIMATE / pairs as f64 + LEAST_SPREAD.powi(2)
}

/// The variance of a pair in each cell. A few pairs tell it badly, so each cell's own is drawn
/// towards the middle one of all cells, as if that were the finding of four pairs more.
pub(super) fn variances_of_pairs(cells: &[Vec<f64>]) -> Vec<f64> {
    let own: Vec<(f64, f64)> = cells.iter().map(|pairs| squares(pairs)).collect();
    let mut known: Vec<f64> = own
        .iter()
        .filter(|(_, freedom)| *freedom >= 2.0)
        .map(|(squares, freedom)| squares / freedom)
        .collect();
    known.sort_by(f64::total_cmp);
    let middle = known.get(known.len() / 2).copied();
    let middle = middle.unwrap_or(SPREAD_UNSEEN.powi(2));
    own.iter()
        .map(|(squares, freedom)| (squares + PRIOR_PAIRS * middle) / (freedom + PRIOR_PAIRS))
        .collect()
}

/// Sum of the squared distances from the mean, and the degrees of freedom.
fn squares(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let mean = mean(values);
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares, values.len() as f64 - 1.0)
}
