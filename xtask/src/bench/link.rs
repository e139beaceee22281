//! `cargo xtask bench link`: how exact an emulated link is, and how fast, beside its peer rattan; from
//! the command line to a folder under `results/`.
//!
//! The link's own report is not believed here: programs at both ends stamp and count what passes.
//! Left to `altway emulate` and its tests: that a link does what it is asked to at all.

mod bars;
mod measure;
mod plan;
mod rattan;
mod record;
mod rig;
mod summary;
mod topic;

use super::arguments::Common;
use super::folder::Folder;
use super::origin::Origin;
use super::process::Stop;
use super::site::Site;
use super::{build, cores};
use crate::shell;
use anyhow::{Context, Result};
use plan::Scale;
use rattan::Rattan;
use record::{Losses, Record};
use rig::{Places, Rig};
use serde::Serialize;
use topic::{By, Cell, Figure, Group};

const SCHEMA_VERSION: u32 = 1;

/// Measure how exactly an emulated link keeps its delay, rate and loss, how fast it is, and how fast it
/// is set up, beside rattan.
///
/// Builds the release binary and the programs at the ends, and installs rattan with cargo unless it is
/// there. As root, on a quiet machine with two cores or more: the link has one, both ends have another.
/// Prints a table with the bars and writes a folder with every figure under results/ (a quick run: under
/// runs/).
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cargo xtask bench link                       # the whole of it, about 13 minutes
  cargo xtask bench link --quick               # does it work?
  cargo xtask bench link --only delay,unlimited --rounds 9")]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// The seed of the links, by which they lose what they lose.
    #[arg(long, value_name = "N", default_value_t = 1)]
    link_seed: u64,
    /// Measure only these topics.
    #[arg(long, value_name = "TOPICS", value_delimiter = ',')]
    only: Vec<Group>,
    /// Do without rattan; its bars count as not measured.
    #[arg(long)]
    without_rattan: bool,
}

/// The content of `setup.json`.
#[derive(Debug, Serialize)]
struct Setup {
    schema_version: u32,
    #[serde(flatten)]
    origin: Origin,
    rounds: u32,
    seed: u64,
    link_seed: u64,
    scale: Scale,
    /// The processors of the link and of both ends; none: any.
    places: Option<Places>,
    rattan_version: Option<String>,
    iperf3_version: Option<String>,
    bars: Vec<Bar>,
}

#[derive(Debug, Serialize)]
struct Bar {
    #[serde(flatten)]
    cell: Cell,
    figure: Figure,
    limit: bars::Limit,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let common = &arguments.common;
    let programs = build::programs(common.no_build)?;
    let rattan = prepare_rattan(arguments);
    let stop = Stop::on_signals()?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let altway = programs.join("altway");
    let cores = cores::available()?;
    let rig = Rig {
        packets: programs.join("bench-packets"),
        site: &Site::make(temporary.path(), &altway)?,
        altway,
        rattan,
        places: Places::among(&cores),
        scale: common.of(Scale::WHOLE, Scale::QUICK),
        seed: arguments.link_seed,
        stop: &stop,
    };
    let cells = plan::of_groups(plan::cells(), &arguments.only);
    let setup = Setup::of(common, &rig, &cells)?;
    let name = setup.origin.folder_name("link-bench", cores.len());
    let mut folder = Folder::create(&common.parent(), &name, &setup)?;
    shell::say(&format!("seed {}", setup.seed));

    let mut records = Vec::new();
    let result = measure_all(&setup, &cells, &rig, |record| {
        folder.keep(&record)?;
        records.push(record);
        Ok(())
    });
    // What was measured before a failure is worth as much as without it.
    let lines = summary::summarize(&cells, &records);
    let text = summary::text(&lines);
    folder.finish(&summary::csv(&lines)?, &text)?;
    shell::data(&text)?;
    shell::say(&format!("written to {}", folder.path().display()));
    result
}

fn prepare_rattan(arguments: &Arguments) -> Option<Rattan> {
    if arguments.without_rattan {
        return None;
    }
    let prepared = Rattan::prepare(arguments.common.no_build);
    prepared
        .inspect_err(|error| shell::say(&format!("SKIPPED rattan: {error:#}")))
        .ok()
}

/// Round by round, in each in another order; hands out each record as it comes.
///
/// # Errors
/// A record can't be kept, or somebody asked to stop.
fn measure_all(
    setup: &Setup,
    cells: &[Cell],
    rig: &Rig,
    mut keep: impl FnMut(Record) -> Result<()>,
) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(setup.seed);
    let mut losses = Losses::default();
    let mut possible: Vec<_> = cells.to_vec();
    possible.retain(|cell| match cell.by {
        By::Rattan => setup.rattan_version.is_some(),
        By::Iperf3 => setup.iperf3_version.is_some(),
        _ => true,
    });
    for round in 1..=setup.rounds {
        shell::say(&format!("round {round} of {}", setup.rounds));
        random.shuffle(&mut possible);
        for cell in &possible {
            let outcome = measure::measure(*cell, rig);
            rig.stop.check()?;
            let records = Record::of(*cell, round, outcome, &mut losses);
            records.into_iter().try_for_each(&mut keep)?;
        }
    }
    Ok(())
}

impl Setup {
    fn of(common: &Common, rig: &Rig, cells: &[Cell]) -> Result<Self> {
        let bars_of = |cell: &Cell| {
            let cell = *cell;
            let figures = cell.figures().iter();
            figures.filter_map(move |figure| {
                let limit = bars::bar(cell, *figure)?;
                Some(Bar {
                    cell,
                    figure: *figure,
                    limit,
                })
            })
        };
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            origin: Origin::of_this_run()?,
            rounds: common.rounds(),
            seed: common.seed(),
            link_seed: rig.seed,
            scale: rig.scale,
            places: rig.places,
            rattan_version: rig.rattan.as_ref().map(Rattan::version),
            iperf3_version: iperf3_version(),
            bars: cells.iter().flat_map(bars_of).collect(),
        })
    }
}

/// `None`, loudly, where there is none.
fn iperf3_version() -> Option<String> {
    let told = shell::output("iperf3 --version");
    let told = told.inspect_err(|error| shell::say(&format!("SKIPPED iperf3: {error:#}")));
    told.ok()?.lines().next().map(str::to_owned)
}
