//! The options of `altway emulate` that say what the link is like, for both directions or for one.

use crate::hint::usage_error;
use altway_link::{
    Config, Discipline, Jitter, LossModel, Queue, Rate, Reordering, Trace, UdpTreatment,
};
use altway_units::{Bandwidth, Ratio, duration};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Properties of the link.
#[derive(Debug, clap::Args)]
pub(crate) struct PathArguments {
    #[command(flatten)]
    both: Both,
    #[command(flatten)]
    up: Up,
    #[command(flatten)]
    down: Down,
}

impl PathArguments {
    /// The directions from the client to the server and back.
    ///
    /// # Errors
    /// A file of a trace can't be read or is none.
    pub(crate) fn configs(&self) -> Result<(Config, Config)> {
        let both = Settings::from(&self.both);
        let up = Settings::from(&self.up).or(&both).config()?;
        let down = Settings::from(&self.down).or(&both).config()?;
        Ok((up, down))
    }
}

/// The options of one direction, or of both.
#[derive(Debug, Clone, Default)]
struct Settings {
    rate: Option<Bandwidth>,
    rate_trace: Option<PathBuf>,
    delay: Option<Duration>,
    jitter: Option<Jitter>,
    loss: Option<LossModel>,
    duplicate: Option<Ratio>,
    reorder: Option<Reordering>,
    corrupt: Option<Ratio>,
    queue: Option<Queue>,
    codel: bool,
    udp: Option<UdpTreatment>,
}

