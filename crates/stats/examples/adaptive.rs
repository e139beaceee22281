//! Number of pairs that find the zero line: adaptive sampling beside full grids, over a hundred
//! seeds.
//!
//! `cargo run -p altway-stats --example adaptive`: the figures of decision 0032. Takes a minute or two.
#![allow(clippy::print_stdout, reason = "an example shows its figures")]

#[path = "../tests/noise/mod.rs"]
mod noise;
#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use altway_stats::{AdaptiveOptions, Band, Bootstrap, ZeroLineOptions, smooth_zero_line};
use synthetic::{Study, adaptively, agreement, fully, truth_inside};

const SEEDS: u64 = 100;

fn main() {
    for (name, study) in [("straight", Study::STRAIGHT), ("curved", Study::CURVED)] {
        for pairs in [400, 100] {
            beside_full(name, &study, pairs);
        }
    }
}

/// Adaptive sampling with a tenth of the pairs that a full grid of 36 cells has.
fn beside_full(name: &str, study: &Study, pairs: usize) {
    let (mut used, mut off, mut agreed, mut lines, mut places, mut of) = (0, 0.0, 0, 0, 0, 0);
    for seed in 0..SEEDS {
        let full = fully(study, pairs, seed);
        let some = adaptively(study, &AdaptiveOptions::up_to(full.pairs() / 10), seed);
        let (worst, wrong) = agreement(&full, &some, seed);
        used += some.pairs();
        off = f64::max(off, worst);
        agreed += u32::from(worst <= 0.03 && wrong == 0);
        let inside = |band| {
            let found = smooth_zero_line(&some, &options(seed, band)).expect("cells have pairs");
            truth_inside(study, &found)
        };
        lines += u32::from(inside(Band::Simultaneous).0);
        let (_, within, all) = inside(Band::Pointwise);
        (places, of) = (places + within, of + all);
    }
    let share = 100.0 * used as f64 / (SEEDS as usize * 36 * pairs) as f64;
    println!(
        "{name}, 36 cells of {pairs} pairs: {share:.1} % of the pairs used; agrees with the full grid \
         within 3 % in {agreed} of {SEEDS} seeds (worst {:.1} %); the true line inside its \
         simultaneous band in {lines}, its places inside the pointwise band in {:.1} %",
        100.0 * off,
        100.0 * f64::from(places) / f64::from(of),
    );
}

fn options(seed: u64, band: Band) -> ZeroLineOptions {
    ZeroLineOptions {
        bootstrap: Bootstrap {
            resamples: 300,
            seed,
            ..Bootstrap::default()
        },
        refinement: 4,
        band,
    }
}
