//! Description of one sample: location, tail and spread.

use crate::bootstrap::Interval;
use statrs::distribution::{Binomial, DiscreteCDF};

/// Statistics of a sample, by [`summarize`]; every value in the sample's own unit unless said
/// otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// The middle value (type 7).
    pub median: f64,
    /// Standard deviation with n − 1 in the denominator; `None` of a single value.
    pub std_dev: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// 90th percentile (type 7). With fewer than ten values it is drawn from the largest two.
    pub p90: f64,
    /// 95th percentile (type 7). With fewer than twenty values it is drawn from the largest two.
    pub p95: f64,
    /// 99th percentile (type 7). Below a hundred values it is drawn from the largest two: only its
    /// interval says what it is worth.
    pub p99: f64,
    /// Interval of the 99th percentile at level 0.95, as [`quantile_interval`] makes it: with fewer than
    /// 368 values its upper end is infinite.
    pub p99_interval: Interval,
    /// Mean of the smallest fifth (⌈n / 5⌉ values). Kept for comparison with earlier studies; it
    /// favours runs that met no loss, so it says nothing about a typical transfer.
    pub fastest_fifth_mean: f64,
    /// Standard deviation / mean, a plain number; `None` of a single value or a mean ≤ 0.
    pub coefficient_of_variation: Option<f64>,
}

/// Describes `values`; `None` when there are none, or one of them is not finite.
#[must_use]
pub fn summarize(values: &[f64]) -> Option<Summary> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let mean = mean(&sorted);
    let std_dev = (n > 1).then(|| standard_deviation(&sorted, mean));
    Some(Summary {
        n,
        mean,
        median: quantile(&sorted, 0.5),
        std_dev,
        min: sorted[0],
        max: sorted[n - 1],
        p90: quantile(&sorted, 0.9),
        p95: quantile(&sorted, 0.95),
        p99: quantile(&sorted, 0.99),
        p99_interval: quantile_interval(&sorted, 0.99, 0.95)?,
        fastest_fifth_mean: self::mean(&sorted[..n.div_ceil(5)]),
        coefficient_of_variation: std_dev.filter(|_| mean > 0.0).map(|spread| spread / mean),
    })
}

/// The `q`-quantile (`q` from 0 to 1, clamped) of values sorted in ascending order, by linear
/// interpolation between the two nearest: type 7 of Hyndman and Fan, the default of R and NumPy.
///
/// NaN when there are no values.
///
/// ```
/// assert_eq!(altway_stats::quantile(&[10.0, 20.0, 40.0], 0.75), 30.0);
/// ```
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    let part = position - below as f64;
    if part == 0.0 {
        // No arithmetic with the neighbour: it may be infinite.
        return sorted[below];
    }
    sorted[below] + part * (sorted[above] - sorted[below])
}

/// An interval of the `q`-quantile of what the values were drawn from, whatever its shape: two of the
/// values, sorted in ascending order, chosen by the binomial distribution of how many lie below the
/// quantile. An end is infinite where so few values say nothing of that side.
///
/// `None` when there are no values, or when `q` or `level` does not lie between 0 and 1.
///
/// ```
/// use altway_stats::quantile_interval;
/// let values: Vec<f64> = (1..=25).map(f64::from).collect();
/// let tail = quantile_interval(&values, 0.99, 0.95).expect("25 values");
/// assert_eq!((tail.low, tail.high), (23.0, f64::INFINITY));
/// ```
#[must_use]
pub fn quantile_interval(sorted: &[f64], q: f64, level: f64) -> Option<Interval> {
    let is_share = |value: f64| value > 0.0 && value < 1.0;
    if sorted.is_empty() || !is_share(q) || !is_share(level) {
        return None;
    }
    let n = sorted.len();
    let below = Binomial::new(q, n as u64).ok()?;
    let tail = (1.0 - level) / 2.0;
    // The value of rank r, from 1, lies above the quantile when fewer than r values lie below that.
    let is_above = |rank: usize| below.cdf(rank as u64 - 1);
    let low = (1..=n).rev().find(|rank| is_above(*rank) <= tail);
    let high = (1..=n).find(|rank| is_above(*rank) >= 1.0 - tail);
    Some(Interval {
        low: low.map_or(f64::NEG_INFINITY, |rank| sorted[rank - 1]),
        high: high.map_or(f64::INFINITY, |rank| sorted[rank - 1]),
        level,
    })
}

