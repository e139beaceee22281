//! `altway`: the binary. Reads the command line, calls the command, prints what went wrong.
//!
//! stdout is data, stderr is talk. Exit codes: 0 done, 1 the answer is no, 2 could not do it.
//! Left to others: everything that the commands do; each is a thin file over one crate.

mod backend;
mod commands;
mod config_file;
mod container;
mod diagnostics;
mod help;
mod hint;
mod https_record;
mod printer;
mod signals;
mod stderr;
mod sys;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use printer::Printer;
use std::process::ExitCode;

// AddressSanitizer watches what the system's allocator gives out (`cargo xtask sanitize`).
#[cfg(not(asan))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// HTTP/1.1 + HTTP/2 + HTTP/3 server that offers each client the protocol that loads fastest on its
/// path, and the lab that measures where each wins.
#[derive(Debug, Parser)]
#[command(version = commands::LONG_VERSION, propagate_version = true, max_term_width = help::MAX_WIDTH)]
#[command(after_long_help = "Exit codes: 0 done, 1 the answer is no, 2 could not do it.")]
struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Args)]
struct Global {
    /// Print only what went wrong.
    #[arg(short, long, global = true, display_order = BEFORE_HELP)]
    quiet: bool,
    /// Print more; twice: everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, display_order = BEFORE_HELP)]
    verbose: u8,
}

/// Place of the options of all commands in a command's help: after its own, whose places count from 0, and before
/// `--help`, which clap puts at 999.
const BEFORE_HELP: usize = 900;

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<commands::serve::Arguments>),
    Proxy(Box<commands::proxy::Arguments>),
    Config(commands::config::Arguments),
    Lab(commands::lab::Arguments),
    Policy(commands::policy::Arguments),
    Status(commands::status::StatusArguments),
    Reload(commands::status::ReloadArguments),
    Explain(commands::explain::Arguments),
    Paths(commands::paths::Arguments),
    Emulate(Box<commands::emulate::Arguments>),
    Load(commands::load::Arguments),
    Raw(commands::raw::Arguments),
    Certs(commands::certs::Arguments),
    DnsRecord(commands::dns_record::Arguments),
    Doctor(commands::doctor::Arguments),
}

/// The answer of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Done; if there was a question, the answer is yes.
    Done,
    /// Done, and the answer is no: a request failed, a check found a fault.
    No,
}

fn main() -> ExitCode {
    let arguments = arguments();
    let printer = Printer::new(arguments.global.quiet);
    start_log(&arguments.global);
    let result = run(&arguments.command, &printer);
    stderr::drain();
    match result {
        Ok(Answer::Done) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(error) if printer::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            printer.error(&error);
            ExitCode::from(2)
        }
    }
}

/// Reads the command line.
fn arguments() -> Arguments {
    let matches = container::variables(help::wrapped(Arguments::command())).get_matches();
    let mut arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // One may stand before the command and the other after it, where clap sees no conflict.
    if arguments.global.quiet && arguments.global.verbose > 0 {
        let conflict = "`--quiet` and `--verbose` contradict each other: leave one of them out";
        Arguments::command()
            .error(clap::error::ErrorKind::ArgumentConflict, conflict)
            .exit();
    }
    if let (Command::Serve(serve), Some((_, matches))) =
        (&mut arguments.command, matches.subcommand())
    {
        serve.note(matches);
    }
    arguments
}

fn run(command: &Command, printer: &Printer) -> anyhow::Result<Answer> {
    match command {
        Command::Serve(arguments) => commands::serve::run(arguments, printer),
        Command::Proxy(arguments) => commands::proxy::run(arguments, printer),
        Command::Config(arguments) => commands::config::run(arguments, printer),
        Command::Lab(arguments) => commands::lab::run(arguments, printer),
        Command::Policy(arguments) => commands::policy::run(arguments, printer),
        Command::Status(arguments) => commands::status::run(arguments, printer),
        Command::Reload(arguments) => commands::status::reload(arguments, printer),
        Command::Explain(arguments) => commands::explain::run(arguments, printer),
        Command::Paths(arguments) => commands::paths::run(arguments, printer),
        Command::Emulate(arguments) => commands::emulate::run(arguments, printer),
        Command::Load(arguments) => commands::load::run(arguments, printer),
        Command::Raw(arguments) => commands::raw::run(arguments, printer),
        Command::Certs(arguments) => commands::certs::run(arguments, printer),
        Command::DnsRecord(arguments) => commands::dns_record::run(arguments, printer),
        Command::Doctor(arguments) => commands::doctor::run(arguments, printer),
    }
}

/// The log of what happens goes to stderr: warnings by default.
fn start_log(global: &Global) {
    use tracing_subscriber::EnvFilter;
    let level = match (global.quiet, global.verbose) {
        // Those of the libraries that a peer can cause as often as it likes are for -vv.
        (true, _) => "error,quinn_proto=off,rustls=off",
        (false, 0) => "warn,quinn_proto=off,rustls=off",
        (false, 1) => "warn,altway=info,quinn_proto=off,rustls=off",
        (false, _) => "info,altway=debug",
    };
    let filter = EnvFilter::try_from_env("ALTWAY_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| stderr::Lines)
        .with_ansi(printer::wants_color())
        .init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// Checks the help of `command` and of all below it; gives how many have the options of all commands.
    fn check_help(command: &mut clap::Command) -> usize {
        let help = command.render_long_help().to_string();
        let options = help.lines().map(str::trim_start);
        let options: Vec<_> = options.filter(|line| line.starts_with('-')).collect();
        let place = options.iter().position(|line| line.starts_with("-q, "));
        if let Some(place) = place {
            let names = options[place..].iter().take(4).map(|line| &line[..2]);
            let names: Vec<_> = names.collect();
            assert_eq!(names, ["-q", "-v", "-h", "-V"], "{help}");
        }
        let below = command.get_subcommands_mut().map(check_help).sum::<usize>();
        below + usize::from(place.is_some())
    }

    #[test]
    fn options_of_all_commands_come_after_a_commands_own() {
        let mut command = Arguments::command();
        command.build();
        assert!(check_help(&mut command) > 20);
    }
}
