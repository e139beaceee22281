//! The zero line over delay and loss: where the winner changes, its band, and what a server would
//! ask.
//!
//! `cargo run -p altway-stats --example zero_line`
#![allow(clippy::print_stdout, reason = "an example shows its figures")]

#[path = "../tests/noise/mod.rs"]
mod noise;
#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use altway_stats::{ZeroLineOptions, zero_line};
use synthetic::{Study, fully};

fn main() {
    let grid = fully(&Study::CURVED, 25, 1);
    let found = zero_line(&grid, &ZeroLineOptions::default()).expect("every cell has 25 pairs");
    for line in &found.lines {
        println!("zero line of {} corners:", line.points.len());
        for point in line.points.iter().step_by(8) {
            println!("  {:5.1} ms, {:.2} % loss", point.x, point.y);
        }
    }
    println!(
        "resamples without a line: {:.1} %",
        100.0 * found.share_without
    );
    for loss in [0.0, 0.5, 1.0] {
        for crossing in found.field.crossings_at(loss) {
            let interval = crossing.interval;
            println!(
                "at {loss} % loss HTTP/3 is faster from {:.1} ms on ({:.1} to {:.1})",
                crossing.x, interval.low, interval.high,
            );
        }
    }
    for (delay, loss) in [(2.0, 0.1), (10.0, 0.8), (22.0, 3.0)] {
        let place = found.field.at(delay, loss).expect("in the measured range");
        println!(
            "a client at {delay} ms and {loss} %: gain of HTTP/3 {:+.0} %, faster in {:.0} % of \
             resamples{}",
            100.0 * place.gain(),
            100.0 * place.second_faster,
            if place.is_open() { ", open" } else { "" },
        );
    }
}
