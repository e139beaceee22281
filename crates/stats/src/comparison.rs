//! Comparison of two: which is faster, by how much, and how sure that is.

use crate::bootstrap::{Bootstrap, Interval, bootstrap};
use crate::hodges_lehmann::{estimate_in_place, hodges_lehmann};
use crate::wilcoxon::{signed_rank_interval, wilcoxon_signed_rank};

/// Fewest pairs for a verdict. With four, chance alone gives all pairs the same sign in one of
/// eight experiments, so [`Comparison::winner`] is [`Winner::Unclear`] whatever the pairs say.
pub const MIN_PAIRS_FOR_VERDICT: usize = 5;

/// Below so many pairs [`Comparison::few`] is set: a 95 % interval then covers the truth in only
/// 87 % (five pairs) to 93 % of experiments, see [`bootstrap`]. A winner by five pairs whose noise
/// is twice the band is wrong in one of nine experiments; by 25 pairs, in one of 40.
pub const FEW_PAIRS: usize = 12;

/// Method that makes the interval of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IntervalMethod {
    /// [`bootstrap`] of the pairs: follows skewed noise, too narrow with few pairs.
    #[default]
    Bootstrap,
    /// [`signed_rank_interval`]: keeps its level at every number of pairs as long as the noise is
    /// symmetric, and needs no resamples; of [`Bootstrap`] it takes the level alone. Absent with
    /// fewer than six pairs at level 0.95.
    SignedRank,
}

/// Options of a comparison. The default is a band of 0.03, [`IntervalMethod::Bootstrap`] and
/// [`Bootstrap::default`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareOptions {
    /// Log-ratios from −`band` to +`band` count as equal (0.03: about ± 3 %). A difference that
    /// nobody would notice is no reason to switch protocols.
    pub band: f64,
    /// Method that makes the interval.
    pub interval: IntervalMethod,
    /// Level of the interval, and how to resample for it.
    pub bootstrap: Bootstrap,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            band: 0.03,
            interval: IntervalMethod::Bootstrap,
            bootstrap: Bootstrap::default(),
        }
    }
}

/// The one that takes less time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Winner {
    /// The first, beyond the band, and the interval leaves out 0.
    First,
    /// The second, beyond the band, and the interval leaves out 0.
    Second,
    /// No winner: the whole interval lies within the band.
    Tie,
    /// No verdict: these pairs do not tell, and more are needed.
    Unclear,
}

/// Result of [`compare`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Number of pairs.
    pub n: usize,
    /// Hodges–Lehmann estimate of ln(second / first): below 0 the second is faster.
    pub estimate: f64,
    /// Interval of `estimate`; `None` of a single pair, or of too few for
    /// [`IntervalMethod::SignedRank`].
    pub interval: Option<Interval>,
    /// Two-sided p-value of Wilcoxon's signed-rank test on the log-ratios.
    pub p: f64,
    /// Share of pairs in which the second was faster; equal pairs count half.
    pub probability_second_faster: f64,
    /// The verdict.
    pub winner: Winner,
    /// Fewer than [`FEW_PAIRS`] pairs: the interval is too narrow, as [`bootstrap`] says.
    pub few: bool,
}

impl Comparison {
    /// The estimate in per cent of the first: −9 when the second takes 9 % less time.
    #[must_use]
    pub fn percent(&self) -> f64 {
        percent(self.estimate)
    }

    /// The ends of the interval in per cent of the first.
    #[must_use]
    pub fn percent_interval(&self) -> Option<(f64, f64)> {
        self.interval
            .map(|interval| (percent(interval.low), percent(interval.high)))
    }

    /// The estimate as the gain (T_first − T_second) / T_second: 0.25 when the first takes a
    /// quarter more time than the second. The figure of the study that altway's selection succeeds.
    #[must_use]
    pub fn gain(&self) -> f64 {
        gain(self.estimate)
    }

    /// The ends of the interval as gains, the lower first.
    #[must_use]
    pub fn gain_interval(&self) -> Option<(f64, f64)> {
        self.interval
            .map(|interval| (gain(interval.high), gain(interval.low)))
    }
}

