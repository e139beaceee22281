//! `altway policy simulate`: what policies cost populations of clients, in virtual time.

mod candidate;
mod table;

use crate::Answer;
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_select::Surface;
use altway_simulate::{Mix, Outcome, Population, Region, SelectorPolicy, run as simulate};
use anyhow::Result;
use candidate::{Candidate, PolicySource};
use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Simulate weeks of visits to a site under one policy after the other, and say what each costs.
///
/// Populations of clients visit in virtual time. Clients differ in browser, network and distance, keep their
/// browser's Alt-Svc cache, and come again. All policies meet the same clients, visits and noise. Regret is the time
/// that a page took beyond that of the better protocol for it: no policy reaches 0, because one entry serves small
/// pages and large ones. The populations are invented, and the times follow a model that was fitted to the lab's
/// transfers: where real transfers disagree, they are right.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway policy simulate
  altway policy simulate --population metro-bulk --clients 20000
  altway policy simulate --population metro-web --policy learned --seed 61 \\
      --selection-log selection.jsonl
  altway policy simulate --policy learned --policy surface:mine.toml --policy study --json")]
pub(crate) struct Arguments {
    /// Populations, with commas: metro-bulk, metro-web, national-web or global-web, by the distance to the server and
    /// by what is loaded (web: pages; bulk: downloads).
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "metro-bulk,metro-web,national-web,global-web",
        hide_possible_values = true
    )]
    population: Vec<PopulationName>,
    /// Policy to try: h2, h3, threshold:…, study:…, surface:FILE, learned, learned:FILE, or clairvoyant, which knows
    /// each path as it really is; may be given several times.
    #[arg(long, value_name = "POLICY", default_values = ["h2", "h3", "learned", "clairvoyant"])]
    policy: Vec<Candidate>,
    /// Clients of each population.
    #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = RangedU64ValueParser::<u32>::new().range(200..=10_000_000))]
    clients: u32,
    /// Days of visits.
    #[arg(long, value_name = "N", default_value_t = 28, value_parser = RangedU64ValueParser::<u32>::new().range(1..=366))]
    days: u32,
    /// Visits a day of the median client, above 0.
    #[arg(long, value_name = "NUMBER", default_value = "0.4", value_parser = visits)]
    visits: f64,
    /// Seeds of the simulations, with commas; results are means over them.
    #[arg(
        long,
        value_name = "NUMBER",
        value_delimiter = ',',
        default_value = "61,62"
    )]
    seed: Vec<u64>,
    /// Clients that the server remembers at most.
    #[arg(long, value_name = "N", default_value_t = 131_072, value_parser = RangedU64ValueParser::<usize>::new().range(1_024..=16_777_216))]
    remembered: usize,
    /// File for the selection log that the server would write, of a single simulation, for `altway policy evaluate`.
    #[arg(long, value_name = "FILE")]
    selection_log: Option<PathBuf>,
    /// Print the results as JSON instead of the tables.
    #[arg(long)]
    json: bool,
}

/// The four populations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PopulationName {
    MetroBulk,
    MetroWeb,
    NationalWeb,
    GlobalWeb,
}

impl fmt::Display for PopulationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MetroBulk => "metro-bulk",
            Self::MetroWeb => "metro-web",
            Self::NationalWeb => "national-web",
            Self::GlobalWeb => "global-web",
        })
    }
}

impl PopulationName {
    fn world(self) -> (Region, Mix) {
        match self {
            Self::MetroBulk => (Region::Metro, Mix::BULK),
            Self::MetroWeb => (Region::Metro, Mix::WEB),
            Self::NationalWeb => (Region::National, Mix::WEB),
            Self::GlobalWeb => (Region::Global, Mix::WEB),
        }
    }
}

fn visits(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    number
        .filter(|number| (0.001..=100.0).contains(number))
        .ok_or_else(|| "expected a number from 0.001 to 100".into())
}

