//! `altway emulate contain`: what holds a server at the far end of a link together with all that it
//! starts. Not meant to be typed.

use crate::Answer;
use altway_emulate::containment;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::process::Command;

/// Run PROGRAM in a process namespace of its own, which ends with this process.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Be the first process of the namespace, which has been made.
    #[arg(long)]
    init: bool,
    /// The program, with its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

pub(super) fn run(arguments: &Arguments) -> Result<Answer> {
    let (program, rest) = arguments
        .command
        .split_first()
        .expect("clap requires a command");
    let code = if arguments.init {
        let said = || format!("cannot run `{}`", program.display());
        containment::run_init(program, rest).with_context(said)?
    } else {
        let binary = std::env::current_exe().context("cannot find altway's own binary")?;
        let mut init = Command::new(binary);
        init.args(["emulate", "contain", "--init", "--"]);
        init.args(&arguments.command);
        containment::supervise(init)?
    };
    std::process::exit(code)
}
