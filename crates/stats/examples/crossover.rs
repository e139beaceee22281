//! Delay from which on HTTP/3 is faster: with its interval, over a hundred synthetic runs, and as an
//! earlier study reported it.
//!
//! `cargo run -p altway-stats --example crossover`
#![allow(clippy::print_stdout, reason = "an example shows its figures")]

#[path = "../tests/noise/mod.rs"]
mod noise;

use altway_stats::{Bootstrap, Crossover, CrossoverPoint, crossover, plain_crossings};
use noise::{Noise, Shape};

const TRUTH: f64 = 60.0;

fn main() {
    let bare = [
        (0.0, 1.761, 1.888),
        (50.0, 2.169, 2.166),
        (100.0, 2.608, 2.568),
        (150.0, 3.056, 3.060),
    ];
    let found = plain_crossings(&bare).expect("four delays");
    println!("lines between an earlier study's means cross at:");
    for crossing in &found {
        println!("  {:.1} ms, then {:?} is faster", crossing.x, crossing.then);
    }
    for pairs in [6, 12, 25] {
        let (mut covered, mut width) = (0, 0.0);
        for seed in 0..100 {
            if let Some((low, high)) = interval_of_run(pairs, seed) {
                covered += u32::from(low <= TRUTH && TRUTH <= high);
                width += (high - low).min(200.0) / 100.0;
            }
        }
        println!(
            "nine delays of {pairs} pairs: {TRUTH} ms lies in {covered} of 100 intervals, \
             {width:.0} ms wide on average"
        );
    }
}

fn interval_of_run(pairs: usize, seed: u64) -> Option<(f64, f64)> {
    let mut noise = Noise::new(seed);
    let point = |x: f64| CrossoverPoint {
        x,
        log_ratios: noise.log_ratios(pairs, (TRUTH - x) * 0.001, 0.07, Shape::Normal),
    };
    let points: Vec<CrossoverPoint> = (0..9).map(|i| 25.0 * f64::from(i)).map(point).collect();
    let options = Bootstrap {
        resamples: 1_000,
        seed,
        ..Bootstrap::default()
    };
    match crossover(&points, &options)? {
        Crossover::At { interval, .. } => Some((interval.low, interval.high)),
        Crossover::None { .. } => None,
    }
}
