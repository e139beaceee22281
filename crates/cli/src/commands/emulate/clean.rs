//! `altway emulate clean`: takes away what emulations left behind that were killed.

use crate::Answer;
use crate::printer::Printer;
use anyhow::Result;

/// Remove what killed emulations left behind, and print what that was.
///
/// Links, namespaces, interfaces and proxies end with their process. What can remain are programs that a command at
/// an end of a link had started, the folders of a lab run's files, the sockets of `altway emulate set`, and, at the
/// interfaces of `--between`, offloads that are off and the kernel's shaping. These interfaces are restored if they
/// are in the network namespace where this runs. A running emulation is left alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print what was removed as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let taken = altway_emulate::clean()?;
    if arguments.json {
        printer.json(&taken)?;
        return Ok(Answer::Done);
    }
    for remnant in &taken {
        printer.data(&format!("{} {remnant}", remnant.action()))?;
    }
    if taken.is_empty() {
        printer.say("nothing was taken away");
    }
    Ok(Answer::Done)
}
