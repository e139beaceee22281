//! The surface between measured cells, with its uncertainty: Gaussian process regression (kriging).
//!
//! A cell that was not measured says nothing by itself, but its neighbours say something, and less the
//! further away they are. The surface is taken to be a plane plus a smooth deviation (Matérn 5/2). The
//! smoothness along each axis is not chosen: all of a few models speak, each with the weight that its
//! likelihood gives it, so that a few cells don't pretend to know.
//!
//! Coordinates are normalised to 0–1 along each axis, values are log-ratios.

use crate::resample::Resampler;
use statrs::distribution::{ContinuousCDF, Normal};

/// Distances, as shares of an axis, over which the deviation from the plane changes.
const LENGTHS: [f64; 3] = [0.25, 0.6, 1.5];
/// Sizes of the deviation, as log-ratios.
const SIZES: [f64; 4] = [0.02, 0.07, 0.2, 0.6];
/// Standard deviation of the plane at the origin and of its slopes before anything is measured:
/// a factor e in time, far more than protocols differ.
const PLANE: f64 = 1.0;
/// Models whose weight is below this share of the best one's are left out.
const LEAST_WEIGHT: f64 = 1e-3;

/// Measurement of one cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    /// The place.
    pub(super) at: (f64, f64),
    /// The estimate.
    pub(super) value: f64,
    /// Variance of the estimate, above zero.
    pub(super) variance: f64,
}

/// Prediction of the surface at one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prediction {
    pub(super) mean: f64,
    pub(super) std_dev: f64,
    /// Probability that it is below zero.
    pub(super) below_zero: f64,
}

/// A few models of one surface, weighted.
pub(super) struct Kriging {
    observed: Vec<(f64, f64)>,
    models: Vec<Model>,
}

impl Kriging {
    /// `None` without observations.
    pub(super) fn fit(observations: &[Observation]) -> Option<Self> {
        if observations.is_empty() {
            return None;
        }
        let mut models: Vec<Model> = shapes(observations)
            .into_iter()
            .filter_map(|shape| Model::fit(shape, observations))
            .collect();
        let logs = models.iter().map(|model| model.weight);
        let best = logs.max_by(f64::total_cmp)?;
        for model in &mut models {
            model.weight = (model.weight - best).exp();
        }
        models.retain(|model| model.weight >= LEAST_WEIGHT);
        let total: f64 = models.iter().map(|model| model.weight).sum();
        for model in &mut models {
            model.weight /= total;
        }
        let observed = observations.iter().map(|one| one.at).collect();
        Some(Self { observed, models })
    }

    /// The surface at a place, all models together.
    pub(super) fn predict(&self, at: (f64, f64)) -> Prediction {
        let normal = Normal::standard();
        let (mut mean, mut square, mut below_zero) = (0.0, 0.0, 0.0);
        for model in &self.models {
            let (m, variance) = model.predict(at, &self.observed);
            mean += model.weight * m;
            square += model.weight * (m * m + variance);
            below_zero += model.weight * normal.cdf(-m / variance.sqrt());
        }
        Prediction {
            mean,
            std_dev: (square - mean * mean).max(0.0).sqrt(),
            below_zero,
        }
    }

    /// `count` surfaces that the observations allow, each as its values at `places`.
    pub(super) fn draw(
        &self,
        places: &[(f64, f64)],
        count: usize,
        resampler: &mut Resampler,
    ) -> Vec<Vec<f64>> {
        let mut drawn = Vec::with_capacity(count);
        let mut due = 0.0;
        for model in &self.models {
            // Systematic: each model draws its share to within one.
            due += model.weight * count as f64;
            let more = (due.round() as usize).saturating_sub(drawn.len());
            drawn.extend(model.draw(places, &self.observed, more, resampler));
        }
        drawn
    }
}

/// The models to try: one length along an axis on which nothing was measured apart.
fn shapes(observations: &[Observation]) -> Vec<Shape> {
    let lengths = |along: fn(&(f64, f64)) -> f64| {
        let first = observations.first().map(|one| along(&one.at));
        let varies = observations.iter().any(|one| Some(along(&one.at)) != first);
        if varies { &LENGTHS[..] } else { &LENGTHS[..1] }
    };
    let mut shapes = Vec::new();
    for x in lengths(|at| at.0) {
        for y in lengths(|at| at.1) {
            shapes.extend(SIZES.iter().map(|size| Shape {
                lengths: (*x, *y),
                size: *size,
            }));
        }
    }
    shapes
}

/// Shape of the surface's variation from place to place.
#[derive(Debug, Clone, Copy)]
struct Shape {
    lengths: (f64, f64),
    size: f64,
}

