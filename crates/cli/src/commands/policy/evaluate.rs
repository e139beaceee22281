//! `altway policy evaluate`: what a server's policy was worth, and what others would have been, from its selection log.

mod estimate;
mod read;
mod table;
mod timing;

use super::surface;
use crate::Answer;
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_select::replay::{MAX_POLICIES, PageTrial, Replay, ReplayCounts};
use altway_select::{Model, ModelKind, Surface};
use anyhow::Result;
use read::Log;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use timing::Timing;

/// Estimate from a server's selection log how its policy did and how others would have done, with intervals.
///
/// Chance decides for the clients of the hold-out (`--policy learned`), and the log has the probability of each
/// decision. From these follows how long pages would have taken under h2, under h3 and under any other policy: by
/// weights (SNIPS), and by the predictions of a surface, corrected by the weights (doubly robust). Clients are
/// compared by what they were told, whether they followed or not; a client's first visit shows the effect of what it
/// had been told before. The server is not asked. Where the site has a beacon, the result also says how far the
/// server's times are from those of browsers.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway serve --selection-log selection.jsonl --state-dir state &
  altway policy evaluate selection.jsonl
  altway policy evaluate selection.jsonl.1 selection.jsonl \\
      --policy surface --policy mine.toml --json")]
pub(crate) struct Arguments {
    /// Files that `altway serve --selection-log FILE` wrote.
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
    /// Policies to evaluate beside h2 and h3: surface, surface:FILE or FILE, learned, learned:FILE, threshold:…,
    /// study:…; may be given several times.
    #[arg(long, value_name = "POLICY")]
    policy: Vec<PolicyArgument>,
    /// The surface by which times are predicted [default: the one that ships].
    #[arg(long, value_name = "FILE")]
    surface: Option<PathBuf>,
    /// Print the estimates as JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// A policy as it is named: a model, or a surface's file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PolicyArgument(ModelKind);

impl FromStr for PolicyArgument {
    type Err = altway_select::ParseModelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(kind) => Ok(Self(kind)),
            Err(_) if Path::new(text).is_file() => Ok(Self(ModelKind::Surface(Some(text.into())))),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for PolicyArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PolicyArgument {
    fn model(&self) -> Result<Box<dyn Model>> {
        Ok(self.0.build(&surface::of(&self.0)?))
    }
}

/// All that was read.
struct ReplayedLogs {
    trials: Vec<PageTrial>,
    counts: ReplayCounts,
    log: Log,
    timing: Timing,
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let asked = asked(&arguments.policy)?;
    let models = asked
        .iter()
        .map(PolicyArgument::model)
        .collect::<Result<Vec<_>>>()?;
    let surface = match &arguments.surface {
        Some(file) => surface::read(file)?,
        None => Surface::embedded().clone(),
    };
    let replayed = replay(&arguments.logs, Replay::new(surface, models))?;
    replayed.log.warn(printer);
    check(&replayed)?;
    let names: Vec<String> = asked.iter().map(ToString::to_string).collect();
    let estimates = estimate::estimates(&replayed, &names);
    if arguments.json {
        printer.json(&estimates)?;
    } else {
        printer.data(&table::text(&estimates))?;
    }
    Ok(Answer::Done)
}

/// h2, h3, and what was named, each once.
fn asked(named: &[PolicyArgument]) -> Result<Vec<PolicyArgument>> {
    let mut asked = vec![
        PolicyArgument(ModelKind::FixedH2),
        PolicyArgument(ModelKind::FixedH3),
    ];
    for policy in named {
        if !asked.contains(policy) {
            asked.push(policy.clone());
        }
    }
    if asked.len() > MAX_POLICIES {
        return Err(usage_error(
            format!("{} policies are too many at once", asked.len()),
            format!("ask {} beside h2 and h3 at most", MAX_POLICIES - 2),
        ));
    }
    Ok(asked)
}

fn replay(files: &[PathBuf], mut replay: Replay) -> Result<ReplayedLogs> {
    let (mut log, mut trials) = (Log::default(), Vec::new());
    let mut timing = Timing::default();
    for file in read::in_order(files)? {
        log.read(&file, |entry| {
            timing.read(entry);
            trials.extend(replay.read(entry));
        })?;
    }
    Ok(ReplayedLogs {
        timing,
        trials,
        counts: *replay.counts(),
        log,
    })
}

/// # Errors
/// Nothing can be said, for a reason that has a mend.
fn check(replayed: &ReplayedLogs) -> Result<()> {
    let counts = &replayed.counts;
    if counts.lines == 0 && replayed.log.damaged > 0 {
        return Err(usage_error(
            format!(
                "none of {} lines is one of a selection log",
                replayed.log.damaged
            ),
            "name a file that `altway serve --selection-log FILE` wrote; an access log is none",
        ));
    }
    if counts.pages == 0 {
        return Err(usage_error(
            "the log has no page",
            "`altway serve --selection-log FILE`, or `selection` under [log], writes a line for each page, a second \
             after its last response; there must be HTTP/3 to offer",
        ));
    }
    if replayed.trials.is_empty() {
        return Err(usage_error(
            format!(
                "none of {} pages is of a client that had been told anything before",
                counts.pages
            ),
            "an offer shows in the visits after it: wait until clients come again. With --state-dir a client is the \
             same after a restart",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h2_and_h3_are_always_asked_and_each_once() {
        let named = ["h3", "surface", "surface"].map(|it| it.parse::<PolicyArgument>().unwrap());
        let asked = asked(&named).unwrap();
        let names: Vec<String> = asked.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["h2", "h3", "surface"]);
        assert!("h4".parse::<PolicyArgument>().is_err());
    }
}
