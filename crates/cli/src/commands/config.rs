//! `altway config`: a configuration is checked, shown, and described.

pub(crate) mod check;
mod show;

use crate::Answer;
use crate::printer::Printer;
use anyhow::Result;
use clap::Subcommand;
use std::path::PathBuf;

/// The schema as it is committed; the tests of `config` hold that it is the crate's.
const SCHEMA: &str = include_str!("../../../../docs/config.schema.json");

/// Check, show and describe the configuration of a server (docs/configuration.md).
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway config check /etc/altway/altway.toml
  altway config show -- site --port 443 --cert chain.pem --key key.pem > altway.toml
  altway config show --all altway.toml
  altway config schema > altway.schema.json")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Check FILE and what it includes, and print everything that is wrong, each with file, line and column.
    ///
    /// After that, folders, certificates and keys are opened, as by a server that starts, and places that it would write
    /// to are tried, without making any. The exit code is 2 if anything is wrong.
    Check {
        /// The configuration.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Open only the configuration: for a machine without its keys and folders.
        #[arg(long)]
        syntax: bool,
    },
    Show(show::Arguments),
    /// Print the JSON schema of configurations, for editors.
    Schema,
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    match &arguments.command {
        ConfigCommand::Check { file, syntax } => check::run(file, *syntax, printer)?,
        ConfigCommand::Show(arguments) => show::run(arguments, printer)?,
        ConfigCommand::Schema => printer.data(SCHEMA)?,
    }
    Ok(Answer::Done)
}
