//! `cargo xtask bench http3`: from the command line to a folder under `results/`.

use super::arguments::{Common, Sites, chosen_or_all, one_of};
use super::contender::Contender;
use super::experiment::{Experiment, cells};
use super::network::Network;
use super::process::Stop;
use super::run::Run;
use super::workload::{Transport, Workload};
use super::{build, cores, idle, install, table};
use crate::shell;
use anyhow::{Result, ensure};

const WORKLOADS: [Workload; 6] = {
    use Workload::{Hq1, Hq1b, Hq2, Hq3, Idle, Ramp};
    [Hq1, Hq1b, Hq2, Hq3, Ramp, Idle]
};

const PEERS: [Contender; 3] = {
    use Contender::{Caddy, Nghttpd, QuicGo};
    [QuicGo, Caddy, Nghttpd]
};

const LEGEND: &str = "\
The client of HTTP/3 is altway's own (`altway load`), of all servers alike; that of HTTP/2 is h2load.
altway-h2: altway asked over HTTP/2 and TLS, as nghttpd is. KB/conn.: what an idle connection added to
the memory. Lost: datagrams that found the server's socket full. altway-1-site, altway-1000-sites: altway
by a file of so many sites; the ratio is what they cost it.
";

/// Measure altway's HTTP/3 against quic-go and Caddy from the Go module proxy, and in bulk against
/// HTTP/2 over TLS of its own and nghttpd's.
///
/// Builds the release binary and the peers, and measures with AES-128-GCM and without logs. With a
/// core to spare, each server and the load client (`altway load`, the same for all) have one for
/// themselves. HQ2 runs in two network namespaces, for which it takes root. Prints a table and writes
/// a folder with every round under results/ (a quick run: under runs/). A missed bar is printed and
/// fails nothing.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Workloads
  HQ1   100 connections × 10 streams, 200,000 requests for a file of 600 B; a connection
        every 2 ms, for quic-go and Caddy refuse some of those that come at once
  HQ1b  100 connections, one request at a time, 100,000 of them for a file of 600 B
  HQ2   8 connections, 80 requests for a file of 10 MB, over a pair of virtual Ethernet
        devices with an MTU of 1500; altway and nghttpd over HTTP/2 and TLS beside it
  HQ3   1000 connections, 25 at a time, one request each
  ramp  2000 connections in 4 seconds, one request each: all served, no datagram lost
  idle  10,000 connections, one request each, then silence: memory of each

Examples:
  cargo xtask bench http3                          # the whole of it, about 10 minutes
  cargo xtask bench http3 --quick                  # does it work?
  cargo xtask bench http3 --only HQ2 --peers quic-go --rounds 9
  cargo xtask bench http3 --only HQ1 --peers nghttpd --sites 1,1000")]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
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
    /// Only against these (and altway's own HTTP/2).
    #[arg(long, value_name = "PEERS", value_delimiter = ',', value_parser = one_of(&PEERS))]
    peers: Vec<Contender>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let common = &arguments.common;
    let programs = build::programs(common.no_build)?;
    let workloads = possible(chosen_or_all(&arguments.only, &WORKLOADS))?;
    // From here on there is something to put back.
    let stop = Stop::on_signals()?;
    let wanted = chosen_or_all(&arguments.peers, &PEERS);
    if !common.no_build {
        build::go_peers(&wanted);
    }
    let mut peers = install::peers(&wanted, &programs)?;
    peers.extend(arguments.common.before(&programs)?);
    stop.check()?;
    let own = vec![Contender::Altway, Contender::AltwayH2];
    let run = Run {
        name: "http3-bench",
        experiment: Experiment {
            cells: cells(&[1], &workloads, &[Transport::H3]),
            contenders: [own, arguments.sites.contenders(), peers].concat(),
            rounds: common.rounds(),
            divisor: common.divisor(),
            seed: common.seed(),
            file_limit: idle::raise_file_limit(),
            cores: cores::available()?,
            looks_at_shares: false,
        },
        parent: common.parent(),
        table: |lines| table::text(lines, LEGEND),
    };
    run.carry_out(&programs, &stop)
}

/// Returns the `workloads` whose network can be set up here; prints which can't be.
fn possible(workloads: Vec<Workload>) -> Result<Vec<Workload>> {
    let mut possible = Vec::new();
    for workload in workloads {
        match Network::of(workload) {
            Ok(_) => possible.push(workload),
            Err(error) => shell::say(&format!("SKIPPED {workload}: {error:#}")),
        }
    }
    ensure!(!possible.is_empty(), "nothing is left to measure");
    Ok(possible)
}
