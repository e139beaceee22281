//! `altway lab plan`: what a plan will do, before it does it.

use super::{in_words, read_plan};
use crate::Answer;
use crate::printer::{Printer, counted};
use altway_lab::plans;
use altway_record::{Cell, LinkWords, Plan, Sampling, Shard, SideBySide};
use anyhow::Result;
use clap::Subcommand;
use serde::Serialize;
use std::fmt::Display;
use std::time::Duration;

/// Cells that the human view lists; `--json` lists all.
const MAX_CELLS_SHOWN: usize = 60;

/// Show the plans that ship, or what a plan will do and how long that takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: PlanCommand,
}

#[derive(Debug, Subcommand)]
enum PlanCommand {
    /// List the plans that ship.
    List {
        /// Print them as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the cells of a plan, its transfers, and the time that they will take.
    Show {
        /// The name of a plan that ships, or a TOML file.
        #[arg(default_value = plans::DEFAULT)]
        plan: String,
        /// A part of its cells, as for `altway lab run` [default: all cells].
        #[arg(long, value_name = "PART/PARTS", default_value_t = Shard::WHOLE, hide_default_value = true)]
        shard: Shard,
        /// Print all of it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the text of a plan that ships, as a start for your own.
    Print {
        /// The plan's name.
        plan: String,
    },
}

/// A plan in a line.
#[derive(Serialize)]
struct PlanSummary {
    name: &'static str,
    description: String,
    /// `at most` where transfers and time are those of a budget.
    #[serde(skip)]
    about: &'static str,
    cells: u64,
    transfers: u64,
    seconds: u64,
}

/// The JSON of `show --json`.
#[derive(Serialize)]
struct PlanOutput<'a> {
    plan: &'a Plan,
    shard: Shard,
    cells: &'a [Cell],
    transfers: u64,
    seconds: u64,
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    match &arguments.command {
        PlanCommand::List { json } => list(*json, printer),
        PlanCommand::Show { plan, shard, json } => show(&read_plan(plan)?, *shard, *json, printer),
        PlanCommand::Print { plan } => {
            let text = plans::text(plan);
            // Said as for any other command that names a plan.
            let text = text.ok_or_else(|| match read_plan(plan) {
                Err(error) => error,
                Ok(_) => crate::hint::usage_error(
                    format!("`{plan}` is no plan that ships"),
                    "it is a file of yours: look into it",
                ),
            })?;
            printer.data(text)?;
            Ok(Answer::Done)
        }
    }
}

/// `3 cells × 3 arms × 5 pairs = 45 transfers`.
pub(super) fn sum(plan: &Plan) -> String {
    let null = if plan.null_arm {
        " (null arm included)"
    } else {
        ""
    };
    let (cells, arms) = (
        counted(plan.cell_count() as usize, "cell"),
        plan.arms().len(),
    );
    match plan.sampling {
        Sampling::Grid => format!(
            "{cells} × {arms} arms{null} × {} = {} transfers",
            counted(plan.pairs as usize, "pair"),
            plan.transfers()
        ),
        Sampling::Adaptive => format!(
            "{cells} × {arms} arms{null}, where the winner is least sure, at most a tenth of {} pairs a cell",
            plan.pairs
        ),
    }
}

/// Word before a plan's time.
pub(super) fn about(plan: &Plan) -> &'static str {
    match plan.sampling {
        Sampling::Grid => "about",
        Sampling::Adaptive => "at most",
    }
}

fn list(json: bool, printer: &Printer) -> Result<Answer> {
    let mut listed = Vec::new();
    for name in plans::names() {
        let plan = read_plan(name)?;
        let (transfers, time) = plans::cost(&plan, Shard::WHOLE)?;
        listed.push(PlanSummary {
            name,
            about: about(&plan),
            cells: plan.cell_count(),
            transfers,
            seconds: time.as_secs(),
            description: plan.description,
        });
    }
    if json {
        printer.json(&listed)?;
        return Ok(Answer::Done);
    }
    for one in listed {
        let time = in_words(Duration::from_secs(one.seconds));
        printer.data(&format!(
            "{:<20} {:>5} cells {:>7} transfers  {} {time}\n{:20} {}\n",
            one.name, one.cells, one.transfers, one.about, "", one.description
        ))?;
    }
    Ok(Answer::Done)
}

