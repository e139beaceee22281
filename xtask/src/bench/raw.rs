//! `cargo xtask bench raw`: one stream of bytes over emulated links, from the command line to a folder
//! under `results/`.
//!
//! Compared is the use that congestion control and loss recovery make of a link: everything waits for the
//! link, and hardly for a processor. So all transports of a round run at once, each over a link of its
//! own with the round's seed, and what disturbs the machine disturbs them alike. What transports cost
//! is left to `altway raw shares`.

mod contestant;
mod link;
mod record;
mod summary;

use super::arguments::{chosen_or_all, one_of};
use super::folder::Folder;
use super::origin::Origin;
use super::process::Stop;
use super::site::Site;
use super::{build, cores};
use crate::go;
use crate::shell;
use anyhow::{Context, Result, ensure};
use contestant::Contestant;
use link::Link;
use record::Record;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::thread;

const SCHEMA_VERSION: u32 = 1;

const ROUNDS: u32 = 15;
const QUICK_ROUNDS: u32 = 2;

/// A quick run moves a fifth of the bytes.
const QUICK_DIVISOR: u64 = 5;

/// Measure how QUIC with Cubic uses a link with loss or a queue, beside the kernel's TCP with Cubic and
/// quic-go.
///
/// Builds the release binary and the peer. A round is a transfer from server to client over each
/// transport, all at once, each in namespaces and over an emulated link of its own, for which it takes
/// root or user namespaces. Prints a table and writes a folder with every transfer under results/ (a
/// quick run: under runs/).
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Links, of which each has the same both ways
  loss-5   5 % of packets lost, 100 ms of delay: 1 MB
  loss-1   1 % of packets lost, 50 ms of delay: 2 MB
  clean    20 Mbit/s, 50 ms of delay, a queue of 100 ms: 10 MB
  shallow  5 Mbit/s, 25 ms of delay, a queue of 64 KiB: 3 MB

Transports
  tcp      of the kernel, Cubic (altway raw)
  tls      TLS 1.3 over it (altway raw)
  quic     Cubic (altway raw)
  quic-go  the congestion control that quic-go has: Reno that cuts its window to 0.7

The same seed: in each direction the link draws once for each packet that enters, before anything else,
so with one seed it loses the same ordinals of them over every transport, the 3rd and the 40th for
instance. What those packets carry differs with the transport. So a pair of one seed shares its luck
only in part, and one seed alone says nothing: ratios are of many seeds.

Examples:
  cargo xtask bench raw                          # the whole of it, about 20 minutes
  cargo xtask bench raw --quick                  # does it work?
  cargo xtask bench raw --only loss-5 --rounds 31")]
pub(crate) struct Arguments {
    /// Rounds, each with a seed of its own [default: 15; quick: 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// A fifth of the bytes: to see that it works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Measure the release binary as it is (`setup.json` tells its commit).
    #[arg(long)]
    no_build: bool,
    /// The links' seed in the first round; it grows by one a round.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the run's folder in here [default: results, quick: runs].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only these links.
    #[arg(long, value_name = "LINKS", value_delimiter = ',', value_parser = one_of(&Link::ALL))]
    only: Vec<Link>,
    /// Only these transports.
    #[arg(long, value_name = "TRANSPORTS", value_delimiter = ',', value_parser = one_of(&Contestant::ALL))]
    over: Vec<Contestant>,
}

/// The content of `setup.json`.
#[derive(Debug, Serialize)]
struct Setup {
    schema_version: u32,
    #[serde(flatten)]
    origin: Origin,
    rounds: u32,
    first_seed: u64,
    links: Vec<link::Description>,
    quic_go_version: Option<String>,
}

