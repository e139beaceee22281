//! From which delay (or loss, or rate) on another protocol is faster.
//!
//! The second's advantage is taken to grow, or at least not to shrink, along the axis; under that
//! one assumption isotonic regression needs no formula for the curve and no smoothing constant.

use crate::bootstrap::{Bootstrap, Interval};
use crate::comparison::Winner;
use crate::hodges_lehmann::estimate_in_place;
use crate::isotonic::non_increasing;
use crate::resample::Resampler;
use crate::scale::Scale;

/// What was measured at one place of the axis.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossoverPoint {
    /// The place, in a unit of the caller's choice: as one-way delay in milliseconds, or loss in per
    /// cent.
    pub x: f64,
    /// ln(second / first) of each pair measured there; at least one.
    pub log_ratios: Vec<f64>,
}

/// Towards which end of the axis the second's advantage grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Trend {
    /// The larger x, the better for the second: HTTP/3 over delay or loss.
    #[default]
    SecondGains,
    /// The larger x, the better for the first: HTTP/2 over the rate.
    FirstGains,
}

/// How to look for a crossover. The default is [`Bootstrap::default`], a linear scale and
/// [`Trend::SecondGains`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CrossoverOptions {
    /// Level of the interval, and how to resample for it. The interval is always the percentiles'
    /// ([`Ends::Percentile`](crate::Ends)): a place beyond the range has no number to correct.
    pub bootstrap: Bootstrap,
    /// How to interpolate between neighbouring points.
    pub scale: Scale,
    /// The one assumption about the curve.
    pub trend: Trend,
}

/// Result of [`crossover`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Crossover {
    /// Left of `x` the first is faster, right of it the second; with [`Trend::FirstGains`] the other
    /// way round.
    At {
        /// Where the fitted curve passes zero, in the unit of [`CrossoverPoint::x`].
        x: f64,
        /// Percentile interval of `x`. An end is −∞ (or +∞) when resamples without a crossing in
        /// the measured range reach that far: then it lies somewhere below (above) the range.
        interval: Interval,
        /// Share of resamples with a crossing in the measured range, 0 to 1.
        share_of_resamples: f64,
    },
    /// The fitted curve does not change its sign in the measured range; touching zero at its end
    /// is no change.
    None {
        /// Share of resamples that had no crossing either, 0 to 1.
        share_of_resamples_without: f64,
        /// Who the curve says is faster everywhere: [`Winner::First`], [`Winner::Second`], or
        /// [`Winner::Tie`] when it is zero everywhere. A sign alone, no test: look at the
        /// comparison of each point before believing it.
        winner: Winner,
    },
}

/// Finds where the sign of ln(second / first) changes from above to below zero as x grows.
///
/// Per point the Hodges–Lehmann estimate; through them the non-increasing curve (isotonic
/// regression, weighted by the number of pairs); its zero by linear interpolation between
/// neighbouring points. Zero at a measured point is a crossing at that point; zero at several, the
/// middle between the outer two. The interval comes from resampling the pairs within each point and
/// fitting again.
///
/// Points may come in any order. `None` when there are none, when an x is repeated, when a point
/// has no pairs, when anything is not finite, or when the options are out of range.
///
/// ```
/// use altway_stats::{Bootstrap, Crossover, CrossoverPoint, crossover};
/// let points = [(0.0, 0.06), (50.0, 0.02), (100.0, -0.02)].map(|(x, ratio)| CrossoverPoint {
///     x,
///     log_ratios: vec![ratio - 0.01, ratio, ratio + 0.01],
/// });
/// let found = crossover(&points, &Bootstrap::default()).expect("valid points");
/// assert!(matches!(found, Crossover::At { x, .. } if (x - 75.0).abs() < 1e-6));
/// ```
#[must_use]
pub fn crossover(points: &[CrossoverPoint], options: &Bootstrap) -> Option<Crossover> {
    let options = CrossoverOptions {
        bootstrap: *options,
        ..CrossoverOptions::default()
    };
    crossover_with(points, &options)
}

