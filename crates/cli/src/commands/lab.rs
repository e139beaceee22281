//! `altway lab`: run a plan, go on with a run, draw its report again.

use crate::hint::mistake;
use crate::printer::Printer;
use crate::{Answer, backend::Asked, commands, signals};
use altway_emulate::Backend;
use altway_lab::{Campaign, Context as LabContext, End, Progress, plans};
use altway_record::{Manifest, Plan, Sample};
use altway_report::{Rendered, Run};
use altway_units::duration;
use anyhow::{Context, Result};
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Measure over emulated networks where each protocol wins.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Run a plan and write a run folder.
    Run(RunArguments),
    /// Go on with a run that was stopped.
    Resume(ResumeArguments),
    /// Draw the tables, pictures and report of a run again, from its samples alone.
    Report(ReportArguments),
}

/// Run a plan: every cell of its matrix is measured in random interleaved blocks, client and server
/// in namespaces of their own with an emulated link between them.
///
/// Ctrl-C keeps what is done; `altway lab resume` goes on with it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Plans that ship: quick (the default, under 2 minutes), delay-sweep (about 20 minutes).

Examples:
  altway lab run
  altway lab run delay-sweep
  altway lab run my-plan.toml --runs /data/runs")]
struct RunArguments {
    /// The name of a plan that ships, or a TOML file.
    #[arg(default_value = plans::DEFAULT)]
    plan: String,
    /// Make the run folder in here.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// What moves the packets: auto, tun, packet or netem. `auto` takes the first of these that this
    /// machine has.
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    backend: Asked,
    /// Print the summary as JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// Go on with a run that was stopped, killed or ran out of disk.
#[derive(Debug, clap::Args)]
struct ResumeArguments {
    /// The run folder.
    run: PathBuf,
    /// What moves the packets: auto, tun, packet or netem. `auto` takes the first of these that this
    /// machine has.
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    backend: Asked,
    /// Print the summary as JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// Draw the tables, pictures and report of a run again, from its samples alone.
#[derive(Debug, clap::Args)]
struct ReportArguments {
    /// The run folder.
    run: PathBuf,
    /// Print the summary as JSON instead of the table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    match &arguments.command {
        LabCommand::Run(arguments) => {
            let plan = read_plan(&arguments.plan)?;
            let context = context(arguments.backend.backend())?;
            // Before there is a run folder, so that no Ctrl-C leaves one without a word.
            let stop = signals::stop_flag()?;
            let campaign = Campaign::begin(context, plan, &arguments.runs)?;
            measure(campaign, &stop, arguments.json, printer)
        }
        LabCommand::Resume(arguments) => {
            let context = context(arguments.backend.backend())?;
            let stop = signals::stop_flag()?;
            let campaign = Campaign::resume(context, &arguments.run)?;
            measure(campaign, &stop, arguments.json, printer)
        }
        LabCommand::Report(arguments) => {
            let (manifest, samples) = altway_lab::read_run(&arguments.run)?;
            let rendered = write_report(&arguments.run, &manifest, &samples)?;
            answer(&rendered, arguments.json, printer)
        }
    }
}

/// Enters the namespace that the lab needs; before any thread is started.
fn context(backend: Option<Backend>) -> Result<LabContext> {
    let privilege = altway_emulate::enter()?;
    Ok(LabContext {
        binary: std::env::current_exe().context("cannot find altway's own binary")?,
        version: commands::VERSION.into(),
        commit: commands::COMMIT.map(Into::into),
        command: std::env::args().collect(),
        privilege,
        backend,
    })
}

fn read_plan(named: &str) -> Result<Plan> {
    let path = Path::new(named);
    let text = match plans::text(named) {
        Some(text) => text.to_owned(),
        None if path.exists() => {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {named}"))?
        }
        None => {
            let shipped = plans::names().collect::<Vec<_>>().join(", ");
            let mend = format!("the plans that ship are {shipped}; or name a TOML file");
            return Err(mistake(format!("there is no plan `{named}`"), mend));
        }
    };
    text.parse()
        .with_context(|| format!("{named} is not a plan"))
}

fn measure(
    mut campaign: Campaign,
    stop: &AtomicBool,
    json: bool,
    printer: &Printer,
) -> Result<Answer> {
    let bar = bar(printer);
    let mut observe = |progress: &Progress| show(&bar, progress);
    say_what_comes(&campaign, printer);
    let end = campaign.run(stop, &mut observe);
    bar.finish_and_clear();
    let folder = campaign.folder();
    let path = folder.path();
    match end {
        Ok(End::Complete) => {
            let rendered = write_report(path, folder.manifest(), folder.samples())?;
            answer(&rendered, json, printer)?;
            printer.say(&format!("\nreport: {}", path.join("report.html").display()));
            Ok(Answer::Done)
        }
        Ok(End::Stopped) => {
            keep_what_there_is(path, folder.manifest(), folder.samples(), printer);
            Err(stopped(path, folder.samples().len()))
        }
        Err(error) => {
            let error = anyhow::Error::from(error);
            Err(error.context(kept(folder.samples().len(), path)))
        }
    }
}

fn kept(transfers: usize, path: &Path) -> String {
    format!(
        "stopped after {transfers} transfers, all kept in {}",
        path.display()
    )
}

fn stopped(path: &Path, transfers: usize) -> anyhow::Error {
    let mend = format!("go on with `altway lab resume {}`", path.display());
    mistake(kept(transfers, path), mend)
}

fn say_what_comes(campaign: &Campaign, printer: &Printer) {
    let plan = &campaign.folder().manifest().plan;
    let (cells, protocols) = (plan.cells().len(), plan.protocols.len());
    printer.say(&format!(
        "{}: {cells} cells × {protocols} protocols × {} pairs = {} transfers, {} still to make, \
         about {}",
        plan.name,
        plan.pairs,
        plan.transfers(),
        campaign.transfers_left(),
        in_words(campaign.time_left()),
    ));
    printer.say(&format!(
        "run folder: {}",
        campaign.folder().path().display()
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
        message.push_str(&format!(
            "; at {}: {} {:+.1} % ({} pairs)",
            duration::format(estimate.cell.delay),
            estimate.protocol,
            estimate.difference_percent,
            estimate.pairs
        ));
    }
    bar.set_message(message);
}

/// `1 min 20 s`: as exact as a guess deserves.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs_f64().round();
    let (minutes, rest) = ((seconds / 60.0).floor(), seconds % 60.0);
    if minutes > 0.0 {
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
    let rendered = altway_report::render(&Run { manifest, samples })?;
    for (name, bytes) in rendered.files() {
        altway_lab::write_whole(&path.join(name), bytes)?;
    }
    Ok(rendered)
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
    fn times_are_told_in_minutes_and_seconds() {
        assert_eq!(in_words(Duration::from_millis(59_400)), "59 s");
        assert_eq!(in_words(Duration::from_millis(59_600)), "1 min 0 s");
        assert_eq!(in_words(Duration::from_secs(80)), "1 min 20 s");
    }
}
