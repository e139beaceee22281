//! The one place that writes to the terminal: data to stdout, talk to stderr.

use crate::{hint, stderr};
use std::io::{self, IsTerminal, Write};

/// Names a number of things: `1 cell`, `3 cells`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Writes for the person, or the program, at the other end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    quiet: bool,
}

impl Printer {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet }
    }

    /// Data, with a line end.
    pub(crate) fn data(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            stdout.write_all(b"\n")?;
        }
        stdout.flush()
    }

    /// Data as JSON, indented, with a line end.
    pub(crate) fn json(&self, value: &impl serde::Serialize) -> io::Result<()> {
        self.data(&serde_json::to_string_pretty(value)?)
    }

    /// Talk that `--quiet` switches off. Nobody is told when stderr is closed.
    pub(crate) fn say(&self, text: &str) {
        if !self.quiet {
            stderr::say(text);
        }
    }

    /// Warns of what may go wrong later, also with `--quiet`.
    pub(crate) fn warn(&self, text: &str) {
        stderr::say(&format!("warning: {text}"));
    }

    /// Says what went wrong, with its causes, and what may help.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        let mut text = format!("error: {error}");
        for cause in error.chain().skip(1) {
            text.push_str(&format!(": {cause}"));
        }
        if let Some(hint) = hint::of(error) {
            text.push_str(&format!("\n\nhint: {hint}"));
        }
        stderr::say(&text);
    }

    /// True if progress may be drawn.
    pub(crate) fn draws(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }
}

/// Colour only for a person who did not refuse it (<https://no-color.org>).
pub(crate) fn wants_color() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && io::stderr().is_terminal()
}

/// True if the reader of our stdout went away, as `head` does: no fault of ours or the user's.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
}
