//! Tests of the level of a report's intervals, by runs in which nothing differs.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod support;

use altway_record::{Manifest, Sample, SummaryRow};
use altway_report::{NullCheck, Run, null_check, render, summary};
use altway_stats::{Sequential, SequentialOptions, Step};
use std::collections::BTreeMap;
use support::{Noise, manifest, sample};

/// Nine delays as in the main benchmark.
const PLAN: &str = "name = \"null\"\nrate = \"5mbit\"\ndelay = \"0ms..200ms by 25ms\"\nsize = \"1MB\"\n\
                    null_arm = true\n";
const RUNS: u64 = 20;

/// Noise of a pair's log-ratio: normal, with heavy tails, or of a loss that comes in one of four.
fn noise(shape: u64, noise: &mut Noise) -> f64 {
    match shape % 3 {
        0 => 0.05 * noise.draw(),
        1 => 0.03 * noise.draw() / (0.1 + noise.uniform()),
        _ => 0.01 * noise.draw() + if noise.uniform() < 0.25 { 0.2 } else { 0.0 },
    }
}

/// A run whose transfers all take two seconds, but for noise; `enough` says when a cell is left.
fn run(plan: &str, seed: u64, enough: impl Fn(&[f64]) -> bool) -> (Manifest, Vec<Sample>) {
    let manifest = manifest(&format!("seed = {seed}\n{plan}"));
    let mut generator = Noise(seed);
    let mut rows: Vec<Sample> = Vec::new();
    for cell in manifest.plan.cells() {
        let mut log_ratios = Vec::new();
        for block in 0..manifest.plan.pairs {
            if enough(&log_ratios) {
                break;
            }
            let mut time = || 2e6 * noise(u64::from(cell.index), &mut generator).exp();
            let times = [time(), time(), time()];
            log_ratios.push((times[1] / times[0]).ln());
            let arms = [
                manifest.plan.protocols[0],
                manifest.plan.protocols[1],
                manifest.plan.protocols[0],
            ];
            for (arm, (protocol, time)) in arms.into_iter().zip(times).enumerate() {
                let row = sample(rows.len() as u64, block, &cell, protocol, time as u64);
                rows.push(Sample {
                    null_arm: arm == 2,
                    ..row
                });
            }
        }
    }
    (manifest, rows)
}

fn excludes_zero(row: &SummaryRow) -> bool {
    let ends = row.difference_low_percent.zip(row.difference_high_percent);
    ends.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
}

/// Null-arm rows, then those of HTTP/3, which differs as little: how many exclude 0, and of how many.
fn excluded(rows: &[SummaryRow]) -> [(usize, usize); 2] {
    [true, false].map(|null_arm| {
        let of = rows
            .iter()
            .filter(|row| row.null_arm == null_arm && row.pairs.is_some());
        let out = of.clone().filter(|row| excludes_zero(row)).count();
        (out, of.count())
    })
}

/// Sums over all runs, and checks that they agree with the summary.
fn over_all(runs: &[(Manifest, Vec<Sample>)], interval: &str) -> [(usize, usize); 2] {
    let mut all = [(0, 0); 2];
    let mut checks = Vec::new();
    for (manifest, samples) in runs {
        let run = Run { manifest, samples };
        let rows = summary(&run).unwrap();
        let compared = rows.iter().filter(|row| row.pairs.is_some());
        assert!(
            compared
                .clone()
                .all(|row| row.interval.as_deref() == Some(interval))
        );
        let suspect = rows
            .iter()
            .filter(|row| row.verdict.as_deref() == Some("suspect"));
        let of_run = excluded(&rows);
        assert_eq!(suspect.count(), of_run[0].0);
        let check = null_check(&run).unwrap().unwrap();
        assert_eq!((check.flagged, check.cells), of_run[0]);
        checks.push(check);
        for (sum, one) in all.iter_mut().zip(of_run) {
            *sum = (sum.0 + one.0, sum.1 + one.1);
        }
    }
    let together = NullCheck::together(&checks).unwrap();
    assert_eq!((together.flagged, together.cells), all[0]);
    assert!(!together.suspect, "{}", together.sentence());
    all
}

#[test]
fn of_twenty_null_runs_at_most_one_interval_in_twenty_excludes_zero() {
    let plan = format!("{PLAN}pairs = 25\n");
    let runs: Vec<_> = (1..=RUNS).map(|seed| run(&plan, seed, |_| false)).collect();
    for (out, of) in over_all(&runs, "signed-rank") {
        println!("{out} of {of} intervals exclude 0");
        assert_eq!(of, 180);
        // 9 are expected of 180; two standard deviations of chance above are 14.
        assert!(out <= 14, "{out}");
    }
}

#[test]
fn runs_whose_cells_are_left_early_exclude_zero_no_more_often() {
    let plan = format!("{PLAN}pairs = 60\n[stop]\n");
    let rule = Sequential::new(&SequentialOptions::up_to(60)).unwrap();
    let enough = |log_ratios: &[f64]| matches!(rule.step(log_ratios), Some(Step::Stop(_)));
    let runs: Vec<_> = (1..=RUNS).map(|seed| run(&plan, seed, enough)).collect();
    let pairs: BTreeMap<usize, usize> =
        runs.iter().fold(BTreeMap::new(), |mut counted, (_, rows)| {
            *counted.entry(rows.len()).or_default() += 1;
            counted
        });
    assert!(pairs.len() > 1, "the rule stopped nothing: {pairs:?}");
    for (out, of) in over_all(&runs, "looks") {
        println!("{out} of {of} intervals exclude 0");
        assert!(out <= 9, "{out} of {of}");
    }
}

#[test]
fn the_table_and_the_page_say_what_the_null_arm_counted_and_which_interval_it_was() {
    let (manifest, samples) = run(&format!("{PLAN}pairs = 60\n[stop]\n"), 3, |_| false);
    let run = Run {
        manifest: &manifest,
        samples: &samples,
    };
    let check = null_check(&run).unwrap().unwrap();
    let rendered = render(&run).unwrap();
    let table = rendered.table.replace('\n', " ");
    assert!(table.contains(&check.sentence()), "{table}");
    assert!(
        table.contains("wide enough for all looks at which a cell may be left (12, 21, 35 and 60")
    );
    assert!(rendered.html.contains("wide enough for all looks"));
    assert_eq!(rendered.summary, summary(&run).unwrap());
}
