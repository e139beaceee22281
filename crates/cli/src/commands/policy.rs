//! `altway policy`: what the server chooses by, shown, tried without a server, and judged by its log.

mod evaluate;
mod fit;
mod show;
mod simulate;
mod surface;

pub(crate) use surface::read as read_surface;

use crate::Answer;
use crate::printer::Printer;
use altway_select::Congestion;
use anyhow::Result;
use clap::Subcommand;

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

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    match &arguments.command {
        PolicyCommand::Show(arguments) => show::run(arguments, printer),
        PolicyCommand::Simulate(arguments) => simulate::run(arguments, printer),
        PolicyCommand::Fit(arguments) => fit::run(arguments, printer),
        PolicyCommand::Evaluate(arguments) => evaluate::run(arguments, printer),
    }
}
