//! The folder of a run: `setup.json` first, each record as it comes, the summary at the end.

use super::bars;
use super::contender::Contender;
use super::cores::Cores;
use super::experiment::Experiment;
use super::network::{VETH, VethSettings};
use super::origin::Origin;
use super::workload::{Cell, Load};
use crate::go;
use crate::shell;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// 2: latency and the busiest worker's share. 3: memory before idle connections, datagrams lost, the
/// pace of new connections in milliseconds, bars of altway alone as a list. 4: requests a second, percentiles of
/// latency and what a proxy adds to them.
const SCHEMA_VERSION: u32 = 4;

/// Runs of one kind on one day.
const MOST_A_DAY: u32 = 1000;

/// All that has to be known to judge or repeat a run.
#[derive(Debug, Serialize)]
pub(crate) struct Setup {
    schema_version: u32,
    #[serde(flatten)]
    origin: Origin,
    seed: u64,
    rounds: u32,
    file_limit: u64,
    /// Settings of the virtual Ethernet devices of workloads over them; TCP's setting is another one than `host`'s.
    veth: Option<VethSettings>,
    /// Cores that the bench could use, and how they were shared out by number of workers. Empty:
    /// any.
    cores: Vec<usize>,
    cores_by_workers: BTreeMap<usize, Cores>,
    versions: BTreeMap<String, String>,
    cells: Vec<Measured>,
    bars: Bars,
}

#[derive(Debug, Serialize)]
struct Measured {
    #[serde(flatten)]
    cell: Cell,
    load: Load,
}

#[derive(Debug, Serialize)]
struct Bars {
    ratios: Vec<bars::RatioBar>,
    own: Vec<bars::OwnBar>,
}

impl Setup {
    /// Describes `experiment` on this machine.
    ///
    /// # Errors
    /// git doesn't tell the commit.
    pub(crate) fn of(experiment: &Experiment, programs: &Path) -> Result<Self> {
        let workers = experiment.cells.iter().map(|cell| cell.workers);
        let shared_out = |workers| (workers, Cores::shared_out(&experiment.cores, workers));
        let is_over_veth = experiment
            .cells
            .iter()
            .any(|cell| cell.workload.is_over_veth());
        let measured = |cell: &Cell| Measured {
            cell: *cell,
            load: experiment.load(cell.workload),
        };
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            origin: Origin::of_this_run()?,
            seed: experiment.seed,
            rounds: experiment.rounds,
            file_limit: experiment.file_limit,
            veth: is_over_veth.then_some(VETH),
            cores: experiment.cores.clone(),
            cores_by_workers: workers.map(shared_out).collect(),
            versions: versions(&experiment.contenders, programs),
            cells: experiment.cells.iter().map(measured).collect(),
            bars: Bars {
                ratios: bars::RATIOS.to_vec(),
                own: bars::OWN.to_vec(),
            },
        })
    }

    /// The run's folder is to be called so.
    pub(crate) fn folder_name(&self, bench: &str) -> String {
        self.origin.folder_name(bench, self.cores.len())
    }
}

/// A run's folder while it is written.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    records: csv::Writer<File>,
}

impl Folder {
    /// Makes a new folder `name` in `parent` and writes `setup.json` into it.
    ///
    /// # Errors
    /// It can't be written.
    pub(crate) fn create(parent: &Path, name: &str, setup: &impl Serialize) -> Result<Self> {
        let path = new_folder(parent, name)?;
        let json = serde_json::to_string_pretty(setup)?;
        fs::write(path.join("setup.json"), json + "\n")?;
        let records = csv::Writer::from_path(path.join("records.csv"))?;
        Ok(Self { path, records })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a line of `records.csv`; it stays, whatever happens next.
    ///
    /// # Errors
    /// It can't be written.
    pub(crate) fn keep(&mut self, record: &impl Serialize) -> Result<()> {
        self.records.serialize(record)?;
        self.records.flush().context("cannot write records.csv")
    }

    /// Writes `csv` as `summary.csv`, and `text` as `summary.txt`.
    ///
    /// # Errors
    /// They can't be written.
    pub(crate) fn finish(&self, csv: &[u8], text: &str) -> Result<()> {
        fs::write(self.path.join("summary.csv"), csv)?;
        fs::write(self.path.join("summary.txt"), text)?;
        Ok(())
    }
}

/// `name`, or `name-2` and so on when there is one already.
///
/// # Errors
/// The folder can't be made.
pub(super) fn new_folder(parent: &Path, name: &str) -> Result<PathBuf> {
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    for number in 1..=MOST_A_DAY {
        let path = match number {
            1 => parent.join(name),
            _ => parent.join(format!("{name}-{number}")),
        };
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).context(format!("cannot make {}", path.display())),
        }
    }
    bail!("too many runs of a day in {}", parent.display())
}

/// Versions that each program says of itself, and the libraries of those built here.
fn versions(contenders: &[Contender], programs: &Path) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for contender in contenders {
        let version = match contender {
            Contender::AltwayLog
            | Contender::AltwayRoundRobin
            | Contender::AltwayOneSite
            | Contender::AltwayManySites
            | Contender::AltwayH2
            | Contender::Direct => continue,
            Contender::Hyper => libraries(&fs::read_to_string("Cargo.lock").unwrap_or_default()),
            Contender::Altway | Contender::AltwayBefore | Contender::Nghttpd => {
                says(*contender, programs, "--version")
            }
            Contender::H2o => says(*contender, programs, "-v"),
            Contender::Nginx => says(*contender, programs, "-V"),
            Contender::Haproxy => says(*contender, programs, "-v"),
            Contender::QuicGo => says(*contender, programs, "-version"),
            // It knows its version only when it was built from a checkout.
            Contender::Caddy => go::CADDY.into(),
        };
        versions.insert(contender.to_string(), version);
    }
    if let Some(program) = shell::find("h2load") {
        versions.insert("h2load".into(), first_lines(&program, "--version"));
    }
    versions
}

fn says(contender: Contender, programs: &Path, argument: &str) -> String {
    let program = contender.program(programs);
    program.map_or("unknown".into(), |program| first_lines(&program, argument))
}

/// The two lines that name program and TLS library, on either stream.
fn first_lines(program: &Path, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    let text = output.map_or_else(
        |_| "unknown".into(),
        |output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
    );
    text.lines().take(2).collect::<Vec<_>>().join("; ")
}

/// `hyper 1.2.3, h2 …` from the lock file.
fn libraries(lock: &str) -> String {
    let names = ["hyper", "h2", "rustls", "tokio", "aws-lc-rs"];
    let version = |name: &str| {
        let entry = format!("name = \"{name}\"\nversion = \"");
        let (_, rest) = lock.split_once(&entry)?;
        let (version, _) = rest.split_once('"')?;
        Some(format!("{name} {version}"))
    };
    names
        .into_iter()
        .filter_map(version)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_of_a_day_gets_a_folder_of_its_own() {
        let parent = tempfile::tempdir().unwrap();
        let names = [(); 3].map(|()| {
            let path = new_folder(parent.path(), "day-bench").unwrap();
            path.file_name().unwrap().to_str().unwrap().to_owned()
        });
        assert_eq!(names, ["day-bench", "day-bench-2", "day-bench-3"]);
    }

    #[test]
    fn library_versions_come_from_the_lock_file() {
        let lock = "[[package]]\nname = \"h2\"\nversion = \"0.4.1\"\n\n\
                    [[package]]\nname = \"hyper\"\nversion = \"1.2.3\"\n";
        assert_eq!(libraries(lock), "hyper 1.2.3, h2 0.4.1");
    }
}
