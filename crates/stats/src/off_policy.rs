//! The value of another policy, and the difference of two treatments, from trials of which chance
//! decided a part.
//!
//! A policy gives each unit one of two treatments; who logs it notes with which probability. Weighting by that
//! probability makes up for who was given what: SNIPS divides by the sum of the weights (Swaminathan, Joachims, "The
//! Self-Normalized Estimator for Counterfactual Learning", NIPS 2015). Weighting only what a prediction leaves has less
//! variance, and is right if either probability or prediction is: doubly robust (Dudík, Langford, Li, "Doubly Robust
//! Policy Evaluation and Learning", ICML 2011).
//!
//! Trials of one unit resemble each other, so intervals go by what each cluster of trials adds, with a quantile of
//! Student's distribution whose degrees of freedom shrink where few clusters carry most of the weight.

use crate::bootstrap::Interval;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::collections::BTreeMap;

/// A trial, whose treatment is the first or the second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Trials with the same number are of the same unit.
    pub cluster: u64,
    /// The treatment was the second.
    pub second: bool,
    /// Probability of that treatment, above 0 and at most 1.
    pub propensity: f64,
    /// The outcome of the trial.
    pub outcome: f64,
    /// The predicted outcomes of the first and of the second treatment.
    pub predicted: [f64; 2],
}

impl Trial {
    fn is_usable(&self) -> bool {
        let finite = self.outcome.is_finite() && self.predicted.iter().all(|it| it.is_finite());
        finite && self.propensity > 0.0 && self.propensity <= 1.0
    }

    fn off(&self) -> f64 {
        self.outcome - self.predicted[usize::from(self.second)]
    }
}

/// A mean over trials with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusteredMean {
    /// The estimate.
    pub value: f64,
    /// The standard error, by clusters.
    pub standard_error: f64,
    /// The confidence interval.
    pub interval: Interval,
}

/// The estimated value of a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OffPolicy {
    /// Mean outcome by the self-normalized weights; `None` where no trial had the treatment that the policy gives.
    pub snips: Option<ClusteredMean>,
    /// Mean outcome, doubly robust.
    pub doubly_robust: ClusteredMean,
    /// The same less the mean outcome of the trials as they were.
    pub snips_difference: Option<ClusteredMean>,
    /// The same, doubly robust.
    pub doubly_robust_difference: ClusteredMean,
    /// Trials that had the treatment that the policy gives.
    pub matched: usize,
}

/// Estimates the mean outcome had `policy` chosen the treatment of each trial: `true` is the second. Trials with a
/// number that is not finite, or with no probability, are left out.
///
/// The prediction is first moved by a constant for each treatment, to which the trials' own residuals point, so that
/// one that is off for everybody does not cost variance.
///
/// `None` with fewer than two clusters, or with a level out of range.
///
/// ```
/// use altway_stats::{Trial, off_policy};
///
/// // Of four in five the treatment is the first; the second takes a tenth off.
/// let trials: Vec<Trial> = (0..1_000_u32)
///     .map(|unit| {
///         let second = unit % 5 == 0;
///         let noise = f64::from(unit % 7) - 3.0;
///         Trial {
///             cluster: unit.into(),
///             second,
///             propensity: if second { 0.2 } else { 0.8 },
///             outcome: 2.0 + 0.01 * noise - if second { 0.1 } else { 0.0 },
///             predicted: [2.0, 2.0],
///         }
///     })
///     .collect();
/// let all = off_policy(&trials, |_| true, 0.95).expect("1,000 units");
/// assert!(all.doubly_robust.interval.contains(1.9));
/// // A fifth had it already.
/// assert!((all.doubly_robust_difference.value - -0.08).abs() < 0.01);
/// ```
#[must_use]
pub fn off_policy(
    trials: &[Trial],
    policy: impl Fn(usize) -> bool,
    level: f64,
) -> Option<OffPolicy> {
    if !(level > 0.0 && level < 1.0) {
        return None;
    }
    let moved = corrections(trials);
    let usable = trials.iter().enumerate().filter(|(_, it)| it.is_usable());
    let weighed: Vec<Weighed> = usable
        .map(|(index, trial)| Weighed::of(trial, policy(index), moved))
        .collect();
    let mean = |value: &dyn Fn(&Weighed) -> f64| {
        weighed.iter().map(value).sum::<f64>() / weighed.len() as f64
    };
    let estimate = |value: f64, influence: &dyn Fn(&Weighed) -> f64| {
        let each = weighed.iter().map(|it| (it.cluster, influence(it)));
        clustered(value, each, weighed.len() as f64, level)
    };
    let seen = mean(&|it| it.seen);
    let robust = |it: &Weighed| it.predicted + it.weight * it.off;
    let dr = mean(&robust);
    let weight = mean(&|it| it.weight);
    let has_match = weight > 0.0;
    let snips = mean(&|it| it.weight * it.seen) / weight;
    let own = move |it: &Weighed| it.weight * (it.seen - snips) / weight;
    let by_weight = |value, influence: &dyn Fn(&Weighed) -> f64| {
        has_match.then(|| estimate(value, influence)).flatten()
    };
    Some(OffPolicy {
        snips: by_weight(snips, &own),
        doubly_robust: estimate(dr, &|it| robust(it) - dr)?,
        snips_difference: by_weight(snips - seen, &|it| own(it) - (it.seen - seen)),
        doubly_robust_difference: estimate(dr - seen, &|it| (robust(it) - dr) - (it.seen - seen))?,
        matched: weighed.iter().filter(|it| it.weight > 0.0).count(),
    })
}

