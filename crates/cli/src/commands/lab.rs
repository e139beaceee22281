//! `altway lab`: plans, runs, and what they say.
//!
//! `plan` says what a run will do before it starts, `watch` how one stands while it goes on.

mod browse;
mod choice;
mod compare;
mod export;
mod null;
mod plan;
mod traced;
mod watch;

use crate::hint::usage_error;
use crate::printer::Printer;
use crate::{Answer, backend::BackendArgument, commands, signals};
use altway_emulate::Backend;
use altway_lab::{
    Context as LabContext, End, Experiment, Progress, RemainingTransfers, RunFolder, plans,
};
use altway_record::{
    Manifest, PARQUET_FROM_ROWS, Plan, Running, Sample, Sampling, Shard, SideBySide, transfers,
};
use altway_report::{Rendered, Run, percent};
use altway_serve::certs::SuppliedChain;
use altway_stats::FEW_PAIRS;
use altway_units::duration;
use anyhow::{Context, Result};
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The folder of run folders, unless something else is said.
const RUNS: &str = "runs";

/// Measure over emulated networks where each protocol wins.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    Plan(plan::Arguments),
    Run(RunArguments),
    Resume(ResumeArguments),
    Watch(watch::Arguments),
    Show(ShowArguments),
    Report(ReportArguments),
    Compare(compare::Arguments),
    Export(export::Arguments),
    CheckNull(null::Arguments),
    Merge(MergeArguments),
    /// Load pages with a browser, as the lab's client.
    #[command(hide = true)]
    Browse(browse::BrowseArguments),
    /// Run a program that ends with this process's parent.
    #[command(hide = true)]
    Tether(browse::DieWithParentArguments),
}

/// Run a plan and write a run folder.
///
/// Every cell of the plan's matrix is measured in random interleaved blocks, client and server in
/// namespaces of their own with an emulated link between them. Ctrl-C keeps what is done;
/// `altway lab resume` goes on with it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
`altway lab plan list` lists the plans that ship; quick is the default.

Examples:
  altway lab run
  altway lab run delay-sweep
  altway lab run my-plan.toml --runs /data/runs
  altway lab run delay-sweep --delays '0ms..25ms by 5ms'
  altway lab run bandwidth-map-whole --shard 2/5")]
struct RunArguments {
    /// The name of a plan that ships, or a TOML file.
    #[arg(default_value = plans::DEFAULT)]
    plan: String,
    /// Folder in which the run folder is made.
    #[arg(long, value_name = "DIR", default_value = RUNS)]
    runs: PathBuf,
    /// Measure these one-way delays in place of the plan's: values, or ranges as in a plan, with
    /// commas between them: '10ms,20ms..100ms by 20ms'.
    #[arg(long, value_name = "DELAYS", value_delimiter = ',')]
    delays: Vec<String>,
    /// Measure only a part of the cells, as 2/5; other machines measure the others, and `altway lab merge` joins the
    /// runs [default: all cells].
    #[arg(long, value_name = "PART/PARTS", default_value_t = Shard::WHOLE, hide_default_value = true)]
    shard: Shard,
    /// Measure next the cell whose winner is least sure: finds where one protocol becomes the faster one, with a
    /// tenth of the pairs at most.
    #[arg(long)]
    adaptive: bool,
    /// Number of transfers over slow links that are made at the same time: off, auto or a number. Some are made alone
    /// as well, and the run says whether that makes a difference [default: as the plan says, or off].
    #[arg(long, value_name = "COUNT")]
    side_by_side: Option<SideBySide>,
    /// The backend that moves the packets: auto, tun, packet or netem. `auto` takes the first of these that this
    /// machine has.
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    backend: BackendArgument,
    /// Print the summary as JSON instead of the table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    traced: traced::Traced,
}

