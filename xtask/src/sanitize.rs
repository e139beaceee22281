//! AddressSanitizer over the `unsafe` code that a server links, its own and that of the crates it depends on.
//!
//! The pinned toolchain has the sanitizer's runtime, and takes the flag when it is told that it may. Miri
//! is of no use here: every such block of ours is a call to the kernel, which it does not carry out.

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

/// The kinds of tests of a package that is named and not in that table. Not the examples of the documentation: they get no
/// flags, and can't be linked.
const KINDS: &str = "--tests";

/// `asan`: the allocator is the system's, whose memory the sanitizer watches.
const RUSTFLAGS: &str = "-Zsanitizer=address --cfg asan -Cforce-frame-pointers=yes";

/// Options of cargo by which packages share the dependencies that were built for one of them.
const ONE_BUILD: &str = "-Zfeature-unification --config resolver.feature-unification=\"workspace\"";

#[derive(Args)]
pub(crate) struct Sanitize {
    /// Packages whose tests are run [default: altway-socket, altway-serve, altway].
    ///
    /// All tests of one that is not a default are run, integration tests as well. They begin servers that are watched like
    /// themselves. What is written in other languages than Rust, as the primitives of TLS are, is not watched.
    packages: Vec<String>,
    /// Run the tests whose path has this in it alone.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Runs the tests of each package.
///
/// # Errors
/// One fails, or a program touches memory that is not its own or that it has given back, or leaks some.
pub(crate) fn run(sanitize: &Sanitize) -> Result<()> {
    let mut failed = Vec::new();
    for (package, kinds) in chosen(&sanitize.packages) {
        if let Err(error) = run_package(package, kinds, sanitize.only.as_deref()) {
            shell::say(&format!("{package}: {error:#}"));
            failed.push(package);
        }
    }
    ensure!(failed.is_empty(), "not clean: {}", failed.join(", "));
    Ok(())
}

fn chosen(named: &[String]) -> Vec<(&str, &str)> {
    if named.is_empty() {
        return PACKAGES.to_vec();
    }
    let kinds = |name: &str| {
        let known = PACKAGES.iter().find(|(package, _)| *package == name);
        known.map_or(KINDS, |(_, kinds)| *kinds)
    };
    named.iter().map(|it| (it.as_str(), kinds(it))).collect()
}

fn run_package(package: &str, kinds: &str, only: Option<&str>) -> Result<()> {
    let folder = shell::target_folder().join("sanitize");
    let reports = empty_folder(&folder.join("reports").join(package))?;
    // With `--target`, the flags stay away from build scripts and macros.
    let line = format!(
        "cargo {ONE_BUILD} test --locked --no-fail-fast --target {ARCH}-unknown-linux-gnu --target-dir {} -p {package} {kinds} {}",
        folder.display(),
        only.unwrap_or_default()
    );
    // A server that a test has begun may be asked no more for what it said: what is found is kept in files.
    let options = format!(
        "log_path={}:detect_leaks=1",
        reports.join("report").display()
    );
    let variables = [
        ("RUSTC_BOOTSTRAP", "1"),
        ("RUSTFLAGS", RUSTFLAGS),
        ("ASAN_OPTIONS", &options),
    ];
    let tests = shell::run_with(&line, &variables);
    let found = reports_in(&reports)?;
    for report in &found {
        shell::say(&fs::read_to_string(report)?);
    }
    ensure!(
        found.is_empty(),
        "AddressSanitizer found something {} times: see {}",
        found.len(),
        reports.display()
    );
    tests
}

/// Makes a folder whose reports are those of this run; its path from the root, for programs that begin elsewhere.
fn empty_folder(folder: &Path) -> Result<PathBuf> {
    let _ = fs::remove_dir_all(folder);
    let made = fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
    made.with_context(|| format!("cannot make {}", folder.display()))
}

fn reports_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut reports = Vec::new();
    for entry in fs::read_dir(folder)? {
        reports.push(entry?.path());
    }
    reports.sort();
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_are_named_replace_the_usual_ones_and_keep_their_kinds() {
        assert_eq!(chosen(&[]), PACKAGES);
        let named = ["altway-emulate".to_owned(), "altway".to_owned()];
        assert_eq!(
            chosen(&named),
            [("altway-emulate", KINDS), ("altway", "--bins")]
        );
    }
}
