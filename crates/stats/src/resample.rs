//! Seeded drawing with replacement, and order statistics of what came out.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use statrs::distribution::{ContinuousCDF, Normal};

/// Draws values of a sample with replacement; the same seed draws the same values.
pub(crate) struct Resampler(Xoshiro256PlusPlus);

impl Resampler {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Fills `drawn` with as many values of `values` as it has room for.
    pub(crate) fn fill(&mut self, values: &[f64], drawn: &mut [f64]) {
        for slot in drawn {
            *slot = values[self.below(values.len())];
        }
    }

    /// Puts as many of `blocks` into `drawn` as there are, one after the other.
    pub(crate) fn concatenate(&mut self, blocks: &[&[f64]], drawn: &mut Vec<f64>) {
        drawn.clear();
        for _ in blocks {
            drawn.extend_from_slice(blocks[self.below(blocks.len())]);
        }
    }

    /// A standard normal value.
    pub(crate) fn normal(&mut self) -> f64 {
        // In the middle of one of 2^53 steps: neither 0 nor 1.
        let uniform = ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        Normal::standard().inverse_cdf(uniform)
    }

    /// An index below `bound`. The high half of a 128-bit product: its bias, bound / 2^64, is far
    /// below what any number of resamples could show.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.0.next_u64()) * bound as u128;
        (product >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_every_value_about_equally_often() {
        let mut drawn = vec![0.0; 30_000];
        Resampler::new(1).fill(&[0.0, 1.0, 2.0], &mut drawn);
        for value in [0.0, 1.0, 2.0] {
            let count = drawn.iter().filter(|d| **d == value).count();
            assert!((9_700..10_300).contains(&count), "{value}: {count}");
        }
    }
}
