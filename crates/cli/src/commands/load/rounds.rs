//! `altway load` in rounds: in each, all protocols have their turn over new connections, so that what
//! changes with time changes for all; then they are compared pair by pair.

use super::Arguments;
use super::records::Records;
use crate::printer::{Printer, counted};
use altway_load::{LoadSummary, Options};
use altway_record::{Protocol, RequestRecord};
use altway_report::signed;
use altway_stats::{CompareOptions, Comparison, Winner, compare, quantile};
use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt::Write as _;

/// The part of one protocol in a round.
#[derive(Debug, Serialize)]
pub(super) struct ProtocolRound {
    /// Number of the round, from 1.
    round: u32,
    pub(super) summary: LoadSummary,
}

/// The JSON of `--json`.
#[derive(Serialize)]
struct Output<'a> {
    requests: &'a [RequestRecord],
    turns: &'a [ProtocolRound],
    comparisons: Vec<ProtocolComparison>,
}

/// Two protocols beside each other: how long a turn takes.
#[derive(Debug, Serialize)]
struct ProtocolComparison {
    first: Protocol,
    second: Protocol,
    /// Rounds in which no request of either failed.
    rounds: usize,
    /// The share of the first's time that the second takes more; below 0 it is faster.
    difference_percent: f64,
    difference_percent_low: Option<f64>,
    difference_percent_high: Option<f64>,
    /// The faster one, if the interval leaves out 0 and the difference is more than 3 %.
    winner: Option<Protocol>,
    #[serde(skip)]
    verdict: Winner,
}

/// Runs `each` once a round. In the round after, the next of them is the first.
pub(super) fn measure(
    each: &[Options],
    rounds: u32,
    records: &mut Records,
) -> Result<Vec<ProtocolRound>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.context("cannot start the event loop")?;
    let mut turns = Vec::new();
    for round in 0..rounds {
        for place in 0..each.len() {
            let options = &each[(round as usize + place) % each.len()];
            records.begin_run();
            let run = altway_load::run(options, |record| records.take(record));
            let summary = runtime.block_on(run)?;
            let round = round + 1;
            turns.push(ProtocolRound { round, summary });
        }
    }
    Ok(turns)
}

pub(super) fn print_result(
    requests: &[RequestRecord],
    turns: &[ProtocolRound],
    arguments: &Arguments,
    printer: &Printer,
) -> Result<()> {
    let protocols = &arguments.protocol;
    let comparisons = comparisons(protocols, turns);
    if arguments.json {
        let output = Output {
            requests,
            turns,
            comparisons,
        };
        return Ok(printer.json(&output)?);
    }
    let mut text = table(protocols, turns);
    for comparison in &comparisons {
        text.push_str(&sentence(comparison));
    }
    match arguments.csv {
        true => printer.say(&text),
        false => printer.data(&text)?,
    }
    Ok(())
}

/// The first of them beside each of the others.
fn comparisons(protocols: &[Protocol], turns: &[ProtocolRound]) -> Vec<ProtocolComparison> {
    let Some((&first, others)) = protocols.split_first() else {
        return Vec::new();
    };
    let compared = others
        .iter()
        .filter_map(|&second| compare_two(first, second, turns));
    compared.collect()
}

fn compare_two(
    first: Protocol,
    second: Protocol,
    turns: &[ProtocolRound],
) -> Option<ProtocolComparison> {
    let time = |protocol, round| {
        let mut own = turns.iter().filter(|turn| turn.is_whole_of(protocol));
        let turn = own.find(|turn| turn.round == round)?;
        Some(turn.summary.wall_us as f64)
    };
    let rounds = turns.last()?.round;
    let pairs = (1..=rounds).filter_map(|round| Some((time(first, round)?, time(second, round)?)));
    let (of_first, of_second): (Vec<_>, Vec<_>) = pairs.unzip();
    let found = compare(&of_first, &of_second, &CompareOptions::default())?;
    Some(ProtocolComparison::new(first, second, &found))
}

impl ProtocolRound {
    /// True if it is that protocol's, and every request was answered.
    fn is_whole_of(&self, protocol: Protocol) -> bool {
        self.summary.protocol == protocol && self.summary.failed == 0
    }
}

impl ProtocolComparison {
    fn new(first: Protocol, second: Protocol, found: &Comparison) -> Self {
        let interval = found.percent_interval();
        Self {
            first,
            second,
            rounds: found.n,
            difference_percent: found.percent(),
            difference_percent_low: interval.map(|(low, _)| low),
            difference_percent_high: interval.map(|(_, high)| high),
            winner: match found.winner {
                Winner::First => Some(first),
                Winner::Second => Some(second),
                Winner::Tie | Winner::Unclear => None,
            },
            verdict: found.winner,
        }
    }
}

/// A line a protocol: medians of its whole turns, in ms.
fn table(protocols: &[Protocol], turns: &[ProtocolRound]) -> String {
    let rounds = turns.last().map_or(0, |turn| turn.round);
    let mut text = format!(
        "{}, each over new connections; medians in ms\n\n\
         {:10} {:>7} {:>9} {:>11} {:>9} {:>9} {:>9}\n",
        counted(rounds as usize, "round"),
        "",
        "failed",
        "connect",
        "first byte",
        "all",
        "min",
        "max"
    );
    for &protocol in protocols {
        let own = turns
            .iter()
            .filter(|turn| turn.summary.protocol == protocol);
        let failed: u64 = own.map(|turn| turn.summary.failed).sum();
        let own = || turns.iter().filter(|turn| turn.is_whole_of(protocol));
        let summaries = || own().map(|turn| &turn.summary);
        let connect = summaries().filter_map(|summary| Some(summary.connect?.p50_us));
        let first_byte = summaries().filter_map(|summary| Some(summary.first_byte?.min_us));
        let all = || summaries().map(|summary| summary.wall_us);
        let _ = writeln!(
            text,
            "{:10} {failed:>7} {:>9} {:>11} {:>9} {:>9} {:>9}",
            protocol.name(),
            at(0.5, connect),
            at(0.5, first_byte),
            at(0.5, all()),
            at(0.0, all()),
            at(1.0, all()),
        );
    }
    text.push('\n');
    text
}

/// The quantile `q` of times, in ms; a dash when there are none.
fn at(q: f64, times_us: impl Iterator<Item = u64>) -> String {
    let mut ms: Vec<_> = times_us.map(|us| us as f64 / 1e3).collect();
    if ms.is_empty() {
        return "–".to_owned();
    }
    ms.sort_by(f64::total_cmp);
    format!("{:.3}", quantile(&ms, q))
}

fn sentence(compared: &ProtocolComparison) -> String {
    let (first, second) = (compared.first.name(), compared.second.name());
    let interval = match (
        compared.difference_percent_low,
        compared.difference_percent_high,
    ) {
        (Some(low), Some(high)) => {
            format!("95 % interval {} to {}, ", signed(low), signed(high))
        }
        _ => String::new(),
    };
    let verdict = match compared.verdict {
        Winner::First => format!("{first} is faster"),
        Winner::Second => format!("{second} is faster"),
        Winner::Tie => "a tie, within ±3 %".to_owned(),
        Winner::Unclear => "unclear, more --rounds may tell".to_owned(),
    };
    format!(
        "{second} beside {first}: {} % time ({interval}{}): {verdict}\n",
        signed(compared.difference_percent),
        counted(compared.rounds, "round"),
    )
}
