//! Real links with real packets.
//!
//! Runs where namespaces and /dev/net/tun can be used (root, or user namespaces), and says that it
//! is skipped elsewhere. Each test has its own link; they run one after the other, because they
//! measure time. The programs at the ends of the links are this very binary (`programs`).
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "tests and their programs talk"
)]

mod cases;
mod control;
mod programs;
mod topologies;

use altway_emulate::{Privilege, enter};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::fs::OpenOptions;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(name) = std::env::var_os(programs::VARIABLE) {
        programs::run(&name.to_string_lossy());
        return ExitCode::SUCCESS;
    }
    // Before anything else, while there is one thread.
    let privilege = privilege();
    if let Err(reason) = &privilege {
        // Not on stdout, where test runners read the list of tests.
        eprintln!("SKIPPED: no emulated link can be made here: {reason}");
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let all = cases::ALL.iter().chain(topologies::ALL).chain(control::ALL);
    let trials = all.map(|case| trial(case, &privilege));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn privilege() -> Result<Privilege, String> {
    let tun = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    tun.map_err(|error| format!("/dev/net/tun: {error}"))?;
    enter().map_err(|error| error.to_string())
}

fn trial(case: &'static cases::Case, privilege: &Result<Privilege, String>) -> Trial {
    let privilege = privilege.clone();
    Trial::ignorable_test(case.name, move || match privilege {
        Err(reason) => Ok(Completion::ignored_with(reason)),
        Ok(Privilege::UserNamespace) if case.needs_root => {
            Ok(Completion::ignored_with("needs root"))
        }
        Ok(_) => {
            // A panic in a case is caught and reported by the harness.
            (case.run)();
            Ok::<_, Failed>(Completion::Completed)
        }
    })
}
