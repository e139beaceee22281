//! `altway lab compare` and `check-null` on small run folders, and on what can't be compared.

use crate::common::{Dir, refusal, success};
use altway_record::{
    CSV_HEADER, Manifest, Protocol, SCHEMA_VERSION, Sample, csv_rows, read_samples,
};
use std::fs;

/// Three delays, five pairs each; HTTP/3 becomes faster at 54 ms.
fn run() -> (Manifest, Vec<Sample>) {
    let manifest = include_str!("../../../report/tests/data/manifest.json");
    let samples = include_str!("../../../report/tests/data/samples.csv");
    let manifest = Manifest {
        schema_version: SCHEMA_VERSION,
        ..Manifest::from_json(manifest).unwrap()
    };
    (manifest, read_samples(samples).unwrap())
}

fn write(dir: &Dir, name: &str, manifest: &Manifest, samples: &[Sample]) {
    dir.file(&format!("{name}/manifest.json"), manifest.to_json());
    let text = format!("{CSV_HEADER}{}", csv_rows(samples));
    dir.file(&format!("{name}/samples.csv"), text);
}

/// A run as it is, and one in which HTTP/3 takes 100 ms more to set its connections up.
fn two_runs(dir: &Dir) {
    let (manifest, mut samples) = run();
    write(dir, "a", &manifest, &samples);
    for sample in samples
        .iter_mut()
        .filter(|one| one.protocol == Protocol::H3)
    {
        for time in [
            &mut sample.connect_us,
            &mut sample.first_byte_us,
            &mut sample.total_us,
            &mut sample.compared_us,
        ] {
            *time = time.map(|time| time + 100_000);
        }
    }
    write(dir, "b", &manifest, &samples);
}

