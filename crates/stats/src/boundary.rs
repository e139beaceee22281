//! Width that an interval must have so that it may be looked at several times.
//!
//! An analyst who looks at growing data until the interval suits him finds intervals that leave out the
//! truth more often than they say. Pocock (1977) widens all of them alike, so that all looks together
//! keep the level; Jennison and Turnbull (1989) call them repeated confidence intervals. Then it does
//! not matter at which look, or why, the measuring ends.

use statrs::distribution::{ContinuousCDF, Normal};
use std::f64::consts::{PI, SQRT_2};

/// Level of the interval at each of `looks` (numbers of values, rising) with which all of them
/// together cover the truth with probability `level`.
///
/// The estimate is taken to be a sum of independent parts that are about normal.
pub(crate) fn level_of_each(looks: &[usize], level: f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    // 60 halvings of 10 go below the last bit of the result.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if probability_inside(looks, middle) < level {
            low = middle;
        } else {
            high = middle;
        }
    }
    statrs::function::erf::erf(high / SQRT_2)
}

/// The p-value of all `looks` together that belongs to the p-value `p` at one of them: the chance that
/// any look finds as much, if there is nothing to find.
pub(crate) fn p_of_all(looks: &[usize], p: f64) -> f64 {
    let c = Normal::standard().inverse_cdf(1.0 - p / 2.0).min(10.0);
    // Between the best and the worst case; for small p also against the integral's own error.
    let most = (p * looks.len() as f64).min(1.0);
    (1.0 - probability_inside(looks, c)).clamp(p, most)
}

/// P(|S(n)| ≤ c √n at every look n) of a sum S of standard normal values: carries the density of
/// the sums that stayed inside from look to look (Armitage, McPherson and Rowe 1969).
fn probability_inside(looks: &[usize], c: f64) -> f64 {
    let mut inside = vec![(0.0, 1.0)];
    let mut before = 0;
    for look in looks {
        let spread = ((look - before) as f64).sqrt();
        let limit = c * (*look as f64).sqrt();
        inside = step(&inside, spread, limit);
        before = *look;
    }
    inside.iter().map(|(_, mass)| mass).sum()
}

/// Points with masses (density times Simpson's weight) of the sum after another look.
fn step(inside: &[(f64, f64)], spread: f64, limit: f64) -> Vec<(f64, f64)> {
    // A quarter of the step's spread resolves its bell; both bounds keep the work in hand.
    let wanted = (8.0 * limit / spread).ceil().clamp(64.0, 1_024.0) as usize;
    let parts = wanted.next_multiple_of(2);
    let width = 2.0 * limit / parts as f64;
    let scale = 1.0 / (spread * (2.0 * PI).sqrt());
    let point = |i: usize| {
        let at = -limit + width * i as f64;
        let density: f64 = inside
            .iter()
            .map(|(from, mass)| mass * scale * (-0.5 * ((at - from) / spread).powi(2)).exp())
            .sum();
        (at, density * width / 3.0 * simpson(i, parts))
    };
    (0..=parts).map(point).collect()
}

fn simpson(i: usize, parts: usize) -> f64 {
    match i {
        0 => 1.0,
        _ if i == parts => 1.0,
        _ if i % 2 == 1 => 4.0,
        _ => 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constant c that belongs to a level.
    fn constant(looks: &[usize], level: f64) -> f64 {
        Normal::standard().inverse_cdf(f64::midpoint(1.0, level_of_each(looks, level)))
    }

    #[test]
    fn one_look_needs_no_widening() {
        assert!((level_of_each(&[12], 0.95) - 0.95).abs() < 1e-6);
        assert!((level_of_each(&[4_000], 0.8) - 0.8).abs() < 1e-6);
    }

    #[test]
    fn equal_steps_give_pococks_constants() {
        for (looks, expected) in [(2, 2.178), (3, 2.289), (4, 2.361), (5, 2.413), (10, 2.555)] {
            let looks: Vec<usize> = (1..=looks).map(|look| 20 * look).collect();
            let ours = constant(&looks, 0.95);
            assert!(
                (ours - expected).abs() < 6e-4,
                "{ours} instead of {expected}"
            );
        }
    }

    #[test]
    fn a_p_value_of_all_looks_is_the_level_turned_round() {
        let looks = [12, 24, 49, 100];
        let each = level_of_each(&looks, 0.95);
        assert!((p_of_all(&looks, 1.0 - each) - 0.05).abs() < 1e-9);
        assert_eq!(p_of_all(&looks, 0.0), 0.0);
        assert!((p_of_all(&looks, 1.0) - 1.0).abs() < 1e-9);
        let tiny = p_of_all(&looks, 1e-14);
        assert!((1e-14..=4e-14).contains(&tiny), "{tiny}");
        assert!((p_of_all(&[12], 0.2) - 0.2).abs() < 1e-6);
    }

    #[test]
    fn looks_close_together_cost_less() {
        let close = level_of_each(&[50, 52, 54], 0.95);
        let apart = level_of_each(&[12, 25, 54], 0.95);
        assert!(close < apart && apart < 0.9834, "{close} {apart}");
    }
}
