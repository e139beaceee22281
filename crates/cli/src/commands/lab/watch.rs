//! `altway lab watch`: how a run stands, from its folder alone, as often as it changes.

use super::{RUNS, in_words, named_or_newest, pairs};
use crate::commands::positive_time;
use crate::printer::Printer;
use crate::{Answer, signals};
use altway_lab::{Follower, Status};
use altway_report::percent;
use altway_units::duration;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Follow a run from another terminal.
///
/// The run is only read, so watching changes nothing. It ends when the run is complete; Ctrl-C ends only the
/// watching. Of a run that has stopped it says so, and waits for a resume.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The run folder [default: the newest].
    run: Option<PathBuf>,
    /// Folder in which the newest run is looked for.
    #[arg(long, value_name = "DIR", default_value = RUNS)]
    runs: PathBuf,
    /// Time between two looks.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = positive_time)]
    every: Duration,
    /// Look once and end.
    #[arg(long)]
    once: bool,
    /// Print each look as a line of JSON.
    #[arg(long)]
    json: bool,
}

/// Time between two checks, while waiting for the next look, whether watching should end.
const STOP_CHECK_PERIOD: Duration = Duration::from_millis(100);

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let run = named_or_newest(arguments.run.as_deref(), &arguments.runs)?;
    let stop = signals::stop_flag()?;
    let mut follower = Follower::open(&run)?;
    let mut told = None;
    loop {
        let status = follower.look()?;
        let is_first = told.is_none();
        if told.as_ref() != Some(&status) {
            print_status(&run, &status, arguments.json, printer)?;
        }
        if is_first && status.left > 0 && !follower.is_measured()? {
            let run = run.display();
            printer.say(&format!(
                "it is not being measured now: `altway lab resume {run}` goes on with it"
            ));
        }
        if arguments.once || status.left == 0 || stop.load(Ordering::Relaxed) {
            return Ok(Answer::Done);
        }
        told = Some(status);
        let mut waited = Duration::ZERO;
        while waited < arguments.every && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(STOP_CHECK_PERIOD);
            waited += STOP_CHECK_PERIOD;
        }
    }
}

fn print_status(run: &Path, status: &Status, json: bool, printer: &Printer) -> Result<()> {
    if json {
        let line = serde_json::to_string(status)?;
        return Ok(printer.data(&format!("{line}\n"))?);
    }
    Ok(printer.data(&human(run, status))?)
}

fn human(run: &Path, status: &Status) -> String {
    let all = status.done + status.left;
    let mut text = format!(
        "{}: {} of {all} transfers, {} did not count, {}\n",
        run.display(),
        status.done,
        status.invalid,
        match status.left {
            0 => "complete".to_owned(),
            _ => format!("about {} left", in_words(status.remaining())),
        }
    );
    let (first, cells) = (status.first.name(), &status.cells);
    if !cells.is_empty() {
        text.push_str(&format!("  time against {first}, negative is faster:\n"));
    }
    for cell in cells {
        let condition = &cell.cell;
        let difference = cell
            .difference_percent
            .map_or_else(|| "–".to_owned(), percent);
        text.push_str(&format!(
            "  {:<9} {:<7} loss {:<5} {:>6} delay {:<7} {} to {} {} {difference:>9} ({})\n",
            condition.rate.to_string(),
            condition.topology,
            condition.loss.to_string(),
            condition.size.to_string(),
            duration::format(condition.delay),
            condition.server,
            condition.client,
            cell.protocol,
            pairs(cell.pairs),
        ));
    }
    text
}
