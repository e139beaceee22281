//! Results of this crate against SciPy's and NumPy's: `vectors/make_vectors.py` wrote the expected
//! values.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use altway_stats::{
    Bootstrap, Crossover, CrossoverPoint, Ends, benjamini_hochberg, bootstrap, crossover,
    hodges_lehmann, quantile, summarize, wilcoxon_signed_rank,
};
use serde::Deserialize;

fn read<T: for<'de> Deserialize<'de>>(json: &str) -> Vec<T> {
    serde_json::from_str(json).unwrap()
}

#[track_caller]
fn assert_close(name: &str, ours: f64, reference: f64) {
    let tolerance = 1e-10 * reference.abs().max(1.0);
    assert!(
        (ours - reference).abs() <= tolerance,
        "{name}: {ours} instead of {reference}"
    );
}

#[derive(Deserialize)]
struct Rank {
    name: String,
    values: Vec<f64>,
    hodges_lehmann: f64,
    statistic: f64,
    p: f64,
}

#[test]
fn signed_rank_and_hodges_lehmann_agree_with_scipy() {
    for case in read::<Rank>(include_str!("vectors/rank.json")) {
        let ours = wilcoxon_signed_rank(&case.values).unwrap();
        assert_close(&case.name, ours.statistic, case.statistic);
        assert_close(&case.name, ours.p, case.p);
        assert_close(
            &case.name,
            hodges_lehmann(&case.values).unwrap(),
            case.hodges_lehmann,
        );
    }
}

#[derive(Deserialize)]
struct Described {
    name: String,
    values: Vec<f64>,
    mean: f64,
    median: f64,
    p90: f64,
    p95: f64,
    std_dev: Option<f64>,
    coefficient_of_variation: Option<f64>,
    fastest_fifth_mean: f64,
}

#[test]
fn summaries_agree_with_numpy() {
    for case in read::<Described>(include_str!("vectors/summary.json")) {
        let ours = summarize(&case.values).unwrap();
        let name = &case.name;
        assert_close(name, ours.mean, case.mean);
        assert_close(name, ours.median, case.median);
        assert_close(name, ours.p90, case.p90);
        assert_close(name, ours.p95, case.p95);
        assert_close(name, ours.fastest_fifth_mean, case.fastest_fifth_mean);
        assert_eq!(ours.std_dev.is_some(), case.std_dev.is_some(), "{name}");
        assert_close(
            name,
            ours.std_dev.unwrap_or(0.0),
            case.std_dev.unwrap_or(0.0),
        );
        let (a, b) = (ours.coefficient_of_variation, case.coefficient_of_variation);
        assert_close(name, a.unwrap_or(0.0), b.unwrap_or(0.0));
    }
}

#[derive(Deserialize)]
struct Resampled {
    name: String,
    values: Vec<f64>,
    statistic: String,
    method: String,
    level: f64,
    low: f64,
    high: f64,
}

/// The generators differ, so the ends differ by chance: allow 3 % of the interval's width, or, for
/// the median, whose resamples take few distinct values, 6 %.
#[test]
fn bootstrap_intervals_agree_with_scipy() {
    for case in read::<Resampled>(include_str!("vectors/bootstrap.json")) {
        let options = Bootstrap {
            resamples: 40_000,
            level: case.level,
            seed: 3,
            ends: match case.method.as_str() {
                "BCa" => Ends::Bca,
                "percentile" => Ends::Percentile,
                other => panic!("no method `{other}`"),
            },
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let median = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            quantile(&sorted, 0.5)
        };
        let (ours, allowed) = match case.statistic.as_str() {
            "mean" => (bootstrap(&case.values, mean, &options).unwrap(), 0.03),
            "median" => (bootstrap(&case.values, median, &options).unwrap(), 0.06),
            other => panic!("no statistic `{other}`"),
        };
        let off = (ours.low - case.low)
            .abs()
            .max((ours.high - case.high).abs());
        let share = off / (case.high - case.low);
        assert!(
            share <= allowed,
            "{} {} {}: {share} off, {ours:?}",
            case.name,
            case.statistic,
            case.method
        );
    }
}

#[derive(Deserialize)]
struct Adjusted {
    p: Vec<f64>,
    adjusted: Vec<f64>,
}

#[test]
fn adjusted_p_values_agree_with_scipy() {
    for case in read::<Adjusted>(include_str!("vectors/multiplicity.json")) {
        for (ours, reference) in benjamini_hochberg(&case.p).iter().zip(&case.adjusted) {
            assert_close("adjusted", *ours, *reference);
        }
    }
}

#[derive(Deserialize)]
struct Crossing {
    x: Vec<f64>,
    levels: Vec<f64>,
    weights: Vec<usize>,
    crossing: f64,
}

#[test]
fn crossings_agree_with_scipys_isotonic_regression() {
    for case in read::<Crossing>(include_str!("vectors/crossover.json")) {
        let measured = case.x.iter().zip(&case.levels).zip(&case.weights);
        let points: Vec<CrossoverPoint> = measured
            .map(|((x, level), weight)| CrossoverPoint {
                x: *x,
                log_ratios: vec![*level; *weight],
            })
            .collect();
        let options = Bootstrap {
            resamples: 1,
            ..Bootstrap::default()
        };
        match crossover(&points, &options).unwrap() {
            Crossover::At { x, .. } => assert_close("crossing", x, case.crossing),
            none @ Crossover::None { .. } => panic!("{none:?} instead of {}", case.crossing),
        }
    }
}
