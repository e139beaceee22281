//! `altway lab compare`: two environments held against each other.

use crate::Answer;
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_record::{ReferenceRow, read_reference};
use altway_report::{Axis, Contrast, Error, NamedRun, Run};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Compare two runs, or two topologies (servers, clients, …) of one.
///
/// Shows which protocol is faster where in each, how the lead and the crossover change from A to B, and which part of
/// the time explains that. With --by, each value of the axis is compared with the plan's first. Only cells that both
/// have are compared; the others are named.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Two runs whose cells differ only in what surrounds the link (topology, server, client,
congestion control, initial window, connection, queue) are compared over that difference.

Examples:
  altway lab compare runs/20261122-100000-environments --by topology
  altway lab compare runs/20261120-100000-delay-sweep runs/20261122-100000-delay-sweep
  altway lab compare runs/20261122-100000-delay-sweep results/reference/environments.csv
  altway lab compare theirs.csv ours/summary.csv")]
pub(crate) struct Arguments {
    /// The run folder of A; if B is a CSV file of figures, A may be one as well.
    a: PathBuf,
    /// The run folder of B, or a CSV file of reference figures (docs/data/reference.md).
    #[arg(conflicts_with = "by")]
    b: Option<PathBuf>,
    /// Compare the parts of one run: topology, server, client, congestion, initial_window, certificate,
    /// certificate_compression, connection, rate, queue or loss.
    #[arg(long, value_name = "AXIS")]
    by: Option<Axis>,
    /// Print all figures as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    if let Some(b) = &arguments.b {
        check_two(&arguments.a, b)?;
    }
    match (&arguments.b, arguments.by) {
        (Some(b), _) if b.is_file() && arguments.a.is_file() => {
            figures(&arguments.a, b, arguments.json, printer)
        }
        (Some(b), _) if arguments.a.is_file() => Err(usage_error(
            format!(
                "{} is a table of figures, {} is none",
                arguments.a.display(),
                b.display()
            ),
            "name the run first and the figures second, or two tables of figures",
        )),
        (Some(b), _) if b.is_file() => reference(&arguments.a, b, arguments.json, printer),
        (Some(b), _) => two_runs(&arguments.a, b, arguments.json, printer),
        (None, Some(axis)) => parts(&arguments.a, axis, arguments.json, printer),
        (None, None) => Err(usage_error(
            "there is one run only to compare",
            "name a second run, or compare the parts of the first with `--by topology`",
        )),
    }
}

/// Refuses one run under two names: no figure of it differs from itself. What can't be read is reported by whoever reads it.
fn check_two(a: &Path, b: &Path) -> Result<()> {
    let (a, b) = (std::fs::canonicalize(a), std::fs::canonicalize(b));
    match (a, b) {
        (Ok(a), Ok(b)) if a == b => Err(usage_error(
            format!("A and B are the same: {}", a.display()),
            "name a second run, or compare the parts of one with `--by topology`",
        )),
        _ => Ok(()),
    }
}

fn two_runs(a: &Path, b: &Path, json: bool, printer: &Printer) -> Result<Answer> {
    let (manifest_a, samples_a) = altway_lab::read_run(a)?;
    let (manifest_b, samples_b) = altway_lab::read_run(b)?;
    let (name_a, name_b) = (a.display().to_string(), b.display().to_string());
    let contrast = altway_report::compare(
        &NamedRun {
            name: &name_a,
            run: Run {
                manifest: &manifest_a,
                samples: &samples_a,
            },
        },
        &NamedRun {
            name: &name_b,
            run: Run {
                manifest: &manifest_b,
                samples: &samples_b,
            },
        },
    );
    answer(&[contrast.map_err(with_hint)?], json, printer)
}

fn read_figures(path: &Path) -> Result<Vec<ReferenceRow>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    read_reference(&text).map_err(|error| {
        usage_error(
            format!("{} holds no reference figures: {error}", path.display()),
            "its columns are those of summary.csv; docs/data/reference.md says which are enough",
        )
    })
}

fn figures(a: &Path, b: &Path, json: bool, printer: &Printer) -> Result<Answer> {
    let (rows_a, rows_b) = (read_figures(a)?, read_figures(b)?);
    let (name_a, name_b) = (a.display().to_string(), b.display().to_string());
    let contrast = altway_report::compare_figures((&name_a, &rows_a), (&name_b, &rows_b));
    let contrast = contrast.map_err(with_hint)?;
    match json {
        true => printer.json(&contrast)?,
        false => printer.data(&contrast.table())?,
    }
    Ok(Answer::Done)
}

fn reference(run: &Path, figures: &Path, json: bool, printer: &Printer) -> Result<Answer> {
    let rows = read_figures(figures)?;
    let (manifest, samples) = altway_lab::read_run(run)?;
    let run = Run {
        manifest: &manifest,
        samples: &samples,
    };
    let contrast = altway_report::compare_with_reference(&run, &rows).map_err(with_hint)?;
    match json {
        true => printer.json(&contrast)?,
        false => printer.data(&contrast.table())?,
    }
    Ok(Answer::Done)
}

fn parts(run: &Path, axis: Axis, json: bool, printer: &Printer) -> Result<Answer> {
    let (manifest, samples) = altway_lab::read_run(run)?;
    let run = Run {
        manifest: &manifest,
        samples: &samples,
    };
    let contrasts = altway_report::compare_by(&run, axis).map_err(with_hint)?;
    answer(&contrasts, json, printer)
}

fn answer(contrasts: &[Contrast], json: bool, printer: &Printer) -> Result<Answer> {
    if json {
        printer.json(&contrasts)?;
        return Ok(Answer::Done);
    }
    let tables: Vec<String> = contrasts.iter().map(Contrast::table).collect();
    printer.data(&tables.join("\n"))?;
    Ok(Answer::Done)
}

/// A hint for where the two can't be compared.
fn with_hint(error: Error) -> anyhow::Error {
    let hint = match error {
        Error::OneValue { .. } => {
            "name a second run, or see with `altway lab plan show` which axes the plan has"
        }
        Error::NothingMeasured => "go on with it: `altway lab resume`",
        Error::NoCommonCell { .. }
        | Error::Scenarios { .. }
        | Error::Baselines { .. }
        | Error::Seconds { .. } => {
            "compare runs of one plan, or of plans that share rate, loss, size and some delays"
        }
        other => return other.into(),
    };
    usage_error(error.to_string(), hint)
}