impl Shape {
    /// Covariance of the surface at two places.
    fn covariance(&self, a: (f64, f64), b: (f64, f64)) -> f64 {
        let (dx, dy) = ((a.0 - b.0) / self.lengths.0, (a.1 - b.1) / self.lengths.1);
        let r = (5.0 * (dx * dx + dy * dy)).sqrt();
        let deviation = self.size.powi(2) * (1.0 + r + r * r / 3.0) * (-r).exp();
        PLANE * PLANE * (1.0 + a.0 * b.0 + a.1 * b.1) + deviation
    }
}

/// A model of one shape, given the observations.
struct Model {
    shape: Shape,
    /// Lower triangle of the covariance of the observations.
    factor: Factor,
    /// The inverse of that covariance times the values.
    pull: Vec<f64>,
    /// Logarithm of the likelihood first, the share of all models after.
    weight: f64,
}

impl Model {
    fn fit(shape: Shape, observations: &[Observation]) -> Option<Self> {
        let factor = Factor::new(observations.len(), |i, j| {
            let noise = if i == j {
                observations[i].variance
            } else {
                0.0
            };
            shape.covariance(observations[i].at, observations[j].at) + noise
        })?;
        let values: Vec<f64> = observations.iter().map(|one| one.value).collect();
        let whitened = factor.forward(&values);
        let squares: f64 = whitened.iter().map(|value| value * value).sum();
        Some(Self {
            shape,
            weight: -squares / 2.0 - factor.half_log_determinant(),
            pull: factor.backward(&whitened),
            factor,
        })
    }

    /// Mean and variance at a place.
    fn predict(&self, at: (f64, f64), observed: &[(f64, f64)]) -> (f64, f64) {
        let covariances = self.covariances(at, observed);
        let known: f64 = self
            .factor
            .forward(&covariances)
            .iter()
            .map(|value| value * value)
            .sum();
        let variance = self.shape.covariance(at, at) - known;
        (
            dot(&covariances, &self.pull),
            variance.max(f64::MIN_POSITIVE),
        )
    }

    fn covariances(&self, at: (f64, f64), observed: &[(f64, f64)]) -> Vec<f64> {
        let to = |other: &(f64, f64)| self.shape.covariance(at, *other);
        observed.iter().map(to).collect()
    }

    fn draw(
        &self,
        places: &[(f64, f64)],
        observed: &[(f64, f64)],
        count: usize,
        resampler: &mut Resampler,
    ) -> Vec<Vec<f64>> {
        let to_observed: Vec<Vec<f64>> = places
            .iter()
            .map(|place| self.covariances(*place, observed))
            .collect();
        let known: Vec<Vec<f64>> = to_observed
            .iter()
            .map(|covariances| self.factor.forward(covariances))
            .collect();
        let left = Factor::new(places.len(), |i, j| {
            // A hair on the diagonal, against rounding where nothing is left to know.
            let hair = if i == j { 1e-9 } else { 0.0 };
            self.shape.covariance(places[i], places[j]) - dot(&known[i], &known[j]) + hair
        });
        let means: Vec<f64> = to_observed
            .iter()
            .map(|covariances| dot(covariances, &self.pull))
            .collect();
        let one = |_| {
            let noise: Vec<f64> = means.iter().map(|_| resampler.normal()).collect();
            let moved = left.as_ref().map(|left| left.times(&noise));
            let moved = moved.unwrap_or_else(|| vec![0.0; means.len()]);
            means
                .iter()
                .zip(moved)
                .map(|(mean, by)| mean + by)
                .collect()
        };
        (0..count).map(one).collect()
    }
}

/// A lower triangle L with L Lᵀ = the matrix it was made of (Cholesky), row by row.
struct Factor(Vec<Vec<f64>>);

impl Factor {
    /// `None` when the matrix is not positive definite.
    fn new(n: usize, matrix: impl Fn(usize, usize) -> f64) -> Option<Self> {
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(n);
        for i in 0..n {
            let mut row: Vec<f64> = Vec::with_capacity(i + 1);
            for j in 0..i {
                let rest = matrix(i, j) - dot(&row, &rows[j][..j]);
                row.push(rest / rows[j][j]);
            }
            let rest = matrix(i, i) - dot(&row, &row);
            let root = Some(rest.sqrt()).filter(|root| *root > 0.0)?;
            row.push(root);
            rows.push(row);
        }
        Some(Self(rows))
    }

    /// x with L x = b.
    fn forward(&self, b: &[f64]) -> Vec<f64> {
        let mut x: Vec<f64> = Vec::with_capacity(b.len());
        for (i, row) in self.0.iter().enumerate() {
            let rest = b[i] - dot(&x, &row[..i]);
            x.push(rest / row[i]);
        }
        x
    }

