//! The options of `altway lab run` that show the inside of chosen transfers.

use crate::hint::usage_error;
use crate::printer::Printer;
use altway_lab::{Context, Error, TraceKinds, Transfer, trace, traced};
use altway_record::{Client, Manifest, Plan, Shard};
use anyhow::Result;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Transfers of the first block, made once more after the run and no part of its rows, with what shows
/// their inside in traces/cell-NUMBER-PROTOCOL/ of the run's folder.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Traces (of transfers made once more when the run has ended)")]
pub(super) struct Traced {
    /// Keep every packet at both ends of the link: link.pcapng, for Wireshark.
    #[arg(long)]
    pcap: bool,
    /// Keep a qlog of each QUIC connection, of both ends where they are altway, for qvis.
    #[arg(long)]
    qlog: bool,
    /// Keep the client's TLS secrets: keys.log, with which Wireshark reads the packets.
    #[arg(long)]
    keylog: bool,
    /// Keep Chromium's log of its network: netlog.json, for its netlog viewer.
    #[arg(long)]
    netlog: bool,
    /// Trace the cells of these numbers, as `altway lab plan show` has them [default: all; 64 transfers at most].
    #[arg(long, value_name = "CELLS", value_delimiter = ',')]
    traced: Vec<u32>,
}

impl Traced {
    /// The files that are kept.
    pub(super) fn kinds(&self) -> TraceKinds {
        TraceKinds {
            pcap: self.pcap,
            qlog: self.qlog,
            key_log: self.keylog,
            netlog: self.netlog,
        }
    }

    /// The transfers that are traced; none where nothing is kept of them.
    ///
    /// # Errors
    /// The options don't go together, or with the plan.
    pub(super) fn transfers(&self, plan: &Plan, shard: Shard) -> Result<Vec<Transfer>> {
        if !self.kinds().any() {
            return match self.traced.is_empty() {
                true => Ok(Vec::new()),
                false => Err(usage_error(
                    "--traced says which transfers, but not what to keep of them",
                    "add --pcap, --qlog, --keylog or --netlog",
                )),
            };
        }
        if self.netlog && !plan.clients.contains(&Client::Chromium) {
            return Err(usage_error(
                "--netlog is Chromium's, and the plan has it not among its clients",
                "leave --netlog out, or take a plan with `client = \"chromium\"`",
            ));
        }
        traced(plan, shard, &self.traced).map_err(|error| match error {
            Error::NoCell { .. } => usage_error(
                error.to_string(),
                "`altway lab plan show PLAN` numbers the cells",
            ),
            Error::ManyTraces { .. } => {
                usage_error(error.to_string(), "name some cells: --traced 0,5")
            }
            other => other.into(),
        })
    }

    /// Makes them.
    ///
    /// # Errors
    /// A network or a server can't be set up, or a file can't be written.
    pub(super) fn make(
        &self,
        transfers: &[Transfer],
        (context, stop): (&Context, &AtomicBool),
        (run, manifest): (&Path, &Manifest),
        printer: &Printer,
    ) -> Result<()> {
        let mut observe = |folder: &Path| printer.say(&format!("trace: {}", folder.display()));
        trace(
            context,
            run,
            manifest,
            (transfers, self.kinds()),
            stop,
            &mut observe,
        )?;
        Ok(())
    }
}