/// As [`crossover`], over an axis of another scale or trend.
///
/// `None` also when a place is negative on [`Scale::Log1p`].
///
/// ```
/// use altway_stats::{CrossoverOptions, Crossover, CrossoverPoint, Scale, crossover_with};
/// let points = [(0.0, 0.1), (3.0, -0.1)].map(|(x, ratio)| CrossoverPoint {
///     x,
///     log_ratios: vec![ratio; 5],
/// });
/// let options = CrossoverOptions { scale: Scale::Log1p, ..CrossoverOptions::default() };
/// let found = crossover_with(&points, &options).expect("valid points");
/// // ln(1 + 1) is half of ln(1 + 3).
/// assert!(matches!(found, Crossover::At { x, .. } if (x - 1.0).abs() < 1e-9));
/// ```
#[must_use]
pub fn crossover_with(points: &[CrossoverPoint], options: &CrossoverOptions) -> Option<Crossover> {
    let axis = Axis::new(points, options)?;
    let fit = axis.estimated();
    let mut positions = axis.resampled_positions(&options.bootstrap);
    positions.sort_by(f64::total_cmp);
    let inside = positions.iter().filter(|x| x.is_finite()).count();
    let share = inside as f64 / positions.len() as f64;
    let x = axis.position(&fit);
    Some(if x.is_finite() {
        let interval = percentiles(&positions, &options.bootstrap);
        Crossover::At {
            x,
            interval,
            share_of_resamples: share,
        }
    } else {
        Crossover::None {
            share_of_resamples_without: 1.0 - share,
            winner: sign(&fit),
        }
    })
}

/// The points in the order in which the second's advantage grows.
pub(crate) struct Axis<'a> {
    points: Vec<&'a CrossoverPoint>,
    weights: Vec<f64>,
    scale: Scale,
}

impl<'a> Axis<'a> {
    pub(crate) fn new(points: &'a [CrossoverPoint], options: &CrossoverOptions) -> Option<Self> {
        let scale = options.scale;
        let usable = |point: &CrossoverPoint| {
            let finite = point.log_ratios.iter().all(|ratio| ratio.is_finite());
            scale.allows(point.x) && !point.log_ratios.is_empty() && finite
        };
        let mut points: Vec<_> = points.iter().collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let distinct = points.windows(2).all(|pair| pair[0].x < pair[1].x);
        let usable = points.iter().all(|point| usable(point));
        if points.is_empty() || !distinct || !usable || !options.bootstrap.is_valid() {
            return None;
        }
        if options.trend == Trend::FirstGains {
            points.reverse();
        }
        let weights = points
            .iter()
            .map(|point| point.log_ratios.len() as f64)
            .collect();
        Some(Self {
            points,
            weights,
            scale,
        })
    }

    /// Where the curve through the points' own estimates passes zero, as [`Axis::position`] says.
    pub(crate) fn crossing(&self) -> f64 {
        self.position(&self.estimated())
    }

    fn estimated(&self) -> Vec<f64> {
        self.fit(|_, log_ratios| estimate_in_place(&mut log_ratios.to_vec()))
    }

    /// The falling curve through `estimate` of each point.
    fn fit(&self, mut estimate: impl FnMut(usize, &[f64]) -> f64) -> Vec<f64> {
        let of_point = |(i, point): (usize, &&CrossoverPoint)| estimate(i, &point.log_ratios);
        let estimates: Vec<f64> = self.points.iter().enumerate().map(of_point).collect();
        non_increasing(&estimates, &self.weights)
    }

    pub(crate) fn resampled_positions(&self, options: &Bootstrap) -> Vec<f64> {
        let mut resampler = Resampler::new(options.seed);
        let mut drawn: Vec<Vec<f64>> = self
            .points
            .iter()
            .map(|point| point.log_ratios.clone())
            .collect();
        (0..options.resamples)
            .map(|_| {
                let fit = self.fit(|i, log_ratios| {
                    resampler.fill(log_ratios, &mut drawn[i]);
                    estimate_in_place(&mut drawn[i])
                });
                self.position(&fit)
            })
            .collect()
    }

    /// Where `fit` passes zero. Infinite when it does not: on the side where the points begin when
    /// the second is faster from the first point on, on the other when it has not become faster by
    /// the last.
    fn position(&self, fit: &[f64]) -> f64 {
        let Some(after) = fit.iter().position(|level| *level < 0.0) else {
            return self.beyond_the_last();
        };
        let Some(before) = fit.iter().rposition(|level| *level > 0.0) else {
            return -self.beyond_the_last();
        };
        let x = |i: usize| self.scale.apply(self.points[i].x);
        let spaced = if after > before + 1 {
            f64::midpoint(x(before + 1), x(after - 1))
        } else {
            let part = fit[before] / (fit[before] - fit[after]);
            x(before) + part * (x(after) - x(before))
        };
        self.scale.invert(spaced)
    }

