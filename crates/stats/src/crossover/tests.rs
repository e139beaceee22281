//! Crossovers of points whose curve is known, without and with noise.

use super::*;
use crate::bootstrap::Ends;
use proptest::prelude::*;

const QUICK: Bootstrap = Bootstrap {
    resamples: 400,
    level: 0.95,
    seed: 5,
    ends: Ends::Percentile,
};

fn point(x: f64, log_ratios: &[f64]) -> CrossoverPoint {
    CrossoverPoint {
        x,
        log_ratios: log_ratios.to_vec(),
    }
}

/// Points without spread.
fn exact(values: &[(f64, f64)]) -> Vec<CrossoverPoint> {
    values
        .iter()
        .map(|(x, ratio)| point(*x, &[*ratio; 6]))
        .collect()
}

fn position(values: &[(f64, f64)]) -> f64 {
    match crossover(&exact(values), &QUICK).unwrap() {
        Crossover::At {
            x,
            between,
            sampling,
            interval,
            share_of_resamples,
        } => {
            assert_eq!(
                (sampling.low, sampling.high, share_of_resamples),
                (x, x, 1.0)
            );
            assert_eq!((interval.low, interval.high), between);
            assert!(between.0 < x && x < between.1);
            x
        }
        none @ Crossover::None { .. } => panic!("{none:?}"),
    }
}

fn winner(values: &[(f64, f64)]) -> Winner {
    match crossover(&exact(values), &QUICK).unwrap() {
        Crossover::None {
            winner,
            share_of_resamples_without,
            ..
        } => {
            assert_eq!(share_of_resamples_without, 1.0);
            winner
        }
        found @ Crossover::At { .. } => panic!("{found:?}"),
    }
}

#[test]
fn refuses_what_is_no_axis() {
    assert_eq!(crossover(&[], &QUICK), None);
    assert_eq!(crossover(&[point(0.0, &[])], &QUICK), None);
    assert_eq!(crossover(&[point(f64::NAN, &[1.0])], &QUICK), None);
    assert_eq!(crossover(&[point(0.0, &[f64::INFINITY])], &QUICK), None);
    assert_eq!(crossover(&exact(&[(1.0, 0.5), (1.0, -0.5)]), &QUICK), None);
    let broken = Bootstrap {
        resamples: 0,
        ..QUICK
    };
    assert_eq!(crossover(&exact(&[(1.0, 0.5)]), &broken), None);
}

#[test]
fn interpolates_between_the_two_neighbours_in_any_order() {
    assert_eq!(position(&[(0.0, 0.3), (50.0, 0.1), (100.0, -0.3)]), 62.5);
    assert_eq!(position(&[(100.0, -0.3), (0.0, 0.3), (50.0, 0.1)]), 62.5);
}

#[test]
fn zero_at_a_measured_point_is_the_crossing() {
    assert_eq!(position(&[(0.0, 0.3), (50.0, 0.0), (100.0, -0.3)]), 50.0);
    assert_eq!(
        position(&[(0.0, 0.3), (50.0, 0.0), (80.0, 0.0), (100.0, -0.3)]),
        65.0
    );
}

#[test]
fn without_a_change_of_sign_there_is_no_crossing() {
    assert_eq!(winner(&[(0.0, 0.3), (50.0, 0.1)]), Winner::First);
    assert_eq!(winner(&[(0.0, -0.1), (50.0, -0.2)]), Winner::Second);
    assert_eq!(winner(&[(0.0, 0.2)]), Winner::First);
    assert_eq!(winner(&[(0.0, -0.2)]), Winner::Second);
}

#[test]
fn touching_zero_at_an_end_is_no_crossing() {
    assert_eq!(winner(&[(0.0, 0.3), (50.0, 0.0)]), Winner::First);
    assert_eq!(winner(&[(0.0, 0.0), (50.0, -0.3)]), Winner::Second);
    assert_eq!(winner(&[(0.0, 0.0), (50.0, 0.0)]), Winner::Tie);
}

#[test]
fn an_advantage_that_shrinks_along_the_axis_is_pooled() {
    assert_eq!(winner(&[(0.0, -0.3), (50.0, 0.1)]), Winner::Second);
}

#[test]
fn a_crossing_near_the_end_may_lie_beyond_it() {
    let points = [
        point(0.0, &[0.3, 0.31, 0.29, 0.3, 0.3, 0.3]),
        point(50.0, &[-0.02, 0.05, -0.06, 0.03, -0.04, 0.02]),
    ];
    let Some(Crossover::At {
        x,
        interval,
        share_of_resamples,
        ..
    }) = crossover(&points, &QUICK)
    else {
        panic!("the estimate at 50 is below zero");
    };
    assert!((45.0..50.0).contains(&x), "{x}");
    assert_eq!(interval.high, f64::INFINITY);
    assert_eq!(interval.low, 0.0);
    assert!(
        (0.4..0.9).contains(&share_of_resamples),
        "{share_of_resamples}"
    );
}

