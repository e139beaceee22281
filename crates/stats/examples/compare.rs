//! Comparison of two on each of three links: which is faster, what the null arm says of them, and
//! what remains when several questions are asked at once.
//!
//! `cargo run -p altway-stats --example compare`
#![allow(clippy::print_stdout, reason = "an example shows its figures")]

#[path = "../tests/noise/mod.rs"]
mod noise;

use altway_stats::{
    CompareOptions, IntervalMethod, NullArm, benjamini_hochberg, check_null, compare_log_ratios,
};
use noise::{Noise, Shape};

fn main() {
    let options = CompareOptions {
        interval: IntervalMethod::SignedRank,
        ..CompareOptions::default()
    };
    let mut noise = Noise::new(1);
    let (mut p, mut flagged) = (Vec::new(), 0);
    for (link, truth) in [
        ("5 mbit, 0 ms", 0.06),
        ("5 mbit, 50 ms", 0.0),
        ("5 mbit, 100 ms", -0.1),
    ] {
        let pairs = noise.log_ratios(25, truth, 0.04, Shape::HeavyTails);
        let result = compare_log_ratios(&pairs, &options).expect("25 finite log-ratios");
        let (low, high) = result.percent_interval().expect("25 are enough for 95 %");
        println!(
            "{link}: HTTP/3 takes {:+.1} % ({low:+.1} to {high:+.1}): {:?}; faster in {:.0} % of pairs",
            result.percent(),
            result.winner,
            100.0 * result.probability_second_faster,
        );
        p.push(result.p);
        let null = noise.log_ratios(25, 0.0, 0.04, Shape::HeavyTails);
        flagged += usize::from(check_null(&null, 0.95).expect("25 pairs").flagged);
    }
    println!("p after Benjamini-Hochberg: {:.4?}", benjamini_hochberg(&p));
    let arm = NullArm::new(p.len(), flagged, 0.95).expect("a level between 0 and 1");
    println!(
        "null arm: {} of {} cells flagged; chance of so many {:.2}; suspect: {}",
        arm.flagged,
        arm.cells,
        arm.chance,
        arm.is_suspect()
    );
}