/// Compares times measured in pairs: `first[i]` and `second[i]` belong together.
///
/// `None` when there are no pairs, when the lengths differ, when a time is not finite and positive,
/// or when the options are out of range.
///
/// The verdict: a tie when the interval lies within ± band; else the faster one when the interval
/// leaves out 0 and the estimate lies beyond the band; else unclear.
#[must_use]
pub fn compare(first: &[f64], second: &[f64], options: &CompareOptions) -> Option<Comparison> {
    compare_log_ratios(&log_ratios(first, second)?, options)
}

/// The same as [`compare`], for pairs that are log-ratios already, as [`log_ratios`] gives them.
/// `None` when there are none, when one is not finite, or when the options are out of range.
#[must_use]
pub fn compare_log_ratios(log_ratios: &[f64], options: &CompareOptions) -> Option<Comparison> {
    if !options.bootstrap.is_valid() || options.band.is_nan() || options.band < 0.0 {
        return None;
    }
    let estimate = hodges_lehmann(log_ratios)?;
    let interval = match options.interval {
        IntervalMethod::Bootstrap => bootstrap(
            log_ratios,
            |drawn| estimate_in_place(&mut drawn.to_vec()),
            &options.bootstrap,
        ),
        IntervalMethod::SignedRank => signed_rank_interval(log_ratios, options.bootstrap.level),
    };
    Some(Comparison {
        n: log_ratios.len(),
        estimate,
        interval,
        p: wilcoxon_signed_rank(log_ratios)?.p,
        probability_second_faster: probability_less(log_ratios)?,
        winner: verdict(log_ratios.len(), estimate, interval, options.band),
        few: log_ratios.len() < FEW_PAIRS,
    })
}

/// ln(second / first) of each pair of times. `None` when the lengths differ, or when a time is not
/// finite and positive.
#[must_use]
pub fn log_ratios(first: &[f64], second: &[f64]) -> Option<Vec<f64>> {
    let positive = |times: &[f64]| times.iter().all(|time| time.is_finite() && *time > 0.0);
    if first.len() != second.len() || !positive(first) || !positive(second) {
        return None;
    }
    let pairs = first.iter().zip(second);
    Some(pairs.map(|(a, b)| (b / a).ln()).collect())
}

/// The gain (T_first − T_second) / T_second that ln(second / first) stands for.
///
/// ```
/// let twice_as_fast = (0.5_f64).ln();
/// assert!((altway_stats::gain(twice_as_fast) - 1.0).abs() < 1e-12);
/// ```
#[must_use]
pub fn gain(log_ratio: f64) -> f64 {
    (-log_ratio).exp_m1()
}

/// Share of `differences` (second − first, or log-ratios) below zero, zeros counting half: the
/// chance that the second is faster in a pair. `None` when there are none, or one of them is NaN.
#[must_use]
pub fn probability_less(differences: &[f64]) -> Option<f64> {
    if differences.is_empty() || differences.iter().any(|value| value.is_nan()) {
        return None;
    }
    let less = differences.iter().filter(|value| **value < 0.0).count();
    let equal = differences.iter().filter(|value| **value == 0.0).count();
    Some((less as f64 + equal as f64 / 2.0) / differences.len() as f64)
}

fn percent(log_ratio: f64) -> f64 {
    100.0 * log_ratio.exp_m1()
}

