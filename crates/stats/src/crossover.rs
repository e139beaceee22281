//! Crossover: the delay (or loss, or rate) from which on another protocol is faster.
//!
//! The second's advantage is taken to grow, or at least not to shrink, along the axis; under that
//! one assumption isotonic regression needs no formula for the curve and no smoothing constant.
//! Between two neighbouring points the curve may then fall anywhere, so an interval ends at points
//! that were measured: with a coarse grid it is wide, however many pairs there are.

use crate::bootstrap::{Bootstrap, Interval};
use crate::comparison::Winner;
use crate::hodges_lehmann::estimate_in_place;
use crate::isotonic::non_increasing;
use crate::resample::Resampler;
use crate::scale::Scale;

/// Measurements at one place of the axis.
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

/// Options of the search for a crossover. The default is [`Bootstrap::default`], a linear scale
/// and [`Trend::SecondGains`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CrossoverOptions {
    /// Level of the interval, and how to resample for it. The interval is always the percentiles'
    /// ([`Ends::Percentile`](crate::Ends)): a place beyond the range has no number to correct.
    pub bootstrap: Bootstrap,
    /// Scale on which to interpolate between neighbouring points.
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
        /// Place where the fitted curve passes zero, in the unit of [`CrossoverPoint::x`], when it is
        /// straight between neighbouring points.
        x: f64,
        /// The measured places around `x`, the lower first: the curve passes zero somewhere between
        /// them, whatever its shape.
        between: (f64, f64),
        /// Percentile interval of `x`, as wide as the noise of the pairs alone makes it.
        sampling: Interval,
        /// Interval of the place where the curve passes zero, whatever its shape between the
        /// points: percentiles of the measured places around the crossing. An end is −∞ (or +∞)
        /// when resamples without a crossing in the measured range reach that far: then it lies
        /// somewhere below (above) the range.
        interval: Interval,
        /// Share of resamples with a crossing in the measured range, 0 to 1.
        share_of_resamples: f64,
    },
    /// The fitted curve does not change its sign in the measured range; touching zero at its end
    /// is no change.
    None {
        /// Share of resamples that had no crossing either, 0 to 1.
        share_of_resamples_without: f64,
        /// The one that the curve says is faster everywhere: [`Winner::First`],
        /// [`Winner::Second`], or [`Winner::Tie`] when it is zero everywhere. A sign alone, no
        /// test: look at the comparison of each point before believing it.
        winner: Winner,
        /// Interval of the place, if there is one: as of [`Crossover::At`], and open at the end behind
        /// which the curve says that it lies.
        interval: Interval,
    },
}

impl Crossover {
    /// Returns whether the grid is what makes the interval wide, and not the noise: more places between the
    /// two neighbours of the crossing would narrow it, more pairs would not. Resamples without a crossing in the range
    /// leave that open for those with one.
    #[must_use]
    pub fn is_coarse(&self) -> bool {
        match self {
            Self::At {
                between: (low, high),
                sampling,
                ..
            } => {
                let within = |end: f64, neighbour| if end.is_finite() { end } else { neighbour };
                within(sampling.high, *high) - within(sampling.low, *low) < high - low
            }
            Self::None { .. } => false,
        }
    }
}

/// Finds where the sign of ln(second / first) changes from above to below zero as x grows.
///
/// Per point the Hodges–Lehmann estimate; through them the non-increasing curve (isotonic
/// regression, weighted by the number of pairs); its zero by linear interpolation between
/// neighbouring points. Zero at a measured point is a crossing at that point; zero at several, the
/// middle between the outer two. The interval comes from resampling the pairs within each point and
/// fitting again, and ends at measured places: straight lines between them are a guess that it does
/// not rest on.
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

/// The same as [`crossover`], over an axis of another scale or trend.
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
    crossovers_at(points, options, &[0.0])?.pop()
}

/// Places where the curve of [`crossover_with`] passes each of several levels of ln(second / first), from one
/// set of resamples: 0 is the crossover, −0.03 the place from which on the second leads by 3 %.
///
/// ```
/// use altway_stats::{CrossoverOptions, Crossover, CrossoverPoint, crossovers_at};
/// let points = [(0.0, 0.05), (50.0, 0.0), (100.0, -0.05)].map(|(x, ratio)| CrossoverPoint {
///     x,
///     log_ratios: vec![ratio; 5],
/// });
/// let found = crossovers_at(&points, &CrossoverOptions::default(), &[0.0, -0.03]);
/// let [zero, lead] = found.expect("valid points").try_into().expect("a result for each level");
/// assert!(matches!(zero, Crossover::At { x, .. } if (x - 50.0).abs() < 1e-9));
/// assert!(matches!(lead, Crossover::At { x, .. } if (x - 80.0).abs() < 1e-9));
/// ```
#[must_use]
pub fn crossovers_at(
    points: &[CrossoverPoint],
    options: &CrossoverOptions,
    levels: &[f64],
) -> Option<Vec<Crossover>> {
    if levels.iter().any(|level| !level.is_finite()) {
        return None;
    }
    let axis = Axis::new(points, options)?;
    let fit = axis.estimated();
    let resampled = axis.resampled(&options.bootstrap, levels);
    let of_level = |(level, passages): (&f64, Vec<Passage>)| {
        axis.crossover(&fit, *level, &passages, &options.bootstrap)
    };
    Some(levels.iter().zip(resampled).map(of_level).collect())
}

