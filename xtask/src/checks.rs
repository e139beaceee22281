//! What CI runs beside the tests.

use crate::fuzz::Fuzz;
use crate::{fuzz, shell, tidy};
use anyhow::Result;

/// Crates without I/O: they must build where there is no operating system.
const PURE: [&str; 8] = [
    "units", "link", "fields", "http2", "path", "policy", "stats", "record",
];

const WASM: &str = "wasm32-unknown-unknown";

pub(crate) fn run() -> Result<()> {
    tidy::run()?;
    shell::run("cargo fmt --all --check")?;
    shell::run("cargo clippy --workspace --all-targets --locked -- -D warnings")?;
    shell::run_with(
        "cargo doc --workspace --no-deps --locked",
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    check_dependencies()?;
    check_spelling()?;
    check_pure_crates()?;
    fuzz::run(&Fuzz::all_for_a_minute())
}

/// Without the advisory database, which has to be fetched: licences, bans and sources need nothing.
fn check_dependencies() -> Result<()> {
    if !shell::succeeds("cargo deny --version") {
        return skipped("cargo deny", "install it with `cargo install cargo-deny`");
    }
    shell::run("cargo deny --log-level error check bans licenses sources")
}

fn check_spelling() -> Result<()> {
    if !shell::succeeds("typos --version") {
        return skipped("typos", "install it with `cargo install typos-cli`");
    }
    shell::run("typos")
}

fn check_pure_crates() -> Result<()> {
    let targets = shell::output("rustc --print sysroot")?;
    let library = std::path::Path::new(targets.trim())
        .join("lib/rustlib")
        .join(WASM);
    if !library.exists() {
        return skipped(
            "pure crates for wasm32",
            &format!("run `rustup target add {WASM}`"),
        );
    }
    let packages = PURE.map(|name| format!("-p altway-{name}")).join(" ");
    shell::run(&format!("cargo check --locked --target {WASM} {packages}"))
}

fn skipped(check: &str, mend: &str) -> Result<()> {
    shell::say(&format!("SKIPPED {check}: {mend}"));
    Ok(())
}