#[test]
fn two_runs_are_compared_in_words_and_as_json() {
    let dir = Dir::new();
    two_runs(&dir);
    let table = success(&mut dir.altway(["lab", "compare", "a", "b"]));
    assert!(table.starts_with("A: a\nB: b\n"), "{table}");
    assert!(
        table.contains("Crossover, one-way delay: 54.1 ms"),
        "{table}"
    );
    assert!(table.contains("Findings\n"), "{table}");
    let json = success(&mut dir.altway(["lab", "compare", "a", "b", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let cells = json[0]["series"][0]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3);
    let set_up = &cells[0]["parts"][0];
    assert_eq!(set_up["part"], "set-up");
    assert_eq!(set_up["lead_ms"]["value"], 100.0);
    assert!(
        set_up["share_percent"]
            .as_f64()
            .is_some_and(|share| share > 99.0)
    );
}

#[test]
fn a_run_is_not_compared_with_itself() {
    let dir = Dir::new();
    two_runs(&dir);
    success(&mut dir.altway(["lab", "report", "a"]));
    for two in [
        ["a", "a"],
        ["a", "./b/../a/"],
        ["a/summary.csv", "a/summary.csv"],
    ] {
        let said = refusal(&mut dir.altway(["lab", "compare", two[0], two[1]]));
        assert!(said.contains("A and B are the same: "), "{said}");
        assert!(said.contains("hint: name a second run"), "{said}");
    }
}

#[test]
fn parts_of_one_run_are_compared_by_an_axis() {
    let dir = Dir::new();
    let (manifest, samples) = run();
    let both = manifest
        .to_json()
        .replace("\"direct\"", "\"direct\", \"proxied\"");
    let manifest = Manifest::from_json(&both).unwrap();
    let cells = manifest.plan.cells();
    let proxied = samples.iter().map(|sample| Sample {
        ordinal: sample.ordinal + 1_000,
        cell: sample.cell + 3,
        topology: cells[sample.cell as usize + 3].topology,
        ..sample.clone()
    });
    let all: Vec<Sample> = samples.iter().cloned().chain(proxied).collect();
    write(&dir, "environments", &manifest, &all);
    let compare = ["lab", "compare", "environments", "--by", "topology"];
    let table = success(&mut dir.altway(compare));
    assert!(table.starts_with("A: direct\nB: proxied\n"), "{table}");
    assert!(table.contains("At none of 3 delays"), "{table}");
}

const REFERENCE: &str = "# An earlier study.\nrate_bps,delay_us,size_bytes,protocol,mean_us\n\
                         5000000,50000,1000000,h2,2169000\n5000000,50000,1000000,h3,2166000\n";

#[test]
fn a_run_is_laid_beside_reference_figures_or_another_runs_summary() {
    let dir = Dir::new();
    two_runs(&dir);
    dir.file("figures.csv", REFERENCE);
    let table = success(&mut dir.altway(["lab", "compare", "a", "figures.csv"]));
    assert!(table.contains("agrees at 1 of 1 delay"), "{table}");
    success(&mut dir.altway(["lab", "report", "b"]));
    let table = success(&mut dir.altway(["lab", "compare", "a", "b/summary.csv"]));
    assert!(table.contains("of 3 delays"), "{table}");
}

#[track_caller]
fn assert_refused(dir: &Dir, arguments: [&str; 4], error: &str, hint: &str) {
    let said = refusal(&mut dir.altway(arguments));
    assert!(said.contains(error), "expected `{error}` in:\n{said}");
    assert!(said.contains(&format!("hint: {hint}")), "{said}");
    assert_eq!(said.matches("error: ").count(), 1, "{said}");
}

#[test]
fn what_cannot_be_compared_is_said_in_one_sentence() {
    let dir = Dir::new();
    two_runs(&dir);
    let (manifest, mut samples) = run();
    let larger = manifest.to_json().replace("\"1MB\"", "\"2MB\"");
    samples.iter_mut().for_each(|one| one.size_bytes *= 2);
    write(
        &dir,
        "large",
        &Manifest::from_json(&larger).unwrap(),
        &samples,
    );
    let alike = "compare runs of one plan, or of plans that share";
    let nothing = "no measured cell in common: 1 MB against 2 MB";
    assert_refused(&dir, ["lab", "compare", "a", "large"], nothing, alike);
    let none = "is not a run folder";
    assert_refused(
        &dir,
        ["lab", "compare", "a", "nowhere"],
        none,
        "run folders",
    );
    let one = "there is one run only to compare";
    assert_refused(
        &dir,
        ["lab", "compare", "a", "-q"],
        one,
        "name a second run",
    );
    let value = "the run has one topology only, direct";
    assert_refused(
        &dir,
        ["lab", "compare", "a", "--by=topology"],
        value,
        "name a second",
    );
    dir.file("wrong.csv", "delay,protocol\n0,h2\n");
    let wrong = "wrong.csv holds no reference figures: line 2: missing field";
    assert_refused(
        &dir,
        ["lab", "compare", "a", "wrong.csv"],
        wrong,
        "its columns are",
    );
    dir.file("other.csv", REFERENCE.replace(",1000000,", ",7,"));
    let other = "no measured cell in common";
    assert_refused(&dir, ["lab", "compare", "a", "other.csv"], other, alike);
    let said = refusal(&mut dir.altway(["lab", "compare", "a", "--by", "topologo"]));
    assert!(said.contains("did you mean `topology`?"), "{said}");
}

/// Ten pairs of a null arm that takes so many times as long.
fn with_null_arm(dir: &Dir, name: &str, factor: u64) {
    let (manifest, samples) = run();
    let json = manifest
        .to_json()
        .replace("\"null_arm\": false", "\"null_arm\": true");
    let manifest = Manifest::from_json(&json).unwrap();
    let again = |sample: &Sample| Sample {
        block: sample.block + 5,
        ordinal: sample.ordinal + 100,
        ..sample.clone()
    };
    let mut all: Vec<Sample> = samples.iter().map(again).chain(samples.clone()).collect();
    let null = |(i, sample): (usize, &Sample)| Sample {
        null_arm: true,
        ordinal: sample.ordinal + 1_000,
        compared_us: sample
            .compared_us
            .map(|time| time * factor - 1 + 2 * (i as u64 % 2)),
        ..sample.clone()
    };
    let h2 = all.iter().filter(|one| one.protocol == Protocol::H2);
    let nulls: Vec<Sample> = h2.enumerate().map(null).collect();
    all.extend(nulls);
    write(dir, name, &manifest, &all);
}

#[test]
fn the_null_arms_of_runs_are_counted_and_exit_with_1_when_luck_does_not_explain_them() {
    let dir = Dir::new();
    with_null_arm(&dir, "runs/20260101-000000-p", 1);
    with_null_arm(&dir, "bad", 2);
    let newest = success(&mut dir.altway(["lab", "check-null"]));
    assert!(newest.contains("0 of 3 intervals exclude 0"), "{newest}");
    let both = ["lab", "check-null", "runs/20260101-000000-p", "bad"];
    let output = dir.altway(both).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("3 of 6 intervals exclude 0 (50.0 %"),
        "{said}"
    );
    assert!(said.contains("believe no verdict"), "{said}");
    let twice = refusal(&mut dir.altway(["lab", "check-null", "bad", "./bad"]));
    assert!(twice.contains("the run ./bad is named twice"), "{twice}");
    two_runs(&dir);
    let without = refusal(&mut dir.altway(["lab", "check-null", "a"]));
    assert!(without.contains("a has no null arm"), "{without}");
    assert!(
        fs::read_dir(dir.path().join("bad")).unwrap().count() == 2,
        "nothing is written"
    );
}
