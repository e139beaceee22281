//! Seeded randomness: a generator for each thing that is drawn, so that all policies meet the same world.

use rand_distr::{Distribution, Poisson, StandardNormal, StudentT};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A generator of the draws of one subject.
#[derive(Debug, Clone)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The generator of `subject`, for instance a client on a day, under `seed`.
    pub(crate) fn of(seed: u64, subject: [u64; 2]) -> Self {
        let mixed = subject
            .iter()
            .fold(seed, |state, part| scramble(state ^ scramble(*part)));
        Self(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// Uniform in [0, 1).
    pub(crate) fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `share`.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.share() < share
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.share()
    }

    /// Draws a value between `low` and `high`, each order of magnitude as likely.
    pub(crate) fn magnitude(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    /// Below `bound`, which is 1 or more.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        ((self.share() * f64::from(bound)) as u32).min(bound - 1)
    }

    /// Normal with mean 0.
    pub(crate) fn normal(&mut self, deviation: f64) -> f64 {
        let standard: f64 = StandardNormal.sample(&mut self.0);
        deviation * standard
    }

    /// Student's t with four degrees of freedom.
    pub(crate) fn heavy(&mut self, scale: f64) -> f64 {
        let heavy = StudentT::new(4.0).expect("four degrees of freedom");
        scale * heavy.sample(&mut self.0)
    }

    pub(crate) fn count(&mut self, mean: f64) -> u64 {
        Poisson::new(mean).map_or(0, |poisson| {
            let count: f64 = poisson.sample(&mut self.0);
            count as u64
        })
    }

    /// An index, by weights.
    pub(crate) fn choice(&mut self, weights: &[f64]) -> usize {
        let mut left = self.share() * weights.iter().sum::<f64>();
        for (index, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return index;
            }
        }
        weights.len() - 1
    }
}

/// A finalizer of 64 bits (Stafford's variant 13, as in SplitMix64).
fn scramble(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_subject_draws_the_same_and_others_draw_others() {
        let draw = |subject| Random::of(7, subject).share();
        assert_eq!(draw([1, 2]).to_bits(), draw([1, 2]).to_bits());
        assert_ne!(draw([1, 2]).to_bits(), draw([2, 1]).to_bits());
        assert_ne!(
            draw([1, 2]).to_bits(),
            Random::of(8, [1, 2]).share().to_bits()
        );
    }

    #[test]
    fn draws_have_the_moments_that_they_should() {
        let mut random = Random::of(1, [0, 0]);
        let mean = |draw: &mut dyn FnMut() -> f64| (0..20_000).map(|_| draw()).sum::<f64>() / 2e4;
        assert!((mean(&mut || random.share()) - 0.5).abs() < 0.01);
        assert!((mean(&mut || random.count(3.0) as f64) - 3.0).abs() < 0.06);
        assert!((mean(&mut || random.normal(2.0).powi(2)) - 4.0).abs() < 0.2);
        assert!((mean(&mut || random.choice(&[1.0, 3.0]) as f64) - 0.75).abs() < 0.02);
    }
}
