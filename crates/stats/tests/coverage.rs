//! Do the intervals hold what they promise? Synthetic experiments with a known truth, all seeded.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use altway_stats::{
    Bootstrap, CompareOptions, Crossover, CrossoverPoint, Winner, compare, crossover,
};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const EXPERIMENTS: u64 = 200;

/// Measurement noise: normal, with the given standard deviation.
struct Noise(Xoshiro256PlusPlus);

impl Noise {
    fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Sum of twelve uniform values: normal enough for four standard deviations.
    fn draw(&mut self, std_dev: f64) -> f64 {
        let uniform = |bits: u64| (bits >> 11) as f64 / (1_u64 << 53) as f64;
        let sum: f64 = (0..12).map(|_| uniform(self.0.next_u64())).sum();
        std_dev * (sum - 6.0)
    }

    /// `n` pairs of seconds: noise of 10 % that both share, noise of 5 % of their own.
    fn pairs(&mut self, n: usize, log_ratio: f64) -> (Vec<f64>, Vec<f64>) {
        (0..n)
            .map(|_| {
                let shared = self.draw(0.1);
                let (a, b) = (self.draw(0.05), self.draw(0.05));
                ((shared + a).exp(), (shared + b + log_ratio).exp())
            })
            .unzip()
    }
}

fn options(seed: u64) -> CompareOptions {
    let bootstrap = Bootstrap {
        resamples: 1_000,
        seed,
        ..Bootstrap::default()
    };
    CompareOptions {
        bootstrap,
        ..CompareOptions::default()
    }
}

#[test]
fn the_interval_of_a_comparison_covers_the_truth() {
    let truth = -0.08;
    let covered = (0..EXPERIMENTS).filter(|seed| {
        let (h2, h3) = Noise::new(*seed).pairs(20, truth);
        compare(&h2, &h3, &options(*seed))
            .unwrap()
            .interval
            .unwrap()
            .contains(truth)
    });
    let share = covered.count() as f64 / EXPERIMENTS as f64;
    assert!((0.90..=0.99).contains(&share), "{share}");
}

#[test]
fn two_of_the_same_hardly_ever_have_a_winner() {
    let wrong = (0..EXPERIMENTS).filter(|seed| {
        let (a, b) = Noise::new(1_000 + *seed).pairs(20, 0.0);
        let winner = compare(&a, &b, &options(*seed)).unwrap().winner;
        matches!(winner, Winner::First | Winner::Second)
    });
    assert!(wrong.count() as f64 <= 0.05 * EXPERIMENTS as f64);
}

#[test]
fn a_known_crossing_is_found_within_its_interval() {
    let truth = 60.0;
    let covered = (0..100).filter(|seed| {
        let mut noise = Noise::new(5_000 + *seed);
        let points: Vec<CrossoverPoint> = (0..9)
            .map(|i| {
                let x = 25.0 * f64::from(i);
                let (h2, h3) = noise.pairs(25, (truth - x) * 0.001);
                let log_ratios = h2.iter().zip(&h3).map(|(a, b)| (b / a).ln()).collect();
                CrossoverPoint { x, log_ratios }
            })
            .collect();
        let bootstrap = Bootstrap {
            resamples: 500,
            seed: *seed,
            ..Bootstrap::default()
        };
        match crossover(&points, &bootstrap).unwrap() {
            Crossover::At { interval, .. } => interval.contains(truth),
            Crossover::None { .. } => false,
        }
    });
    let covered = covered.count();
    assert!(covered >= 95, "{covered} of 100");
}
