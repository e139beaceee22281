//! `altway policy`: what the server chooses by, shown, tried without a server, and judged by its log.

mod evaluate;
mod fit;
mod show;
mod simulate;
mod surface;

pub(crate) use surface::{of as surface_of, read as read_surface};

use crate::Answer;
use crate::printer::Printer;
use altway_select::{Congestion, Surface};
use altway_units::Ratio;
use anyhow::Result;
use clap::Subcommand;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Show, simulate, fit and judge the policies by which the server chooses a protocol.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    Show(show::Arguments),
    Simulate(simulate::Arguments),
    Fit(fit::Arguments),
    Evaluate(evaluate::Arguments),
}

/// The kind of a congestion control that a person names.
pub(super) fn control(name: &str) -> Result<Congestion, String> {
    match name {
        "cubic" | "reno" | "bbr" => Ok(Congestion::of_name(name)),
        _ => Err(format!("`{name}` is none of cubic, reno and bbr")),
    }
}

/// A loss that a surface does not count as less than it is.
pub(super) fn predictable(loss: Ratio) -> Result<Ratio, String> {
    if loss.as_f64() > Surface::MAX_LOSS {
        return Err(format!(
            "times are predicted up to {:.0}%",
            100.0 * Surface::MAX_LOSS
        ));
    }
    Ok(loss)
}

/// The first file that is named twice, by whatever path.
pub(super) fn named_twice(files: &[PathBuf]) -> Option<&Path> {
    let whole = |file: &PathBuf| file.canonicalize().unwrap_or_else(|_| file.clone());
    let mut seen = BTreeSet::new();
    let twice = files.iter().find(|file| !seen.insert(whole(file)));
    twice.map(PathBuf::as_path)
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    match &arguments.command {
        PolicyCommand::Show(arguments) => show::run(arguments, printer),
        PolicyCommand::Simulate(arguments) => simulate::run(arguments, printer),
        PolicyCommand::Fit(arguments) => fit::run(arguments, printer),
        PolicyCommand::Evaluate(arguments) => evaluate::run(arguments, printer),
    }
}