/// Place where a fitted curve passes a level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage {
    /// The place, with straight lines between the points; infinite beyond the range.
    pub(crate) at: f64,
    /// The measured place below it, −∞ when there is none.
    pub(crate) low: f64,
    /// The measured place above it, +∞ when there is none.
    pub(crate) high: f64,
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

    /// Place where the curve through the points' own estimates passes zero.
    pub(crate) fn crossing(&self) -> Passage {
        self.passage(&self.estimated(), 0.0)
    }

    fn crossover(
        &self,
        fit: &[f64],
        level: f64,
        resampled: &[Passage],
        options: &Bootstrap,
    ) -> Crossover {
        let found = self.passage(fit, level);
        let inside = resampled.iter().filter(|one| one.at.is_finite()).count();
        let share = inside as f64 / resampled.len() as f64;
        let tail = |of: fn(&Passage) -> f64| percentiles(resampled.iter().map(of), options);
        let interval = Interval {
            low: tail(|one| one.low).low.min(found.low),
            high: tail(|one| one.high).high.max(found.high),
            level: options.level,
        };
        if !found.at.is_finite() {
            return Crossover::None {
                share_of_resamples_without: 1.0 - share,
                winner: sign(fit, level),
                interval,
            };
        }
        Crossover::At {
            x: found.at,
            between: (found.low, found.high),
            sampling: tail(|one| one.at),
            interval,
            share_of_resamples: share,
        }
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

    /// Place where the curves through resampled pairs pass each of `levels`.
    pub(crate) fn resampled(&self, options: &Bootstrap, levels: &[f64]) -> Vec<Vec<Passage>> {
        let mut resampler = Resampler::new(options.seed);
        let mut drawn: Vec<Vec<f64>> = self
            .points
            .iter()
            .map(|point| point.log_ratios.clone())
            .collect();
        let mut passages = vec![Vec::with_capacity(options.resamples); levels.len()];
        for _ in 0..options.resamples {
            let fit = self.fit(|i, log_ratios| {
                resampler.fill(log_ratios, &mut drawn[i]);
                estimate_in_place(&mut drawn[i])
            });
            for (passages, level) in passages.iter_mut().zip(levels) {
                passages.push(self.passage(&fit, *level));
            }
        }
        passages
    }

    /// Place where `fit` passes `level`. Infinite when it does not: on the side where the points begin when
    /// it lies below from the first point on, on the other when it does not by the last.
    fn passage(&self, fit: &[f64], level: f64) -> Passage {
        let before = fit.iter().rposition(|value| *value > level);
        let after = fit.iter().position(|value| *value < level);
        let far = self.beyond_the_last();
        let place = |i: usize| self.points[i].x;
        let at = match (before, after) {
            (Some(before), Some(after)) => self.between(fit, level, before, after),
            (None, Some(_)) => -far,
            (_, None) => far,
        };
        let (from, to) = (before.map_or(-far, place), after.map_or(far, place));
        Passage {
            at,
            low: from.min(to),
            high: from.max(to),
        }
    }

    /// The place between the last point above `level` and the first below it.
    fn between(&self, fit: &[f64], level: f64, before: usize, after: usize) -> f64 {
        let x = |i: usize| self.scale.apply(self.points[i].x);
        let spaced = if after > before + 1 {
            f64::midpoint(x(before + 1), x(after - 1))
        } else {
            let part = (fit[before] - level) / (fit[before] - fit[after]);
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

/// The interval of places. Takes the outer neighbour instead of interpolating: between a number and
/// infinity there is nothing in between.
fn percentiles(places: impl Iterator<Item = f64>, options: &Bootstrap) -> Interval {
    let mut sorted: Vec<f64> = places.collect();
    sorted.sort_by(f64::total_cmp);
    let last = (sorted.len() - 1) as f64;
    let (lower, upper) = options.tails();
    Interval {
        low: sorted[(lower * last).floor() as usize],
        high: sorted[(upper * last).ceil() as usize],
        level: options.level,
    }
}

/// Returns the winner by a curve that does not pass `level`.
fn sign(fit: &[f64], level: f64) -> Winner {
    if fit.iter().any(|value| *value > level) {
        Winner::First
    } else if fit.iter().any(|value| *value < level) {
        Winner::Second
    } else {
        Winner::Tie
    }
}

#[cfg(test)]
mod tests;
