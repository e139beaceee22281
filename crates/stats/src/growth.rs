//! Growth of a protocol's time with the delay: the slope that explains a crossover.
//!
//! The protocol whose time grows faster needs more round trips; the other wins beyond some delay.
//! Slopes by Theil and Sen (the median of the slopes between all pairs of points), which a stray cell
//! moves little.

use crate::bootstrap::{Bootstrap, Interval};
use crate::hodges_lehmann::estimate_in_place;
use crate::resample::Resampler;
use crate::summary::quantile;
use statrs::distribution::{ContinuousCDF, Normal};

/// The most points for [`theil_sen`]: it holds the slopes between all pairs, 64 MB for so many.
pub const MAX_SLOPE_POINTS: usize = 4_096;

/// A straight line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Growth of y for one unit of x.
    pub slope: f64,
    /// y at x = 0.
    pub at_zero: f64,
    /// Interval of the slope.
    pub interval: Interval,
}

/// The line of Theil and Sen through points `(x[i], y[i])`, and Sen's interval of its slope.
///
/// Gives what SciPy 1.17 gives for `theilslopes(y, x, level, method="separate")`: the line passes
/// through the medians of x and y.
///
/// `None` when the lengths differ, with fewer than two distinct x, with more than
/// [`MAX_SLOPE_POINTS`] points, when anything is not finite, or when the level is not between 0
/// and 1.
///
/// ```
/// let line = altway_stats::theil_sen(&[0.0, 1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 5.0, 7.0, 90.0], 0.95);
/// assert_eq!(line.map(|line| line.slope), Some(2.0), "five points outvote one stray");
/// ```
#[must_use]
pub fn theil_sen(x: &[f64], y: &[f64], level: f64) -> Option<Line> {
    let finite = x.iter().chain(y).all(|value| value.is_finite());
    let sizes = x.len() == y.len() && x.len() <= MAX_SLOPE_POINTS;
    let in_range = level > 0.0 && level < 1.0;
    if !finite || !sizes || !in_range {
        return None;
    }
    let slopes = slopes(x, y);
    if slopes.is_empty() {
        return None;
    }
    let slope = quantile(&slopes, 0.5);
    let count = slopes.len() as f64;
    let reach = Normal::standard().inverse_cdf(f64::midpoint(1.0, level)) * spread(x, y);
    let upper = ((count + reach) / 2.0).round_ties_even().min(count - 1.0);
    let lower = (((count - reach) / 2.0).round_ties_even() - 1.0).max(0.0);
    Some(Line {
        slope,
        at_zero: median(y) - slope * median(x),
        interval: Interval {
            low: slopes[lower as usize],
            high: slopes[upper as usize],
            level,
        },
    })
}

/// Slopes between all pairs of points with different x, sorted.
fn slopes(x: &[f64], y: &[f64]) -> Vec<f64> {
    let mut slopes = Vec::new();
    for i in 0..x.len() {
        let others = (0..i).filter(|j| x[*j] != x[i]);
        slopes.extend(others.map(|j| (y[i] - y[j]) / (x[i] - x[j])));
    }
    slopes.sort_by(f64::total_cmp);
    slopes
}

/// Standard deviation of Kendall's count of rising less falling pairs, ties left out.
fn spread(x: &[f64], y: &[f64]) -> f64 {
    let term = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let ties = |values: &[f64]| -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let groups = sorted.chunk_by(|a, b| a == b);
        groups.map(|group| term(group.len() as f64)).sum()
    };
    ((term(x.len() as f64) - ties(x) - ties(y)) / 18.0)
        .max(0.0)
        .sqrt()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// The times of both protocols at one place of the axis.
#[derive(Debug, Clone, PartialEq)]
pub struct GrowthPoint {
    /// The place, as the one-way delay in milliseconds.
    pub x: f64,
    /// Times of the first, a block each.
    pub first: Vec<f64>,
    /// Times of the second in the same blocks.
    pub second: Vec<f64>,
}

/// Result of [`growth`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Growth of the first's time.
    pub first: Line,
    /// Growth of the second's time.
    pub second: Line,
    /// The second's slope less the first's.
    pub difference: f64,
    /// Interval of `difference`.
    pub difference_interval: Interval,
}

