//! `cargo xtask bench proxy`: from the command line to a folder under `results/`.

use super::arguments::{Common, chosen_or_all, one_of};
use super::contender::Contender;
use super::experiment::{Experiment, cells};
use super::process::Stop;
use super::run::Run;
use super::workload::{Transport, Workload};
use super::{build, cores, idle, install, table};
use anyhow::{Result, ensure};

const WORKLOADS: [Workload; 5] = {
    use Workload::{P1, P2, P3, ProxyIdle, ProxyLatency};
    [P1, P2, P3, ProxyLatency, ProxyIdle]
};

const PEERS: [Contender; 3] = {
    use Contender::{Caddy, Haproxy, Nginx};
    [Nginx, Haproxy, Caddy]
};

const LEGEND: &str = "\
The origin is nginx over HTTP/1.1, whose connections all of them keep, on the client's core. What it
costs is nobody's: CPU is the proxy's alone.
latency: the client is `altway load` of all of them. A request is timed from when it was due, so that one
which waits is slow. direct: the origin asked by the same client, over HTTP/1.1 in clear text; what a
proxy adds is over that in the same round, TLS and HTTP/2 or HTTP/3 included.
idle-clients: added MB is what 10,000 add to the resident memory of a proxy that has begun, by as many as
the limit of open files allows. Each has an address of its own in 127.0.0.0/8. Connections are bounded
above their number, of altway by --max-connections 20000: by default a worker has 10,000, closes those
that have idled for longest from 9,000 on, and gives a client an eighth of them.
";

/// Measure altway as a proxy against nginx and HAProxy from Debian, and Caddy from the Go module proxy.
///
/// Builds the release binary, installs what is missing (as root), and measures each workload over
/// HTTP/2 with TLS (AES-128-GCM) and, of altway and Caddy, over HTTP/3, before one origin. The proxy has
/// a core for itself; the origin and the load client share the next. Prints a table and writes a folder
/// with every round under results/ (a quick run: under runs/). A missed bar is printed and fails nothing.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Workloads
  P1    100 connections × 10 streams, 100,000 requests for 600 B
  P2    8 connections, 80 requests for 10 MB
  P3    100 connections × 1 stream, 60,000 requests for 600 B
  latency       1,000 requests/s over 10 connections for 10 s, in an open loop, beside asking
                the origin directly: what each proxy adds to half of them and to 99 %
  idle-clients  10,000 connections over HTTP/2, each from an address of its own, one request each,
                then silence: the memory that they add

Examples:
  cargo xtask bench proxy                            # the whole of it, about 15 minutes
  cargo xtask bench proxy --quick --only P1          # does it work?
  cargo xtask bench proxy --only latency,idle-clients --h2
  cargo xtask bench proxy --peers nginx --rounds 9 --only P1 --h2")]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Only these workloads.
    #[arg(
        long,
        value_name = "WORKLOADS",
        value_delimiter = ',',
        ignore_case = true,
        value_parser = one_of(&WORKLOADS)
    )]
    only: Vec<Workload>,
    /// Only over HTTP/2 and TLS.
    #[arg(long, conflicts_with = "h3")]
    h2: bool,
    /// Only over HTTP/3.
    #[arg(long)]
    h3: bool,
    /// Only against these.
    #[arg(long, value_name = "PEERS", value_delimiter = ',', value_parser = one_of(&PEERS))]
    peers: Vec<Contender>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let common = &arguments.common;
    let programs = build::programs(common.no_build)?;
    // From here on there is something to put back.
    let stop = Stop::on_signals()?;
    let wanted = chosen_or_all(&arguments.peers, &PEERS);
    if !common.no_build {
        build::go_peers(&wanted);
    }
    let mut peers = install::peers(&wanted, &programs)?;
    // It is the origin as well.
    let origin = install::peers(&[Contender::Nginx], &programs)?;
    ensure!(!origin.is_empty(), "the origin is nginx, which is missing");
    peers.extend(common.before(&programs)?);
    stop.check()?;
    let workloads = chosen_or_all(&arguments.only, &WORKLOADS);
    let run = Run {
        name: "proxy-bench",
        experiment: Experiment {
            cells: cells(&[1], &workloads, arguments.transports()),
            contenders: [vec![Contender::Direct, Contender::Altway], peers].concat(),
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

impl Arguments {
    fn transports(&self) -> &'static [Transport] {
        match (self.h2, self.h3) {
            (true, _) => &[Transport::Tls],
            (_, true) => &[Transport::H3],
            _ => &[Transport::Tls, Transport::H3],
        }
    }
}
