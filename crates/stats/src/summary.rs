//! Description of one sample: location, tail and spread.

/// Fewest values for which [`Summary::p99`] is given: below it less than ten values lie beyond the
/// quantile, and its error is larger than any difference one would read from it.
pub const MIN_FOR_P99: usize = 1_000;

/// What [`summarize`] says of a sample; every value in the sample's own unit unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How many values.
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
    /// 99th percentile (type 7); `None` below [`MIN_FOR_P99`] values.
    pub p99: Option<f64>,
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
        p99: (n >= MIN_FOR_P99).then(|| quantile(&sorted, 0.99)),
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
    fn p99_wants_a_thousand_values() {
        let values: Vec<f64> = (0..MIN_FOR_P99).map(|value| value as f64).collect();
        assert_eq!(summarize(&values[1..]).unwrap().p99, None);
        assert!((summarize(&values).unwrap().p99.unwrap() - 989.01).abs() < 1e-9);
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
