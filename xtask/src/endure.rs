//! Trials of what a server has to bear for long or in numbers, against a release build: reloads under load, large
//! uploads, many of them over a lossy link, more files than descriptors, compressed forms. Each figure is printed
//! beside its bar.
//!
//! Left to others: who means harm (`attack`), and how fast it all is (`bench`). The tests have quick forms.

mod client;
mod server;
mod trials;
mod uploads;

use crate::shell;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Endure {
    /// Trials to run [default: all].
    names: Vec<String>,
    /// Name the trials, and run none.
    #[arg(long)]
    list: bool,
    /// Build of altway [default: target/release/altway, built].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// A trial: a name for the command line, a sentence, and what finds out.
struct Trial {
    name: &'static str,
    about: &'static str,
    run: fn(&Path) -> Result<Vec<Figure>>,
}

/// Something that was found out, and its bar.
#[derive(Debug)]
struct Figure {
    what: String,
    found: f64,
    /// The most that there may be.
    bar: f64,
    unit: &'static str,
}

impl Figure {
    fn new(what: impl Into<String>, found: f64, bar: f64, unit: &'static str) -> Self {
        Self {
            what: what.into(),
            found,
            bar,
            unit,
        }
    }

    fn is_met(&self) -> bool {
        self.found <= self.bar
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_met() { "met" } else { "MISSED" };
        let Self {
            what,
            found,
            bar,
            unit,
        } = self;
        write!(
            f,
            "  {what:<68} {found:>10.2}  <= {bar:>8.2} {unit:<3} {verdict}"
        )
    }
}

const TRIALS: [Trial; 5] = [
    Trial {
        name: "reloads",
        about: "1,000 reloads while clients of every protocol ask",
        run: trials::reloads,
    },
    Trial {
        name: "large-uploads",
        about: "a file of 2 GB uploaded over each protocol",
        run: trials::large_uploads,
    },
    Trial {
        name: "lossy-uploads",
        about: "200 uploads at once over a link that loses 1 % (as root)",
        run: trials::lossy_uploads,
    },
    Trial {
        name: "descriptors",
        about: "5,001 files for 500 connections under `ulimit -n 1024`",
        run: trials::descriptors,
    },
    Trial {
        name: "compressed",
        about: "processor time of a compressed form from the cache, beside a file of its size",
        run: trials::compressed,
    },
];

pub(crate) fn run(endure: &Endure) -> Result<()> {
    let chosen = chosen(&endure.names)?;
    if endure.list {
        for trial in chosen {
            shell::data(&format!("{:<16} {}\n", trial.name, trial.about))?;
        }
        return Ok(());
    }
    let program = match &endure.program {
        Some(program) => program.clone(),
        None => {
            shell::run("cargo build --release --locked -p altway")?;
            shell::target_folder().join("release/altway")
        }
    };
    let program = std::path::absolute(program)?;
    let mut missed = Vec::new();
    for trial in chosen {
        shell::data(&format!("{}: {}\n", trial.name, trial.about))?;
        let figures = (trial.run)(&program).with_context(|| trial.name.to_owned())?;
        for figure in &figures {
            shell::data(&format!("{figure}\n"))?;
        }
        if !figures.iter().all(Figure::is_met) {
            missed.push(trial.name);
        }
    }
    ensure!(missed.is_empty(), "bars MISSED by: {}", missed.join(", "));
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Trial>> {
    if names.is_empty() {
        return Ok(TRIALS.iter().collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        match TRIALS.iter().find(|trial| trial.name == name) {
            Some(trial) => chosen.push(trial),
            None => bail!("no trial is called {name}; see --list"),
        }
    }
    Ok(chosen)
}
