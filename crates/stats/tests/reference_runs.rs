//! Intervals, two samples, slopes, looks and lines against SciPy and contourpy:
//! `vectors/make_run_vectors.py` wrote the expected values. (The smooth surface's vectors are read by
//! its own tests.)
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use altway_stats::{
    NullArm, Sequential, SequentialOptions, contour, shift, signed_rank_interval, theil_sen,
};
use serde::Deserialize;

fn read<T: for<'de> Deserialize<'de>>(json: &str) -> Vec<T> {
    serde_json::from_str(json).unwrap()
}

#[track_caller]
fn assert_close(ours: f64, reference: f64) {
    let tolerance = 1e-10 * reference.abs().max(1.0);
    assert!(
        (ours - reference).abs() <= tolerance,
        "{ours} instead of {reference}"
    );
}

#[derive(Deserialize)]
struct Ranked {
    values: Vec<f64>,
    level: f64,
    low: f64,
    high: f64,
}

#[test]
fn signed_rank_intervals_are_scipys_test_inverted() {
    for case in read::<Ranked>(include_str!("vectors/signed_rank.json")) {
        let ours = signed_rank_interval(&case.values, case.level).unwrap();
        assert_close(ours.low, case.low);
        assert_close(ours.high, case.high);
    }
}

#[derive(Deserialize)]
struct TwoSamples {
    from: Vec<f64>,
    to: Vec<f64>,
    level: f64,
    estimate: f64,
    low: Option<f64>,
    high: Option<f64>,
    p: f64,
}

#[test]
fn two_samples_agree_with_scipys_rank_sum_test() {
    for case in read::<TwoSamples>(include_str!("vectors/two_sample.json")) {
        let ours = shift(&case.from, &case.to, case.level).unwrap();
        assert_close(ours.estimate, case.estimate);
        assert_close(ours.p, case.p);
        if let Some((low, high)) = case.low.zip(case.high) {
            let interval = ours.interval.unwrap();
            assert_close(interval.low, low);
            assert_close(interval.high, high);
        }
    }
}

#[derive(Deserialize)]
struct Sloped {
    x: Vec<f64>,
    y: Vec<f64>,
    level: f64,
    slope: f64,
    at_zero: f64,
    low: f64,
    high: f64,
}

#[test]
fn slopes_agree_with_scipys_theil_sen() {
    for case in read::<Sloped>(include_str!("vectors/slope.json")) {
        let ours = theil_sen(&case.x, &case.y, case.level).unwrap();
        assert_close(ours.slope, case.slope);
        assert_close(ours.at_zero, case.at_zero);
        assert_close(ours.interval.low, case.low);
        assert_close(ours.interval.high, case.high);
    }
}

#[derive(Deserialize)]
struct Looked {
    looks: Vec<usize>,
    level: f64,
    level_of_each: f64,
}

/// SciPy integrates the multivariate normal distribution by a random lattice: allow for its error.
#[test]
fn the_level_of_each_look_agrees_with_scipys_normal_distribution() {
    for case in read::<Looked>(include_str!("vectors/look.json")) {
        let options = SequentialOptions {
            looks: case.looks.len(),
            level: case.level,
            ..SequentialOptions::up_to(*case.looks.last().unwrap())
        };
        let rule = Sequential::new(&options).unwrap();
        assert_eq!(rule.looks(), case.looks);
        let off = rule.level_of_each_look() - case.level_of_each;
        assert!(off.abs() < 1e-5, "{:?}: {off}", case.looks);
    }
}

#[derive(Deserialize)]
struct Flagged {
    cells: usize,
    flagged: usize,
    level: f64,
    chance: f64,
}

#[test]
fn the_chance_of_flags_agrees_with_scipys_binomial_distribution() {
    for case in read::<Flagged>(include_str!("vectors/null.json")) {
        let ours = NullArm::new(case.cells, case.flagged, case.level).unwrap();
        assert_close(ours.chance, case.chance);
    }
}

#[derive(Deserialize)]
struct Contoured {
    xs: Vec<f64>,
    ys: Vec<f64>,
    values: Vec<f64>,
    level: f64,
    corners: Vec<(f64, f64)>,
    open: usize,
}

#[test]
fn lines_of_one_level_have_the_corners_that_contourpy_finds() {
    for case in read::<Contoured>(include_str!("vectors/contour.json")) {
        let lines = contour(&case.xs, &case.ys, &case.values, case.level).unwrap();
        assert_eq!(lines.iter().filter(|line| !line.closed).count(), case.open);
        let points = lines.iter().flat_map(|line| &line.points);
        let corners: Vec<(f64, f64)> = points.map(|point| (point.x, point.y)).collect();
        assert_eq!(corners.len(), case.corners.len());
        for reference in &case.corners {
            let off = |ours: &(f64, f64)| (ours.0 - reference.0).hypot(ours.1 - reference.1);
            let nearest = corners.iter().map(off).fold(f64::INFINITY, f64::min);
            assert!(nearest < 1e-10, "{reference:?}: {nearest}");
        }
    }
}
