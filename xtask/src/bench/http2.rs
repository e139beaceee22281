//! `cargo xtask bench http2`: from the command line to a folder under `results/`.

use super::arguments::{Common, Sites, Transports, chosen_or_all, one_of};
use super::contender::Contender;
use super::experiment::{Experiment, cells};
use super::process::Stop;
use super::run::Run;
use super::workload::Workload;
use super::{build, cores, idle, install, table};
use anyhow::Result;

const WORKLOADS: [Workload; 6] = {
    use Workload::{Idle, W1, W2, W3, W4, W5};
    [W1, W2, W3, W4, W5, Idle]
};

const PEERS: [Contender; 4] = {
    use Contender::{H2o, Hyper, Nghttpd, Nginx};
    [Hyper, Nghttpd, H2o, Nginx]
};

const LEGEND: &str = "\
altway-log: altway with its access log in a file; its ratio is what the log costs altway.
altway-1-site, altway-1000-sites: altway by a file of so many sites; the ratio is what they cost it.
";

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
  cargo xtask bench http2 --workers 1,2 --rounds 9 --peers h2o
  cargo xtask bench http2 --sites 1,1000 --peers h2o --only W1,W2,W3,W4,W5")]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    transports: Transports,
    #[command(flatten)]
    sites: Sites,
    /// Only these workloads.
    #[arg(
        long,
        value_name = "WORKLOADS",
        value_delimiter = ',',
        ignore_case = true,
        value_parser = one_of(&WORKLOADS)
    )]
    only: Vec<Workload>,
    /// Workers of each server; the bars hold for 1.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1")]
    #[arg(value_parser = ["1", "2"])]
    workers: Vec<String>,
    /// Only against these.
    #[arg(long, value_name = "PEERS", value_delimiter = ',', value_parser = one_of(&PEERS))]
    peers: Vec<Contender>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let programs = build::programs(arguments.common.no_build)?;
    // From here on there is something to put back.
    let stop = Stop::on_signals()?;
    let mut peers = install::peers(&chosen_or_all(&arguments.peers, &PEERS), &programs)?;
    peers.extend(arguments.common.before(&programs)?);
    stop.check()?;
    let run = Run {
        name: "http2-bench",
        experiment: arguments.experiment(peers)?,
        parent: arguments.common.parent(),
        table: |lines| table::text(lines, LEGEND),
    };
    run.carry_out(&programs, &stop)
}

impl Arguments {
    fn experiment(&self, peers: Vec<Contender>) -> Result<Experiment> {
        let workers = self.workers.iter().map(|number| number.parse());
        let workers: Vec<usize> = workers.collect::<Result<_, _>>()?;
        let workloads = chosen_or_all(&self.only, &WORKLOADS);
        let mut contenders = vec![Contender::Altway, Contender::AltwayLog];
        contenders.extend(self.sites.contenders());
        contenders.extend(peers);
        let common = &self.common;
        Ok(Experiment {
            cells: cells(&workers, &workloads, self.transports.chosen()),
            contenders,
            rounds: common.rounds(),
            divisor: common.divisor(),
            seed: common.seed(),
            file_limit: idle::raise_file_limit(),
            cores: cores::available()?,
            looks_at_shares: false,
        })
    }
}
