//! `cargo xtask attack`: runs attacks and prints a table of their bars.

#![allow(clippy::print_stdout, reason = "the table is what the program is for")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use altway_attack::{ALL, Attack, Scale, find, raise_descriptors, run};
use anyhow::{Result, bail};
use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tempfile::TempDir;

/// Attacks a server that it starts itself, on loopback.
#[derive(Parser)]
struct Arguments {
    /// Attacks to run [default: all].
    names: Vec<String>,
    /// Name the attacks, and run none.
    #[arg(long)]
    list: bool,
    /// Run the quick form, as the tests do.
    #[arg(long)]
    quick: bool,
    /// The binary to attack; needed unless there is --list.
    #[arg(long, value_name = "FILE", required_unless_present = "list")]
    server: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let attacks = chosen(&arguments)?;
    if arguments.list {
        for attack in attacks {
            let extent = if attack.quick { "" } else { " (not quick)" };
            println!("{:<32} {}{extent}", attack.name, attack.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    raise_descriptors();
    let _scratch = scratch()?;
    let server = arguments.server.expect("required without --list");
    let server = server.canonicalize()?;
    let scale = if arguments.quick {
        Scale::Quick
    } else {
        Scale::Full
    };
    let mut missed = Vec::new();
    for attack in attacks {
        let report = run(&server, attack, scale)?;
        println!("{report}");
        if !report.is_met() {
            missed.push(attack.name);
        }
    }
    if missed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("bars MISSED by: {}", missed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// The folder in which servers have theirs: a signal that ends this program takes it away first. The kernel ends the servers.
fn scratch() -> Result<TempDir> {
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().to_owned();
    // Refused by nobody: this is the first who asks for a folder in another place.
    let _ = tempfile::env::override_temp_dir(&path);
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let _ = fs::remove_dir_all(&path);
            let _ = emulate_default_handler(signal);
        }
    });
    Ok(scratch)
}

fn chosen(arguments: &Arguments) -> Result<Vec<&'static Attack>> {
    if arguments.names.is_empty() {
        let all = ALL.iter().copied().flatten();
        return Ok(all
            .filter(|attack| attack.quick || !arguments.quick)
            .collect());
    }
    let mut attacks = Vec::new();
    for name in &arguments.names {
        let Some(attack) = find(name) else {
            bail!("no attack is called {name}; see --list");
        };
        attacks.push(attack);
    }
    Ok(attacks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_needs_no_server_and_attacks_do() {
        let parsed = |line: &[&str]| Arguments::try_parse_from(line).is_ok();
        assert!(parsed(&["attack", "--list"]));
        assert!(parsed(&["attack", "--server", "altway"]));
        assert!(!parsed(&["attack"]) && !parsed(&["attack", "--quick"]));
    }
}