/// Go on with a run that was stopped, was killed or ran out of disk.
#[derive(Debug, clap::Args)]
struct ResumeArguments {
    /// The run folder.
    run: PathBuf,
    /// The backend that moves the packets: auto, tun, packet or netem. `auto` takes the first of these that this
    /// machine has.
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    backend: BackendArgument,
    /// Print the summary as JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// Show the results of a run: the newest, if none is named.
///
/// No file is written.
#[derive(Debug, clap::Args)]
struct ShowArguments {
    /// The run folder [default: the newest].
    run: Option<PathBuf>,
    /// Folder in which the newest run is looked for.
    #[arg(long, value_name = "DIR", default_value = RUNS)]
    runs: PathBuf,
    /// Print the summary as JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// Draw the tables, pictures and report of a run again, from its samples alone.
///
/// Without a manifest beside them the report says what it can't know.
#[derive(Debug, clap::Args)]
struct ReportArguments {
    /// The run folder, or a samples.csv, beside which the report is written.
    run: PathBuf,
    /// Write samples.parquet as well, as is always done for runs of 20,000 rows and more.
    #[arg(long)]
    parquet: bool,
    /// Print the summary as JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// Join the runs of a plan's shards into one.
///
/// The new run folder can be reported and resumed like any other: a resume measures what is missing.
#[derive(Debug, clap::Args)]
struct MergeArguments {
    /// The run folders, each of another shard.
    #[arg(required = true)]
    run: Vec<PathBuf>,
    /// Folder in which the run folder is made.
    #[arg(long, value_name = "DIR", default_value = RUNS)]
    runs: PathBuf,
    /// Print the summary as JSON instead of the table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    match &arguments.command {
        LabCommand::Plan(arguments) => plan::run(arguments, printer),
        LabCommand::Run(arguments) => run_plan(arguments, printer),
        LabCommand::Resume(arguments) => {
            let context = context(arguments.backend.backend())?;
            let stop = signals::stop_flag()?;
            let experiment = Experiment::resume(&context, &arguments.run)?;
            measure(experiment, &stop, arguments.json, printer)
        }
        LabCommand::Watch(arguments) => watch::run(arguments, printer),
        LabCommand::Show(arguments) => {
            let run = named_or_newest(arguments.run.as_deref(), &arguments.runs)?;
            let (_, manifest, samples) = altway_lab::read_run_or_samples(&run)?;
            printer.say(&format!("{}", run.display()));
            answer(&render(&manifest, &samples)?, arguments.json, printer)?;
            if !arguments.json {
                choice::print(&manifest, &samples, printer)?;
            }
            Ok(Answer::Done)
        }
        LabCommand::Report(arguments) => {
            let (folder, manifest, samples) = altway_lab::read_run_or_samples(&arguments.run)?;
            if samples.is_empty() {
                return Err(no_rows(&folder));
            }
            print_changes(&folder, printer)?;
            if arguments.parquet {
                write_parquet(&folder, &samples)?;
            }
            let rendered = write_report(&folder, &manifest, &samples)?;
            answer(&rendered, arguments.json, printer)
        }
        LabCommand::Compare(arguments) => compare::run(arguments, printer),
        LabCommand::Export(arguments) => export::run(arguments, printer),
        LabCommand::CheckNull(arguments) => null::run(arguments, printer),
        LabCommand::Merge(arguments) => merge(arguments, printer),
        LabCommand::Browse(arguments) => browse::browse(arguments, printer),
        LabCommand::Tether(arguments) => browse::exec_with_parent(arguments),
    }
}

fn run_plan(arguments: &RunArguments, printer: &Printer) -> Result<Answer> {
    let plan = read_plan(&arguments.plan)?;
    let plan = match arguments.delays.is_empty() {
        true => plan,
        false => plan.over_delays(&arguments.delays)?,
    };
    let plan = match arguments.adaptive {
        true => plan.sampled(Sampling::Adaptive)?,
        false => plan,
    };
    let plan = match arguments.side_by_side {
        Some(side_by_side) => plan.at_once(side_by_side),
        None => plan,
    };
    let traces = arguments.traced.transfers(&plan, arguments.shard)?;
    check_chains(&plan)?;
    let context = context(arguments.backend.backend())?;
    // Before there is a run folder, so that no Ctrl-C leaves one without a word.
    let stop = signals::stop_flag()?;
    let experiment = Experiment::begin(&context, &plan, arguments.shard, &arguments.runs)?;
    let folder = experiment.folder();
    let (run, manifest) = (folder.path().to_owned(), folder.manifest().clone());
    let answer = measure(experiment, &stop, arguments.json, printer)?;
    if !traces.is_empty() {
        let run = (run.as_path(), &manifest);
        arguments
            .traced
            .make(&traces, (&context, &stop), run, printer)?;
        // Once more, with the files of the transfers that were traced.
        let (manifest, samples) = altway_lab::read_run(run.0)?;
        write_report(run.0, &manifest, &samples)?;
    }
    Ok(answer)
}

fn merge(arguments: &MergeArguments, printer: &Printer) -> Result<Answer> {
    let folder = altway_lab::merge(&arguments.run, &arguments.runs)?;
    print_missing(&folder, printer);
    let rendered = write_report(folder.path(), folder.manifest(), folder.samples())?;
    answer(&rendered, arguments.json, printer)?;
    let report = folder.path().join("report.html");
    printer.say(&format!("\nreport: {}", report.display()));
    Ok(Answer::Done)
}

fn print_missing(folder: &RunFolder, printer: &Printer) {
    let manifest = folder.manifest();
    let scheduler = altway_lab::Scheduler::new(&manifest.plan, manifest.shard, folder.samples());
    let (left, path) = (
        RemainingTransfers::total(&scheduler.left()),
        folder.path().display(),
    );
    if left > 0 {
        printer.say(&format!(
            "{left} transfers are not measured; `altway lab resume {path}` makes them\n"
        ));
    }
}

fn named_or_newest(named: Option<&Path>, runs: &Path) -> Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let newest = altway_lab::newest_run(runs)?;
    newest.ok_or_else(|| {
        let what = format!("there is no run in {}", runs.display());
        usage_error(what, "name a run folder, or its parent with --runs")
    })
}

/// Enters the namespace that the lab needs; before any thread is started.
fn context(backend: Option<Backend>) -> Result<LabContext> {
    let privilege = altway_emulate::enter()?;
    Ok(LabContext {
        binary: std::env::current_exe().context("cannot find altway's own binary")?,
        version: commands::VERSION.into(),
        commit: commands::COMMIT.map(Into::into),
        build: commands::build(),
        command: std::env::args().collect(),
        privilege,
        backend,
    })
}

/// Says what is wrong with the chains of a plan before anything is set up.
fn check_chains(plan: &Plan) -> Result<()> {
    for chain in &plan.chains {
        SuppliedChain::read(Path::new(&chain.path))?;
    }
    Ok(())
}

fn read_plan(named: &str) -> Result<Plan> {
    plans::read(named).map_err(|error| match error {
        plans::Error::None(_) => {
            let shipped = plans::names().collect::<Vec<_>>().join(", ");
            let mend = format!("the plans that ship are {shipped}; or name a TOML file");
            usage_error(error.to_string(), mend)
        }
        plans::Error::Read { ref path, .. } if path.is_dir() => usage_error(
            format!("{} is a folder, and a plan is a TOML file", path.display()),
            "`altway lab resume RUN` goes on with a run, and RUN/plan.toml is its plan",
        ),
        other => other.into(),
    })
}

fn measure(
    mut experiment: Experiment,
    stop: &AtomicBool,
    json: bool,
    printer: &Printer,
) -> Result<Answer> {
    let bar = bar(printer);
    let mut observe = |progress: &Progress| show(&bar, progress);
    print_plan(&experiment, printer);
    let end = experiment.run(stop, &mut observe);
    bar.finish_and_clear();
    let folder = experiment.folder();
    let path = folder.path();
    match end {
        Ok(End::Complete) => {
            let rendered = write_report(path, folder.manifest(), folder.samples())?;
            answer(&rendered, json, printer)?;
            if !json {
                choice::print(folder.manifest(), folder.samples(), printer)?;
            }
            if let Some(running) = &folder.manifest().running {
                printer.say(&format!("\n{}", how_it_went(running)));
            }
            printer.say(&format!("report: {}", path.join("report.html").display()));
            Ok(Answer::Done)
        }
        Ok(End::Stopped) => {
            keep_what_there_is(path, folder.manifest(), folder.samples(), printer);
            Err(stopped(path, folder.samples()))
        }
        Err(error) => {
            let error = anyhow::Error::from(error);
            Err(error.context(kept(folder.samples(), path)))
        }
    }
}

fn kept(samples: &[Sample], path: &Path) -> String {
    format!(
        "stopped after {} transfers, all kept in {}",
        transfers(samples).count(),
        path.display()
    )
}

fn stopped(path: &Path, samples: &[Sample]) -> anyhow::Error {
    let mend = format!("go on with `altway lab resume {}`", path.display());
    usage_error(kept(samples, path), mend)
}

fn print_plan(experiment: &Experiment, printer: &Printer) {
    let manifest = experiment.folder().manifest();
    printer.say(&format!(
        "{}: {}, {} still to make, {} {}",
        manifest.plan.name,
        plan::sum(&manifest.plan),
        experiment.transfers_left(),
        plan::about(&manifest.plan),
        in_words(experiment.time_left()),
    ));
    plan::warn_of_tight_timeouts(&manifest.plan, manifest.shard, printer);
    if manifest.shard != Shard::WHOLE {
        printer.say(&format!("shard {} of it", manifest.shard));
    }
    if experiment.worker_count() > 1 {
        printer.say(&format!(
            "up to {} transfers over slow links at once; some are made alone as well",
            experiment.worker_count()
        ));
    }
    printer.say(&format!(
        "run folder: {}",
        experiment.folder().path().display()
    ));
}

fn bar(printer: &Printer) -> ProgressBar {
    let target = if printer.draws() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}");
    let style = style.expect("the template is a constant that is tested by use");
    ProgressBar::with_draw_target(None, target).with_style(style)
}