/// The same options for one direction. `$way` stands before their names.
macro_rules! one_way {
    ($name:ident, $way:literal, $heading:literal, $hidden:literal) => {
        #[derive(Debug, Clone, clap::Args)]
        struct $name {
            /// Bandwidth, in bits of IP packets: 500kbit, 20mbit, 1gbit [default: no limit].
            #[arg(id = concat!($way, "rate"), long = concat!($way, "rate"), value_name = "RATE",
                help_heading = $heading, hide_short_help = $hidden)]
            rate: Option<Bandwidth>,
            /// File with a bandwidth that changes: in mahimahi's format, or CSV.
            ///
            /// mahimahi's format is a line with the time in ms for each 1,500 bytes that may pass. CSV
            /// has a header like `time_s,rate_mbit` and a line for each step; the last may be a time and
            /// `repeat`.
            #[arg(id = concat!($way, "rate-trace"), long = concat!($way, "rate-trace"),
                value_name = "FILE", conflicts_with = concat!($way, "rate"),
                help_heading = $heading, hide_short_help = $hidden)]
            rate_trace: Option<PathBuf>,
            /// Delay one way; a round trip takes that of both directions: 12.5ms, 40ms, 1s
            /// [default: 0ms].
            #[arg(id = concat!($way, "delay"), long = concat!($way, "delay"), value_name = "DELAY",
                value_parser = duration::parse, help_heading = $heading, hide_short_help = $hidden)]
            delay: Option<Duration>,
            /// Spread of single packets' delay: 5ms, "5ms normal", "5ms pareto may-reorder".
            ///
            /// The time is the half width of the uniform distribution, which is the default, and the
            /// standard deviation of the others. Packets keep their order unless they may reorder, which
            /// makes the mean delay longer where they are close together.
            #[arg(id = concat!($way, "jitter"), long = concat!($way, "jitter"), value_name = "JITTER",
                help_heading = $heading, hide_short_help = $hidden)]
            jitter: Option<Jitter>,
            /// Packets lost: 1%, "gilbert 1% burst 4", "packets 3 7 10-12".
            ///
            /// These are: 1 % at random; 1 % in bursts of 4 on average; exactly these packets, counted from 1. All
            /// parameters of the model of bursts: "gilbert p 0.25% r 25% good 0% bad 100%".
            #[arg(id = concat!($way, "loss"), long = concat!($way, "loss"), value_name = "LOSS",
                help_heading = $heading, hide_short_help = $hidden)]
            loss: Option<LossModel>,
            /// Share of packets that arrive twice: 1%.
            #[arg(id = concat!($way, "duplicate"), long = concat!($way, "duplicate"),
                value_name = "SHARE", help_heading = $heading, hide_short_help = $hidden)]
            duplicate: Option<Ratio>,
            /// Share of packets out of order: 1%, "1% early 5ms", "1% late 5ms".
            ///
            /// With the share alone they pass without the delay, and so overtake the packets before them.
            #[arg(id = concat!($way, "reorder"), long = concat!($way, "reorder"),
                value_name = "SHARE", help_heading = $heading, hide_short_help = $hidden)]
            reorder: Option<Reordering>,
            /// Share of packets that arrive with a wrong bit: 0.1%.
            #[arg(id = concat!($way, "corrupt"), long = concat!($way, "corrupt"),
                value_name = "SHARE", help_heading = $heading, hide_short_help = $hidden)]
            corrupt: Option<Ratio>,
            /// Amount that may wait: 64KB, 100ms, 50packets, none [default: 100ms, at least 64KiB].
            #[arg(id = concat!($way, "queue"), long = concat!($way, "queue"), value_name = "SIZE",
                help_heading = $heading, hide_short_help = $hidden)]
            queue: Option<Queue>,
            /// Drop packets from the queue's front when they wait too long (RFC 8289).
            #[arg(id = concat!($way, "codel"), long = concat!($way, "codel"),
                help_heading = $heading, hide_short_help = $hidden)]
            codel: bool,
            /// UDP apart from the rest: block, "rate 5mbit", "rate 5mbit burst 64KiB" [default: pass].
            ///
            /// Blocked, every UDP packet is dropped; with a rate those beyond it are, before loss and queue,
            /// as by a policer of tc-police(8), whose bucket holds 100ms of the rate, at least 64KiB, unless a
            /// burst is named. TCP passes as if nothing had been said.
            #[arg(id = concat!($way, "udp"), long = concat!($way, "udp"), value_name = "TREATMENT",
                help_heading = $heading, hide_short_help = $hidden)]
            udp: Option<UdpTreatment>,
        }

        impl From<&$name> for Settings {
            fn from(arguments: &$name) -> Self {
                let arguments = arguments.clone();
                Self {
                    rate: arguments.rate,
                    rate_trace: arguments.rate_trace,
                    delay: arguments.delay,
                    jitter: arguments.jitter,
                    loss: arguments.loss,
                    duplicate: arguments.duplicate,
                    reorder: arguments.reorder,
                    corrupt: arguments.corrupt,
                    queue: arguments.queue,
                    codel: arguments.codel,
                    udp: arguments.udp,
                }
            }
        }
    };
}

one_way!(Both, "", "The link, in each direction", false);
one_way!(Up, "up-", "From the client to the server, instead", true);
one_way!(
    Down,
    "down-",
    "From the server to the client, instead",
    true
);

impl Settings {
    /// The options of this direction, and for the rest those of both.
    fn or(self, both: &Self) -> Self {
        let both = both.clone();
        let says_rate = self.rate.is_some() || self.rate_trace.is_some();
        let (rate, rate_trace) = if says_rate {
            (self.rate, self.rate_trace)
        } else {
            (both.rate, both.rate_trace)
        };
        Self {
            rate,
            rate_trace,
            delay: self.delay.or(both.delay),
            jitter: self.jitter.or(both.jitter),
            loss: self.loss.or(both.loss),
            duplicate: self.duplicate.or(both.duplicate),
            reorder: self.reorder.or(both.reorder),
            corrupt: self.corrupt.or(both.corrupt),
            queue: self.queue.or(both.queue),
            codel: self.codel || both.codel,
            udp: self.udp.or(both.udp),
        }
    }

