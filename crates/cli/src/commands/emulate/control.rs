//! `altway emulate set`, `show` and `reset`: what a running link is told and asked.

use crate::Answer;
use crate::printer::Printer;
use altway_emulate::control::{LinkState, RunningLink, Settings};
use altway_emulate::{DirectionReport, LinkReport};
use altway_link::{Change, Config};
use anyhow::Result;
use serde::Serialize;

/// Change a link while it runs.
///
/// Packets that are in it stay in it, and settings that are not named stay as they are. Give options as those of
/// `altway emulate`, or words: the name of a setting and its value, several of them separated by commas, with `up` or
/// `down` before settings for one direction only. Settings are rate, delay, jitter, loss, duplicate, reorder,
/// corrupt, queue, discipline and udp.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway emulate set --rate 5mbit --delay 100ms
  altway emulate set --down --loss 5%
  altway emulate set 'rate 5mbit, up delay 20ms, down loss gilbert 2% burst 4'
  altway emulate set 'jitter 5ms normal, queue 50packets, discipline codel'
  altway emulate set 'up udp block, down udp rate 5mbit burst 64KiB'

Exit code: 0 when it is done, 2 when it could not be.")]
pub(crate) struct Set {
    #[command(flatten)]
    link: LinkSelector,
    /// Change only the direction from the client to the server.
    #[arg(long, conflicts_with = "down")]
    up: bool,
    /// Change only the direction from the server to the client.
    #[arg(long)]
    down: bool,
    /// Bandwidth in bits of IP packets, or `none`: 5mbit.
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Delay one way: 100ms.
    #[arg(long, value_name = "DELAY")]
    delay: Option<String>,
    /// Packets lost: 5%, or 'gilbert 1% burst 4'.
    #[arg(long, value_name = "LOSS")]
    loss: Option<String>,
    /// Amount that waits before packets are dropped: 64KiB, 30ms, 50packets, `none`, or `default`.
    #[arg(long, value_name = "SIZE")]
    queue: Option<String>,
    /// Settings in words.
    #[arg(value_name = "SETTING")]
    words: Vec<String>,
}

/// Show the settings of a running link, and what it has done so far.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    #[command(flatten)]
    link: LinkSelector,
}

/// Remove the shaping of a running link.
///
/// The link then has no rate, no delay and no loss, and its scheduled changes are dropped. Packets that are in it
/// stay in it.
#[derive(Debug, clap::Args)]
pub(crate) struct Reset {
    #[command(flatten)]
    link: LinkSelector,
}

#[derive(Debug, clap::Args)]
struct LinkSelector {
    /// The link, by the name that `altway emulate --name` gave it or the number of its process
    /// [default: the only one, or the one that this command runs behind].
    #[arg(long, value_name = "NAME|PID")]
    link: Option<String>,
    /// Print the link's settings and counters as JSON.
    #[arg(long)]
    json: bool,
}

/// The printed line of a link, with what it is known by.
#[derive(Debug, Serialize)]
struct LinkLine<'a> {
    pid: u32,
    name: Option<&'a str>,
    #[serde(flatten)]
    state: &'a LinkState,
}

pub(crate) fn set(arguments: &Set, printer: &Printer) -> Result<Answer> {
    let change = arguments.change()?;
    arguments.link.ask(printer, |link| link.set(&change))
}

pub(crate) fn show(arguments: &Show, printer: &Printer) -> Result<Answer> {
    arguments.link.ask(printer, RunningLink::show)
}

pub(crate) fn reset(arguments: &Reset, printer: &Printer) -> Result<Answer> {
    arguments.link.ask(printer, RunningLink::reset)
}

impl Set {
    fn change(&self) -> Result<Change> {
        let way = match (self.up, self.down) {
            (true, _) => "up ",
            (_, true) => "down ",
            _ => "",
        };
        let options = [
            ("rate", &self.rate),
            ("delay", &self.delay),
            ("loss", &self.loss),
            ("queue", &self.queue),
        ];
        let options = options
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?)));
        let words = self.words.join(" ");
        let words = words.split(',').map(str::to_owned);
        let words = words.filter(|_| !self.words.is_empty());
        let settings: Vec<_> = options
            .chain(words)
            .map(|setting| format!("{way}{}", setting.trim()))
            .collect();
        Ok(settings.join(",").parse()?)
    }
}

