//! Seeded noise for synthetic experiments: the shapes that differences between transfers have.
//!
//! Shared by the tests and, through `#[path]`, by the examples.
#![allow(dead_code, reason = "each of those that include it uses a part")]

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Shape of the noise of a log-ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Many small causes.
    Normal,
    /// Student's t with three degrees of freedom: now and then one of the two is very slow.
    HeavyTails,
    /// Each of the two meets a lost packet with probability 0.2 and is then slower by one unit: three
    /// heaps, symmetric.
    Losses,
    /// Noise that slows one of the two alone, exponentially: not symmetric.
    Skewed,
}

impl Shape {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Normal, Self::HeavyTails, Self::Losses, Self::Skewed];

    /// Returns where the middle of the shape lies that the Hodges–Lehmann estimate aims at.
    pub(crate) fn middle(self) -> f64 {
        match self {
            // Median of the mean of two exponential values, less their mean 1.
            Self::Skewed => 0.839_173_5 - 1.0,
            _ => 0.0,
        }
    }
}

/// A source of noise.
pub(crate) struct Noise(Xoshiro256PlusPlus);

impl Noise {
    /// The same seed gives the same noise.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Evenly from 0 to 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Sum of twelve uniform values: normal enough for four standard deviations.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// Draws a value of a shape, with a scale of about 1.
    pub(crate) fn draw(&mut self, shape: Shape) -> f64 {
        match shape {
            Shape::Normal => self.normal(),
            Shape::HeavyTails => {
                let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
                self.normal() / (squares / 3.0).sqrt()
            }
            Shape::Losses => {
                let mut one = || 0.3 * self.normal() + f64::from(u8::from(self.uniform() < 0.2));
                one() - one()
            }
            Shape::Skewed => -(1.0 - self.uniform()).ln() - 1.0,
        }
    }

    /// `n` log-ratios around `middle`.
    pub(crate) fn log_ratios(
        &mut self,
        n: usize,
        middle: f64,
        scale: f64,
        shape: Shape,
    ) -> Vec<f64> {
        (0..n)
            .map(|_| middle + scale * (self.draw(shape) - shape.middle()))
            .collect()
    }
}
