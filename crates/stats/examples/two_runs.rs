//! Two synthetic runs side by side: the way in which a proxy moves the crossover, and why.
//!
//! `cargo run -p altway-stats --example two_runs`
#![allow(clippy::print_stdout, reason = "an example shows its figures")]

#[path = "../tests/noise/mod.rs"]
mod noise;

use altway_stats::{
    Bootstrap, CrossoverOptions, CrossoverPoint, GrowthPoint, crossover_difference, growth,
    log_ratios, shift,
};
use noise::{Noise, Shape};

/// Pairs of times in ms over the delay: round trips a protocol needs, and what it costs without.
fn run(seed: u64, h2: (f64, f64), h3: (f64, f64)) -> Vec<GrowthPoint> {
    let mut noise = Noise::new(seed);
    let place = |x: f64| {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for _ in 0..25 {
            let shared = 20.0 * noise.draw(Shape::Normal);
            first.push(h2.0 + h2.1 * x + shared + 15.0 * noise.draw(Shape::Normal));
            second.push(h3.0 + h3.1 * x + shared + 15.0 * noise.draw(Shape::Normal));
        }
        GrowthPoint { x, first, second }
    };
    [0.0, 25.0, 50.0, 75.0, 100.0].map(place).to_vec()
}

fn ratios(run: &[GrowthPoint]) -> Vec<CrossoverPoint> {
    let point = |point: &GrowthPoint| CrossoverPoint {
        x: point.x,
        log_ratios: log_ratios(&point.first, &point.second).expect("positive times"),
    };
    run.iter().map(point).collect()
}

fn main() {
    let direct = run(1, (1_760.0, 9.0), (1_860.0, 7.0));
    let proxied = run(2, (1_750.0, 13.0), (1_770.0, 7.0));
    let options = Bootstrap {
        resamples: 2_000,
        ..Bootstrap::default()
    };
    for (name, run) in [("direct", &direct), ("proxied", &proxied)] {
        let found = growth(run, &options).expect("five delays");
        println!(
            "{name}: HTTP/2 grows by {:.1} ms a ms of delay, HTTP/3 by {:.1}; difference {:.1} \
             ({:.1} to {:.1})",
            found.first.slope,
            found.second.slope,
            found.difference,
            found.difference_interval.low,
            found.difference_interval.high,
        );
    }
    let (a, b) = (ratios(&direct), ratios(&proxied));
    for (a, b) in a.iter().zip(&b) {
        let moved = shift(&a.log_ratios, &b.log_ratios, 0.95).expect("25 pairs each");
        let interval = moved.interval.expect("enough pairs");
        println!(
            "at {} ms the proxy changes HTTP/3's difference by {:+.3} ({:+.3} to {:+.3})",
            a.x, moved.estimate, interval.low, interval.high,
        );
    }
    let moved = crossover_difference(&a, &b, &CrossoverOptions::default()).expect("valid points");
    println!(
        "crossover moved by {:.1} ms ({:.1} to {:.1})",
        moved.estimate.expect("both cross"),
        moved.interval.low,
        moved.interval.high,
    );
}