fn show(plan: &Plan, shard: Shard, json: bool, printer: &Printer) -> Result<Answer> {
    let cells = plan.part(shard);
    if cells.is_empty() {
        return Err(altway_lab::Error::EmptyShard { shard }.into());
    }
    let (transfers, time) = plans::cost(plan, shard)?;
    if json {
        printer.json(&PlanOutput {
            plan,
            shard,
            cells: &cells,
            transfers,
            seconds: time.as_secs(),
        })?;
        return Ok(Answer::Done);
    }
    printer.data(&human(plan, shard, &cells, (transfers, time))?)?;
    warn_of_tight_timeouts(plan, shard, printer);
    Ok(Answer::Done)
}

fn human(
    plan: &Plan,
    shard: Shard,
    cells: &[Cell],
    (transfers, time): (u64, Duration),
) -> Result<String> {
    let mut text = match plan.description.as_str() {
        "" => format!("{}\n\n", plan.name),
        description => format!("{}: {description}\n\n", plan.name),
    };
    for (name, values) in axes(plan) {
        text.push_str(&format!("  {name:<23} {values}\n"));
    }
    text.push_str(&links(plan));
    text.push_str(&format!("\n{}\n", sum(plan)));
    if shard != Shard::WHOLE {
        text.push_str(&format!(
            "shard {shard}: {} cell{}, {transfers} transfers\n",
            cells.len(),
            if cells.len() == 1 { "" } else { "s" }
        ));
    }
    if let Some(stopping) = &plan.stopping {
        text.push_str(&format!(
            "at most, for a cell is left when it is clear: {} looks from {} pairs on, ± {}\n",
            stopping.looks, stopping.least_pairs, stopping.half_width
        ));
    }
    let at_once = match plan.side_by_side {
        SideBySide::Off => String::new(),
        SideBySide::Auto => ", slow links side by side as the machine allows".into(),
        SideBySide::AtMost(count) => format!(", up to {count} slow links side by side"),
    };
    let about = match plan.sampling {
        Sampling::Grid => format!("about {}", in_words(time)),
        Sampling::Adaptive => {
            let (first, first_time) = plans::first_cost(plan, shard)?;
            let (first_time, most) = (in_words(first_time), in_words(time));
            format!(
                "{first} transfers in about {first_time} at least, {transfers} in about {most} at most"
            )
        }
    };
    text.push_str(&format!("{about}{at_once}\n\n"));
    let shown = cells.iter().take(MAX_CELLS_SHOWN);
    shown.for_each(|cell| text.push_str(&line(plan, cell)));
    if cells.len() > MAX_CELLS_SHOWN {
        let more = cells.len() - MAX_CELLS_SHOWN;
        text.push_str(&format!("  … and {more} more cells: --json lists all\n"));
    }
    Ok(text)
}

/// Says when the plan's time-out would take slow transfers away.
pub(super) fn warn_of_tight_timeouts(plan: &Plan, shard: Shard, printer: &Printer) {
    let cells_with_tight_timeout = plans::cells_with_tight_timeout(plan, shard);
    if cells_with_tight_timeout == 0 {
        return;
    }
    let cells = if cells_with_tight_timeout == 1 {
        "1 cell".into()
    } else {
        format!("{cells_with_tight_timeout} cells")
    };
    printer.warn(&format!(
        "transfers of {cells} may take longer than the plan's `timeout` of {}: those that do are \
         made again, and the fast ones count alone; leave `timeout` out to have one that suits each \
         link",
        plan.timeout
    ));
}

