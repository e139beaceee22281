//! Number of pairs that a cell needs: measures synthetic cells until the rule stops them.
//!
//! `cargo run -p altway-stats --example sequential`
#![allow(clippy::print_stdout, reason = "an example shows its figures")]

#[path = "../tests/noise/mod.rs"]
mod noise;

use altway_stats::{Sequential, SequentialOptions, Step};
use noise::{Noise, Shape};

fn main() {
    let rule = Sequential::new(&SequentialOptions::up_to(100)).expect("100 is more than 12");
    println!(
        "looks at {:?} pairs, each with a {:.2} % interval, 95 % together",
        rule.looks(),
        100.0 * rule.level_of_each_look(),
    );
    for (seed, (truth, spread)) in (1..).zip([(-0.2, 0.05), (0.0, 0.02), (0.04, 0.05), (0.0, 0.2)])
    {
        let mut noise = Noise::new(seed);
        let mut pairs = Vec::new();
        let reason = loop {
            match rule.step(&pairs).expect("finite log-ratios") {
                Step::Measure(more) => {
                    pairs.extend(noise.log_ratios(more, truth, spread, Shape::Normal));
                }
                Step::Stop(reason) => break reason,
            }
        };
        let result = rule.compare(&pairs).expect("at least twelve pairs");
        let interval = result.interval.expect("twelve are enough");
        println!(
            "truth {truth:+.2}, noise {spread:.2}: stopped after {:>3} pairs ({reason:?}), \
             {:+.3} ({:+.3} to {:+.3}), {:?}",
            pairs.len(),
            result.estimate,
            interval.low,
            interval.high,
            result.winner,
        );
    }
}