fn show(bar: &ProgressBar, progress: &Progress) {
    bar.set_length(progress.total);
    bar.set_position(progress.done);
    let mut message = format!("{} left", in_words(progress.remaining));
    if let Some(estimate) = progress.estimate {
        let cell = &estimate.cell;
        message.push_str(&format!(
            "; {} to {} at {}: {} {} time ({})",
            cell.server,
            cell.client,
            duration::format(cell.delay),
            estimate.protocol.name(),
            percent(estimate.difference_percent),
            pairs(estimate.pairs),
        ));
    }
    bar.set_message(message);
}

/// `24 pairs`, `3 pairs, few`.
fn pairs(pairs: u64) -> String {
    let noun = if pairs == 1 { "pair" } else { "pairs" };
    let few = usize::try_from(pairs).is_ok_and(|pairs| pairs < FEW_PAIRS);
    format!("{pairs} {noun}{}", if few { ", few" } else { "" })
}

/// Shares of a run's time, and what making transfers side by side did.
fn how_it_went(running: &Running) -> String {
    let share = running.transfers_percent().unwrap_or(0.0);
    let wall = in_words(Duration::from_millis(running.wall_ms));
    let time = if running.side_by_side > 1 {
        format!(
            "{wall}, with {:.1} transfers under way on average",
            share / 100.0
        )
    } else {
        format!("{wall}, {share:.0} % of them in transfers")
    };
    let Some(check) = running.alone else {
        return time;
    };
    let (much, pairs) = (check.difference_percent, pairs(check.pairs));
    let interval = check.low_percent.zip(check.high_percent);
    let interval = interval.map_or_else(
        || "too few pairs for an interval".to_owned(),
        |(low, high)| format!("{} to {}", percent(low), percent(high)),
    );
    let much = percent(much);
    format!("{time}\nside by side against alone: {much} time ({interval}; {pairs})")
}

