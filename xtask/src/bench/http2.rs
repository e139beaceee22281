//! `cargo xtask bench http2`: from the command line to a folder under `results/`.

use super::campaign::{Campaign, cells};
use super::contender::Contender;
use super::folder::{Folder, Setup};
use super::process::Stop;
use super::server::Place;
use super::site::Site;
use super::workload::{Transport, Workload};
use super::{build, cores, idle, install, summary, table};
use crate::shell;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// A quick run has a tenth of the requests.
const QUICK_DIVISOR: u64 = 10;

const QUICK_ROUNDS: u32 = 2;
const ROUNDS: u32 = 5;

/// Measure altway's HTTP/2 against nghttpd, h2o and nginx from Debian, and hyper as a library.
///
/// Builds the release binary, installs what is missing (as root), and measures each workload in
/// clear text and over TLS (AES-128-GCM). With a core to spare, each worker and the load client have
/// one for themselves. Prints a table and writes a folder with every round under results/ (a quick
/// run: under runs/). A missed bar is printed and fails nothing.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Workloads
  W1    100 connections × 10 streams, 300,000 requests for a file of 600 B
  W2    1000 connections × 100 streams, 400,000 requests for a file of 600 B
  W3    8 connections, 160 requests for a file of 10 MB
  W4    100 connections × 1 stream, 100,000 requests for a file of 600 B
  W5    as W1, over 200 files
  idle  10,000 connections over TLS, one request each, then silence: memory

Examples:
  cargo xtask bench http2                            # the whole of it, about 15 minutes
  cargo xtask bench http2 --quick --only W1,W3 --tls # does it work?
  cargo xtask bench http2 --workers 1,2 --rounds 9 --peers h2o")]
pub(crate) struct Arguments {
    /// Rounds, in each of which every server is measured once [default: 5; quick: 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Only these workloads.
    #[arg(
        long,
        value_name = "WORKLOADS",
        value_delimiter = ',',
        ignore_case = true
    )]
    only: Vec<Workload>,
    /// Only over TLS.
    #[arg(long, conflicts_with = "h2c")]
    tls: bool,
    /// Only in clear text (prior knowledge).
    #[arg(long)]
    h2c: bool,
    /// Workers of each server; the bars hold for 1.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1")]
    #[arg(value_parser = ["1", "2"])]
    workers: Vec<String>,
    /// Only against these.
    #[arg(long, value_name = "PEERS", value_delimiter = ',')]
    peers: Vec<Contender>,
    /// A tenth of the requests: to see that it works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Measure the release binaries as they are (`setup.json` tells their commit).
    #[arg(long)]
    no_build: bool,
    /// Shuffles the order within the rounds [default: from the clock; printed].
    #[arg(long)]
    seed: Option<u64>,
    /// Write the run's folder in here [default: results, quick: runs].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let programs = build::programs(arguments.no_build)?;
    // From here on there is something to put back.
    let stop = Stop::on_signals()?;
    let peers = install::peers(&arguments.peers(), &programs)?;
    stop.check()?;
    let campaign = arguments.campaign(peers)?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let altway = Contender::Altway.program(&programs);
    let site = Site::make(temporary.path(), &altway.context("altway was built")?)?;
    let setup = Setup::of(&campaign, &programs)?;
    let mut folder = Folder::create(&arguments.parent(), "http2-bench", &setup)?;
    shell::say(&format!("seed {}", campaign.seed));

    let mut records = Vec::new();
    let place = Place {
        folder: temporary.path(),
        site: &site,
        programs: &programs,
    };
    let result = campaign.run(place, &stop, |record| {
        folder.keep(&record)?;
        records.push(record);
        Ok(())
    });
    // What was measured before a failure is worth as much as without it.
    let lines = summary::summarize(&records);
    folder.finish(&lines)?;
    shell::data(&table::text(&lines))?;
    shell::say(&format!("written to {}", folder.path().display()));
    result?;
    if stop.is_asked_for() {
        bail!("stopped: the rounds above are all there is");
    }
    Ok(())
}

impl Arguments {
    fn peers(&self) -> Vec<Contender> {
        if self.peers.is_empty() {
            return Contender::PEERS.to_vec();
        }
        self.peers.clone()
    }

    fn campaign(&self, peers: Vec<Contender>) -> Result<Campaign> {
        let workers = self.workers.iter().map(|number| number.parse());
        let workers: Vec<usize> = workers.collect::<Result<_, _>>()?;
        let workloads = match self.only.as_slice() {
            [] => Workload::value_variants(),
            only => only,
        };
        let mut contenders = vec![Contender::Altway, Contender::AltwayLog];
        contenders.extend(peers);
        let rounds = if self.quick { QUICK_ROUNDS } else { ROUNDS };
        Ok(Campaign {
            cells: cells(&workers, workloads, self.transports()),
            contenders,
            rounds: self.rounds.unwrap_or(rounds),
            divisor: if self.quick { QUICK_DIVISOR } else { 1 },
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..)),
            file_limit: idle::raise_file_limit(),
            cores: cores::available()?,
        })
    }

    fn transports(&self) -> &'static [Transport] {
        match (self.h2c, self.tls) {
            (true, _) => &[Transport::H2c],
            (_, true) => &[Transport::Tls],
            _ => &[Transport::H2c, Transport::Tls],
        }
    }

    fn parent(&self) -> PathBuf {
        let default = if self.quick { "runs" } else { "results" };
        let default = Path::new(default).to_owned();
        self.out.clone().unwrap_or(default)
    }
}
