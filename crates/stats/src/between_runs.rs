//! Two runs side by side: has the crossover moved?

use crate::bootstrap::Interval;
use crate::crossover::{Axis, CrossoverOptions, CrossoverPoint};

/// Result of [`crossover_difference`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossoverDifference {
    /// Crossover in the second run less that in the first, in the unit of the axis; `None` when one
    /// of them has none in its measured range.
    pub estimate: Option<f64>,
    /// Percentile interval of the difference. An end is infinite when resamples reach it in which
    /// one run or both have no crossing in the range.
    pub interval: Interval,
    /// Share of resamples in which both runs have a crossing in their range, 0 to 1. When it is
    /// small the interval says little: look at each run's own crossover.
    pub share_of_resamples: f64,
}

/// How far the crossover lies from one run to the other, each as
/// [`crossover_with`](crate::crossover_with) finds it.
///
/// Both runs' pairs are resampled independently of each other, as they were measured.
///
/// `None` when one of the runs has no valid points or the options are out of range.
///
/// ```
/// use altway_stats::{CrossoverOptions, CrossoverPoint, crossover_difference};
/// let run = |at: f64| {
///     [0.0, 25.0, 50.0, 75.0].map(|x| CrossoverPoint {
///         x,
///         log_ratios: (0..9).map(|i| (at - x) * 0.001 + 0.001 * f64::from(i - 4)).collect(),
///     })
/// };
/// let moved = crossover_difference(&run(50.0), &run(10.0), &CrossoverOptions::default());
/// let moved = moved.expect("two runs");
/// assert!(moved.estimate.is_some_and(|by| (by - -40.0).abs() < 1e-6));
/// assert!(moved.interval.high < -35.0);
/// ```
#[must_use]
pub fn crossover_difference(
    from: &[CrossoverPoint],
    to: &[CrossoverPoint],
    options: &CrossoverOptions,
) -> Option<CrossoverDifference> {
    let (from, to) = (Axis::new(from, options)?, Axis::new(to, options)?);
    let difference = to.crossing() - from.crossing();
    // Another stream for the other run: the same indices in both would tie them together.
    let mut others = options.bootstrap;
    others.seed = others.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let before = from.resampled_positions(&options.bootstrap);
    let after = to.resampled_positions(&others);
    let pairs = before.iter().zip(&after);
    let mut differences: Vec<(f64, f64)> = pairs.map(|(a, b)| possible(b - a)).collect();
    let known = differences
        .iter()
        .filter(|(low, _)| low.is_finite())
        .count();
    let share_of_resamples = known as f64 / differences.len() as f64;
    let (lower, upper) = options.bootstrap.tails();
    let last = (differences.len() - 1) as f64;
    differences.sort_by(|a, b| a.0.total_cmp(&b.0));
    let low = differences[(lower * last).floor() as usize].0;
    differences.sort_by(|a, b| a.1.total_cmp(&b.1));
    let high = differences[(upper * last).ceil() as usize].1;
    Some(CrossoverDifference {
        estimate: difference.is_finite().then_some(difference),
        interval: Interval {
            low,
            high,
            level: options.bootstrap.level,
        },
        share_of_resamples,
    })
}

/// The least and the largest that a difference may be: two crossings beyond the same end of the range
/// may lie in any order.
fn possible(difference: f64) -> (f64, f64) {
    if difference.is_nan() {
        (f64::NEG_INFINITY, f64::INFINITY)
    } else {
        (difference, difference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::Bootstrap;

    fn run(at: f64, noise: f64) -> Vec<CrossoverPoint> {
        let place = |x: f64| CrossoverPoint {
            x,
            log_ratios: (0..12)
                .map(|i| (at - x) * 0.001 + noise * (f64::from(i * 5 % 12) - 5.5))
                .collect(),
        };
        [0.0, 25.0, 50.0, 75.0, 100.0].map(place).to_vec()
    }

    fn options() -> CrossoverOptions {
        CrossoverOptions {
            bootstrap: Bootstrap {
                resamples: 1_000,
                ..Bootstrap::default()
            },
            ..CrossoverOptions::default()
        }
    }

    #[test]
    fn two_runs_alike_do_not_differ() {
        let same = crossover_difference(&run(40.0, 0.003), &run(40.0, 0.003), &options()).unwrap();
        assert_eq!(same.estimate, Some(0.0));
        assert!(
            same.interval.low < -5.0 && same.interval.high > 5.0,
            "{same:?}"
        );
        assert_eq!(same.share_of_resamples, 1.0);
    }

    #[test]
    fn a_run_without_crossing_leaves_the_difference_open() {
        let open = crossover_difference(&run(40.0, 0.0), &run(500.0, 0.0), &options()).unwrap();
        assert_eq!((open.estimate, open.share_of_resamples), (None, 0.0));
        assert_eq!(
            (open.interval.low, open.interval.high),
            (f64::INFINITY, f64::INFINITY)
        );
        let both = crossover_difference(&run(500.0, 0.0), &run(500.0, 0.0), &options()).unwrap();
        assert_eq!(both.estimate, None);
        assert_eq!(both.interval.low, f64::NEG_INFINITY);
        assert_eq!(both.interval.high, f64::INFINITY);
    }

    #[test]
    fn refuses_runs_without_points() {
        assert_eq!(crossover_difference(&[], &run(1.0, 0.0), &options()), None);
        assert_eq!(crossover_difference(&run(1.0, 0.0), &[], &options()), None);
    }
}