    fn config(self) -> Result<Config> {
        let rate = match &self.rate_trace {
            Some(file) => read_trace(file)?.into(),
            None => Rate::from(self.rate),
        };
        Ok(Config {
            queue: self.queue.unwrap_or_else(|| Queue::default_for(&rate)),
            rate,
            delay: self.delay.unwrap_or_default(),
            jitter: self.jitter.unwrap_or_default(),
            loss: self.loss.unwrap_or_default(),
            duplication: self.duplicate.unwrap_or_default(),
            reordering: self.reorder.unwrap_or_default(),
            corruption: self.corrupt.unwrap_or_default(),
            discipline: if self.codel {
                Discipline::CoDel
            } else {
                Discipline::DropTail
            },
            udp: self.udp.unwrap_or_default(),
        })
    }
}

fn read_trace(file: &Path) -> Result<Trace> {
    let shown = file.display();
    let mut text = String::new();
    // One byte more than a trace may have, so that a longer one is refused and not cut off.
    let most = Trace::MAX_TEXT as u64 + 1;
    File::open(file)
        .and_then(|file| file.take(most).read_to_string(&mut text))
        .with_context(|| format!("cannot read {shown}"))?;
    text.parse().map_err(|error| {
        usage_error(
            format!("{shown} is no trace of a rate: {error}"),
            "lines of whole ms (mahimahi), or CSV: a header `time_s,rate_mbit`, then lines like `0,20`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        path: PathArguments,
    }

    fn configs(line: &str) -> (Config, Config) {
        let words = std::iter::once("program").chain(line.split('|'));
        let program = Program::try_parse_from(words).unwrap();
        program.path.configs().unwrap()
    }

    #[test]
    fn nothing_said_is_a_link_that_changes_nothing() {
        let nothing = Program::try_parse_from(["program"]).unwrap();
        let (up, down) = nothing.path.configs().unwrap();
        assert_eq!((up, down), (Config::default(), Config::default()));
    }

    #[test]
    fn every_option_reaches_the_link() {
        let (up, down) = configs(
            "--rate=20mbit|--delay=40ms|--jitter=5ms normal|--loss=gilbert 1% burst 4|--queue=50packets\
             |--codel|--duplicate=1%|--reorder=2% late 5ms|--corrupt=3%|--udp=rate 5mbit",
        );
        assert_eq!(up, down);
        let expected = Config {
            rate: Rate::Fixed("20mbit".parse().unwrap()),
            delay: Duration::from_millis(40),
            jitter: "5ms normal".parse().unwrap(),
            loss: "gilbert 1% burst 4".parse().unwrap(),
            duplication: "1%".parse().unwrap(),
            reordering: "2% late 5ms".parse().unwrap(),
            corruption: "3%".parse().unwrap(),
            queue: Queue::Packets(50),
            discipline: Discipline::CoDel,
            udp: "rate 5mbit burst 64KiB".parse().unwrap(),
        };
        assert_eq!(up, expected);
    }

    #[test]
    fn what_is_said_of_one_direction_holds_there_instead() {
        let (up, down) = configs(
            "--rate=20mbit|--delay=10ms|--up-rate=1mbit|--down-loss=1%|--udp=block|--down-udp=pass",
        );
        assert_eq!(
            (up.udp, down.udp),
            (UdpTreatment::Block, UdpTreatment::Pass)
        );
        assert_eq!(up.rate, Rate::Fixed("1mbit".parse().unwrap()));
        assert_eq!(up.queue, Queue::default_for(&up.rate));
        assert_eq!(up.loss, LossModel::default());
        assert_eq!(down.rate, Rate::Fixed("20mbit".parse().unwrap()));
        assert_eq!(down.loss, "1%".parse().unwrap());
        assert_eq!(
            (up.delay, down.delay),
            (Duration::from_millis(10), up.delay)
        );
    }

    #[test]
    fn a_trace_of_one_direction_takes_the_place_of_the_rate_of_both() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "time_s,rate_mbit\n0,20\n3,2\n").unwrap();
        let trace = file.path().display();
        let (up, down) = configs(&format!("--rate=20mbit|--up-rate-trace={trace}"));
        assert!(matches!(up.rate, Rate::Trace(_)));
        assert_eq!(down.rate, Rate::Fixed("20mbit".parse().unwrap()));
    }
}