/// Returns how the time of each protocol grows along the axis, and whether one grows faster.
///
/// Per place and protocol the Hodges–Lehmann estimate of its times, through them the line of Theil and
/// Sen. The intervals are percentiles of lines through resampled blocks; both protocols' times of
/// a block are drawn together, so that what they share does not blur the difference.
///
/// `None` with fewer than two places, when one is repeated, when it has no times or not as many of
/// the first as of the second, when anything is not finite, or when the options are out of range.
///
/// ```
/// use altway_stats::{Bootstrap, GrowthPoint, growth};
/// // Milliseconds: 6 round trips more over HTTP/2, 4 over HTTP/3.
/// let points: Vec<GrowthPoint> = [0.0, 50.0, 100.0]
///     .iter()
///     .map(|delay| GrowthPoint {
///         x: *delay,
///         first: (0..5).map(|block| 1700.0 + f64::from(block) + 12.0 * delay).collect(),
///         second: (0..5).map(|block| 1900.0 + f64::from(block) + 8.0 * delay).collect(),
///     })
///     .collect();
/// let found = growth(&points, &Bootstrap::default()).expect("three places");
/// assert!((found.first.slope - 12.0).abs() < 1e-9 && (found.second.slope - 8.0).abs() < 1e-9);
/// assert!(found.difference_interval.high < -3.9);
/// ```
#[must_use]
pub fn growth(points: &[GrowthPoint], options: &Bootstrap) -> Option<Growth> {
    let usable = |point: &GrowthPoint| {
        let mut all = point.first.iter().chain(&point.second).chain([&point.x]);
        let as_many = point.first.len() == point.second.len() && !point.first.is_empty();
        as_many && all.all(|value| value.is_finite())
    };
    let mut x: Vec<f64> = points.iter().map(|point| point.x).collect();
    x.sort_by(f64::total_cmp);
    let distinct = x.windows(2).all(|pair| pair[0] < pair[1]);
    if points.len() < 2 || !distinct || !points.iter().all(usable) || !options.is_valid() {
        return None;
    }
    let (first, second) = lines(points, |times, _| times.to_vec(), &mut |_| 0);
    let mut resampler = Resampler::new(options.seed);
    let resampled: Vec<(f64, f64)> = (0..options.resamples)
        .map(|_| {
            let pick = |times: &[f64], drawn: &[usize]| drawn.iter().map(|i| times[*i]).collect();
            let (first, second) = lines(points, pick, &mut |n| resampler.below(n));
            (first.0, second.0)
        })
        .collect();
    let interval = |of: fn(&(f64, f64)) -> f64| percentiles(resampled.iter().map(of), options);
    Some(Growth {
        first: line(first, interval(|slopes| slopes.0)),
        second: line(second, interval(|slopes| slopes.1)),
        difference: second.0 - first.0,
        difference_interval: interval(|slopes| slopes.1 - slopes.0),
    })
}

/// Slope and value at 0 of both protocols' lines, with the blocks that `draw` picks (indices below
/// the number it is given) and `pick` takes.
fn lines(
    points: &[GrowthPoint],
    pick: impl Fn(&[f64], &[usize]) -> Vec<f64>,
    draw: &mut impl FnMut(usize) -> usize,
) -> ((f64, f64), (f64, f64)) {
    let x: Vec<f64> = points.iter().map(|point| point.x).collect();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for point in points {
        let n = point.first.len();
        let drawn: Vec<usize> = (0..n).map(|_| draw(n)).collect();
        first.push(estimate_in_place(&mut pick(&point.first, &drawn)));
        second.push(estimate_in_place(&mut pick(&point.second, &drawn)));
    }
    let through = |y: &[f64]| {
        let slope = quantile(&slopes(&x, y), 0.5);
        (slope, median(y) - slope * median(&x))
    };
    (through(&first), through(&second))
}

fn line((slope, at_zero): (f64, f64), interval: Interval) -> Line {
    Line {
        slope,
        at_zero,
        interval,
    }
}

fn percentiles(values: impl Iterator<Item = f64>, options: &Bootstrap) -> Interval {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let (lower, upper) = options.tails();
    Interval {
        low: quantile(&sorted, lower),
        high: quantile(&sorted, upper),
        level: options.level,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Bootstrap = Bootstrap {
        resamples: 400,
        level: 0.95,
        seed: 3,
        ends: crate::Ends::Percentile,
    };

    fn point(x: f64, first: &[f64], second: &[f64]) -> GrowthPoint {
        GrowthPoint {
            x,
            first: first.to_vec(),
            second: second.to_vec(),
        }
    }

    #[test]
    fn refuses_what_has_no_slope() {
        assert_eq!(theil_sen(&[1.0, 1.0], &[1.0, 2.0], 0.95), None);
        assert_eq!(theil_sen(&[1.0], &[1.0], 0.95), None);
        assert_eq!(theil_sen(&[1.0, 2.0], &[1.0], 0.95), None);
        assert_eq!(theil_sen(&[1.0, 2.0], &[1.0, f64::NAN], 0.95), None);
        let many = vec![0.0; MAX_SLOPE_POINTS + 1];
        assert_eq!(theil_sen(&many, &many, 0.95), None);
        let good = point(1.0, &[1.0], &[1.0]);
        assert_eq!(growth(std::slice::from_ref(&good), &QUICK), None);
        assert_eq!(growth(&[good.clone(), good.clone()], &QUICK), None);
        let uneven = point(2.0, &[1.0, 2.0], &[1.0]);
        assert_eq!(growth(&[good.clone(), uneven], &QUICK), None);
        assert_eq!(growth(&[good, point(2.0, &[], &[])], &QUICK), None);
    }

    #[test]
    fn noise_that_both_share_does_not_blur_the_difference() {
        let shared = [0.0, 300.0, -200.0, 150.0, -250.0, 80.0, -90.0, 20.0];
        let place = |x: f64| {
            let time = |slope: f64| {
                shared
                    .iter()
                    .map(|noise| 2_000.0 + slope * x + noise)
                    .collect()
            };
            GrowthPoint {
                x,
                first: time(12.0),
                second: time(8.0),
            }
        };
        let points: Vec<GrowthPoint> = [0.0, 25.0, 50.0, 75.0].map(place).to_vec();
        let found = growth(&points, &QUICK).unwrap();
        let width = |interval: &Interval| interval.high - interval.low;
        assert!((found.difference - -4.0).abs() < 1e-9);
        assert!(width(&found.difference_interval) < 1e-6);
        assert!(width(&found.first.interval) > 1.0);
        assert!(found.first.interval.contains(12.0) && found.second.interval.contains(8.0));
    }
}
