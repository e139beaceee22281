//! The project's own chores, in Rust so that they run wherever the project builds.
//!
//! `cargo xtask test` sets up what the tests need and runs them; `cargo xtask ci` runs here what CI
//! runs; `cargo xtask image` makes the container image; `cargo xtask fuzz` looks for inputs that break the engines; `cargo xtask bench` measures
//! altway against its peers; `cargo xtask answers` compares what they answer; `cargo xtask attack` has hostile clients at it. Left to others: what is tested, which stands with the code it tests.

mod advisories;
mod answers;
mod attack;
mod bench;
mod checks;
mod endure;
mod fuzz;
mod go;
mod image;
mod interleavings;
mod musl;
mod sanitize;
mod scratch;
mod setup;
mod shell;
mod tidy;
mod wasm;

use advisories::Advisories;
use anyhow::Result;
use clap::{Parser, Subcommand};

/// The project's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Set up the foreign clients that the tests use, then run every test.
    Test,
    /// Run every check that CI runs, the tests among them.
    Ci {
        /// Leave the tests out (CI has run them before).
        #[arg(long)]
        no_test: bool,
        /// Way to deal with a database of advisories (RUSTSEC) that can't be fetched.
        #[arg(long, value_enum, default_value = "attempted")]
        advisories: Advisories,
    },
    /// Install the foreign clients that the interoperability tests use (Debian, as root).
    Setup,
    /// Look for inputs that break the engines, a minute for each target of `fuzz/`.
    Fuzz(fuzz::Fuzz),
    /// Run tests of the crates with `unsafe` that a server links, under AddressSanitizer: they fail where memory is used
    /// that was given back or never had, or leaks. Takes half an hour on two cores. With `--memcheck` under valgrind: they fail
    /// where memory is used that has no value.
    Sanitize(sanitize::Sanitize),
    /// Run lock-free code in every order that threads may take, by loom.
    Loom,
    /// Compare altway's answers to a table of requests with those of nginx, Caddy and static-web-server.
    Answers(answers::Answers),
    /// Attack a server as hostile clients do, and check what it costs others; on a quiet machine.
    Attack(attack::Attack),
    /// Run long trials of a server: reloads, uploads, many files; on a quiet machine.
    Endure(endure::Endure),
    /// Build a static binary and, where there is Docker, the container image around it (docker/).
    Image,
    /// Measure altway against its peers; on a quiet machine.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Check what no other tool checks: file sizes, file heads, where `unsafe` may stand.
    Tidy,
}

fn main() -> Result<()> {
    shell::enter_the_workspace()?;
    match Arguments::parse().chore {
        Task::Test => test(),
        Task::Ci {
            no_test,
            advisories,
        } => {
            checks::look_for_tools()?;
            if !no_test {
                test()?;
            }
            checks::run(advisories)
        }
        Task::Answers(answers) => answers::run(&answers),
        Task::Attack(attack) => attack::run(&attack),
        Task::Endure(endure) => endure::run(&endure),
        Task::Fuzz(fuzz) => fuzz::run(&fuzz),
        Task::Loom => interleavings::run(),
        Task::Image => image::run(),
        Task::Sanitize(sanitize) => sanitize::run(&sanitize),
        Task::Setup => setup::run().map(drop),
        Task::Bench(bench) => bench::run(&bench),
        Task::Tidy => tidy::run(),
    }
}

fn test() -> Result<()> {
    let variables = setup::run()?;
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    shell::run_with("cargo test --workspace --locked --no-fail-fast", &variables)
}
