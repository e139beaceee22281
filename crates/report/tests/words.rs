//! The words of a report agree with the intervals beside them.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod support;

use altway_record::Protocol;
use altway_report::{Run, render};
use support::{manifest, samples};

const QUICK: &str =
    "name = \"quick\"\nrate = \"5mbit\"\ndelay = \"50ms\"\nsize = \"1MB\"\npairs = 5";

#[test]
fn words_agree_with_intervals() {
    let change = |pairs: u32, percent: u64, spread: u64| {
        let text = QUICK.replace("pairs = 5", &format!("pairs = {pairs}"));
        let manifest = manifest(&text);
        let mut samples = samples(&manifest.plan);
        for sample in &mut samples {
            let second = sample.protocol == Protocol::H3;
            let more = if second {
                percent + spread * u64::from(sample.block % 5)
            } else {
                1_000
            };
            sample.compared_us = Some(2_000 * more);
        }
        let manifest = &manifest;
        let samples = &samples;
        render(&Run { manifest, samples }).unwrap()
    };
    // 104 % more time in three pairs: no verdict, and no word of a difference that is not clear.
    let few = change(3, 2_040, 1);
    assert!(
        few.table.contains("fewer than 5 pairs are too few"),
        "{}",
        few.table
    );
    assert!(!few.table.contains("stays open"), "{}", few.table);
    let map = few
        .pictures
        .iter()
        .find(|picture| picture.figure.name == "overview");
    let title = &map.unwrap().figure.title;
    assert!(title.contains("1 has too few pairs"), "{title}");
    // About 2 % more, for sure, and up to 4 %: little.
    let little = change(20, 1_002, 12);
    assert!(little.table.contains("by little"), "{}", little.table);
    assert!(
        little.table.contains("differ by little at 50 ms"),
        "{}",
        little.table
    );
    // Around nothing, up to 24 % either way.
    let open = change(20, 760, 120);
    assert!(
        open.table.contains("who is faster at 50 ms stays open"),
        "{}",
        open.table
    );
    assert!(
        open.table.contains("unclear: the interval holds 0"),
        "{}",
        open.table
    );
}
