//! Coverage of the intervals where measuring stops early: synthetic cells with a known truth, all
//! seeded.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod noise;

use altway_stats::{NullArm, Sequential, SequentialOptions, Step, Winner, check_null};
use noise::{Noise, Shape};

/// Result of a cell.
struct Ended {
    pairs: usize,
    covered: bool,
    winner: Winner,
}

/// Measures a cell until the rule stops it.
fn measured(rule: &Sequential, truth: f64, scale: f64, shape: Shape, seed: u64) -> Ended {
    let mut noise = Noise::new(seed);
    let mut pairs = Vec::new();
    while let Step::Measure(more) = rule.step(&pairs).unwrap() {
        pairs.extend(noise.log_ratios(more, truth, scale, shape));
    }
    let comparison = rule.compare(&pairs).unwrap();
    Ended {
        pairs: pairs.len(),
        covered: comparison.interval.unwrap().contains(truth),
        winner: comparison.winner,
    }
}

/// Share of `cells` for which `is` holds, in per cent.
fn share(cells: &[Ended], is: impl Fn(&Ended) -> bool) -> f64 {
    100.0 * cells.iter().filter(|cell| is(cell)).count() as f64 / cells.len() as f64
}

fn cells(truth: f64, scale: f64, shape: Shape) -> Vec<Ended> {
    let rule = Sequential::new(&SequentialOptions::up_to(60)).unwrap();
    (0..500)
        .map(|seed| measured(&rule, truth, scale, shape, seed))
        .collect()
}

fn has_winner(cell: &Ended) -> bool {
    matches!(cell.winner, Winner::First | Winner::Second)
}

#[test]
fn two_of_the_same_are_told_apart_in_one_cell_of_fifty_at_most() {
    for shape in [Shape::Normal, Shape::HeavyTails, Shape::Losses] {
        for scale in [0.02, 0.05, 0.1] {
            let cells = cells(0.0, scale, shape);
            let wrong = share(&cells, has_winner);
            let mean = cells.iter().map(|cell| cell.pairs as f64).sum::<f64>() / 500.0;
            println!("{shape:?} {scale}: false verdicts {wrong:.1} %, {mean:.0} pairs on average");
            assert!(wrong <= 2.0, "{shape:?} {scale}: {wrong}");
        }
    }
}

#[test]
fn intervals_of_symmetric_noise_keep_their_level_wherever_measuring_stops() {
    for shape in [Shape::Normal, Shape::HeavyTails, Shape::Losses] {
        for (truth, scale) in [
            (0.0, 0.05),
            (0.0, 0.1),
            (-0.04, 0.05),
            (-0.1, 0.1),
            (0.3, 0.2),
        ] {
            let covered = share(&cells(truth, scale, shape), |cell| cell.covered);
            println!("{shape:?} {truth} {scale}: {covered:.1} % covered");
            assert!(covered >= 95.0, "{shape:?} {truth} {scale}: {covered}");
        }
    }
}

/// The promise of the intervals rests on symmetry; this is what remains without.
#[test]
fn intervals_of_skewed_noise_lose_little() {
    for (truth, scale) in [(0.0, 0.05), (0.0, 0.1), (-0.1, 0.1), (0.3, 0.2)] {
        let covered = share(&cells(truth, scale, Shape::Skewed), |cell| cell.covered);
        println!("Skewed {truth} {scale}: {covered:.1} % covered");
        assert!(covered >= 93.0, "{truth} {scale}: {covered}");
    }
}

#[test]
fn a_difference_of_ten_per_cent_is_found_with_few_pairs() {
    let cells = cells(-0.1, 0.05, Shape::Normal);
    let right = share(&cells, |cell| cell.winner == Winner::Second);
    let mean = cells.iter().map(|cell| cell.pairs as f64).sum::<f64>() / 500.0;
    println!("right verdicts {right:.1} %, {mean:.1} pairs on average of at most 60");
    assert!(right >= 99.0, "{right}");
    assert!(mean <= 20.0, "{mean}");
}

/// Twenty runs of nine cells, each stopped by the rule, the noise of every shape in turn.
#[test]
fn of_twenty_null_runs_at_most_one_interval_in_twenty_excludes_zero() {
    let rule = Sequential::new(&SequentialOptions::up_to(60)).unwrap();
    let excluded = |run: u64| {
        let one = |cell: u64| {
            let shape = [Shape::Normal, Shape::HeavyTails, Shape::Losses][(cell % 3) as usize];
            !measured(&rule, 0.0, 0.05, shape, 1_000 * (run + 1) + cell).covered
        };
        (0..9).filter(|cell| one(*cell)).count()
    };
    let of_run: Vec<usize> = (0..20).map(excluded).collect();
    let all: usize = of_run.iter().sum();
    println!("{all} of 180 intervals exclude 0; by run: {of_run:?}");
    assert!(all <= 9, "{of_run:?}");
    let suspect = |excluded: &&usize| NullArm::new(9, **excluded, 0.95).unwrap().is_suspect();
    assert_eq!(of_run.iter().filter(suspect).count(), 0);
}

#[test]
fn the_null_check_flags_sound_cells_as_rarely_as_it_says() {
    for shape in [Shape::Normal, Shape::HeavyTails, Shape::Losses] {
        let flagged = |seed: &u64| {
            let values = Noise::new(*seed).log_ratios(25, 0.0, 0.05, shape);
            check_null(&values, 0.95).unwrap().flagged
        };
        let share = (0..2_000).filter(flagged).count() as f64 / 20.0;
        println!("{shape:?}: {share:.1} % flagged");
        // Two standard errors of 2,000 experiments above 5 %.
        assert!(share <= 6.0, "{shape:?}: {share}");
    }
}
