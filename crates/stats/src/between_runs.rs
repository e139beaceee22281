//! Two runs side by side: has the crossover moved?

use crate::bootstrap::Interval;
use crate::crossover::{Axis, CrossoverOptions, CrossoverPoint, Passage};

/// Result of [`crossover_difference`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossoverDifference {
    /// Crossover in the second run less that in the first, in the unit of the axis; `None` when one
    /// of them has none in its measured range.
    pub estimate: Option<f64>,
    /// Interval of the difference, whatever the shape of either curve between its points:
    /// percentiles of the least and the largest distance between the measured places around the
    /// two crossings. An end is infinite when resamples reach it in which one run or both have no
    /// crossing in the range.
    pub interval: Interval,
    /// Share of resamples in which both runs have a crossing in their range, 0 to 1. When it is
    /// small the interval says little: look at each run's own crossover.
    pub share_of_resamples: f64,
}

/// Returns how far the crossover lies from one run to the other, each as
/// [`crossover_with`](crate::crossover_with) finds it.
///
/// Both runs' pairs are resampled independently of each other, as they were measured.
///
/// `None` when one of the runs has no valid points or the options are out of range.
///
/// ```
/// use altway_stats::{CrossoverOptions, CrossoverPoint, crossover_difference};
/// let run = |at: f64| {
///     [0.0, 5.0, 10.0, 15.0, 20.0, 45.0, 50.0, 55.0].map(|x| CrossoverPoint {
///         x,
///         log_ratios: (0..9).map(|i| (at - x) * 0.001 + 0.0001 * f64::from(i - 4)).collect(),
///     })
/// };
/// let moved = crossover_difference(&run(50.0), &run(10.0), &CrossoverOptions::default());
/// let moved = moved.expect("two runs");
/// assert!(moved.estimate.is_some_and(|by| (by - -40.0).abs() < 1e-6));
/// assert!(moved.interval.high <= -30.0);
/// ```
#[must_use]
pub fn crossover_difference(
    from: &[CrossoverPoint],
    to: &[CrossoverPoint],
    options: &CrossoverOptions,
) -> Option<CrossoverDifference> {
    let (from, to) = (Axis::new(from, options)?, Axis::new(to, options)?);
    let difference = to.crossing().at - from.crossing().at;
    // Another stream for the other run: the same indices in both would tie them together.
    let mut others = options.bootstrap;
    others.seed = others.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let before = from.resampled(&options.bootstrap, &[0.0]).concat();
    let after = to.resampled(&others, &[0.0]).concat();
    let pairs = || before.iter().zip(&after);
    let known = pairs().filter(|(a, b)| a.at.is_finite() && b.at.is_finite());
    let share_of_resamples = known.count() as f64 / before.len() as f64;
    let (mut least, mut largest): (Vec<f64>, Vec<f64>) =
        pairs().map(|(a, b)| possible(a, b)).unzip();
    let (lower, upper) = options.bootstrap.tails();
    let last = (before.len() - 1) as f64;
    least.sort_by(f64::total_cmp);
    largest.sort_by(f64::total_cmp);
    let low = least[(lower * last).floor() as usize];
    let high = largest[(upper * last).ceil() as usize];
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

/// The least and the largest distance from one crossing to the other: two beyond the same end of the
/// range may lie in any order.
fn possible(from: &Passage, to: &Passage) -> (f64, f64) {
    let (least, largest) = (to.low - from.high, to.high - from.low);
    (
        if least.is_nan() {
            f64::NEG_INFINITY
        } else {
            least
        },
        if largest.is_nan() {
            f64::INFINITY
        } else {
            largest
        },
    )
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
            (50.0, f64::INFINITY),
            "from at most 50 to at least 100"
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
