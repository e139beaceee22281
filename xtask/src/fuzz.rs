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

const TARGETS: [&str; 11] = [
    "frames",
    "hpack",
    "connection",
    "qpack",
    "streams",
    "datagrams",
    "gate",
    "requests",
    "takeover",
    "relay",
    "server",
];

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
    #[arg(value_parser = TARGETS)]
    target: Option<String>,
    /// Time that each target runs, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Don't fuzz, but bring what earlier runs have found into fuzz/corpus/, as far as it adds
    /// coverage.
    #[arg(long)]
    keep: bool,
}

impl Fuzz {
    /// Returns what CI does: six minutes in all.
    pub(crate) fn all_in_short() -> Self {
        Self {
            target: None,
            seconds: 360 / TARGETS.len() as u32,
            keep: false,
        }
    }
}

pub(crate) fn run(fuzz: &Fuzz) -> Result<()> {
    if let Some(reason) = missing()? {
        shell::say(&format!("SKIPPED fuzzing: {reason}"));
        return Ok(());
    }
    let programs = build()?;
    for target in TARGETS {
        if fuzz.target.as_deref().is_none_or(|only| only == target) {
            let run = Target::new(target, &programs)?;
            if fuzz.keep {
                run.keep()?;
            } else {
                run.fuzz(fuzz.seconds)?;
            }
        }
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
    program: PathBuf,
    /// Folder of what earlier runs found.
    found: PathBuf,
    crashes: PathBuf,
    committed: PathBuf,
}

impl Target {
    fn new(name: &str, programs: &Path) -> Result<Self> {
        let target = Self {
            program: programs.join(name),
            found: folder().join("corpus").join(name),
            crashes: folder().join("crashes").join(name),
            committed: Path::new("fuzz/corpus").join(name),
        };
        fs::create_dir_all(&target.found)?;
        fs::create_dir_all(&target.crashes)?;
        Ok(target)
    }

    fn fuzz(&self, seconds: u32) -> Result<()> {
        let line = format!(
            "{} {} {} -max_total_time={seconds} -max_len={MAX_LEN} -timeout=10 -verbosity=0 \
             -print_final_stats=1 -artifact_prefix={}/",
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
