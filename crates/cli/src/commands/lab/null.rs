//! `altway lab check-null`: whether the intervals of runs can be believed.

use super::{RUNS, named_or_newest};
use crate::Answer;
use crate::commands::policy::named_twice;
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_report::{NullCheck, Run, null_check};
use anyhow::Result;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Count how often a protocol differs from itself: whether intervals can be believed.
///
/// The null arm of a run measures its first protocol twice. Its true difference is 0, so at most one in 20 of the 95
/// % intervals should exclude 0. The exit code is 1 when chance does not explain the count: then don't trust any
/// verdict of these runs before the cause is found.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway lab check-null
  altway lab check-null runs/*-quick")]
pub(crate) struct Arguments {
    /// The run folders [default: the newest].
    run: Vec<PathBuf>,
    /// Folder in which the newest run is looked for.
    #[arg(long, value_name = "DIR", default_value = RUNS)]
    runs: PathBuf,
    /// Print the counts as JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON of `--json`.
#[derive(Serialize)]
struct NullCheckOutput {
    runs: Vec<OfRun>,
    together: NullCheck,
}

#[derive(Serialize)]
struct OfRun {
    run: String,
    #[serde(flatten)]
    check: NullCheck,
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    if let Some(twice) = named_twice(&arguments.run) {
        return Err(usage_error(
            format!("the run {} is named twice", twice.display()),
            "name each run once: its cells would count twice",
        ));
    }
    let mut runs = arguments.run.clone();
    if runs.is_empty() {
        runs.push(named_or_newest(None, &arguments.runs)?);
    }
    let runs: Vec<OfRun> = runs.iter().map(|run| of_run(run)).collect::<Result<_>>()?;
    let checks: Vec<NullCheck> = runs.iter().map(|one| one.check).collect();
    let together = NullCheck::together(&checks).ok_or_else(|| {
        usage_error(
            "the runs hold different protocols against themselves",
            "check those of one plan at a time",
        )
    })?;
    if arguments.json {
        printer.json(&NullCheckOutput { runs, together })?;
    } else {
        printer.data(&human(&runs, &together))?;
    }
    Ok(match together.suspect {
        true => Answer::No,
        false => Answer::Done,
    })
}

fn of_run(run: &Path) -> Result<OfRun> {
    let (manifest, samples) = altway_lab::read_run(run)?;
    let check = null_check(&Run {
        manifest: &manifest,
        samples: &samples,
    })?;
    let check = check.ok_or_else(|| {
        usage_error(
            format!("{} has no null arm", run.display()),
            "leave `null_arm = false` out of its plan, and run it again",
        )
    })?;
    Ok(OfRun {
        run: run.display().to_string(),
        check,
    })
}

fn human(runs: &[OfRun], together: &NullCheck) -> String {
    let mut text = String::new();
    if runs.len() > 1 {
        for OfRun { run, check } in runs {
            text.push_str(&format!(
                "{:>4} of {:>4}  {run}\n",
                check.flagged, check.cells
            ));
        }
        text.push('\n');
    }
    text + &together.sentence() + "\n"
}
