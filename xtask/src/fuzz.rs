//! Fuzzing: builds the targets of `fuzz/` with the coverage counters that libFuzzer reads, and runs
//! them. All of it is in the pinned toolchain; why, stands in docs/decisions/0014.
//!
//! Findings stay in the target folder from one run to the next; `--keep` brings what adds
//! coverage into the committed corpus.

use crate::shell;
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};

/// Targets, and how many inputs CI tries of each: about half a minute's.
const TARGETS: [(&str, u32); 11] = [
    ("frames", 1_000_000),
    ("hpack", 800_000),
    ("connection", 50_000),
    ("qpack", 500_000),
    ("streams", 25_000),
    ("datagrams", 8000),
    ("gate", 400_000),
    ("requests", 1_000_000),
    ("takeover", 500_000),
    ("relay", 500_000),
    ("server", 30_000),
];

/// State in which CI's random numbers begin.
const SEED_IN_CI: u32 = 1;

/// Time after which CI leaves a target on a slow machine, in seconds.
const MAX_SECONDS_IN_CI: u32 = 90;

/// The sections that libFuzzer reads are those of ELF.
const SYSTEM: &str = "linux";

/// SanitizerCoverage, the pass of LLVM that every rustc has. One codegen unit, for the sections of
/// several are put together wrongly by some linkers.
const RUSTFLAGS: &str = "--cfg fuzzing \
     -Cpasses=sancov-module \
     -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
     -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares \
     -Ccodegen-units=1";

/// Longer inputs are slower and say nothing new.
const MAX_LEN: usize = 2048;

/// Longest input that is kept for good, bytes.
const MAX_KEPT_LEN: usize = 512;

#[derive(Args)]
pub(crate) struct Fuzz {
    /// Target to fuzz alone [default: all].
    #[arg(value_parser = TARGETS.map(|(name, _)| name))]
    target: Option<String>,
    /// Time that each target runs, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Don't fuzz, but bring what earlier runs have found into fuzz/corpus/, as far as it adds
    /// coverage.
    #[arg(long)]
    keep: bool,
}

/// Fuzzes by chance, and keeps what it finds for the next time.
pub(crate) fn run(fuzz: &Fuzz) -> Result<()> {
    with_targets("corpus", |target| {
        let only = fuzz.target.as_deref();
        if only.is_some_and(|only| only != target.name) {
            return Ok(());
        }
        if fuzz.keep {
            return target.keep();
        }
        target.fuzz(&format!("-max_total_time={}", fuzz.seconds))
    })
}

/// Tries the committed inputs and others made of them, which are the same whenever the program is: what CI
/// says of a change hangs on the change, as far as a target's own course does. Chance is for [`run`].
pub(crate) fn run_in_ci() -> Result<()> {
    with_targets("ci", |target| {
        let runs = target.runs;
        target.forget()?;
        target.fuzz(&format!(
            "-seed={SEED_IN_CI} -runs={runs} -max_total_time={MAX_SECONDS_IN_CI}"
        ))
    })
}

/// Builds the targets and gives each, with a folder for what it finds below `findings`.
fn with_targets(findings: &str, mut each: impl FnMut(&Target) -> Result<()>) -> Result<()> {
    if let Some(reason) = missing()? {
        shell::say(&format!("SKIPPED fuzzing: {reason}"));
        return Ok(());
    }
    let programs = build()?;
    for (name, runs) in TARGETS {
        each(&Target::new(name, runs, &programs, findings)?)?;
    }
    Ok(())
}

/// Returns what this machine lacks, if anything.
fn missing() -> Result<Option<String>> {
    if std::env::consts::OS != SYSTEM {
        return Ok(Some(format!("libFuzzer is built for {SYSTEM} alone")));
    }
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    if !shell::succeeds(&format!("{compiler} --version")) {
        return Ok(Some("libFuzzer needs a C++ compiler; install g++".into()));
    }
    let fetch = format!("cargo fetch --locked --target {}", host()?);
    let fetched = shell::run_with(&fetch, &[("RUSTFLAGS", RUSTFLAGS)]);
    Ok(fetched
        .is_err()
        .then(|| "the source of libFuzzer can't be fetched".into()))
}

fn host() -> Result<String> {
    let version = shell::output("rustc -vV")?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

/// Builds every target, apart from what other builds need; the folder of the programs.
fn build() -> Result<PathBuf> {
    let (host, folder) = (host()?, folder());
    // With `--target`, the flags stay away from build scripts and macros.
    let line = format!(
        "cargo build --locked --package altway-fuzz --bins --profile fuzz --target {host} \
         --target-dir {}",
        folder.display()
    );
    shell::run_with(&line, &[("RUSTFLAGS", RUSTFLAGS)])?;
    Ok(folder.join(host).join("fuzz"))
}

fn folder() -> PathBuf {
    shell::target_folder().join("fuzz")
}

/// A target, and where its inputs are.
struct Target {
    name: &'static str,
    /// Inputs that CI tries.
    runs: u32,
    program: PathBuf,
    /// Folder of what earlier runs found.
    found: PathBuf,
    crashes: PathBuf,
    committed: PathBuf,
}

impl Target {
    fn new(name: &'static str, runs: u32, programs: &Path, findings: &str) -> Result<Self> {
        let target = Self {
            name,
            runs,
            program: programs.join(name),
            found: folder().join(findings).join(name),
            crashes: folder().join("crashes").join(name),
            committed: Path::new("fuzz/corpus").join(name),
        };
        fs::create_dir_all(&target.found)?;
        fs::create_dir_all(&target.crashes)?;
        Ok(target)
    }

    /// Deletes what earlier runs found.
    fn forget(&self) -> Result<()> {
        fs::remove_dir_all(&self.found)?;
        Ok(fs::create_dir(&self.found)?)
    }

    /// Fuzzes, from what earlier runs found and the committed inputs on, with libFuzzer's `options`.
    fn fuzz(&self, options: &str) -> Result<()> {
        let line = format!(
            "{} {} {} {options} -max_len={MAX_LEN} -timeout=10 -verbosity=0 -print_final_stats=1 \
             -artifact_prefix={}/",
            self.program.display(),
            self.found.display(),
            self.committed.display(),
            self.crashes.display(),
        );
        shell::run(&line).with_context(|| {
            format!(
                "fuzzing found something: mend it, and put the input (see {}) into {}",
                self.crashes.display(),
                self.committed.display()
            )
        })
    }

    /// Merges by which code is reached and not how often: else the corpus would be ten times as
    /// large.
    fn keep(&self) -> Result<()> {
        ensure!(self.committed.exists(), "no corpus to add to");
        shell::run(&format!(
            "{} -merge=1 -use_counters=0 -max_len={MAX_KEPT_LEN} -verbosity=0 {} {}",
            self.program.display(),
            self.committed.display(),
            self.found.display()
        ))
    }
}
