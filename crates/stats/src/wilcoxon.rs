//! Wilcoxon's signed-rank test: could differences like these come from no difference at all?

use statrs::distribution::{ContinuousCDF, Normal};

/// Largest n for the exact distribution when no two differences tie and none is zero.
const EXACT_UP_TO: usize = 50;
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

/// P(rank sum ≤ statistic) over all 2^n signs, doubled: adds one rank after another to the
/// distribution of the sum.
fn exact_p(doubled_ranks: &[usize], statistic: f64) -> f64 {
    let total: usize = doubled_ranks.iter().sum();
    let mut probability = vec![0.0; total + 1];
    probability[0] = 1.0;
    let mut reached = 0;
    for rank in doubled_ranks {
        reached += rank;
        for sum in (0..=reached).rev() {
            let with_it = sum.checked_sub(*rank).map_or(0.0, |rest| probability[rest]);
            probability[sum] = (probability[sum] + with_it) / 2.0;
        }
    }
    let at_most = (2.0 * statistic) as usize;
    (2.0 * probability[..=at_most].iter().sum::<f64>()).min(1.0)
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

    proptest! {
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
