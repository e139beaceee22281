//! Least squares that are not linear: Levenberg (1944) and Marquardt (1963), with Huber's weights.
//!
//! Some ten unknowns and some hundred residuals: the normal equations, by Cholesky, are enough.

/// Steps at most.
const STEPS: usize = 200;

/// Share by which the cost falls at least in a step that is worth another.
const MIN_IMPROVEMENT: f64 = 1e-10;

/// Half of the step of a derivative.
const HALF_DERIVATIVE_STEP: f64 = 1e-4;

/// Knowledge that is assumed of each unknown, so that one that is open doesn't make the others so.
const RIDGE: f64 = 1e-8;

/// Damping at first, and from which on there is no step that helps.
const DAMPING: (f64, f64) = (1e-3, 1e10);

/// The normal equations at a minimum.
#[derive(Debug, Clone)]
pub(super) struct Normal {
    matrix: Vec<Vec<f64>>,
    /// The sum that is minimal.
    pub(super) cost: f64,
}

impl Normal {
    /// Standard errors of the unknowns, if residuals deviate by so much; very large where they are open.
    pub(super) fn errors(&self, deviation: f64) -> Vec<f64> {
        let size = self.matrix.len();
        let mut matrix = self.matrix.clone();
        for (index, row) in matrix.iter_mut().enumerate() {
            row[index] += RIDGE;
        }
        let unit = |index: usize| (0..size).map(move |row| f64::from(u8::from(row == index)));
        let variance = |index: usize| {
            let unit: Vec<f64> = unit(index).collect();
            solve(&matrix, &unit).map(|solved| solved[index])
        };
        let error = |index| variance(index).map_or(f64::INFINITY, |it| deviation * it.sqrt());
        (0..size).map(error).collect()
    }
}

/// The point near `start` where the residuals are least: squares of those up to `far`, distances of those beyond.
/// `within`: the nearest value that an unknown can have, by its index.
pub(super) fn minimize(
    start: &[f64],
    far: f64,
    within: impl Fn(usize, f64) -> f64,
    residuals: impl Fn(&[f64]) -> Vec<f64>,
) -> (Vec<f64>, Normal) {
    let mut point = start.to_vec();
    let mut current = residuals(&point);
    let mut damping = DAMPING.0;
    let (mut matrix, mut gradient) = normal(&point, &current, far, &residuals);
    for _ in 0..STEPS {
        if damping > DAMPING.1 {
            break;
        }
        let cost_before = cost(&current, far);
        let next = next(&point, &matrix, &gradient, damping, &within);
        let tried = next.map(|next| (residuals(&next), next));
        match tried.filter(|(found, _)| cost(found, far) < cost_before) {
            Some((found, next)) => {
                let gain = 1.0 - cost(&found, far) / cost_before;
                (point, current) = (next, found);
                damping = (damping / 4.0).max(1e-12);
                (matrix, gradient) = normal(&point, &current, far, &residuals);
                if gain < MIN_IMPROVEMENT {
                    break;
                }
            }
            None => damping *= 5.0,
        }
    }
    let cost = cost(&current, far);
    (point, Normal { matrix, cost })
}

/// Squares of residuals up to `far`, distances of those beyond.
pub(super) fn cost(residuals: &[f64], far: f64) -> f64 {
    let of = |it: &f64| {
        let size = it.abs();
        if size <= far {
            size * size
        } else {
            far * (2.0 * size - far)
        }
    };
    residuals.iter().map(of).sum()
}

/// Matrix and right side of the normal equations, residuals beyond `far` by their weights.
fn normal(
    point: &[f64],
    current: &[f64],
    far: f64,
    residuals: &impl Fn(&[f64]) -> Vec<f64>,
) -> (Vec<Vec<f64>>, Vec<f64>) {
    let nudged = |index: usize, by: f64| {
        let mut near = point.to_vec();
        near[index] += by;
        residuals(&near)
    };
    let column = |index: usize| -> Vec<f64> {
        let (above, below) = (
            nudged(index, HALF_DERIVATIVE_STEP),
            nudged(index, -HALF_DERIVATIVE_STEP),
        );
        let both = above.iter().zip(&below);
        both.map(|(above, below)| (above - below) / (2.0 * HALF_DERIVATIVE_STEP))
            .collect()
    };
    let columns: Vec<Vec<f64>> = (0..point.len()).map(column).collect();
    let weights: Vec<f64> = current
        .iter()
        .map(|residual| (far / residual.abs().max(far)).min(1.0))
        .collect();
    let dot = |a: &[f64], b: &[f64]| -> f64 {
        let products = a.iter().zip(b).zip(&weights);
        products.map(|((a, b), weight)| a * b * weight).sum()
    };
    let row = |a: &Vec<f64>| columns.iter().map(|b| dot(a, b)).collect();
    let gradient = columns.iter().map(|a| dot(a, current)).collect();
    (columns.iter().map(row).collect(), gradient)
}