    /// x with Lᵀ x = b.
    fn backward(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        for i in (0..x.len()).rev() {
            x[i] /= self.0[i][i];
            for j in 0..i {
                x[j] -= self.0[i][j] * x[i];
            }
        }
        x
    }

    /// L x.
    fn times(&self, x: &[f64]) -> Vec<f64> {
        self.0.iter().map(|row| dot(row, x)).collect()
    }

    fn half_log_determinant(&self) -> f64 {
        self.0.iter().enumerate().map(|(i, row)| row[i].ln()).sum()
    }
}

/// Σ aᵢ bᵢ over the shorter of the two.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    fn observations(of: impl Fn(f64, f64) -> f64, n: usize) -> Vec<Observation> {
        let place = |i: usize| (i / n, i % n);
        (0..n * n)
            .map(|i| {
                let at = (
                    place(i).0 as f64 / (n - 1) as f64,
                    place(i).1 as f64 / (n - 1) as f64,
                );
                Observation {
                    at,
                    value: of(at.0, at.1),
                    variance: 1e-6,
                }
            })
            .collect()
    }

    #[derive(Deserialize)]
    struct Case {
        lengths: (f64, f64),
        size: f64,
        at: Vec<(f64, f64)>,
        values: Vec<f64>,
        variances: Vec<f64>,
        log_likelihood: f64,
        place: (f64, f64),
        mean: f64,
        variance: f64,
    }

    #[test]
    fn one_model_agrees_with_numpys_normal_distribution() {
        let json = include_str!("../../tests/vectors/kriging.json");
        for case in serde_json::from_str::<Vec<Case>>(json).unwrap() {
            let observed = case.at.iter().zip(&case.values).zip(&case.variances);
            let observations: Vec<Observation> = observed
                .map(|((at, value), variance)| Observation {
                    at: *at,
                    value: *value,
                    variance: *variance,
                })
                .collect();
            let shape = Shape {
                lengths: case.lengths,
                size: case.size,
            };
            let model = Model::fit(shape, &observations).unwrap();
            let (mean, variance) = model.predict(case.place, &case.at);
            let constant = (std::f64::consts::TAU.ln() / 2.0) * case.at.len() as f64;
            assert!((model.weight - constant - case.log_likelihood).abs() < 1e-6);
            assert!((mean - case.mean).abs() < 1e-8);
            assert!((variance / case.variance - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn nothing_observed_is_no_surface() {
        assert!(Kriging::fit(&[]).is_none());
    }

    #[test]
    fn a_smooth_surface_is_met_between_its_cells() {
        let surface = |x: f64, y: f64| 0.1 - 0.2 * x - 0.1 * y + 0.05 * (3.0 * x).sin() * y;
        let model = Kriging::fit(&observations(surface, 5)).unwrap();
        for (x, y) in [(0.1, 0.1), (0.6, 0.4), (0.9, 0.35)] {
            let found = model.predict((x, y));
            assert!((found.mean - surface(x, y)).abs() < 0.004, "{found:?}");
            assert!(
                (found.mean - surface(x, y)).abs() < 4.0 * found.std_dev,
                "{found:?}"
            );
        }
    }

    #[test]
    fn the_further_from_what_was_measured_the_less_is_known() {
        let corner: Vec<Observation> = observations(|_, _| -0.1, 3)
            .into_iter()
            .filter(|one| one.at.0 < 0.6 && one.at.1 < 0.6)
            .collect();
        let model = Kriging::fit(&corner).unwrap();
        let (near, far) = (model.predict((0.5, 0.5)), model.predict((1.0, 1.0)));
        assert!(near.std_dev < 0.002 && far.std_dev > 5.0 * near.std_dev);
        assert!(near.below_zero > 0.999);
        assert!(far.below_zero > 0.5 && far.below_zero < near.below_zero);
    }

    #[test]
    fn drawn_surfaces_spread_as_predicted() {
        let few: Vec<Observation> = observations(|x, y| 0.1 - 0.2 * x - 0.05 * y, 3)
            .into_iter()
            .map(|one| Observation {
                variance: 4e-4,
                ..one
            })
            .collect();
        let model = Kriging::fit(&few).unwrap();
        let place = (0.7, 0.2);
        let drawn = model.draw(&[place, (0.0, 1.0)], 4_000, &mut Resampler::new(9));
        assert_eq!(drawn.len(), 4_000);
        let values: Vec<f64> = drawn.iter().map(|values| values[0]).collect();
        let summary = crate::summarize(&values).unwrap();
        let predicted = model.predict(place);
        assert!((summary.mean - predicted.mean).abs() < 0.1 * predicted.std_dev);
        let ratio = summary.std_dev.unwrap() / predicted.std_dev;
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }
}
