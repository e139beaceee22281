//! `altway paths`: what a server has learnt of its clients, as a whole.

mod export;

use super::policy::surface_of;
use crate::Answer;
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_select::{ClassSummary, Congestion, ModelKind};
use altway_serve::KeptPaths;
use anyhow::{Context, Result};
use clap::Subcommand;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Show what a server has learnt of its clients' paths, or forget it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway paths show /var/lib/altway
  altway paths export /var/lib/altway --format json > clients.jsonl
  altway paths reset /var/lib/altway

The folder is the one of `altway serve --state-dir`. It has addresses as keyed hashes only.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: PathsCommand,
}

#[derive(Debug, Subcommand)]
enum PathsCommand {
    /// Show the number of clients of each class, and the highest rate at which the class receives over QUIC.
    Show {
        /// The server's state folder.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write all that is known of each client as CSV or JSON lines.
    ///
    /// Each client, an address and a class, has a line: rates, round trips, losses, latest visit. A keyed hash stands
    /// for the address, the same as in the selection log.
    Export {
        /// The server's state folder.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// csv, or json with an object on each line.
        #[arg(
            long,
            value_name = "FORMAT",
            default_value = "csv",
            hide_possible_values = true
        )]
        format: export::Format,
    },
    /// Forget all clients, while no server runs with the folder; the key of the hashes stays.
    Reset {
        /// The server's state folder.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// A hint on which folder it is.
const STATE_FOLDER: &str =
    "name the folder that `altway serve --state-dir DIR` writes to, once a minute and at its end";

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    match &arguments.command {
        PathsCommand::Show { folder, json } => show(folder, *json, printer)?,
        PathsCommand::Export { folder, format } => {
            export::run(&read(folder, &ModelKind::default(), [None; 2])?, *format)?;
        }
        PathsCommand::Reset { folder } => {
            let path = folder.display();
            if folder.is_file() || folder.try_exists().is_ok_and(|exists| !exists) {
                return Err(usage_error(
                    format!("there is no folder `{path}`: nothing was forgotten"),
                    STATE_FOLDER,
                ));
            }
            let forgotten = KeptPaths::forget(folder);
            if forgotten
                .as_ref()
                .is_err_and(|it| it.kind() == io::ErrorKind::WouldBlock)
            {
                return Err(usage_error(
                    format!(
                        "a server runs with `{path}`, and would write what it knows again: nothing was forgotten"
                    ),
                    "stop the server first",
                ));
            }
            if forgotten.with_context(|| format!("cannot forget what `{path}` holds"))? {
                printer.say("Forgotten: the next server with this folder begins anew.");
            } else {
                printer.say("There was nothing to forget.");
            }
        }
    }
    Ok(Answer::Done)
}

/// The state folder's latest snapshot.
pub(super) fn read(
    folder: &Path,
    policy: &ModelKind,
    congestion: [Option<Congestion>; 2],
) -> Result<KeptPaths> {
    let surface = surface_of(policy)?;
    KeptPaths::read(folder, policy, surface, congestion).map_err(|error| {
        let what = format!(
            "cannot read the state folder `{}`: {error}",
            folder.display()
        );
        usage_error(what, STATE_FOLDER)
    })
}

/// The age of the snapshot.
pub(super) fn age(kept: &KeptPaths) -> Duration {
    let age = SystemTime::now().duration_since(kept.written());
    Duration::from_secs(age.unwrap_or_default().as_secs())
}

#[derive(Serialize)]
struct Row {
    class: String,
    clients: usize,
    rated_tcp: usize,
    rated_quic: usize,
    udp_blocked: usize,
    quic_limit_bps: u64,
}

impl Row {
    fn of(summary: &ClassSummary) -> Self {
        Self {
            class: summary.class.to_string(),
            clients: summary.clients,
            rated_tcp: summary.rated[0],
            rated_quic: summary.rated[1],
            udp_blocked: summary.udp_blocked,
            quic_limit_bps: summary.limit as u64,
        }
    }
}

fn show(folder: &Path, json: bool, printer: &Printer) -> Result<()> {
    let kept = read(folder, &ModelKind::default(), [None; 2])?;
    let rows: Vec<_> = kept.selector().summary().iter().map(Row::of).collect();
    if json {
        #[derive(Serialize)]
        struct Shown<'a> {
            age_s: u64,
            clients: usize,
            classes: &'a [Row],
        }
        let shown = Shown {
            age_s: age(&kept).as_secs(),
            clients: kept.selector().clients(),
            classes: &rows,
        };
        return Ok(printer.json(&shown)?);
    }
    let mut text = format!(
        "{} addresses and classes, as of {} s ago\n",
        kept.selector().clients(),
        age(&kept).as_secs()
    );
    if !rows.is_empty() {
        text.push_str("\nclass              clients  rate known (TCP, QUIC)  UDP blocked  over QUIC at most\n");
    }
    for row in &rows {
        let limit = row.quic_limit_bps / 1_000_000;
        text.push_str(&format!(
            "{:<18} {:>7}  {:>12}, {:>8}  {:>11}  {:>9} Mbit/s\n",
            row.class, row.clients, row.rated_tcp, row.rated_quic, row.udp_blocked, limit
        ));
    }
    Ok(printer.data(&text)?)
}
