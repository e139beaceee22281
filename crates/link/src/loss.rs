//! Loss of packets: at random, in bursts, or as a list says.

use crate::streams::{Generator, hits};
use altway_units::Ratio;
use rand_core::Rng;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Model of the packets that a direction loses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossModel {
    /// Each packet with this probability, independently of the others.
    Random(Ratio),
    /// Loss in bursts.
    GilbertElliott(GilbertElliott),
    /// Exactly these.
    Packets(PacketList),
}

/// Loss in bursts: a link that is now good, now bad, and loses more while it is bad (Gilbert 1960,
/// Elliott 1963).
///
/// The link begins good. With each packet that enters it first changes its state with the
/// probability that goes with that state, then loses the packet with the probability of the state it
/// is in.
///
/// Worked number: 1 % in bursts of 4 packets on average
/// ([`from_bursts`](Self::from_bursts)) is `to_good` = 1/4 and `to_bad` = 1/4 × 0.01 / 0.99 =
/// 0.2525 %. The link is bad for `to_bad / (to_bad + to_good)` = 1 % of the packets, and a stay there
/// lasts 1 / `to_good` = 4 packets on average, all lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GilbertElliott {
    /// The probability of turning bad, when good, per packet (often called p).
    pub to_bad: Ratio,
    /// The probability of turning good, when bad, per packet (often called r).
    pub to_good: Ratio,
    /// The probability of loss while good (1 − k).
    pub loss_good: Ratio,
    /// The probability of loss while bad (1 − h).
    pub loss_bad: Ratio,
}

/// Packets by their number in their direction, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketList(Arc<[RangeInclusive<u64>]>);

impl Default for LossModel {
    /// No loss.
    fn default() -> Self {
        Self::Random(Ratio::ZERO)
    }
}

impl From<Ratio> for LossModel {
    fn from(ratio: Ratio) -> Self {
        Self::Random(ratio)
    }
}

impl GilbertElliott {
    /// Loses `mean` of the packets, in bursts of `packets` on average: good packets never, bad ones
    /// always.
    ///
    /// `None` if there is no such link: a mean burst of less than one packet, or more loss than bursts
    /// of that length can bring when at least one packet lies between them (bursts of 4 at most 80 %).
    #[must_use]
    pub fn from_bursts(mean: Ratio, packets: u32) -> Option<Self> {
        let kept = Ratio::ONE.as_parts_per_billion() - mean.as_parts_per_billion();
        let lost = u64::from(mean.as_parts_per_billion());
        let between = u64::from(packets) * u64::from(kept);
        if packets == 0 || lost > between {
            return None;
        }
        Some(Self {
            to_bad: Ratio::of(lost, between)?,
            to_good: Ratio::of(1, packets.into())?,
            loss_good: Ratio::ZERO,
            loss_bad: Ratio::ONE,
        })
    }
}

impl PacketList {
    /// The most ranges in a list.
    pub const MAX_RANGES: usize = 65_536;

    /// A list of packets, each range with both its ends.
    ///
    /// `None` if a range holds packet 0 or ends before it begins, if one does not come after the one
    /// before it, if there is no range or if there are more than [`MAX_RANGES`](Self::MAX_RANGES).
    #[must_use]
    pub fn new(ranges: &[RangeInclusive<u64>]) -> Option<Self> {
        let is_range = |range: &RangeInclusive<u64>| 0 < *range.start() && !range.is_empty();
        let is_sorted = ranges
            .windows(2)
            .all(|pair| pair[0].end() < pair[1].start());
        let is_list = (1..=Self::MAX_RANGES).contains(&ranges.len())
            && ranges.iter().all(is_range)
            && is_sorted;
        is_list.then(|| Self(ranges.into()))
    }

    /// Returns whether the packet of that number, counted from 1, is in the list.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        let next = self.0.partition_point(|range| *range.end() < number);
        self.0
            .get(next)
            .is_some_and(|range| range.contains(&number))
    }

    /// The ranges, in order.
    #[must_use]
    pub fn ranges(&self) -> &[RangeInclusive<u64>] {
        &self.0
    }
}

/// Decides which packets are lost.
///
/// Every packet takes one draw of each generator, whatever the model, and is lost when the draw is
/// below the ratio. So what a seed loses at 1 % it loses at 2 % too: two runs that differ in the ratio
/// alone are comparable packet by packet.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    losses: Generator,
    turns: Generator,
    bad: bool,
    number: u64,
}

impl Loss {
    /// `losses` decides on the loss, `turns` on the state of [`GilbertElliott`].
    pub(crate) fn new(losses: Generator, turns: Generator) -> Self {
        Self {
            losses,
            turns,
            bad: false,
            number: 0,
        }
    }

