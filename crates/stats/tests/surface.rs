//! Places of zero lines, and adaptive sampling that finds them with a tenth of the transfers:
//! synthetic surfaces with a known truth, all seeded.
//!
//! `examples/adaptive.rs` runs the same over a hundred seeds and prints what decision 0032 says.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod noise;
mod synthetic;

use altway_stats::{
    AdaptiveOptions, Band, Bootstrap, Grid, GridAxis, Next, Scale, ZeroLineOptions, next_cells,
    outlook, smooth_zero_line, zero_line,
};
use noise::{Noise, Shape};
use synthetic::{Study, adaptively, agreement, fully, truth_inside};

fn options(seed: u64, band: Band) -> ZeroLineOptions {
    ZeroLineOptions {
        bootstrap: Bootstrap {
            resamples: 200,
            seed,
            ..Bootstrap::default()
        },
        refinement: 4,
        band,
    }
}

#[test]
fn the_whole_line_lies_within_its_band_in_nineteen_of_twenty_seeds() {
    let study = Study::STRAIGHT;
    let inside = |seed: &u64| {
        let grid = fully(&study, 12, *seed);
        let found = zero_line(&grid, &options(*seed, Band::Simultaneous)).unwrap();
        truth_inside(&study, &found).0
    };
    let inside = (0..100).filter(inside).count();
    println!("the whole line inside its simultaneous band: {inside} of 100");
    assert!(inside >= 95, "{inside}");
}

#[test]
fn a_place_on_the_line_lies_within_the_pointwise_band_as_often_as_it_says() {
    let study = Study::STRAIGHT;
    let (mut inside, mut all) = (0, 0);
    for seed in 0..20 {
        let grid = fully(&study, 25, seed);
        let found = zero_line(&grid, &options(seed, Band::Pointwise)).unwrap();
        let (_, places, of) = truth_inside(&study, &found);
        (inside, all) = (inside + places, all + of);
    }
    let share = 100.0 * inside as f64 / all as f64;
    println!("places of the line inside the pointwise band: {share:.1} %");
    assert!((90.0..=98.0).contains(&share), "{share}");
}

/// The matrix of the study that came first: 36 cells of 400 pairs.
#[test]
fn a_tenth_of_the_transfers_finds_the_line_of_the_full_grid() {
    let study = Study::CURVED;
    for seed in 0..4 {
        let full = fully(&study, 400, seed);
        let some = adaptively(&study, &AdaptiveOptions::up_to(full.pairs() / 10), seed);
        let share = 100.0 * some.pairs() as f64 / full.pairs() as f64;
        let (off, wrong) = agreement(&full, &some, seed);
        println!(
            "seed {seed}: {share:.1} % of the pairs, line off by at most {off:.3}, {wrong} cells"
        );
        assert!(share <= 10.0);
        assert!(
            off <= 0.03,
            "the full grid's difference on the line found: {off}"
        );
        assert_eq!(wrong, 0, "cells beyond the band whose winner differs");
    }
}

#[test]
fn a_line_found_with_few_pairs_knows_how_little_it_knows() {
    let study = Study::CURVED;
    let (mut inside, mut all) = (0, 0);
    for seed in 0..6 {
        let some = adaptively(&study, &AdaptiveOptions::up_to(1_440), seed);
        let found = smooth_zero_line(&some, &options(seed, Band::Pointwise)).unwrap();
        let (_, places, of) = truth_inside(&study, &found);
        (inside, all) = (inside + places, all + of);
    }
    let share = 100.0 * f64::from(inside) / f64::from(all);
    println!("places of the true line inside the adaptive band: {share:.1} %");
    assert!(share >= 90.0, "{share}");
}

/// A sweep of 41 delays; a tenth of the pairs of 25 at each.
#[test]
fn a_tenth_of_a_sweep_finds_the_crossing_within_its_interval() {
    let truth = 63.0;
    let found = |seed: &u64| {
        let delays: Vec<f64> = (0..=40).map(|i| 5.0 * f64::from(i)).collect();
        let delay = GridAxis::new(&delays, Scale::Linear).unwrap();
        let loss = GridAxis::new(&[0.0], Scale::Log1p).unwrap();
        let mut grid = Grid::new(delay, loss).unwrap();
        let (mut noise, limits) = (Noise::new(*seed), AdaptiveOptions::up_to(102));
        while let Some(Next::Measure(cells)) = next_cells(&grid, &limits) {
            for cell in cells {
                let middle = (truth - delays[cell]) * 0.001;
                grid.add(cell, &noise.log_ratios(6, middle, 0.03, Shape::HeavyTails));
            }
        }
        assert!(grid.pairs() <= 102);
        let surface = smooth_zero_line(&grid, &options(*seed, Band::Pointwise)).unwrap();
        let crossings = surface.field.crossings_at(0.0);
        let inside = crossings.iter().any(|one| one.interval.contains(truth));
        inside && crossings.len() == 1
    };
    let found = (0..100).filter(found).count();
    println!("the crossing inside its interval: {found} of 100");
    assert!(found >= 95, "{found}");
}

#[test]
fn what_is_settled_is_settled_rightly() {
    let study = Study::CURVED;
    let (mut wrong, mut all) = (0, 0);
    for seed in 0..6 {
        let options = AdaptiveOptions::up_to(1_440);
        let some = adaptively(&study, &options, seed);
        for (cell, seen) in outlook(&some, &options).unwrap().iter().enumerate() {
            let truth = study.at(some.place(cell).unwrap());
            let beyond = truth.abs() > 0.03;
            all += 1;
            wrong += i32::from(seen.settled && beyond && (seen.estimate < 0.0) != (truth < 0.0));
        }
    }
    println!("{wrong} of {all} cells settled for the wrong side");
    assert!(wrong <= all / 100, "{wrong} of {all}");
}
