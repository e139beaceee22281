//! `cargo xtask bench spread`: the two ways of spreading connections over workers, against each other.

use super::arguments::{Common, Transports};
use super::contender::Contender;
use super::experiment::{Experiment, cells};
use super::process::Stop;
use super::run::Run;
use super::workload::Workload;
use super::{build, cores, idle, install, spread_table};
use anyhow::Result;
use std::num::NonZeroUsize;

const WORKLOADS: [Workload; 5] = [
    Workload::W1,
    Workload::W2,
    Workload::W4,
    Workload::Storm,
    Workload::Trickle,
];

/// Measure a listener for each worker (altway's default) against one acceptor that hands
/// connections to the workers in turn (altway-rr).
///
/// After each round as many silent connections are opened, and counted by worker. Otherwise as
/// `cargo xtask bench http2`: the server's CPU time, interleaved rounds, ratios within a round, a
/// folder under results/ (a quick run: under runs/).
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Workloads
  W1       100 connections × 10 streams, 300,000 requests for a file of 600 B
  W2       1000 connections × 100 streams, 400,000 requests for a file of 600 B
  W4       100 connections × 1 stream, 100,000 requests for a file of 600 B
  storm    4000 connections at once, one request each
  trickle  2000 connections, one each millisecond, one request each

Examples:
  cargo xtask bench spread              # the whole of it, about 5 minutes
  cargo xtask bench spread --quick      # does it work?")]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    transports: Transports,
    /// Workers of the server.
    #[arg(long, value_name = "N", default_value = "2")]
    workers: NonZeroUsize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let common = &arguments.common;
    let programs = build::programs(common.no_build)?;
    // From here on there is something to put back.
    let stop = Stop::on_signals()?;
    install::peers(&[], &programs)?;
    stop.check()?;
    let run = Run {
        name: "spread-bench",
        experiment: Experiment {
            cells: cells(
                &[arguments.workers.get()],
                &WORKLOADS,
                arguments.transports.chosen(),
            ),
            contenders: vec![Contender::Altway, Contender::AltwayRoundRobin],
            rounds: common.rounds(),
            divisor: common.divisor(),
            seed: common.seed(),
            file_limit: idle::raise_file_limit(),
            cores: cores::available()?,
            looks_at_shares: true,
        },
        parent: common.parent(),
        table: spread_table::text,
    };
    run.carry_out(&programs, &stop)
}
