//! Two samples that are not paired: how far apart they lie, and how sure that is.
//!
//! For two runs, whose blocks have nothing in common: the log-ratios of a cell in one and in the
//! other, or any figure of it (set-up time, loss counted) that may explain the difference.

use crate::bootstrap::Interval;
use crate::hodges_lehmann::{from_ordered, to_ordered};
use statrs::distribution::{ContinuousCDF, Normal};

/// Largest size of the smaller sample for the exact p-value when no two values tie.
const EXACT_UP_TO: usize = 8;
/// Largest product of the sizes for which an interval takes the exact distribution.
const EXACT_INTERVAL_UP_TO: usize = 2_500;

/// Result of [`shift`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// Hodges–Lehmann estimate: the median of all differences between a value of `to` and one of
    /// `from`.
    pub estimate: f64,
    /// Interval that belongs to the rank-sum test; `None` with too few values for the level (below
    /// four and four for 0.95).
    pub interval: Option<Interval>,
    /// Two-sided p-value of the Mann–Whitney (Wilcoxon rank-sum) test.
    pub p: f64,
}

/// Returns how far `to` lies above `from`.
///
/// The interval keeps `level` whatever the distribution when both samples have the same shape; it is
/// exact up to 2,500 pairs of values, then the normal approximation, rounded outwards. p is what
/// SciPy 1.17 gives for `mannwhitneyu(to, from, method="auto")`: exact when the smaller sample has at
/// most eight values and none tie, else the normal approximation with tie and continuity correction.
///
/// `None` when a sample is empty, a value is not finite, or the level is not between 0 and 1.
///
/// ```
/// // ln(h3 / h2) of one cell behind a proxy and without it.
/// let direct = [0.021, 0.034, 0.018, 0.029, 0.025, 0.031];
/// let proxied = [-0.079, -0.061, -0.083, -0.070, -0.074, -0.066];
/// let shift = altway_stats::shift(&direct, &proxied, 0.95).expect("two samples");
/// assert!((shift.estimate - -0.1).abs() < 0.005, "HTTP/3 gains ten per cent by the proxy");
/// assert!(shift.interval.is_some_and(|interval| interval.high < -0.08));
/// ```
#[must_use]
pub fn shift(from: &[f64], to: &[f64], level: f64) -> Option<Shift> {
    let usable = |values: &[f64]| !values.is_empty() && values.iter().all(|v| v.is_finite());
    let in_range = level > 0.0 && level < 1.0;
    if !usable(from) || !usable(to) || !in_range {
        return None;
    }
    let (a, b) = (sorted(from), sorted(to));
    let all = a.len() * b.len();
    let middle = all.div_ceil(2);
    let (lower, upper) = (
        nth_difference(&a, &b, middle),
        nth_difference(&a, &b, all / 2 + 1),
    );
    let interval = differences_left_out(a.len(), b.len(), (1.0 - level) / 2.0);
    Some(Shift {
        estimate: f64::midpoint(lower, upper),
        interval: interval.map(|left_out| Interval {
            low: nth_difference(&a, &b, left_out + 1),
            high: nth_difference(&a, &b, all - left_out),
            level,
        }),
        p: p_value(&a, &b),
    })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// The `rank`-th smallest (from 1) difference b − a: bisects the ordered bit patterns of `f64`.
fn nth_difference(a: &[f64], b: &[f64], rank: usize) -> f64 {
    let mut low = to_ordered(b[0] - a[a.len() - 1]);
    let mut high = to_ordered(b[b.len() - 1] - a[0]);
    while low < high {
        let middle = low + (high - low) / 2;
        if differences_up_to(a, b, from_ordered(middle)) >= rank {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    // Adds nothing but the sign of a zero.
    from_ordered(low) + 0.0
}

/// Returns how many differences b − a are at most `limit`: rounding keeps them in order, so one
/// pass with two fingers counts exactly.
fn differences_up_to(a: &[f64], b: &[f64], limit: f64) -> usize {
    let mut end = 0;
    let of_value = |value: &f64| {
        while end < b.len() && b[end] - value <= limit {
            end += 1;
        }
        end
    };
    a.iter().map(of_value).sum()
}

/// Returns how many differences lie outside an interval at each end.
fn differences_left_out(n: usize, m: usize, tail: f64) -> Option<usize> {
    if n * m <= EXACT_INTERVAL_UP_TO {
        let mut below = 0.0;
        let counts = distribution(n, m);
        let fitting = counts.iter().take_while(|probability| {
            below += **probability;
            below <= tail
        });
        return fitting.count().checked_sub(1);
    }
    let (n, m) = (n as f64, m as f64);
    let spread = (n * m * (n + m + 1.0) / 12.0).sqrt();
    let cut = n * m / 2.0 + Normal::standard().inverse_cdf(tail) * spread;
    (cut >= 1.0).then_some((cut - 1.0) as usize)
}

/// Probability of each U from 0 to nm: the coefficients of Π (1 − q^(m+i)) / (1 − q^i), each factor
/// divided by its sum so that nothing overflows.
fn distribution(n: usize, m: usize) -> Vec<f64> {
    let (n, m) = (n.min(m), n.max(m));
    let mut probability = vec![0.0; n * m + 1];
    probability[0] = 1.0;
    for i in 1..=n {
        for u in (m + i..probability.len()).rev() {
            probability[u] -= probability[u - m - i];
        }
        for u in i..probability.len() {
            probability[u] += probability[u - i];
        }
        let share = i as f64 / (m + i) as f64;
        for value in &mut probability {
            *value *= share;
        }
    }
    probability
}

fn p_value(a: &[f64], b: &[f64]) -> f64 {
    let (n, m) = (a.len(), b.len());
    let just_below_zero = -f64::from_bits(1);
    let below = differences_up_to(a, b, just_below_zero);
    let equal = differences_up_to(a, b, 0.0) - below;
    let u = below as f64 + equal as f64 / 2.0;
    let larger = u.max((n * m) as f64 - u);
    let ties = ties(a, b);
    if n.min(m) <= EXACT_UP_TO && ties == 0.0 {
        let upper = distribution(n, m).into_iter().skip(larger as usize);
        return (2.0 * upper.sum::<f64>()).min(1.0);
    }
    let (n, m) = (n as f64, m as f64);
    let all = n + m;
    let variance = n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    let z = (larger - n * m / 2.0 - 0.5) / variance.sqrt();
    if z.is_nan() {
        // All values alike.
        return 1.0;
    }
    (2.0 * Normal::standard().sf(z)).min(1.0)
}

/// Σ (t³ − t) over groups of t equal values of both samples.
fn ties(a: &[f64], b: &[f64]) -> f64 {
    let both = sorted(&[a, b].concat());
    let groups = both.chunk_by(|x, y| x == y).map(|group| group.len() as f64);
    groups.map(|size| size.powi(3) - size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_empty_samples_and_what_is_no_number() {
        assert_eq!(shift(&[], &[1.0], 0.95), None);
        assert_eq!(shift(&[1.0], &[f64::NAN], 0.95), None);
        assert_eq!(shift(&[1.0], &[1.0], 1.0), None);
    }

    #[test]
    fn three_against_three_say_where_but_not_how_sure() {
        let found = shift(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.95).unwrap();
        assert_eq!((found.estimate, found.interval), (3.0, None));
        assert!((found.p - 0.1).abs() < 1e-12);
        let four = shift(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], 0.95).unwrap();
        let interval = four.interval.unwrap();
        assert_eq!((interval.low, interval.high), (1.0, 7.0));
    }

    #[test]
    fn values_all_alike_speak_against_nothing() {
        let same = shift(&[2.0; 9], &[2.0; 9], 0.95).unwrap();
        assert_eq!((same.estimate, same.p), (0.0, 1.0));
    }

    #[test]
    fn the_exact_distribution_sums_to_one_even_when_large() {
        for (n, m) in [(1, 1), (4, 7), (50, 50), (8, 300)] {
            let total: f64 = distribution(n, m).iter().sum();
            assert!((total - 1.0).abs() < 1e-9, "{n} {m}: {total}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_listing_all_differences(
            a in prop::collection::vec(-9..9_i8, 1..20),
            b in prop::collection::vec(-9..9_i8, 1..20),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = (
                a.into_iter().map(f64::from).collect(),
                b.into_iter().map(f64::from).collect(),
            );
            let pairs = a.iter().flat_map(|x| b.iter().map(move |y| y - x));
            let listed = sorted(&pairs.collect::<Vec<_>>());
            let forth = shift(&a, &b, 0.95).unwrap();
            prop_assert_eq!(forth.estimate, crate::quantile(&listed, 0.5));
            let back = shift(&b, &a, 0.95).unwrap();
            prop_assert_eq!((forth.estimate, forth.p), (-back.estimate + 0.0, back.p));
        }
    }
}
