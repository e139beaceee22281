//! Choice of the interval by which a run's cells are judged: the number of pairs and the plan's rule for stopping
//! decide it (docs/decisions/0032), and everything that shows an interval says which it is.

use crate::words;
use altway_record::{Plan, Stopping};
use altway_stats::{
    Bootstrap, CompareOptions, Comparison, FEW_PAIRS, IntervalMethod, Sequential,
    SequentialOptions, check_null, compare_log_ratios,
};

/// Level of every interval that a report shows.
pub(crate) const LEVEL: f64 = 0.95;

/// Method by which an interval was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Resamples of the pairs (BCa): too few pairs for anything better.
    Bootstrap,
    /// Interval of the signed-rank test, at a number of pairs that was fixed beforehand.
    SignedRank,
    /// The same, wide enough for all looks of the plan's rule together.
    Looks,
}

impl Method {
    /// The name in `summary.csv`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap",
            Self::SignedRank => "signed-rank",
            Self::Looks => "looks",
        }
    }
}

/// Compares pairs as the plan asks for.
#[derive(Debug)]
pub(crate) struct PairComparator {
    looks: Option<Sequential>,
    bootstrap: Bootstrap,
}

impl PairComparator {
    pub(crate) fn new(plan: &Plan) -> Self {
        let rule = |stopping: &Stopping| {
            Sequential::new(&SequentialOptions {
                min_pairs: stopping.least_pairs as usize,
                looks: stopping.looks as usize,
                half_width: stopping.half_width.as_f64(),
                ..SequentialOptions::up_to(plan.pairs as usize)
            })
        };
        Self {
            looks: plan.stopping.as_ref().and_then(rule),
            bootstrap: Bootstrap {
                level: LEVEL,
                seed: plan.seed,
                ..Bootstrap::default()
            },
        }
    }

    /// Returns the resampling for a statistic that has no test of its own.
    pub(crate) fn bootstrap(&self) -> &Bootstrap {
        &self.bootstrap
    }

    /// Compares by ln(second / first) of each pair; `None` without one.
    pub(crate) fn compare(&self, log_ratios: &[f64]) -> Option<(Comparison, Method)> {
        let few = log_ratios.len() < FEW_PAIRS;
        if let Some(rule) = self.looks.as_ref().filter(|_| !few) {
            return Some((rule.compare(log_ratios)?, Method::Looks));
        }
        let (interval, method) = match few {
            true => (IntervalMethod::Bootstrap, Method::Bootstrap),
            false => (IntervalMethod::SignedRank, Method::SignedRank),
        };
        let options = CompareOptions {
            interval,
            bootstrap: self.bootstrap,
            ..CompareOptions::default()
        };
        Some((compare_log_ratios(log_ratios, &options)?, method))
    }

    /// Compares a protocol with itself, by intervals that promise their level at any number of pairs;
    /// `None` with too few for one.
    pub(crate) fn compare_null(&self, log_ratios: &[f64]) -> Option<(Comparison, Method)> {
        match &self.looks {
            Some(rule) => {
                let comparison = rule.compare(log_ratios)?;
                comparison.interval?;
                Some((comparison, Method::Looks))
            }
            None => Some((
                check_null(log_ratios, LEVEL)?.comparison,
                Method::SignedRank,
            )),
        }
    }

    /// Describes the intervals of all cells but those with few pairs; for a note below a table.
    pub(crate) fn note(&self) -> String {
        let of_the_test = "interval: of Wilcoxon's signed-rank test";
        match &self.looks {
            None => format!("{of_the_test}."),
            Some(_) => format!(
                "{of_the_test}, wide enough for all looks at which a cell may be left ({} pairs).",
                self.places()
            ),
        }
    }

    /// Says how the intervals are made, for a description of the method: continues `its 95 % interval`.
    pub(crate) fn in_words(&self) -> String {
        let looks = match &self.looks {
            None => String::new(),
            Some(_) => format!(
                " and is wide enough for all looks at which a cell may be left, after {} pairs",
                self.places()
            ),
        };
        format!(
            "belongs to Wilcoxon's signed-rank test{looks}; with fewer than {FEW_PAIRS} pairs it comes \
             from 10,000 seeded bootstrap resamples of them (BCa), and is narrower than it should be"
        )
    }

    /// `12, 24, 49 and 100`.
    fn places(&self) -> String {
        let looks = self.looks.iter().flat_map(Sequential::looks);
        words::list(&looks.map(ToString::to_string).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str =
        "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms\"\nsize = \"1MB\"\npairs = 60\n";

    fn judge(more: &str) -> PairComparator {
        PairComparator::new(&format!("{PLAN}{more}").parse().unwrap())
    }

    /// Log-ratios around 5 %.
    fn pairs(n: u32) -> Vec<f64> {
        (0..n).map(|i| 0.05 + 0.004 * f64::from(i % 7)).collect()
    }

    fn width(found: Option<(Comparison, Method)>) -> f64 {
        let interval = found.unwrap().0.interval.unwrap();
        assert_eq!(interval.level, LEVEL);
        interval.high - interval.low
    }

    #[test]
    fn twelve_pairs_are_enough_for_the_test_and_eleven_are_not() {
        let judge = judge("");
        let method = |n| judge.compare(&pairs(n)).unwrap().1;
        assert_eq!(method(11), Method::Bootstrap);
        assert_eq!(method(12), Method::SignedRank);
        assert!(judge.compare(&[]).is_none());
    }

    #[test]
    fn cells_that_may_be_left_early_have_wider_intervals() {
        let (fixed, stopped) = (judge(""), judge("[stop]\n"));
        assert_eq!(stopped.compare(&pairs(24)).unwrap().1, Method::Looks);
        assert_eq!(stopped.compare(&pairs(11)).unwrap().1, Method::Bootstrap);
        let (narrow, wide) = (
            width(fixed.compare(&pairs(24))),
            width(stopped.compare(&pairs(24))),
        );
        assert!(wide > narrow, "{wide} {narrow}");
        assert!(stopped.note().contains("(12, 21, 35 and 60 pairs)"));
    }

    #[test]
    fn the_null_arm_keeps_its_level_with_few_pairs_or_says_nothing() {
        let judge = judge("");
        assert!(judge.compare_null(&pairs(5)).is_none());
        assert_eq!(judge.compare_null(&pairs(6)).unwrap().1, Method::SignedRank);
    }
}
