//! The policy with the shortest sessions, and the test of whether its lead may be chance.
//!
//! The two policies with the least mean are compared transfer by transfer: in the same cell and block, over links
//! with the same seed. The first is chosen because it came first, so that its lead is a little too large.

use super::{Blocks, difference, mean};
use crate::words;
use altway_record::Policy;
use altway_stats::{hodges_lehmann, signed_rank_interval};
use std::collections::BTreeMap;

/// Level of the interval.
const LEVEL: f64 = 0.95;

/// Mean ln of the times of all sessions of a policy, by cell and block.
type Times = BTreeMap<(u32, u32), f64>;

/// The outcome of a comparison of policies.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Winner {
    first: Policy,
    second: Policy,
    /// ln of the time of the first over that of the second, of each pair.
    pairs: Vec<f64>,
}

impl Winner {
    /// The winner of the visits of each cell and policy; `None` with less than two policies, or without pairs.
    pub(super) fn of(
        visits: &BTreeMap<(u32, bool, Policy), Blocks>,
        sessions: usize,
    ) -> Option<Self> {
        let mut policies: BTreeMap<Policy, Times> = BTreeMap::new();
        for ((cell, null_arm, policy), blocks) in visits {
            let of_block = |(block, visits): (&u32, &super::Visits)| {
                Some(((*cell, *block), visits.log_time(0..sessions)?))
            };
            if !null_arm {
                let times = policies.entry(*policy).or_default();
                times.extend(blocks.iter().filter_map(of_block));
            }
        }
        // Where one of them has no transfer the others have an easier or a harder mean.
        let everywhere = |key: &(u32, u32)| policies.values().all(|times| times.contains_key(key));
        let means = policies.iter().filter_map(|(policy, times)| {
            let common: Vec<f64> = times
                .iter()
                .filter(|(key, _)| everywhere(key))
                .map(|(_, time)| *time)
                .collect();
            (!common.is_empty()).then(|| (*policy, mean(&common)))
        });
        let mut ranked: Vec<(Policy, f64)> = means.collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        let [(first, _), (second, _), ..] = ranked[..] else {
            return None;
        };
        let (one, other) = (&policies[&first], &policies[&second]);
        let pair = |(key, time): (&(u32, u32), &f64)| Some(time - other.get(key)?);
        let pairs: Vec<f64> = one.iter().filter_map(pair).collect();
        Some(Self {
            first,
            second,
            pairs,
        })
    }

    /// The result in one sentence, or two.
    pub(super) fn result_text(&self) -> String {
        let Self { first, second, .. } = self;
        let lead = words::signed(difference(mean(&self.pairs)));
        let count = words::count(self.pairs.len(), "pair");
        let Some(interval) = signed_rank_interval(&self.pairs, LEVEL) else {
            return format!(
                "No winner: {first} had the shortest sessions, {lead} % against {second}, but {count} are too few to \
                 tell that from chance."
            );
        };
        let [low, high] = [interval.low, interval.high].map(|end| words::signed(difference(end)));
        // What the interval is of: a few pairs with time-outs can have a mean outside of it.
        let typical = hodges_lehmann(&self.pairs).map(|it| words::signed(difference(it)));
        let typical = typical.unwrap_or_default();
        let range = format!("{typical} % (95 %: {low} … {high}; {count}; in the mean {lead} %)");
        match interval.high < 0.0 {
            true => format!(
                "Winner: {first}. Over all cells and sessions its times are {range} against those of {second}, the \
                 next best."
            ),
            false => format!(
                "No winner: {first} had the shortest sessions, {range} against {second}, which may be chance."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::Visits;

    fn result_text(pairs: &[f64]) -> String {
        let (first, second) = (Policy::Learned, Policy::H2);
        let pairs = pairs.to_vec();
        Winner {
            first,
            second,
            pairs,
        }
        .result_text()
    }

    #[test]
    fn a_lead_that_chance_does_not_explain_is_a_victory() {
        let pairs: Vec<f64> = (0..12).map(|pair| -0.04 - f64::from(pair) / 1e3).collect();
        let won = result_text(&pairs);
        assert!(won.starts_with("Winner: learned. Over all cells"), "{won}");
        assert!(
            won.contains("12 pairs; in the mean −4.4 %) against those of h2"),
            "{won}"
        );
        let around: Vec<f64> = (0..12).map(|pair| 0.01 * f64::from(pair) - 0.06).collect();
        let none = result_text(&around);
        assert!(
            none.starts_with("No winner: learned had the shortest"),
            "{none}"
        );
        assert!(none.contains("may be chance"), "{none}");
        assert!(result_text(&[-0.5, -0.5]).contains("2 pairs are too few"));
    }

    /// A session of so many microseconds in each block.
    fn blocks(times: &[(u32, u64)]) -> Blocks {
        let visit = |time| Visits {
            spans: vec![(0, time)],
            ..Visits::default()
        };
        times
            .iter()
            .map(|(block, time)| (*block, visit(*time)))
            .collect()
    }

    #[test]
    fn policies_are_ranked_by_the_blocks_that_all_have() {
        let visits = BTreeMap::from([
            ((0, false, Policy::H2), blocks(&[(0, 100), (1, 100)])),
            ((0, false, Policy::H3), blocks(&[(0, 120), (1, 120)])),
            // Fast in the block that it has, and only there.
            ((0, false, Policy::Study), blocks(&[(1, 90)])),
            ((0, true, Policy::H2), blocks(&[(0, 1), (1, 1)])),
        ]);
        let winner = Winner::of(&visits, 1).unwrap();
        assert_eq!((winner.first, winner.second), (Policy::Study, Policy::H2));
        assert_eq!(winner.pairs.len(), 1);
        assert!((winner.pairs[0] - 0.9_f64.ln()).abs() < 1e-12);
        assert_eq!(Winner::of(&BTreeMap::new(), 1), None);
    }
}