impl LinkSelector {
    fn ask(
        &self,
        printer: &Printer,
        ask: impl FnOnce(&RunningLink) -> Result<LinkState, altway_emulate::Error>,
    ) -> Result<Answer> {
        let link = RunningLink::find(self.link.as_deref())?;
        let state = ask(&link)?;
        if self.json {
            printer.json(&LinkLine {
                pid: link.pid,
                name: link.name.as_deref(),
                state: &state,
            })?;
        } else {
            printer.data(&text(&link, &state))?;
        }
        Ok(Answer::Done)
    }
}

fn text(link: &RunningLink, state: &LinkState) -> String {
    let report = &state.report;
    let mut lines = vec![format!(
        "link of {link}, running for {:.1} s",
        state.running_s
    )];
    for (name, settings, report) in [
        ("up", &state.up, &report.up),
        ("down", &state.down, &report.down),
    ] {
        lines.push(format!("{:<9}{}", format!("{name}:"), words(settings)));
        lines.push(format!("{:<9}{}", "", counted(report)));
    }
    lines.push(format!("{:<9}{}", "late:", lateness(report)));
    for change in &state.to_come {
        lines.push(format!(
            "{:<9}in {:.1} s: {}",
            "to come:", change.in_s, change.change
        ));
    }
    if let Some(log) = &state.packet_log {
        lines.push(format!("{:<9}{}", "log:", log_words(log)));
    }
    if let Some(invalid) = &state.invalid {
        lines.push(format!("{:<9}{invalid}", "invalid:"));
    }
    lines.join("\n")
}

fn lateness(report: &LinkReport) -> String {
    let (p50, p99, max) = (
        report.lateness_us_p50,
        report.lateness_us_p99,
        report.lateness_us_max,
    );
    match (p50, p99, max) {
        (Some(p50), Some(p99), Some(max)) => format!(
            "{p50:.0} µs at the median, {p99:.0} µs at the 99th percentile, {max:.0} µs at most"
        ),
        _ => format!("{} does not tell", report.backend),
    }
}

/// A packet log in words.
pub(super) fn log_words(log: &altway_emulate::LogReport) -> String {
    let missed = match log.packets_missed {
        0 => String::new(),
        missed => format!(", {missed} missed because the disk was too slow"),
    };
    let error = log.error.iter().map(|error| format!("; {error}"));
    let error: String = error.collect();
    format!("{} packets{missed}{error}", log.packets_logged)
}

/// The settings that do something, in the words that would set them.
fn words(settings: &Settings) -> String {
    let nothing = Settings::from(&Config::default()).0;
    let does_something = |(name, value): &(&String, &String)| nothing.get(*name) != Some(value);
    let settings = settings.0.iter().filter(does_something);
    let words: Vec<_> = settings
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    if words.is_empty() {
        return "not shaped".into();
    }
    words.join(", ")
}

fn counted(report: &DirectionReport) -> String {
    let udp = match report.packets_udp_dropped {
        0 => String::new(),
        packets => format!("{packets} dropped as UDP, "),
    };
    format!(
        "{} packets in, {} out, {udp}{} lost, {} dropped by the queue, {} inside",
        report.packets_in,
        report.packets_out,
        report.packets_lost,
        report.packets_queue_dropped + report.packets_codel_dropped,
        report.packets_queued
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(words: &[&str]) -> Set {
        Set {
            link: LinkSelector {
                link: None,
                json: false,
            },
            up: false,
            down: false,
            rate: None,
            delay: None,
            loss: None,
            queue: None,
            words: words.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn options_and_words_are_one_language() {
        let options = Set {
            down: true,
            rate: Some("5mbit".into()),
            loss: Some("1%".into()),
            ..set(&["delay", "3ms,", "queue", "50packets"])
        };
        assert_eq!(
            options.change().unwrap().to_string(),
            "down rate 5mbit, down loss 1%, down delay 3ms, down queue 50packets"
        );
        let words = set(&["rate 5mbit, up loss 1%"]).change().unwrap();
        assert_eq!(words.to_string(), "rate 5mbit, up loss 1%");
    }

    #[test]
    fn a_direction_in_words_and_another_as_an_option_contradict_each_other() {
        let both = Set {
            down: true,
            ..set(&["up loss 1%"])
        };
        let error = both.change().unwrap_err().to_string();
        assert!(error.contains("`up` is no setting of a link"), "{error}");
        assert!(set(&[]).change().is_err());
    }

    #[test]
    fn only_what_does_something_is_told() {
        let mut config = Config::default();
        assert_eq!(words(&(&config).into()), "not shaped");
        config.delay = std::time::Duration::from_millis(40);
        assert_eq!(words(&(&config).into()), "delay 40ms");
    }
}