/// A policy in one world.
struct Job<'a> {
    population: Population,
    source: &'a PolicySource,
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let sources = arguments.policy.iter().map(Candidate::read);
    let sources = sources.collect::<Result<Vec<PolicySource>>>()?;
    let jobs = jobs(arguments, &sources);
    printer.say(&format!(
        "{} run{} of {} clients for {} days",
        jobs.len(),
        if jobs.len() == 1 { "" } else { "s" },
        arguments.clients,
        arguments.days
    ));
    let outcomes = match &arguments.selection_log {
        Some(file) => vec![logged(&jobs, arguments.remembered, file)?],
        None => all(&jobs, arguments.remembered),
    };
    let mut outcomes = outcomes.chunks(arguments.seed.len());
    let mut results = Vec::new();
    for people in &arguments.population {
        for policy in &arguments.policy {
            let outcomes = outcomes.next().unwrap_or_default();
            results.push(table::Row::new(*people, policy, outcomes));
        }
    }
    if arguments.json {
        printer.json(&results)?;
    } else {
        printer.data(&table::text(&results))?;
    }
    Ok(Answer::Done)
}

/// The outcome of a single run, whose selection log goes to `file`.
fn logged(jobs: &[Job<'_>], remembered: usize, file: &Path) -> Result<Outcome> {
    let [job] = jobs else {
        return Err(usage_error(
            format!("one log can't be that of {} runs", jobs.len()),
            "name one --population, one --policy and one --seed",
        ));
    };
    let PolicySource::SelectorPolicy(model, surface) = job.source else {
        return Err(usage_error(
            "this policy is none of the server's own, and keeps no log",
            "name learned, surface, threshold or study",
        ));
    };
    let surface = Surface::clone(surface);
    let mut policy = SelectorPolicy::remembering(remembered, model, surface).with_log();
    let outcome = simulate(&job.population, &mut policy);
    let unwritable = |error: io::Error| {
        usage_error(
            format!(
                "cannot write the selection log `{}`: {error}",
                file.display()
            ),
            "give a file in a folder that is there and that you may write to",
        )
    };
    let mut to = BufWriter::new(File::create(file).map_err(unwritable)?);
    for entry in policy.log() {
        serde_json::to_writer(&mut to, entry)?;
        to.write_all(b"\n").map_err(unwritable)?;
    }
    to.flush().map_err(unwritable)?;
    Ok(outcome)
}

/// Each policy in each world; those of a population and policy follow each other.
fn jobs<'a>(arguments: &Arguments, sources: &'a [PolicySource]) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    for people in &arguments.population {
        let (region, mix) = people.world();
        for source in sources {
            jobs.extend(arguments.seed.iter().map(|seed| Job {
                population: Population {
                    clients: arguments.clients,
                    days: arguments.days,
                    visits: arguments.visits,
                    ..Population::new(region, mix, *seed)
                },
                source,
            }));
        }
    }
    jobs
}

/// The outcomes in the order of the jobs, as many at once as there are processors.
fn all(jobs: &[Job<'_>], remembered: usize) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(jobs.len()));
    let work = || {
        while let Some((index, job)) = take(&next, jobs) {
            let outcome = simulate(&job.population, &mut *job.source.policy(remembered));
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((index, outcome));
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..processors.min(jobs.len()) {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn take<'a, 'b>(next: &AtomicUsize, jobs: &'a [Job<'b>]) -> Option<(usize, &'a Job<'b>)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(index).map(|job| (index, job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_in_the_order_of_their_jobs() {
        let sources: Vec<PolicySource> = ["h3", "h2"]
            .map(|text| text.parse::<Candidate>().unwrap().read().unwrap())
            .into();
        let population = Population {
            clients: 200,
            days: 3,
            ..Population::new(Region::Global, Mix::WEB, 1)
        };
        let job = |source| Job { population, source };
        let outcomes = all(&[job(&sources[0]), job(&sources[1])], 1_024);
        assert_eq!(outcomes[1].h3_share, 0.0);
        assert!(outcomes[0].h3_share > 0.5 && outcomes[0].pages == outcomes[1].pages);
    }

    #[test]
    fn a_client_visits_a_finite_number_of_times_above_0() {
        assert_eq!(visits("2.5"), Ok(2.5));
        for bad in ["0", "-1", "nan", "inf", "often"] {
            assert!(visits(bad).is_err(), "{bad}");
        }
    }
}