/// The links, transports and rounds that are measured.
#[derive(Debug)]
struct Experiment {
    links: Vec<Link>,
    contestants: Vec<Contestant>,
    rounds: u32,
    first_seed: u64,
    divisor: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let programs = build::programs(arguments.no_build)?;
    let experiment = experiment(arguments)?;
    let stop = Stop::on_signals()?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let altway = programs.join("altway");
    let site = Site::make(temporary.path(), &altway)?;
    let setup = Setup::of(&experiment)?;
    let name = setup
        .origin
        .folder_name("raw-bench", cores::available()?.len());
    let parent = if arguments.quick { "runs" } else { "results" };
    let parent = arguments.out.clone().unwrap_or(parent.into());
    let mut folder = Folder::create(&parent, &name, &setup)?;

    let mut records = Vec::new();
    let result = experiment.run(&altway, &site, &stop, |record| {
        folder.keep(&record)?;
        records.push(record);
        Ok(())
    });
    // What was measured before a failure is worth as much as without it.
    let lines = summary::summarize(&records);
    let text = summary::text(&lines);
    folder.finish(&summary::csv(&lines)?, &text)?;
    shell::data(&text)?;
    shell::say(&format!("written to {}", folder.path().display()));
    result
}

fn experiment(arguments: &Arguments) -> Result<Experiment> {
    let mut contestants = chosen_or_all(&arguments.over, &Contestant::ALL);
    if contestants.contains(&Contestant::QuicGo)
        && let Err(error) = prepare_quic_go(arguments.no_build)
    {
        shell::say(&format!("SKIPPED quic-go: {error:#}"));
        contestants.retain(|contestant| *contestant != Contestant::QuicGo);
    }
    ensure!(!contestants.is_empty(), "nothing is left to measure");
    let (rounds, divisor) = match arguments.quick {
        true => (QUICK_ROUNDS, QUICK_DIVISOR),
        false => (ROUNDS, 1),
    };
    Ok(Experiment {
        links: chosen_or_all(&arguments.only, &Link::ALL),
        contestants,
        rounds: arguments.rounds.unwrap_or(rounds),
        first_seed: arguments.seed,
        divisor,
    })
}

fn prepare_quic_go(as_it_is: bool) -> Result<()> {
    if !as_it_is {
        go::build_quic_go()?;
    }
    go::quic_go_raw().context("it has not been built").map(drop)
}

impl Setup {
    fn of(experiment: &Experiment) -> Result<Self> {
        let describe = |link: &Link| link.describe(experiment.divisor);
        let is_there = experiment.contestants.contains(&Contestant::QuicGo);
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            origin: Origin::of_this_run()?,
            rounds: experiment.rounds,
            first_seed: experiment.first_seed,
            links: experiment.links.iter().map(describe).collect(),
            quic_go_version: is_there.then(contestant::quic_go_version),
        })
    }
}

impl Experiment {
    /// Hands out each record as it comes.
    ///
    /// # Errors
    /// A record can't be kept, or somebody asked to stop.
    fn run(
        &self,
        altway: &Path,
        site: &Site,
        stop: &Stop,
        mut keep: impl FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        for link in &self.links {
            for round in 0..self.rounds {
                shell::say(&format!("{link}: round {} of {}", round + 1, self.rounds));
                let transfer = link.transfer(self.first_seed + u64::from(round), self.divisor);
                let measure = |contestant: Contestant| {
                    let outcome = contestant.measure(&transfer, altway, site, stop);
                    Record::new(*link, round + 1, &transfer, contestant, outcome)
                };
                let records = thread::scope(|scope| {
                    let spawn = |contestant| scope.spawn(move || measure(contestant));
                    let threads: Vec<_> = self.contestants.iter().copied().map(spawn).collect();
                    let join = |thread: thread::ScopedJoinHandle<'_, Record>| {
                        thread.join().expect("measuring doesn't panic")
                    };
                    threads.into_iter().map(join).collect::<Vec<_>>()
                });
                stop.check()?;
                records.into_iter().try_for_each(&mut keep)?;
            }
        }
        Ok(())
    }
}