#[test]
fn an_axis_along_which_the_first_gains_is_read_backwards() {
    let options = CrossoverOptions {
        bootstrap: QUICK,
        trend: Trend::FirstGains,
        ..CrossoverOptions::default()
    };
    let rising = exact(&[(0.0, -0.3), (50.0, -0.1), (100.0, 0.3)]);
    let found = crossover_with(&rising, &options).unwrap();
    let there = matches!(found, Crossover::At { x, .. } if (x - 62.5).abs() < 1e-9);
    assert!(there, "{found:?}");
    let never = crossover_with(&exact(&[(0.0, -0.3), (50.0, -0.1)]), &options).unwrap();
    let all_second = matches!(
        never,
        Crossover::None {
            winner: Winner::Second,
            ..
        }
    );
    assert!(all_second, "{never:?}");
    let open = [
        point(0.0, &[-0.3; 6]),
        point(50.0, &[0.02, -0.05, 0.06, -0.03, 0.04, -0.02]),
    ];
    let Some(Crossover::At { interval, .. }) = crossover_with(&open, &options) else {
        panic!("the estimate at 50 is above zero");
    };
    assert_eq!(interval.high, f64::INFINITY);
    assert_eq!(interval.low, 0.0);
}

#[test]
fn a_coarse_grid_is_a_bracket_and_a_fine_one_is_not() {
    let coarse = crossover(&exact(&[(0.0, 0.3), (25.0, -0.3)]), &QUICK).unwrap();
    assert!(coarse.is_coarse(), "{coarse:?}");
    // Some resamples lie below zero from the first point on, and the others cross close behind it.
    let open = [
        point(0.0, &[-0.003, -0.001, 0.002, 0.003, 0.004]),
        point(5.0, &[-0.05; 5]),
    ];
    let open = crossover(&open, &QUICK).unwrap();
    let has_no_start = |found: &Crossover| matches!(found, Crossover::At { interval, .. } if interval.low == f64::NEG_INFINITY);
    assert!(open.is_coarse() && has_no_start(&open), "{open:?}");
    let noisy = |x: f64| {
        point(
            x,
            &[-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3].map(|off| off - x),
        )
    };
    let fine: Vec<_> = (-9..=9).map(|i| noisy(0.02 * f64::from(i))).collect();
    let fine = crossover(&fine, &QUICK).unwrap();
    assert!(!fine.is_coarse(), "{fine:?}");
}

#[test]
fn the_lead_is_reached_behind_the_crossing_or_never() {
    let options = CrossoverOptions {
        bootstrap: QUICK,
        ..CrossoverOptions::default()
    };
    let points = exact(&[(0.0, 0.02), (50.0, -0.02), (100.0, -0.04)]);
    let found = crossovers_at(&points, &options, &[0.0, -0.03, -0.05]).unwrap();
    assert!(matches!(found[0], Crossover::At { x, .. } if (x - 25.0).abs() < 1e-9));
    let lead = matches!(found[1], Crossover::At { x, between: (50.0, 100.0), .. }
        if (x - 75.0).abs() < 1e-9);
    assert!(lead, "{found:?}");
    let never = matches!(
        found[2],
        Crossover::None {
            winner: Winner::First,
            ..
        }
    );
    assert!(never, "{found:?}");
    assert_eq!(crossovers_at(&points, &options, &[f64::NAN]), None);
}

#[test]
fn a_scale_moves_the_crossing_between_points_and_not_onto_others() {
    let options = CrossoverOptions {
        bootstrap: QUICK,
        scale: Scale::Log1p,
        ..CrossoverOptions::default()
    };
    let found = crossover_with(&exact(&[(0.0, 0.1), (1.0, 0.0), (5.0, -0.1)]), &options);
    let Some(Crossover::At { x, .. }) = found else {
        panic!("{found:?}");
    };
    assert!((x - 1.0).abs() < 1e-12);
    let negative = exact(&[(-1.0, 0.1), (1.0, -0.1)]);
    assert_eq!(crossover_with(&negative, &options), None);
}

#[test]
fn the_seed_alone_decides_the_interval() {
    let points = [
        point(0.0, &[0.30, 0.11, 0.22, 0.05]),
        point(50.0, &[0.05, -0.12, 0.02, -0.20]),
        point(100.0, &[-0.30, -0.11, -0.22, -0.05]),
    ];
    let with = |seed| crossover(&points, &Bootstrap { seed, ..QUICK });
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

proptest! {
    #[test]
    fn a_crossing_lies_in_the_measured_range(
        cells in prop::collection::vec(prop::collection::vec(-0.5..0.5_f64, 1..6), 1..6),
    ) {
        let last = (cells.len() - 1) as f64 * 25.0;
        let points: Vec<_> = cells
            .iter()
            .enumerate()
            .map(|(i, log_ratios)| point(i as f64 * 25.0, log_ratios))
            .collect();
        let options = Bootstrap { resamples: 50, ..QUICK };
        if let Some(Crossover::At { x, interval, .. }) = crossover(&points, &options) {
            prop_assert!((0.0..=last).contains(&x));
            prop_assert!(interval.low <= interval.high);
        }
    }
}