fn verdict(n: usize, estimate: f64, interval: Option<Interval>, band: f64) -> Winner {
    let Some(interval) = interval.filter(|_| n >= MIN_PAIRS_FOR_VERDICT) else {
        return Winner::Unclear;
    };
    if -band <= interval.low && interval.high <= band {
        Winner::Tie
    } else if interval.low > 0.0 && estimate > band {
        Winner::First
    } else if interval.high < 0.0 && estimate < -band {
        Winner::Second
    } else {
        Winner::Unclear
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quick() -> CompareOptions {
        let bootstrap = Bootstrap {
            resamples: 500,
            ..Bootstrap::default()
        };
        CompareOptions {
            bootstrap,
            ..CompareOptions::default()
        }
    }

    fn verdict_of(estimate: f64, low: f64, high: f64) -> Winner {
        verdict(
            5,
            estimate,
            Some(Interval {
                low,
                high,
                level: 0.95,
            }),
            0.03,
        )
    }

    #[test]
    fn refuses_what_is_no_pairs_of_times() {
        assert_eq!(compare(&[], &[], &quick()), None);
        assert_eq!(compare(&[1.0], &[1.0, 2.0], &quick()), None);
        assert_eq!(compare(&[1.0, 0.0], &[1.0, 2.0], &quick()), None);
        assert_eq!(compare(&[1.0, 2.0], &[1.0, f64::INFINITY], &quick()), None);
        let broken = CompareOptions {
            band: -0.1,
            ..quick()
        };
        assert_eq!(compare(&[1.0, 1.0], &[1.0, 2.0], &broken), None);
    }

    #[test]
    fn a_winner_needs_an_interval_beyond_zero_and_an_estimate_beyond_the_band() {
        assert_eq!(verdict_of(0.031, 0.001, 0.06), Winner::First);
        assert_eq!(verdict_of(0.030, 0.001, 0.06), Winner::Unclear);
        assert_eq!(verdict_of(0.031, 0.0, 0.06), Winner::Unclear);
        assert_eq!(verdict_of(-0.031, -0.06, -0.001), Winner::Second);
        assert_eq!(verdict_of(-0.031, -0.06, 0.0), Winner::Unclear);
    }

    #[test]
    fn a_tie_needs_the_whole_interval_within_the_band() {
        assert_eq!(verdict_of(0.01, -0.03, 0.03), Winner::Tie);
        assert_eq!(verdict_of(0.02, 0.01, 0.03), Winner::Tie);
        assert_eq!(verdict_of(0.02, -0.031, 0.03), Winner::Unclear);
        assert_eq!(verdict_of(0.02, 0.01, 0.031), Winner::Unclear);
    }

    #[test]
    fn four_pairs_never_make_a_verdict() {
        let few = compare(&[2.0; 4], &[1.0; 4], &quick()).unwrap();
        assert_eq!(few.winner, Winner::Unclear);
        let enough = compare(&[2.0; 5], &[1.0; 5], &quick()).unwrap();
        assert_eq!(enough.winner, Winner::Second);
        assert!(enough.few);
        assert!(!compare(&[2.0; 12], &[1.0; 12], &quick()).unwrap().few);
    }

    #[test]
    fn a_single_pair_has_an_estimate_and_no_interval() {
        let one = compare(&[2.0], &[1.0], &quick()).unwrap();
        assert_eq!(one.interval, None);
        assert!((one.percent() - -50.0).abs() < 1e-9);
    }

    #[test]
    fn the_signed_rank_interval_is_absent_below_six_pairs() {
        let options = CompareOptions {
            interval: IntervalMethod::SignedRank,
            ..quick()
        };
        let five = compare(&[2.0; 5], &[1.0; 5], &options).unwrap();
        assert_eq!((five.interval, five.winner), (None, Winner::Unclear));
        let six = compare(&[2.0; 6], &[1.0; 6], &options).unwrap();
        assert_eq!(six.winner, Winner::Second);
        assert_eq!(six.interval.unwrap().low, 0.5_f64.ln());
    }

    #[test]
    fn a_gain_is_the_time_saved_over_the_shorter_time() {
        let result = compare(&[3.0; 6], &[2.0; 6], &quick()).unwrap();
        assert!((result.gain() - 0.5).abs() < 1e-12);
        let (low, high) = result.gain_interval().unwrap();
        assert!((low - 0.5).abs() < 1e-12 && (high - 0.5).abs() < 1e-12);
        let spread = compare(&[3.0, 2.0, 2.5], &[2.0; 3], &quick()).unwrap();
        let (low, high) = spread.gain_interval().unwrap();
        assert!(low < spread.gain() && spread.gain() < high);
    }

    #[test]
    fn equal_pairs_count_half() {
        assert_eq!(probability_less(&[-1.0, 0.0, 1.0, -2.0]), Some(0.625));
        assert_eq!(probability_less(&[]), None);
    }

    proptest! {
        #[test]
        fn swapping_the_sides_turns_the_estimate_round(
            pairs in prop::collection::vec((0.5..2.0_f64, 0.5..2.0_f64), 1..12),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let (forth, back) = (compare(&a, &b, &quick()).unwrap(), compare(&b, &a, &quick()).unwrap());
            prop_assert!((forth.estimate + back.estimate).abs() < 1e-12);
            prop_assert_eq!(forth.p, back.p);
            let chances = forth.probability_second_faster + back.probability_second_faster;
            prop_assert!((chances - 1.0).abs() < 1e-12);
        }
    }
}
