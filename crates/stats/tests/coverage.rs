//! Coverage of the intervals: synthetic experiments with a known truth, all seeded.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use altway_stats::{
    Bootstrap, CompareOptions, Crossover, CrossoverOptions, CrossoverPoint, Interval, Winner,
    compare, crossover, crossovers_at,
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

/// A difference that falls with the delay, in another way each.
type Truth = fn(f64) -> f64;

/// Straight, steep at first as set-up makes it, flat at first, and two steps as lost round trips make
/// them: each above zero at 0 ms and below −0.03 at 100 ms.
const TRUTHS: [(&str, Truth); 4] = [
    ("straight", |x| 0.05 - 0.001_3 * x),
    ("steep at first", |x| 0.3 * (-x / 3.0).exp() - 0.08),
    ("flat at first", |x| 0.06 - 0.12 * (x / 100.0).powi(3)),
    ("in steps", |x| match x {
        x if x < 2.3 => 0.08,
        x if x < 61.0 => -0.02,
        _ => -0.09,
    }),
];

/// Returns the place where the truth passes `level`, by halving.
fn place_of(truth: Truth, level: f64) -> f64 {
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if truth(middle) > level {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// A place's interval, found or not.
fn interval_of(found: &Crossover) -> Interval {
    match found {
        Crossover::At { interval, .. } | Crossover::None { interval, .. } => *interval,
    }
}

/// Returns how many of 100 runs over a grid, of 12 pairs at each delay, have the true places of the
/// crossing and of a lead of 3 % in their intervals.
fn covered(truth: Truth, delays: &[f64]) -> [usize; 2] {
    let levels = [0.0, -0.03];
    let mut covered = [0; 2];
    for seed in 0..100 {
        let mut noise = Noise::new(9_000 + seed);
        let point = |x: &f64| {
            let (h2, h3) = noise.pairs(12, truth(*x));
            let log_ratios = h2.iter().zip(&h3).map(|(a, b)| (b / a).ln()).collect();
            CrossoverPoint { x: *x, log_ratios }
        };
        let points: Vec<CrossoverPoint> = delays.iter().map(point).collect();
        let bootstrap = Bootstrap {
            resamples: 300,
            seed,
            ..Bootstrap::default()
        };
        let options = CrossoverOptions {
            bootstrap,
            ..CrossoverOptions::default()
        };
        let found = crossovers_at(&points, &options, &levels).unwrap();
        for (which, found) in found.iter().enumerate() {
            let truth = place_of(truth, levels[which]);
            covered[which] += usize::from(interval_of(found).contains(truth));
        }
    }
    covered
}

#[test]
fn crossings_between_coarse_delays_are_covered_whatever_the_curve() {
    let grids: [&[f64]; 4] = [
        &[0.0, 100.0],
        &[0.0, 25.0, 50.0, 75.0, 100.0],
        &[0.0, 10.0, 100.0],
        &[0.0, 7.0, 14.0, 21.0, 50.0, 60.0, 70.0, 100.0],
    ];
    for (name, truth) in TRUTHS {
        for grid in grids {
            let [crossing, lead] = covered(truth, grid);
            println!("{name}, {grid:?}: {crossing} and {lead} of 100");
            assert!(crossing >= 95, "{name}, {grid:?}: {crossing}");
            assert!(lead >= 95, "{name}, {grid:?}: {lead}");
        }
    }
}

#[test]
fn straight_lines_over_a_coarse_grid_would_exclude_the_truth() {
    let (_, steep) = TRUTHS[1];
    let points = [0.0, 25.0, 50.0].map(|x| CrossoverPoint {
        x,
        log_ratios: [-0.01, 0.0, 0.01].map(|off| steep(x) + off).repeat(8),
    });
    let truth = place_of(steep, 0.0);
    let found = crossover(&points, &Bootstrap::default()).unwrap();
    let Crossover::At {
        sampling, interval, ..
    } = found
    else {
        panic!("{found:?}");
    };
    assert!((3.9..4.0).contains(&truth), "{truth}");
    assert!(!sampling.contains(truth), "{sampling:?}");
    assert_eq!((interval.low, interval.high), (0.0, 25.0));
    assert!(found.is_coarse());
}