/// The next point to try. Unknowns that are at their bound and would leave it stay, and the others move without them.
fn next(
    point: &[f64],
    matrix: &[Vec<f64>],
    gradient: &[f64],
    damping: f64,
    within: &impl Fn(usize, f64) -> f64,
) -> Option<Vec<f64>> {
    let moved = |by: &[f64]| -> Vec<f64> {
        let all = point.iter().zip(by).enumerate();
        all.map(|(index, (at, by))| within(index, at - by))
            .collect()
    };
    let by = step(matrix, gradient, damping, &[])?;
    let next = moved(&by);
    let stays = |index: &usize| next[*index] == point[*index] && by[*index] != 0.0;
    let held: Vec<usize> = (0..point.len()).filter(stays).collect();
    if held.is_empty() {
        return Some(next);
    }
    step(matrix, gradient, damping, &held).map(|by| moved(&by))
}

/// Returns the step by which each unknown is lessened but those that are `held`.
fn step(matrix: &[Vec<f64>], gradient: &[f64], damping: f64, held: &[usize]) -> Option<Vec<f64>> {
    let (mut damped, mut gradient) = (matrix.to_vec(), gradient.to_vec());
    for (index, row) in damped.iter_mut().enumerate() {
        row[index] += damping * row[index].max(1e-9);
    }
    for &index in held {
        for row in &mut damped {
            row[index] = 0.0;
        }
        damped[index].fill(0.0);
        damped[index][index] = 1.0;
        gradient[index] = 0.0;
    }
    solve(&damped, &gradient)
}

/// Solves a symmetric system by Cholesky; `None` where the matrix is not positive definite.
fn solve(matrix: &[Vec<f64>], right: &[f64]) -> Option<Vec<f64>> {
    let size = right.len();
    let mut lower = vec![vec![0.0; size]; size];
    for row in 0..size {
        for column in 0..=row {
            let known: f64 = (0..column).map(|k| lower[row][k] * lower[column][k]).sum();
            let rest = matrix[row][column] - known;
            lower[row][column] = if row == column {
                // What is left of a unit by rounding is nothing.
                let floor = 1e-13 * matrix[row][row];
                Some(rest)
                    .filter(|rest| *rest > floor && rest.is_finite())?
                    .sqrt()
            } else {
                rest / lower[column][column]
            };
        }
    }
    let mut solved = right.to_vec();
    for row in 0..size {
        let known: f64 = (0..row).map(|k| lower[row][k] * solved[k]).sum();
        solved[row] = (solved[row] - known) / lower[row][row];
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|k| lower[k][row] * solved[k]).sum();
        solved[row] = (solved[row] - known) / lower[row][row];
    }
    Some(solved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_found_with_its_errors_and_past_an_outlier() {
        // y = 3 e^(-0.5 x), one value far off.
        let value = |x: f64| 3.0 * (-0.5 * x).exp() + if x == 4.0 { 5.0 } else { 0.0 };
        let residuals = |p: &[f64]| -> Vec<f64> {
            let xs = (0..20).map(|i| f64::from(i) / 2.0);
            xs.map(|x| p[0] * (p[1] * x).exp() - value(x)).collect()
        };
        let (point, normal) = minimize(&[1.0, -0.1], 0.05, |_, value| value, residuals);
        assert!(
            (point[0] - 3.0).abs() < 0.03 && (point[1] + 0.5).abs() < 0.01,
            "{point:?}"
        );
        assert!(normal.errors(0.01).iter().all(|error| *error < 0.02));
    }

    #[test]
    fn an_unknown_stays_within_what_it_can_be() {
        let residuals = |p: &[f64]| vec![p[0] + 1.0, p[1] - p[0] - 2.0];
        let within = |index: usize, value: f64| if index == 0 { value.max(0.5) } else { value };
        let (point, _) = minimize(&[3.0, 0.0], 10.0, within, residuals);
        assert!(
            (point[0] - 0.5).abs() < 1e-3 && (point[1] - 2.5).abs() < 1e-3,
            "{point:?}"
        );
    }

    #[test]
    fn what_the_residuals_leave_open_has_no_finite_error() {
        // Only the sum of the first two is seen, and nothing of the third.
        let residuals = |p: &[f64]| vec![p[0] + p[1] - 2.0, 2.0 * (p[0] + p[1]) - 4.0];
        let (point, normal) = minimize(&[0.0, 0.5, 7.0], 1.0, |_, value| value, residuals);
        assert!((point[0] + point[1] - 2.0).abs() < 1e-6, "{point:?}");
        assert!(
            normal.errors(1.0).iter().all(|error| *error > 1e3),
            "{normal:?}"
        );
    }
}