/// `1 min 20 s`, `3 h 5 min`: as exact as a guess deserves.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs_f64().round();
    let (minutes, rest) = ((seconds / 60.0).floor(), seconds % 60.0);
    let (hours, rest_minutes) = ((minutes / 60.0).floor(), minutes % 60.0);
    if hours > 0.0 {
        format!("{hours} h {rest_minutes} min")
    } else if minutes > 0.0 {
        format!("{minutes} min {rest} s")
    } else {
        format!("{rest} s")
    }
}

/// A report of a part is a help, not a duty: what hinders it is told, and the run is kept.
fn keep_what_there_is(path: &Path, manifest: &Manifest, samples: &[Sample], printer: &Printer) {
    if let Err(error) = write_report(path, manifest, samples) {
        printer.say(&format!("no report of what there is so far: {error:#}"));
    }
}

fn write_report(path: &Path, manifest: &Manifest, samples: &[Sample]) -> Result<Rendered> {
    let traced = altway_lab::traced_transfers(path)?;
    let run = Run { manifest, samples };
    let rendered = altway_report::render_with_traces(&run, &traced)?;
    for (name, bytes) in rendered.files() {
        altway_lab::write_whole(&path.join(name), bytes)?;
    }
    if samples.len() >= PARQUET_FROM_ROWS {
        write_parquet(path, samples)?;
    }
    // Of a folder that is not a run's own, other files are none of its business.
    if !manifest.from_samples {
        altway_lab::write_missing_plan(path, manifest)?;
        altway_lab::write_checksums(path)?;
    }
    Ok(rendered)
}