    /// The infinity that lies behind the last point.
    fn beyond_the_last(&self) -> f64 {
        match self.points.as_slice() {
            [first, .., last] if last.x < first.x => f64::NEG_INFINITY,
            _ => f64::INFINITY,
        }
    }
}

/// The interval of sorted positions. Takes the outer neighbour instead of interpolating: between a
/// number and infinity there is nothing in between.
pub(crate) fn percentiles(sorted: &[f64], options: &Bootstrap) -> Interval {
    let last = (sorted.len() - 1) as f64;
    let (lower, upper) = options.tails();
    Interval {
        low: sorted[(lower * last).floor() as usize],
        high: sorted[(upper * last).ceil() as usize],
        level: options.level,
    }
}

/// Who a curve that does not change its sign is for.
fn sign(fit: &[f64]) -> Winner {
    if fit.iter().any(|level| *level > 0.0) {
        Winner::First
    } else if fit.iter().any(|level| *level < 0.0) {
        Winner::Second
    } else {
        Winner::Tie
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::Ends;
    use proptest::prelude::*;

    const QUICK: Bootstrap = Bootstrap {
        resamples: 400,
        level: 0.95,
        seed: 5,
        ends: Ends::Percentile,
    };

    fn point(x: f64, log_ratios: &[f64]) -> CrossoverPoint {
        CrossoverPoint {
            x,
            log_ratios: log_ratios.to_vec(),
        }
    }

    /// Points without spread.
    fn exact(values: &[(f64, f64)]) -> Vec<CrossoverPoint> {
        values
            .iter()
            .map(|(x, ratio)| point(*x, &[*ratio; 6]))
            .collect()
    }

    fn position(values: &[(f64, f64)]) -> f64 {
        match crossover(&exact(values), &QUICK).unwrap() {
            Crossover::At {
                x,
                interval,
                share_of_resamples,
            } => {
                assert_eq!(
                    (interval.low, interval.high, share_of_resamples),
                    (x, x, 1.0)
                );
                x
            }
            none @ Crossover::None { .. } => panic!("{none:?}"),
        }
    }

    fn winner(values: &[(f64, f64)]) -> Winner {
        match crossover(&exact(values), &QUICK).unwrap() {
            Crossover::None {
                winner,
                share_of_resamples_without,
            } => {
                assert_eq!(share_of_resamples_without, 1.0);
                winner
            }
            found @ Crossover::At { .. } => panic!("{found:?}"),
        }
    }

    #[test]
    fn refuses_what_is_no_axis() {
        assert_eq!(crossover(&[], &QUICK), None);
        assert_eq!(crossover(&[point(0.0, &[])], &QUICK), None);
        assert_eq!(crossover(&[point(f64::NAN, &[1.0])], &QUICK), None);
        assert_eq!(crossover(&[point(0.0, &[f64::INFINITY])], &QUICK), None);
        assert_eq!(crossover(&exact(&[(1.0, 0.5), (1.0, -0.5)]), &QUICK), None);
        let broken = Bootstrap {
            resamples: 0,
            ..QUICK
        };
        assert_eq!(crossover(&exact(&[(1.0, 0.5)]), &broken), None);
    }

    #[test]
    fn interpolates_between_the_two_neighbours_in_any_order() {
        assert_eq!(position(&[(0.0, 0.3), (50.0, 0.1), (100.0, -0.3)]), 62.5);
        assert_eq!(position(&[(100.0, -0.3), (0.0, 0.3), (50.0, 0.1)]), 62.5);
    }

    #[test]
    fn zero_at_a_measured_point_is_the_crossing() {
        assert_eq!(position(&[(0.0, 0.3), (50.0, 0.0), (100.0, -0.3)]), 50.0);
        assert_eq!(
            position(&[(0.0, 0.3), (50.0, 0.0), (80.0, 0.0), (100.0, -0.3)]),
            65.0
        );
    }

    #[test]
    fn without_a_change_of_sign_there_is_no_crossing() {
        assert_eq!(winner(&[(0.0, 0.3), (50.0, 0.1)]), Winner::First);
        assert_eq!(winner(&[(0.0, -0.1), (50.0, -0.2)]), Winner::Second);
        assert_eq!(winner(&[(0.0, 0.2)]), Winner::First);
        assert_eq!(winner(&[(0.0, -0.2)]), Winner::Second);
    }

    #[test]
    fn touching_zero_at_an_end_is_no_crossing() {
        assert_eq!(winner(&[(0.0, 0.3), (50.0, 0.0)]), Winner::First);
        assert_eq!(winner(&[(0.0, 0.0), (50.0, -0.3)]), Winner::Second);
        assert_eq!(winner(&[(0.0, 0.0), (50.0, 0.0)]), Winner::Tie);
    }

    #[test]
    fn an_advantage_that_shrinks_along_the_axis_is_pooled() {
        assert_eq!(winner(&[(0.0, -0.3), (50.0, 0.1)]), Winner::Second);
    }

    #[test]
    fn a_crossing_near_the_end_may_lie_beyond_it() {
        let points = [
            point(0.0, &[0.3, 0.31, 0.29, 0.3, 0.3, 0.3]),
            point(50.0, &[-0.02, 0.05, -0.06, 0.03, -0.04, 0.02]),
        ];
        let Some(Crossover::At {
            x,
            interval,
            share_of_resamples,
        }) = crossover(&points, &QUICK)
        else {
            panic!("the estimate at 50 is below zero");
        };
        assert!((45.0..50.0).contains(&x), "{x}");
        assert_eq!(interval.high, f64::INFINITY);
        assert!(interval.low > 0.0 && interval.low <= x);
        assert!(
            (0.4..0.9).contains(&share_of_resamples),
            "{share_of_resamples}"
        );
    }

    #[test]
    fn an_axis_along_which_the_first_gains_is_read_backwards() {
        let options = CrossoverOptions {
            bootstrap: QUICK,
            trend: Trend::FirstGains,
            ..CrossoverOptions::default()
        };
        let rising = exact(&[(0.0, -0.3), (50.0, -0.1), (100.0, 0.3)]);
        let found = crossover_with(&rising, &options).unwrap();
        let there = matches!(found, Crossover::At { x, .. } if (x - 62.5).abs() < 1e-9);
        assert!(there, "{found:?}");
        let never = crossover_with(&exact(&[(0.0, -0.3), (50.0, -0.1)]), &options).unwrap();
        let all_second = matches!(
            never,
            Crossover::None {
                winner: Winner::Second,
                ..
            }
        );
        assert!(all_second, "{never:?}");
        let open = [
            point(0.0, &[-0.3; 6]),
            point(50.0, &[0.02, -0.05, 0.06, -0.03, 0.04, -0.02]),
        ];
        let Some(Crossover::At { interval, .. }) = crossover_with(&open, &options) else {
            panic!("the estimate at 50 is above zero");
        };
        assert_eq!(interval.high, f64::INFINITY);
        assert!(interval.low > 0.0);
    }

    #[test]
    fn a_scale_moves_the_crossing_between_points_and_not_onto_others() {
        let options = CrossoverOptions {
            bootstrap: QUICK,
            scale: Scale::Log1p,
            ..CrossoverOptions::default()
        };
        let found = crossover_with(&exact(&[(0.0, 0.1), (1.0, 0.0), (5.0, -0.1)]), &options);
        let Some(Crossover::At { x, .. }) = found else {
            panic!("{found:?}");
        };
        assert!((x - 1.0).abs() < 1e-12);
        let negative = exact(&[(-1.0, 0.1), (1.0, -0.1)]);
        assert_eq!(crossover_with(&negative, &options), None);
    }

    #[test]
    fn the_seed_alone_decides_the_interval() {
        let points = [
            point(0.0, &[0.30, 0.11, 0.22, 0.05]),
            point(50.0, &[0.05, -0.12, 0.02, -0.20]),
            point(100.0, &[-0.30, -0.11, -0.22, -0.05]),
        ];
        let with = |seed| crossover(&points, &Bootstrap { seed, ..QUICK });
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
    }

    proptest! {
        #[test]
        fn a_crossing_lies_in_the_measured_range(
            cells in prop::collection::vec(prop::collection::vec(-0.5..0.5_f64, 1..6), 1..6),
        ) {
            let last = (cells.len() - 1) as f64 * 25.0;
            let points: Vec<_> = cells
                .iter()
                .enumerate()
                .map(|(i, log_ratios)| point(i as f64 * 25.0, log_ratios))
                .collect();
            let options = Bootstrap { resamples: 50, ..QUICK };
            if let Some(Crossover::At { x, interval, .. }) = crossover(&points, &options) {
                prop_assert!((0.0..=last).contains(&x));
                prop_assert!(interval.low <= interval.high);
            }
        }
    }
}
