//! Wilcoxon's signed-rank test: could differences like these come from no difference at all?

use crate::bootstrap::Interval;
use crate::hodges_lehmann::walsh_average;
use statrs::distribution::{ContinuousCDF, Normal};

/// Largest n for the exact distribution when no two differences tie and none is zero.
const EXACT_UP_TO: usize = 50;
/// Largest n for which an interval takes the exact distribution: adding up 2^n signs costs n³ / 2.
const EXACT_INTERVAL_UP_TO: usize = 120;
/// Largest n for the exact distribution when there are ties or zeros.
const EXACT_WITH_TIES_UP_TO: usize = 13;

/// Result of [`wilcoxon_signed_rank`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wilcoxon {
    /// The smaller of the rank sums of the positive and of the negative differences.
    pub statistic: f64,
    /// Two-sided p-value, from 0 to 1.
    pub p: f64,
}

/// Tests whether `differences` are spread evenly around zero; `None` when there are none, or one of
/// them is not finite.
///
/// Gives what SciPy 1.17 gives for
/// `wilcoxon(d, zero_method="wilcox", correction=False, alternative="two-sided", method="auto")`:
/// zeros are left out; the distribution is exact up to 50 differences, or up to 13 when there are
/// ties or zeros; beyond that it is the normal approximation with tie correction and without
/// continuity correction. Only zeros: p is 1.
#[must_use]
pub fn wilcoxon_signed_rank(differences: &[f64]) -> Option<Wilcoxon> {
    if differences.is_empty() || differences.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let ranked = Ranked::new(differences);
    let statistic = ranked.positive.min(ranked.total() - ranked.positive);
    if ranked.doubled.is_empty() {
        return Some(Wilcoxon { statistic, p: 1.0 });
    }
    let even = ranked.ties == 0.0 && ranked.doubled.len() == differences.len();
    let limit = if even {
        EXACT_UP_TO
    } else {
        EXACT_WITH_TIES_UP_TO
    };
    let p = if differences.len() <= limit {
        exact_p(&ranked.doubled, statistic)
    } else {
        normal_p(&ranked, statistic)
    };
    Some(Wilcoxon { statistic, p })
}

/// Returns the interval that belongs to the signed-rank test and the Hodges–Lehmann estimate: all
/// values μ for which the test of `differences` − μ gives no p below 1 − `level` (Tukey 1949).
///
/// The interval draws no random number and promises `level` for **any** distribution that is
/// symmetric about its middle, at every n; so it does for the log-ratios of two systems that are
/// really the same (the null arm), which are symmetric about 0 whatever the noise. It is exact up
/// to 120 differences, beyond that the normal approximation, rounded outwards. Ties make it wider,
/// never narrower.
///
/// `None` when n is too small for the level (below 6 for 0.95, 8 for 0.99), when a difference is not
/// finite, or when the level is not between 0 and 1.
///
/// ```
/// let interval = altway_stats::signed_rank_interval(&[0.3, 0.1, 0.5, 0.2, 0.4, 0.6], 0.95);
/// let interval = interval.expect("six are just enough for 95 %");
/// assert_eq!((interval.low, interval.high), (0.1, 0.6));
/// assert_eq!(altway_stats::signed_rank_interval(&[0.3, 0.1, 0.5, 0.2, 0.4], 0.95), None);
/// ```
#[must_use]
pub fn signed_rank_interval(differences: &[f64], level: f64) -> Option<Interval> {
    let in_range = level > 0.0 && level < 1.0;
    if !in_range || differences.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = differences.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let averages = n * (n + 1) / 2;
    let left_out = averages_left_out(n, (1.0 - level) / 2.0)?;
    Some(Interval {
        low: walsh_average(&sorted, left_out + 1),
        high: walsh_average(&sorted, averages - left_out),
        level,
    })
}

/// Returns how many of the n(n+1)/2 averages lie outside at each end: the largest k with P(rank
/// sum < k) ≤ `tail`, but one less, as the end itself belongs to the interval.
fn averages_left_out(n: usize, tail: f64) -> Option<usize> {
    if n <= EXACT_INTERVAL_UP_TO {
        let ranks: Vec<usize> = (1..=n).collect();
        let mut below = 0.0;
        let sums = distribution(&ranks);
        let fitting = sums.iter().take_while(|probability| {
            below += **probability;
            below <= tail
        });
        return fitting.count().checked_sub(1);
    }
    let n = n as f64;
    let spread = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    let cut = n * (n + 1.0) / 4.0 + Normal::standard().inverse_cdf(tail) * spread;
    (cut >= 1.0).then_some((cut - 1.0) as usize)
}

/// The ranks of the absolute differences, zeros left out.
struct Ranked {
    /// Twice each rank: ties share a mean rank, which may end in one half.
    doubled: Vec<usize>,
    /// Sum of the ranks of positive differences.
    positive: f64,
    /// Σ (t³ − t) over groups of t equal absolute differences.
    ties: f64,
}

