//! Options that every bench takes, and those of the benches of HTTP/2.

use super::contender::Contender;
use super::workload::Transport;
use anyhow::{Context, Result};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::fs;
use std::path::{Path, PathBuf};

/// A quick run has a tenth of the work.
const QUICK_DIVISOR: u64 = 10;

const QUICK_ROUNDS: u32 = 2;
const ROUNDS: u32 = 5;

#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Rounds, in each of which everything is measured once [default: 5; quick: 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// A tenth of the work: to see that it works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Measure the release binaries as they are (`setup.json` tells their commit).
    #[arg(long)]
    pub(crate) no_build: bool,
    /// Measure another build of altway beside this one, for instance that of the commit before: its
    /// program. This one may cost 1.03 of it.
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
    /// Shuffles the order within the rounds [default: from the clock; printed].
    #[arg(long)]
    seed: Option<u64>,
    /// Write the run's folder in here [default: results, quick: runs].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Common {
    pub(crate) fn rounds(&self) -> u32 {
        let default = if self.quick { QUICK_ROUNDS } else { ROUNDS };
        self.rounds.unwrap_or(default)
    }

    pub(crate) fn divisor(&self) -> u64 {
        if self.quick { QUICK_DIVISOR } else { 1 }
    }

    /// The one of a whole run, or that of a quick one.
    pub(crate) fn of<T>(&self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| fastrand::u64(..))
    }

    /// The other build, put where the programs are.
    ///
    /// # Errors
    /// It can't be copied.
    pub(crate) fn before(&self, programs: &Path) -> Result<Option<Contender>> {
        let Some(program) = &self.before else {
            return Ok(None);
        };
        let copy = programs.join(Contender::AltwayBefore.name());
        fs::copy(program, copy).with_context(|| format!("cannot copy {}", program.display()))?;
        Ok(Some(Contender::AltwayBefore))
    }

    /// The folder for the run's folder.
    pub(crate) fn parent(&self) -> PathBuf {
        let default = if self.quick { "runs" } else { "results" };
        self.out.clone().unwrap_or(Path::new(default).to_owned())
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Transports {
    /// Only over TLS.
    #[arg(long, conflicts_with = "h2c")]
    tls: bool,
    /// Only in clear text (prior knowledge).
    #[arg(long)]
    h2c: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Sites {
    /// Measure altway by a file of so many sites beside it as it is: each may cost 1.03 of that.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = ["1", "1000"])]
    sites: Vec<String>,
}

impl Sites {
    /// The servers that were asked for.
    pub(crate) fn contenders(&self) -> Vec<Contender> {
        let known = [Contender::AltwayOneSite, Contender::AltwayManySites];
        let is_asked_for = |it: &Contender| {
            let count = it.sites().map(|count| count.to_string());
            count.is_some_and(|count| self.sites.contains(&count))
        };
        known.into_iter().filter(is_asked_for).collect()
    }
}

impl Transports {
    pub(crate) fn chosen(&self) -> &'static [Transport] {
        match (self.h2c, self.tls) {
            (true, _) => &[Transport::H2c],
            (_, true) => &[Transport::Tls],
            _ => &[Transport::H2c, Transport::Tls],
        }
    }
}

/// Takes one of `choices` by its name: a bench has only some of all servers and workloads.
pub(crate) fn one_of<T>(choices: &[T]) -> impl TypedValueParser<Value = T> + use<T>
where
    T: ValueEnum + Send + Sync + 'static,
{
    let values = choices.iter().filter_map(ValueEnum::to_possible_value);
    PossibleValuesParser::new(values)
        .map(|name| T::from_str(&name, true).expect("the parser takes no other name"))
}

/// Returns what was chosen, or all when nothing was.
pub(crate) fn chosen_or_all<T: Clone>(chosen: &[T], all: &[T]) -> Vec<T> {
    if chosen.is_empty() { all } else { chosen }.to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::workload::Workload;
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[arg(long, ignore_case = true, value_parser = one_of(&[Workload::Hq1, Workload::Ramp]))]
        only: Option<Workload>,
    }

    #[test]
    fn a_bench_takes_its_own_workloads_in_any_case_and_no_others() {
        let parse = |name| Line::try_parse_from(["bench", "--only", name]);
        for name in ["HQ1", "hq1"] {
            assert_eq!(
                parse(name).ok().and_then(|line| line.only),
                Some(Workload::Hq1)
            );
        }
        let error = parse("W1").err().map(|error| error.to_string());
        assert!(error.is_some_and(|text| text.contains("HQ1, ramp")));
    }

    #[derive(Parser)]
    struct SitesLine {
        #[command(flatten)]
        sites: Sites,
    }

    #[test]
    fn files_of_sites_are_measured_when_they_are_asked_for() {
        let parse = |line: &[&str]| {
            let line = [&["bench"], line].concat();
            SitesLine::try_parse_from(line).map(|it| it.sites.contenders())
        };
        let both = [Contender::AltwayOneSite, Contender::AltwayManySites];
        assert_eq!(parse(&[]).unwrap(), []);
        assert_eq!(parse(&["--sites", "1,1000"]).unwrap(), both);
        assert_eq!(parse(&["--sites", "1000"]).unwrap(), both[1..]);
        assert!(parse(&["--sites", "2"]).is_err());
    }

    #[test]
    fn nothing_chosen_is_everything() {
        assert_eq!(chosen_or_all(&[], &[1, 2]), [1, 2]);
        assert_eq!(chosen_or_all(&[2], &[1, 2]), [2]);
    }
}