/// Says that the samples are not those of which the last report was written.
fn print_changes(folder: &Path, printer: &Printer) -> Result<()> {
    let measured = |name: &String| name == "samples.csv" || name == "manifest.json";
    let changed: Vec<String> = altway_lab::changed_files(folder)?;
    let changed: Vec<String> = changed.into_iter().filter(measured).collect();
    if !changed.is_empty() {
        printer.say(&format!(
            "{} changed since the last report (SHA256SUMS); the new one is of what is there now",
            changed.join(" and ")
        ));
    }
    Ok(())
}

/// The refusal to write a report of nothing, perhaps over one of what was measured.
fn no_rows(folder: &Path) -> anyhow::Error {
    let folder = folder.display();
    usage_error(
        format!("samples.csv in {folder} has no rows"),
        format!("take the file from a copy, or measure: `altway lab resume {folder}`"),
    )
}

fn write_parquet(path: &Path, samples: &[Sample]) -> Result<()> {
    let bytes = altway_record::parquet(samples);
    Ok(altway_lab::write_whole(
        &path.join("samples.parquet"),
        &bytes,
    )?)
}

fn render(manifest: &Manifest, samples: &[Sample]) -> Result<Rendered> {
    Ok(altway_report::render(&Run { manifest, samples })?)
}

fn answer(rendered: &Rendered, json: bool, printer: &Printer) -> Result<Answer> {
    if json {
        printer.json(&rendered.summary)?;
    } else {
        printer.data(&rendered.table)?;
    }
    Ok(Answer::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_what_its_time_went_into() {
        let alone = Running {
            side_by_side: 1,
            wall_ms: 100_000,
            transfers_ms: 96_400,
            alone: None,
        };
        assert_eq!(how_it_went(&alone), "1 min 40 s, 96 % of them in transfers");
        let check = altway_record::ConcurrencyCheck {
            pairs: 27,
            difference_percent: 0.12,
            low_percent: Some(-0.2),
            high_percent: Some(0.44),
        };
        let beside = Running {
            side_by_side: 4,
            transfers_ms: 340_000,
            alone: Some(check),
            ..alone
        };
        assert_eq!(
            how_it_went(&beside),
            "1 min 40 s, with 3.4 transfers under way on average\n\
             side by side against alone: +0.1 % time (−0.2 % to +0.4 %; 27 pairs)"
        );
    }

    #[test]
    fn a_run_that_was_stopped_counts_transfers_and_not_requests() {
        let samples = include_str!("../../../report/tests/data/samples.csv");
        let first = altway_record::read_samples(samples).unwrap().remove(0);
        let request = |request| Sample {
            request,
            ..first.clone()
        };
        let rows = [request(0), request(1), request(0), request(1)];
        let said = kept(&rows, Path::new("runs/r"));
        assert_eq!(said, "stopped after 2 transfers, all kept in runs/r");
    }

    #[test]
    fn times_are_told_in_minutes_and_seconds() {
        assert_eq!(in_words(Duration::from_millis(59_400)), "59 s");
        assert_eq!(in_words(Duration::from_millis(59_600)), "1 min 0 s");
        assert_eq!(in_words(Duration::from_secs(80)), "1 min 20 s");
        assert_eq!(in_words(Duration::from_secs(11_130)), "3 h 5 min");
    }
}