impl Ranked {
    fn new(differences: &[f64]) -> Self {
        let mut sorted: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
        sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let mut ranked = Self {
            doubled: Vec::new(),
            positive: 0.0,
            ties: 0.0,
        };
        for group in sorted.chunk_by(|a, b| a.abs() == b.abs()) {
            let (before, size) = (ranked.doubled.len(), group.len());
            let doubled = 2 * before + size + 1;
            ranked.doubled.extend(std::iter::repeat_n(doubled, size));
            let positive = group.iter().filter(|d| **d > 0.0).count();
            ranked.positive += doubled as f64 / 2.0 * positive as f64;
            ranked.ties += (size as f64).powi(3) - size as f64;
        }
        ranked
    }

    fn total(&self) -> f64 {
        let n = self.doubled.len() as f64;
        n * (n + 1.0) / 2.0
    }
}

/// P(rank sum ≤ statistic) over all 2^n signs, doubled.
fn exact_p(doubled_ranks: &[usize], statistic: f64) -> f64 {
    let at_most = (2.0 * statistic) as usize;
    let below: f64 = distribution(doubled_ranks)[..=at_most].iter().sum();
    (2.0 * below).min(1.0)
}

/// Probability of each sum of the ranks with a positive sign, over all 2^n signs: adds one rank
/// after another.
fn distribution(ranks: &[usize]) -> Vec<f64> {
    let total: usize = ranks.iter().sum();
    let mut probability = vec![0.0; total + 1];
    probability[0] = 1.0;
    let mut reached = 0;
    for rank in ranks {
        reached += rank;
        for sum in (*rank..=reached).rev() {
            probability[sum] = (probability[sum] + probability[sum - rank]) / 2.0;
        }
        for without_it in &mut probability[..*rank] {
            *without_it /= 2.0;
        }
    }
    probability
}

fn normal_p(ranked: &Ranked, statistic: f64) -> f64 {
    let n = ranked.doubled.len() as f64;
    let variance = (n * (n + 1.0) * (2.0 * n + 1.0) - ranked.ties / 2.0) / 24.0;
    let z = (statistic - ranked.total() / 2.0) / variance.sqrt();
    (2.0 * Normal::standard().cdf(z)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_differences_have_no_test() {
        assert_eq!(wilcoxon_signed_rank(&[]), None);
        assert_eq!(wilcoxon_signed_rank(&[f64::NAN]), None);
    }

    #[test]
    fn only_zeros_speak_against_nothing() {
        let expected = Wilcoxon {
            statistic: 0.0,
            p: 1.0,
        };
        assert_eq!(wilcoxon_signed_rank(&[0.0; 4]), Some(expected));
        assert_eq!(wilcoxon_signed_rank(&[0.0; 40]), Some(expected));
    }

    #[test]
    fn five_differences_of_one_sign_are_as_rare_as_one_in_sixteen() {
        let result = wilcoxon_signed_rank(&[0.1, 0.2, 0.3, 0.4, 0.5]).unwrap();
        assert_eq!(
            result,
            Wilcoxon {
                statistic: 0.0,
                p: 0.0625
            }
        );
    }

    #[test]
    fn an_interval_needs_enough_differences_for_its_level() {
        let values = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];
        assert_eq!(signed_rank_interval(&[], 0.95), None);
        assert_eq!(signed_rank_interval(&values[..5], 0.95), None);
        assert!(signed_rank_interval(&values[..6], 0.95).is_some());
        assert_eq!(signed_rank_interval(&values[..7], 0.99), None);
        assert!(signed_rank_interval(&values, 0.99).is_some());
        for level in [0.0, 1.0, f64::NAN] {
            assert_eq!(signed_rank_interval(&values, level), None);
        }
        assert_eq!(signed_rank_interval(&[f64::NAN; 9], 0.95), None);
    }

    #[test]
    fn the_approximation_of_the_interval_is_no_narrower_than_the_exact_one() {
        let approximate = |n: f64| {
            let spread = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
            n * (n + 1.0) / 4.0 - 1.959_964 * spread
        };
        let exact = averages_left_out(EXACT_INTERVAL_UP_TO, 0.025).unwrap() as f64;
        let off = approximate(EXACT_INTERVAL_UP_TO as f64) - 1.0 - exact;
        assert!((-3.0..3.0).contains(&off), "{off}");
        let next = averages_left_out(EXACT_INTERVAL_UP_TO + 1, 0.025).unwrap() as f64;
        assert!(next > exact);
    }

    proptest! {
        #[test]
        fn the_interval_leaves_out_zero_exactly_when_the_test_does(
            values in prop::collection::hash_set(-900..1_200_i32, 6..40),
        ) {
            // Distinct in size too, and none of them zero: then the test is exact.
            let values: Vec<f64> = values.iter().map(|v| f64::from(*v) + 0.25).collect();
            let interval = signed_rank_interval(&values, 0.95).unwrap();
            let p = wilcoxon_signed_rank(&values).unwrap().p;
            prop_assert_eq!(interval.contains(0.0), p > 0.05, "{:?} {}", interval, p);
        }

        #[test]
        fn swapping_the_two_sides_changes_nothing(values in prop::collection::vec(-9..9_i8, 1..70)) {
            let forth: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
            let back: Vec<f64> = forth.iter().map(|v| -v).collect();
            let (a, b) = (wilcoxon_signed_rank(&forth), wilcoxon_signed_rank(&back));
            prop_assert!((0.0..=1.0).contains(&a.unwrap().p));
            prop_assert_eq!(a, b);
        }
    }
}
