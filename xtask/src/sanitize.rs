//! AddressSanitizer and valgrind's memcheck over the `unsafe` code that a server links, its own and that of the crates it depends on.
//!
//! The pinned toolchain has the sanitizer's runtime, and takes the flag when it is told that it may. Miri
//! is of no use here: every such block of ours is a call to the kernel, which it does not carry out. What Miri would see of
//! such a call and AddressSanitizer does not, memory without a value that is handed to the kernel, memcheck sees.

use crate::shell;
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

/// The packages whose tests run unless others are named, each with the kinds of its tests: those that have `unsafe` and are
/// linked by a server, and `altway-serve`, whose tests are what calls that of the first and of HTTP's and TLS's crates.
const PACKAGES: [(&str, &str); 3] = [
    ("altway-socket", "--lib"),
    ("altway-serve", "--lib --test it"),
    ("altway", "--bins"),
];

/// The packages whose tests run under memcheck unless others are named: those that hand memory to the kernel by `unsafe` of
/// their own and are linked by a server.
const MEMCHECK_PACKAGES: [(&str, &str); 1] = [("altway-socket", "--lib")];

/// Reports of memcheck that are none, each with the reason.
const SUPPRESSIONS: &str = "xtask/memcheck.supp";

/// The kinds of tests of a package that is named and not in that table. Not the examples of the documentation: they get no
/// flags, and can't be linked.
const KINDS: &str = "--tests";

/// `asan`: the allocator is the system's, whose memory the sanitizer watches.
const ASAN_FLAGS: &str = "-Zsanitizer=address --cfg asan -Cforce-frame-pointers=yes";

/// Options of cargo by which packages share the dependencies that were built for one of them.
const ONE_BUILD: &str = "-Zfeature-unification --config resolver.feature-unification=\"workspace\"";

#[derive(Args)]
pub(crate) struct Sanitize {
    /// Packages whose tests are run [default: altway-socket, altway-serve, altway; with --memcheck altway-socket].
    ///
    /// All tests of one that is not a default are run, integration tests as well. They begin servers that are watched like
    /// themselves. What is written in other languages than Rust, as the primitives of TLS are, is not watched.
    packages: Vec<String>,
    /// Run the tests whose path has this in it alone.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Run them under valgrind's memcheck: they fail where memory that was given no value is handed to the kernel or decides
    /// anything. Programs that the tests begin are not watched.
    #[arg(long)]
    memcheck: bool,
}

/// Runs the tests of each package.
///
/// # Errors
/// One fails, or a program touches memory that is not its own or that it has given back, or leaks some; with memcheck, one
/// uses memory that has no value.
pub(crate) fn run(sanitize: &Sanitize) -> Result<()> {
    let (usual, tool): (&[_], Tool) = match sanitize.memcheck {
        true => (&MEMCHECK_PACKAGES, under_memcheck),
        false => (&PACKAGES, under_asan),
    };
    if sanitize.memcheck {
        shell::find("valgrind").context("valgrind is missing: `cargo xtask setup` installs it")?;
    }
    let only = sanitize.only.as_deref().unwrap_or_default();
    let mut failed = Vec::new();
    for (package, kinds) in chosen(&sanitize.packages, usual) {
        if let Err(error) = run_package(package, &format!("{kinds} {only}"), tool) {
            shell::say(&format!("{package}: {error:#}"));
            failed.push(package);
        }
    }
    ensure!(failed.is_empty(), "not clean: {}", failed.join(", "));
    Ok(())
}

fn chosen<'n>(
    named: &'n [String],
    usual: &'n [(&'static str, &'static str)],
) -> Vec<(&'n str, &'n str)> {
    if named.is_empty() {
        return usual.to_vec();
    }
    let kinds = |name: &str| {
        let known = PACKAGES.iter().find(|(package, _)| *package == name);
        known.map_or(KINDS, |(_, kinds)| *kinds)
    };
    named.iter().map(|it| (it.as_str(), kinds(it))).collect()
}

/// Runs the tests that options of `cargo test` name, and has what is found written to a folder.
type Tool = fn(tests: &str, reports: &Path) -> Result<()>;

fn run_package(package: &str, tests: &str, tool: Tool) -> Result<()> {
    let folder = target_folder().join("reports").join(package);
    let reports = empty_folder(&folder)?;
    let ran = tool(&format!("-p {package} {tests}"), &reports);
    let found = reports_in(&reports)?;
    for report in &found {
        shell::say(&fs::read_to_string(report)?);
    }
    ensure!(
        found.is_empty(),
        "something was found in {} programs: see {}",
        found.len(),
        reports.display()
    );
    ran
}

fn target_folder() -> PathBuf {
    shell::target_folder().join("sanitize")
}

fn under_asan(tests: &str, reports: &Path) -> Result<()> {
    // With `--target`, the flags stay away from build scripts and macros.
    let line = format!(
        "cargo {ONE_BUILD} test --locked --no-fail-fast --target {ARCH}-unknown-linux-gnu --target-dir {} {tests}",
        target_folder().display()
    );
    // A server that a test has begun may be asked no more for what it said: what is found is kept in files.
    let options = format!(
        "log_path={}:detect_leaks=1",
        reports.join("report").display()
    );
    let variables = [
        ("RUSTC_BOOTSTRAP", "1"),
        ("RUSTFLAGS", ASAN_FLAGS),
        ("ASAN_OPTIONS", &options),
    ];
    shell::run_with(&line, &variables)
}

/// Runs tests as they are built for `cargo test`. Leaks are AddressSanitizer's to find.
fn under_memcheck(tests: &str, reports: &Path) -> Result<()> {
    let runner = format!(
        "CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER",
        ARCH.to_uppercase()
    );
    // The tests run in the folder of their package.
    let suppressions = Path::new(SUPPRESSIONS).canonicalize()?;
    // Threads that wait for each other need their turns: valgrind lets one run at a time.
    let valgrind = format!(
        "valgrind --quiet --leak-check=no --track-origins=yes --fair-sched=yes --suppressions={} --log-file={}/report.%p",
        suppressions.display(),
        reports.display()
    );
    let line = format!("cargo test --locked --no-fail-fast {tests}");
    shell::run_with(&line, &[(&runner, &valgrind)])
}

/// Makes a folder whose reports are those of this run; its path from the root, for programs that begin elsewhere.
fn empty_folder(folder: &Path) -> Result<PathBuf> {
    let _ = fs::remove_dir_all(folder);
    let made = fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
    made.with_context(|| format!("cannot make {}", folder.display()))
}

/// Lists the reports that say anything; memcheck begins one for each program.
fn reports_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut reports = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.metadata()?.len() > 0 {
            reports.push(entry.path());
        }
    }
    reports.sort();
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_are_named_replace_the_usual_ones_and_keep_their_kinds() {
        assert_eq!(chosen(&[], &PACKAGES), PACKAGES);
        assert_eq!(chosen(&[], &MEMCHECK_PACKAGES), MEMCHECK_PACKAGES);
        let named = ["altway-emulate".to_owned(), "altway".to_owned()];
        assert_eq!(
            chosen(&named, &PACKAGES),
            [("altway-emulate", KINDS), ("altway", "--bins")]
        );
    }
}
