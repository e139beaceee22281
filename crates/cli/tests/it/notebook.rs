//! The data files of a run, as somebody's own scripts read them: by the notebook and the script under `examples/`.

use crate::common::{Dir, installed, provided, success, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A run that is kept, with its folder's name below `results/`.
const KEPT: &str = "2026-11-22-2core-vm-delay-sweep";

/// Runs the notebook's code in one go, as a kernel would cell by cell.
const RUN_CELLS: &str = "\
import json, sys
cells = json.load(open('samples.ipynb'))['cells']
code = [''.join(cell['source']) for cell in cells if cell['cell_type'] == 'code']
exec('\\n'.join(code))
";

fn repository() -> PathBuf {
    // Cargo runs tests in their package's folder.
    std::path::absolute("../..").unwrap()
}

/// A copy of the kept run that may be written to.
fn copy_of_kept_run(dir: &Dir) -> PathBuf {
    let kept = repository().join("results").join(KEPT);
    for name in ["manifest.json", "samples.csv"] {
        dir.file(&format!("run/{name}"), fs::read(kept.join(name)).unwrap());
    }
    dir.path().join("run")
}

#[test]
fn a_report_writes_parquet_when_asked() {
    let dir = Dir::new();
    let run = copy_of_kept_run(&dir);
    let report = |more: &[&str]| {
        success(dir.altway(["lab", "report"]).arg(&run).args(more));
    };
    report(&[]);
    assert!(!run.join("samples.parquet").exists());
    report(&["--parquet"]);
    let parquet = fs::read(run.join("samples.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
}

#[test]
fn the_notebook_finds_the_same_in_both_files() {
    let Some(python) = provided("pandas", "ALTWAY_TEST_PYTHON").filter(|python| has_pandas(python))
    else {
        return;
    };
    let dir = Dir::new();
    let run = copy_of_kept_run(&dir);
    success(dir.altway(["lab", "report", "--parquet"]).arg(&run));
    let output = Command::new(python)
        .args(["-c", RUN_CELLS])
        .current_dir(repository().join("examples"))
        .env("RUN", &run)
        .env("MPLBACKEND", "Agg")
        .env("MPLCONFIGDIR", dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("rows in both"), "{said}");
    let invalid = invalid_rows(&run);
    let expected = format!("450 transfers, {invalid} that do not count");
    assert!(said.contains(&expected), "{said}");
}

/// Rows of a run's samples that do not count.
fn invalid_rows(run: &Path) -> usize {
    let samples = fs::read_to_string(run.join("samples.csv")).unwrap();
    let mut lines = samples.lines();
    let columns = lines.next().unwrap().split(',');
    let valid = columns.clone().position(|name| name == "valid").unwrap();
    // Only the column after it has text with commas in it.
    let is_invalid = |line: &&str| line.split(',').nth(valid) == Some("false");
    lines.filter(is_invalid).count()
}

fn has_pandas(python: impl AsRef<Path>) -> bool {
    let modules = "import pandas, pyarrow, matplotlib";
    let output = Command::new(python.as_ref()).args(["-c", modules]).output();
    let has = output.is_ok_and(|output| output.status.success());
    if !has {
        crate::common::skipped(
            "pandas, pyarrow and matplotlib are not there; see `cargo xtask setup`",
        );
    }
    has
}

/// The worth of the choice as README.md and docs/evidence.md tell it, recomputed by other code than altway's.
#[test]
fn the_worth_of_the_choice_follows_from_the_rows_that_were_measured() {
    if !installed("python3") {
        return;
    }
    // A copy, of which one figure is changed in the end.
    let dir = Dir::new();
    for name in ["examples", "docs"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    for name in ["README.md", "docs/evidence.md", "examples/choice_claims.py"] {
        fs::copy(repository().join(name), dir.path().join(name)).unwrap();
    }
    std::os::unix::fs::symlink(repository().join("results"), dir.path().join("results")).unwrap();
    let run = || {
        let script = dir.path().join("examples/choice_claims.py");
        Command::new("python3").arg(script).output().unwrap()
    };
    let output = run();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let evidence = fs::read_to_string(dir.path().join("docs/evidence.md")).unwrap();
    let row = evidence
        .lines()
        .find(|line| line.starts_with("| 600 Mbit/s, 25 ms |"));
    let wrong = row.unwrap().replacen("+7.6", "+7.4", 1);
    assert_ne!(wrong, row.unwrap());
    dir.file(
        "docs/evidence.md",
        evidence.replacen(row.unwrap(), &wrong, 1),
    );
    let output = run();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("7.4"));
}

/// The figures of README.md, recomputed by other code than altway's.
#[test]
fn the_first_results_of_the_readme_follow_from_the_rows_that_were_measured() {
    if !installed("python3") {
        return;
    }
    let script = repository().join("examples/readme_claims.py");
    let output = Command::new("python3").arg(&script).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let printed = text(&output.stdout);
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let first = readme
        .lines()
        .find(|line| line.starts_with("| 0 ms |"))
        .unwrap();
    let median = first.split('|').nth(2).unwrap().trim();
    assert!(printed.contains(median), "{median}: {printed}");
    // Another figure than the rows have is seen.
    let dir = Dir::new();
    dir.file("README.md", readme.replacen(median, "9.999 s", 1));
    let named = readme.split("[The whole run](").nth(1).unwrap();
    let run = repository().join(named.split(')').next().unwrap());
    let mut wrong = Command::new("python3");
    wrong
        .arg(&script)
        .arg(run)
        .arg(dir.path().join("README.md"));
    let output = wrong.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("at 0 ms the rows say"));
}
