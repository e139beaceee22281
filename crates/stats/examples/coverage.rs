//! Coverage and width of the three intervals of a comparison: how often they hold the truth.
//!
//! `cargo run -p altway-stats --example coverage`: the figures of decision 0032.
#![allow(clippy::print_stdout, reason = "an example shows its figures")]

#[path = "../tests/noise/mod.rs"]
mod noise;

use altway_stats::{Bootstrap, Ends, Interval, bootstrap, hodges_lehmann, signed_rank_interval};
use noise::{Noise, Shape};

const EXPERIMENTS: u64 = 1_000;

fn main() {
    println!("95 % intervals: share that covers the truth (mean width), {EXPERIMENTS} experiments");
    println!("noise       n    BCa            percentile     signed rank");
    for shape in Shape::ALL {
        for n in [6, 12, 25, 50] {
            let bca = |values: &[f64], seed| resampled(values, seed, Ends::Bca);
            let percentile = |values: &[f64], seed| resampled(values, seed, Ends::Percentile);
            let rank = |values: &[f64], _| signed_rank_interval(values, 0.95);
            println!(
                "{:<10} {n:>2}   {}   {}   {}",
                format!("{shape:?}"),
                coverage(shape, n, bca),
                coverage(shape, n, percentile),
                coverage(shape, n, rank),
            );
        }
    }
}

fn resampled(values: &[f64], seed: u64, ends: Ends) -> Option<Interval> {
    let options = Bootstrap {
        resamples: 1_000,
        seed,
        ends,
        ..Bootstrap::default()
    };
    let centre = |drawn: &[f64]| hodges_lehmann(drawn).expect("finite values");
    bootstrap(values, centre, &options)
}

fn coverage(shape: Shape, n: usize, interval: impl Fn(&[f64], u64) -> Option<Interval>) -> String {
    let (mut covered, mut width) = (0, 0.0);
    for seed in 0..EXPERIMENTS {
        let values = Noise::new(seed).log_ratios(n, 0.0, 1.0, shape);
        let interval = interval(&values, seed).expect("enough values");
        covered += u32::from(interval.contains(0.0));
        width += (interval.high - interval.low) / EXPERIMENTS as f64;
    }
    format!(
        "{:5.1} % ({width:.2})",
        100.0 * f64::from(covered) / EXPERIMENTS as f64
    )
}