/// The axes with their values.
fn axes(plan: &Plan) -> Vec<(&'static str, String)> {
    let delays: Vec<_> = plan
        .delays
        .iter()
        .map(|delay| altway_units::duration::format(*delay))
        .collect();
    let mut axes = vec![
        ("scenario", plan.scenario.name().into()),
        ("topology", words(&plan.topologies)),
        ("server", words(&plan.servers)),
        ("client", words(&plan.clients)),
        ("congestion", words(&plan.congestions)),
        ("initial_window", words(&plan.initial_windows)),
        ("certificate", words(&plan.certificates)),
        (
            "certificate_compression",
            words(&plan.certificate_compressions),
        ),
        ("connection", words(&plan.connections)),
        (
            "link",
            plan.links
                .iter()
                .map(|link| link.name.to_string())
                .collect::<Vec<_>>()
                .join(", "),
        ),
        ("rate", words(&plan.rates)),
        ("queue", words(&plan.queues)),
        ("loss", words(&plan.losses)),
        ("size", words(&plan.sizes)),
        ("delay", delays.join(", ")),
        ("protocols", words(&plan.protocols)),
        ("MTU", format!("{} bytes", plan.mtu)),
    ];
    if !plan.policies.is_empty() {
        let apart = plan
            .apart
            .iter()
            .map(|one| altway_units::duration::format(*one));
        let apart = apart.collect::<Vec<_>>().join(", ");
        axes.push(("policy", words(&plan.policies)));
        axes.push(("sessions", format!("{}, apart {apart}", plan.sessions())));
    }
    axes
}

/// The links of which more is said than their name: a line for each change.
fn links(plan: &Plan) -> String {
    let mut text = String::new();
    for link in plan.links.iter().filter(|link| !link.is_plain()) {
        for (when, what) in link_changes(link) {
            text.push_str(&format!("  {:<12} {}: {when} {what}\n", "", link.name));
        }
    }
    text
}

/// The changes that a link goes through, in the words of the plan.
fn link_changes(link: &LinkWords) -> Vec<(String, String)> {
    let start = || "from the start".to_owned();
    let traces = link
        .traces()
        .into_iter()
        .filter(|(_, trace)| trace.is_some());
    let mut link_changes: Vec<_> = traces
        .map(|(key, _)| (start(), key.replace('_', " ")))
        .collect();
    if !link.set.is_empty() {
        link_changes.push((start(), link.set.clone()));
    }
    let turns = link.at.iter();
    link_changes.extend(turns.map(|turn| {
        let time = altway_units::duration::format(turn.time);
        (format!("at {time}"), turn.set.clone())
    }));
    link_changes
}

fn words<T: Display>(values: &[T]) -> String {
    let texts: Vec<_> = values.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// A cell by its number, as in `samples.csv`, and the axes that have more than one value.
fn line(plan: &Plan, cell: &Cell) -> String {
    let delay = altway_units::duration::format(cell.delay);
    let parts = [
        (plan.topologies.len(), cell.topology.to_string()),
        (plan.servers.len(), cell.server.to_string()),
        (plan.clients.len(), cell.client.to_string()),
        (plan.congestions.len(), cell.congestion.to_string()),
        (
            plan.initial_windows.len(),
            format!("initial window {}", cell.initial_window),
        ),
        (plan.certificates.len(), cell.certificate.to_string()),
        (
            plan.certificate_compressions.len(),
            match cell.certificate_compression {
                true => "compressed".to_owned(),
                false => "not compressed".to_owned(),
            },
        ),
        (plan.connections.len(), cell.connection.to_string()),
        (plan.links.len(), cell.link.to_string()),
        (plan.rates.len(), cell.rate.to_string()),
        (plan.queues.len(), format!("queue {}", cell.queue)),
        (plan.losses.len(), format!("loss {}", cell.loss)),
        (plan.sizes.len(), cell.size.to_string()),
        (plan.delays.len(), format!("delay {delay}")),
    ];
    let varied = parts.into_iter().filter(|(values, _)| *values > 1);
    let varied: Vec<_> = varied.map(|(_, text)| text).collect();
    let number = cell.index;
    if varied.is_empty() {
        return format!("  {number:>4}  {}, delay {delay}\n", cell.rate);
    }
    format!("  {number:>4}  {}\n", varied.join(", "))
}