/// Estimates by how much the mean outcome of trials with the second treatment differs from that with the first, less
/// what was predicted of both (the mean of the two, so that it is the same whatever the treatment). For trials that a
/// fair coin assigned: probabilities are not looked at.
///
/// `None` unless both treatments have at least two clusters, or with a level out of range.
#[must_use]
pub fn treatment_difference(trials: &[Trial], level: f64) -> Option<ClusteredMean> {
    if !(level > 0.0 && level < 1.0) {
        return None;
    }
    let rest = |it: &Trial| it.outcome - f64::midpoint(it.predicted[0], it.predicted[1]);
    let usable = || trials.iter().filter(|it| it.is_usable());
    let arm = |second| {
        let of = || usable().filter(move |it| it.second == second);
        let clusters: std::collections::BTreeSet<u64> = of().map(|it| it.cluster).collect();
        let count = of().count() as f64;
        (clusters.len() >= 2).then(|| (count, of().map(rest).sum::<f64>() / count))
    };
    let [(count1, mean1), (count2, mean2)] = [arm(false)?, arm(true)?];
    let each = usable().map(|it| {
        let part = match it.second {
            true => (rest(it) - mean2) / count2,
            false => (mean1 - rest(it)) / count1,
        };
        (it.cluster, part)
    });
    clustered(mean2 - mean1, each, 1.0, level)
}

/// Returns how many times as many trials of the same kind make a difference of `effect` show: two-sided at 5 %, with a power
/// of 80 %. Below 1, these show it.
#[must_use]
pub fn trials_needed(standard_error: f64, effect: f64) -> f64 {
    // Quantiles of the normal distribution at 97.5 and 80 %.
    const QUANTILES: f64 = 1.959_964 + 0.841_621;
    (QUANTILES * standard_error / effect).powi(2)
}

/// The part of a trial that an estimator needs under a policy.
struct Weighed {
    cluster: u64,
    /// 0 where the policy gives the other treatment.
    weight: f64,
    seen: f64,
    /// The predicted outcome of the treatment that the policy gives.
    predicted: f64,
    /// The outcome less what was predicted of the treatment that was.
    off: f64,
}

impl Weighed {
    fn of(trial: &Trial, wanted: bool, moved: [f64; 2]) -> Self {
        let matches = trial.second == wanted;
        Self {
            cluster: trial.cluster,
            weight: if matches { 1.0 / trial.propensity } else { 0.0 },
            seen: trial.outcome,
            predicted: trial.predicted[usize::from(wanted)] + moved[usize::from(wanted)],
            off: trial.off() - moved[usize::from(trial.second)],
        }
    }
}

/// Weighted mean residual of each treatment; that of the other where one never was.
fn corrections(trials: &[Trial]) -> [f64; 2] {
    let of = |second: bool| {
        let each = trials
            .iter()
            .filter(|it| it.is_usable() && it.second == second);
        let (sum, weights) = each.fold((0.0, 0.0), |(sum, weights), it| {
            let weight = 1.0 / it.propensity;
            (sum + weight * it.off(), weights + weight)
        });
        (weights > 0.0).then(|| sum / weights)
    };
    let (first, second) = (of(false), of(true));
    let either = first.or(second).unwrap_or(0.0);
    [first.unwrap_or(either), second.unwrap_or(either)]
}

/// The interval of a mean over `count` by what each trial adds; `None` with fewer than two clusters.
fn clustered(
    value: f64,
    each: impl Iterator<Item = (u64, f64)>,
    count: f64,
    level: f64,
) -> Option<ClusteredMean> {
    let mut clusters: BTreeMap<u64, f64> = BTreeMap::new();
    for (cluster, influence) in each {
        *clusters.entry(cluster).or_default() += influence;
    }
    let number = clusters.len() as f64;
    if number < 2.0 || !value.is_finite() {
        return None;
    }
    let power = |exponent| clusters.values().map(|sum| sum.powi(exponent)).sum::<f64>();
    let (squares, fourths) = (power(2), power(4));
    // Satterthwaite: the variance is that of a chi-square with the same mean and spread.
    let spread = fourths - squares * squares / number;
    let freedom = 2.0 * squares * squares / spread.max(f64::MIN_POSITIVE) - 1.0;
    let freedom = if freedom.is_finite() { freedom } else { number };
    let freedom = freedom.clamp(1.0, number);
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let quantile = student.inverse_cdf(f64::midpoint(1.0, level));
    let standard_error = (squares * (freedom + 1.0) / freedom).sqrt() / count;
    let half = quantile * standard_error;
    Some(ClusteredMean {
        value,
        standard_error,
        interval: Interval {
            low: value - half,
            high: value + half,
            level,
        },
    })
}

#[cfg(test)]
mod tests;