/// Arithmetic mean; NaN of nothing.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn standard_deviation(values: &[f64], mean: f64) -> f64 {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_and_not_finite_have_no_summary() {
        assert_eq!(summarize(&[]), None);
        assert_eq!(summarize(&[1.0, f64::NAN]), None);
        assert_eq!(summarize(&[1.0, f64::INFINITY]), None);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn a_single_value_has_no_spread() {
        let summary = summarize(&[3.0]).unwrap();
        assert_eq!(summary.median, 3.0);
        assert_eq!(summary.p95, 3.0);
        assert_eq!(summary.fastest_fifth_mean, 3.0);
        assert_eq!(summary.std_dev, None);
        assert_eq!(summary.coefficient_of_variation, None);
    }

    #[test]
    fn the_fastest_fifth_of_twenty_five_are_five() {
        let values: Vec<f64> = (1..=25).map(f64::from).collect();
        assert_eq!(summarize(&values).unwrap().fastest_fifth_mean, 3.0);
        assert_eq!(summarize(&values[..6]).unwrap().fastest_fifth_mean, 1.5);
    }

    #[test]
    fn the_interval_of_a_tail_is_open_until_there_are_enough_values() {
        let interval = |n: u32| {
            let values: Vec<f64> = (1..=n).map(f64::from).collect();
            summarize(&values).unwrap().p99_interval
        };
        assert_eq!(interval(367).high, f64::INFINITY);
        assert_eq!(interval(368).high, 368.0);
        // Of Bin(1000, 0.99): P(B <= 982) = 0.021, P(B <= 983) = 0.026; P(B <= 996) = 0.990, P(B <= 995) = 0.971.
        assert_eq!((interval(1_000).low, interval(1_000).high), (983.0, 997.0));
        let values: Vec<f64> = (0..1_000).map(f64::from).collect();
        assert!((summarize(&values).unwrap().p99 - 989.01).abs() < 1e-9);
    }

    #[test]
    fn the_interval_of_a_quantile_covers_it_as_often_as_it_says() {
        // Of a uniform value the quantile is q itself; splitmix64 draws.
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        };
        for (n, q) in [(25, 0.99), (400, 0.99), (60, 0.5)] {
            let mut covered = 0;
            for _ in 0..1_000 {
                let mut values: Vec<f64> = (0..n).map(|_| draw()).collect();
                values.sort_by(f64::total_cmp);
                covered += u32::from(quantile_interval(&values, q, 0.95).unwrap().contains(q));
            }
            assert!(covered >= 935, "{n} values, {q}: {covered} of 1000");
        }
    }

    #[test]
    fn a_quantile_of_nothing_has_no_interval() {
        assert_eq!(quantile_interval(&[], 0.5, 0.95), None);
        assert_eq!(quantile_interval(&[1.0], 1.0, 0.95), None);
        assert_eq!(quantile_interval(&[1.0], 0.5, 0.0), None);
    }

    #[test]
    fn quantiles_outside_the_unit_range_are_the_extremes() {
        assert_eq!(quantile(&[1.0, 2.0], -1.0), 1.0);
        assert_eq!(quantile(&[1.0, 2.0], 7.0), 2.0);
    }

    proptest! {
        #[test]
        fn quantiles_rise_and_stay_inside(
            mut values in prop::collection::vec(-1e6..1e6_f64, 1..50),
            a in 0.0..1.0_f64,
            b in 0.0..1.0_f64,
        ) {
            values.sort_by(f64::total_cmp);
            let (low, high) = (quantile(&values, a.min(b)), quantile(&values, a.max(b)));
            prop_assert!(values[0] <= low && high <= values[values.len() - 1]);
            prop_assert!(low <= high + 1e-9);
        }
    }
}
