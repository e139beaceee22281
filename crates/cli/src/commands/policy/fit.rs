//! `altway policy fit`: a surface from runs of the lab.

mod cells;
mod picture;
mod text;

use super::{named_twice, surface};
use crate::Answer;
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_select::fit::{Fit, FitError, fit, residuals};
use altway_select::{Source, Sources, Surface};
use anyhow::{Context, Result};
use cells::Cells;
use clap::builder::RangedU64ValueParser;
use std::path::{Path, PathBuf};
use text::Summary;

/// Fit a surface to runs of the lab and write it as a file for `--policy learned:FILE`.
///
/// The coefficients are those with the least squares of ln(T3/T2) and, with less weight, of ln T2, over all cells of
/// the runs: rates, delays, losses, sizes, pages, new and open connections, and one limit over QUIC for each class of
/// clients. The file names the congestion controls of the cells; for others it has only the formulas. Cells that the
/// form does not cover are left out: without a rate limit, behind proxies, with other links or servers, small objects
/// beside a large one, returning visitors.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Coefficients that the runs leave open are named, and nothing is written. Measure what determines them, or --keep
their values:
  limits: large objects on links that are faster than the client takes over QUIC;
  lead.base, lead.growth, lead.pace: several losses at several delays and rates;
  lead.objects: pages with loss;
  quic.handshake-bytes, quic.handshake-seconds: small objects on new connections without delay;
  quic.request-seconds: small objects on open connections without delay.

Examples:
  altway policy fit runs/20261124-100000-bandwidth-map runs/20261124-120000-page -o mine.toml
  altway policy fit runs/20261124-100000-bandwidth-map -o mine.toml \\
      --keep lead.objects,quic.request-seconds,limits.altway-linux --svg residuals.svg")]
pub(crate) struct Arguments {
    /// Run folders.
    #[arg(required = true)]
    run: Vec<PathBuf>,
    /// File for the surface.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Begin with the surface of a file instead of the one that ships.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Coefficients that stay as they are, with commas: lead.objects,limits.chromium-linux.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    keep: Vec<String>,
    /// Parts that cells are split into, each of which is predicted by a fit to the others.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = RangedU64ValueParser::<usize>::new().range(2..=100))]
    folds: usize,
    /// File for a picture of the residuals, as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print coefficients and residuals as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let start = match &arguments.from {
        Some(file) => surface::read(file)?,
        None => Surface::embedded().clone(),
    };
    if let Some(twice) = named_twice(&arguments.run) {
        return Err(usage_error(
            format!("the run {} is named twice", twice.display()),
            "name each run once: its cells would count twice",
        ));
    }
    let mut cells = Cells::default();
    let mut sources = Vec::new();
    for run in &arguments.run {
        let (manifest, samples) = altway_lab::read_run(run)?;
        let source = Source {
            name: name(run),
            plan: manifest.plan.name.clone(),
            started: manifest.started_at.clone(),
            commit: manifest.altway_commit.clone(),
        };
        cells.add(&source.name, &manifest, &samples);
        sources.push(source);
    }
    let measured = cells.measured();
    if measured.is_empty() {
        return Err(nothing_to_fit(&cells));
    }
    let fitted = fit(&measured, &start, &arguments.keep, arguments.folds)
        .map_err(|error| with_hint(&error))?;
    let before = residuals(&start, &measured);
    let summary = Summary::new(&cells, &start, &fitted, &before);
    let surface = with_sources(&fitted, sources, &cells, &summary);
    std::fs::write(&arguments.output, surface.to_toml())
        .with_context(|| format!("cannot write {}", arguments.output.display()))?;
    if let Some(file) = &arguments.svg {
        let svg = altway_report::draw(picture::figure(&cells, &fitted))?.svg;
        std::fs::write(file, svg).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if arguments.json {
        printer.json(&summary)?;
    } else {
        printer.data(&summary.text())?;
    }
    printer.say(&format!("surface: {}", arguments.output.display()));
    Ok(Answer::Done)
}

fn with_sources(fitted: &Fit, runs: Vec<Source>, cells: &Cells, summary: &Summary) -> Surface {
    let kept = fitted.coefficients.iter().filter(|it| it.error.is_none());
    let kept: Vec<&str> = kept.map(|it| it.name.as_str()).collect();
    let note = if kept.is_empty() {
        "Limits of classes that were not measured are those of the surface that the fit began with."
            .to_owned()
    } else {
        format!(
            "Kept from the surface that the fit began with: {}, and limits of classes that were not measured.",
            kept.join(", ")
        )
    };
    fitted.surface.clone().with_sources(Sources {
        note,
        congestion: cells.congestion(),
        cells: u32::try_from(fitted.residuals.len()).unwrap_or(u32::MAX),
        median_error: summary.median_error(),
        held_out_error: Some(summary.held_out_error()),
        runs,
    })
}

/// The last part of a path.
fn name(run: &Path) -> String {
    let whole = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    let name = whole.file_name().unwrap_or(run.as_os_str());
    name.to_string_lossy().into_owned()
}

fn nothing_to_fit(cells: &Cells) -> anyhow::Error {
    let reasons = cells.left_out.iter();
    let reasons: Vec<String> = reasons
        .map(|(why, count)| format!("{count} {why}"))
        .collect();
    let what = match reasons.is_empty() {
        true => "the runs have no transfers of HTTP/2 and HTTP/3 to fit to".into(),
        false => format!(
            "all cells of the runs were left out: {}",
            reasons.join(", ")
        ),
    };
    usage_error(
        what,
        "a fit takes pairs of transfers over both protocols, on links with a rate: `altway lab run bandwidth-map` makes some",
    )
}

fn with_hint(error: &FitError) -> anyhow::Error {
    let hint = match error {
        FitError::Undetermined(names) => format!(
            "measure what tells them (`altway policy fit --help` says what), or keep them with `--keep {}`",
            names.join(",")
        ),
        FitError::TooFew { .. } => {
            "give more runs, of more rates, delays, losses and sizes, or --keep some coefficients".into()
        }
        FitError::Unknown(_) => {
            "name one as it stands in the file, like lead.objects, or the limit of a class in the runs".into()
        }
        other => return anyhow::Error::new(other.clone()),
    };
    usage_error(error.to_string(), hint)
}