    /// Returns whether the next packet is lost.
    pub(crate) fn draw(&mut self, model: &LossModel) -> bool {
        self.number += 1;
        let (loss, turn) = (self.losses.next_u64(), self.turns.next_u64());
        match model {
            LossModel::Random(ratio) => hits(loss, *ratio),
            LossModel::Packets(list) => list.contains(self.number),
            LossModel::GilbertElliott(link) => {
                let leave = if self.bad { link.to_good } else { link.to_bad };
                self.bad ^= hits(turn, leave);
                hits(
                    loss,
                    if self.bad {
                        link.loss_bad
                    } else {
                        link.loss_good
                    },
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed_for;
    use crate::streams::Streams;

    fn lost_by(model: &LossModel, seed: u64, packets: usize) -> Vec<usize> {
        let mut streams = Streams::new(seed);
        let mut loss = Loss::new(streams.next(), streams.next());
        (0..packets).filter(|_| loss.draw(model)).collect()
    }

    fn lost(percent: u32, seed: u64, packets: usize) -> Vec<usize> {
        lost_by(&Ratio::from_percent(percent).unwrap().into(), seed, packets)
    }

    /// Recorded runs name a seed, so these values must never change. They were computed with an
    /// independent implementation of the two published algorithms.
    #[test]
    fn a_seed_loses_these_ordinals_for_ever() {
        assert_eq!(lost(5, 42, 100), [44, 69, 76, 84]);
        assert_eq!(seed_for(1, true), 14_971_601_782_005_023_387);
        assert_eq!(seed_for(1, false), 13_781_649_495_232_077_965);
    }

    #[test]
    fn the_two_directions_draw_different_streams() {
        let up = lost(5, seed_for(7, true), 1_000);
        let down = lost(5, seed_for(7, false), 1_000);
        assert_ne!(up, down);
    }

    #[test]
    fn nothing_and_everything_are_exact() {
        assert!(lost(0, 3, 10_000).is_empty());
        assert_eq!(lost(100, 3, 10_000).len(), 10_000);
    }

    #[test]
    fn what_is_lost_at_1_percent_is_lost_at_2_percent_too() {
        let (few, more) = (lost(1, 5, 100_000), lost(2, 5, 100_000));
        assert!(few.len() < more.len());
        assert!(
            few.iter()
                .all(|ordinal| more.binary_search(ordinal).is_ok())
        );
    }

    /// 1,000,000 packets at 1 %: 10,000 expected, standard deviation 99.5; 5 of them allowed.
    #[test]
    fn the_share_lost_is_within_binomial_bounds() {
        for seed in 0..5 {
            let count = lost(1, seed, 1_000_000).len();
            assert!((9_502..=10_498).contains(&count), "seed {seed}: {count}");
        }
    }

    #[test]
    fn a_list_loses_exactly_its_packets() {
        let list = PacketList::new(&[1..=1, 4..=6]).unwrap();
        assert_eq!(lost_by(&LossModel::Packets(list), 1, 10), [0, 3, 4, 5]);
    }

    #[test]
    fn a_list_is_sorted_and_counts_from_1() {
        assert!(PacketList::new(&[]).is_none());
        assert!(PacketList::new(&[0..=3]).is_none());
        assert!(PacketList::new(&[3..=4, 4..=5]).is_none());
        #[expect(clippy::reversed_empty_ranges, reason = "it is what must be refused")]
        let reversed = [4..=3];
        assert!(PacketList::new(&reversed).is_none());
        let many: Vec<_> = (1..=65_537).map(|n| 2 * n..=2 * n).collect();
        assert!(PacketList::new(&many).is_none());
        assert!(PacketList::new(&many[1..]).is_some());
    }

    /// The lengths of the bursts in a list of lost ordinals.
    fn bursts(lost: &[usize]) -> Vec<usize> {
        lost.chunk_by(|a, b| a + 1 == *b).map(<[_]>::len).collect()
    }

    /// A million packets at 1 % in bursts of 4. The number lost has the standard deviation
    /// √(n π (1 − π) (1 + λ) / (1 − λ)) with λ = 1 − to_bad − to_good, which is 262 (binomial: 99.5);
    /// the 2,500 bursts' mean length one of √12 / √2,500 = 0.07.
    #[test]
    fn bursts_have_the_share_and_the_length_that_were_asked_for() {
        let link = GilbertElliott::from_bursts(Ratio::from_percent(1).unwrap(), 4).unwrap();
        assert_eq!(link.to_bad.as_parts_per_billion(), 2_525_253);
        assert_eq!(link.to_good, Ratio::from_percent(25).unwrap());
        for seed in 0..5 {
            let lost = lost_by(&LossModel::GilbertElliott(link), seed, 1_000_000);
            assert!((9_200..=10_800).contains(&lost.len()), "{}", lost.len());
            let mean = lost.len() as f64 / bursts(&lost).len() as f64;
            assert!((3.79..=4.21).contains(&mean), "seed {seed}: {mean}");
        }
    }

    #[test]
    fn bursts_that_cannot_be_are_refused() {
        let bursts = |percent, packets| {
            GilbertElliott::from_bursts(Ratio::from_percent(percent).unwrap(), packets)
        };
        assert!(bursts(1, 0).is_none());
        assert!(bursts(80, 4).is_some());
        assert!(bursts(81, 4).is_none());
        assert!(bursts(100, u32::MAX).is_none());
        assert_eq!(bursts(0, 1).unwrap().to_bad, Ratio::ZERO);
    }

    #[test]
    fn the_states_of_a_link_lose_what_they_are_told() {
        let whole = |percent| Ratio::from_percent(percent).unwrap();
        let always_bad = GilbertElliott {
            to_bad: whole(100),
            to_good: whole(0),
            loss_good: whole(100),
            loss_bad: whole(10),
        };
        let lost = lost_by(&LossModel::GilbertElliott(always_bad), 3, 100_000).len();
        // 10,000 ± 5 standard deviations of 95.
        assert!((9_525..=10_475).contains(&lost), "{lost}");
    }
}
