//! Seeded random loss.
//!
//! The generator is xoshiro256++ seeded through SplitMix64, both published algorithms with fixed
//! output, because a recorded seed must lose the same packets in every version of this crate.

use altway_units::Ratio;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Parts in the whole of a [`Ratio`].
const WHOLE: u128 = 1_000_000_000;

/// The seed of one direction (`up` is client to server) of a link with that `seed`: the two
/// directions draw independent streams, and equal parameters don't lose the same ordinals.
#[must_use]
pub fn seed_for(seed: u64, up: bool) -> u64 {
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (for_up, for_down) = (generator.next_u64(), generator.next_u64());
    if up { for_up } else { for_down }
}

/// Decides which packets are lost.
///
/// Every packet takes one draw, even without loss, and is lost when the draw is below the ratio. So
/// what a seed loses at 1 % it loses at 2 % too: two runs that differ in the ratio alone are
/// comparable packet by packet.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    ratio: Ratio,
    generator: Xoshiro256PlusPlus,
}

impl Loss {
    pub(crate) fn new(ratio: Ratio, seed: u64) -> Self {
        Self {
            ratio,
            generator: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Whether the next packet is lost.
    pub(crate) fn draw(&mut self) -> bool {
        // Scales 64 random bits to 0..WHOLE. The bias is below 2^-34, far under one part in a
        // billion, and both ends are exact: 0 never loses, WHOLE always does.
        let drawn = (u128::from(self.generator.next_u64()) * WHOLE) >> 64;
        drawn < u128::from(self.ratio.as_parts_per_billion())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(percent: u32, seed: u64, packets: usize) -> Vec<usize> {
        let mut loss = Loss::new(Ratio::from_percent(percent).unwrap(), seed);
        (0..packets).filter(|_| loss.draw()).collect()
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
}
