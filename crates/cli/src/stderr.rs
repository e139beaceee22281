//! Standard error that nobody has to read: a server's lines go through a queue of their own, so that a
//! full pipe holds up no worker and no stop. Commands that are no servers write to it directly.

use altway_serve::LogWriter;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

/// The time for which a line of the command itself, and the last ones of its log, wait for a reader.
const WRITE_TIMEOUT: Duration = Duration::from_millis(500);

static QUEUE: OnceLock<LogWriter> = OnceLock::new();

/// Sends all lines through a queue from now on.
pub(crate) fn start_queue() -> io::Result<()> {
    // Not through `std::io::stderr`, whose lock a writer that is stuck would keep.
    let file = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let queue = LogWriter::start(file)?;
    QUEUE.get_or_init(|| queue);
    Ok(())
}

/// The queue, if there is one.
pub(crate) fn queue() -> Option<LogWriter> {
    QUEUE.get().cloned()
}

/// Writes a line and waits for it, but not long where there is a queue. Nobody is told when stderr is
/// closed.
pub(crate) fn say(line: &str) {
    let _ = writeln!(Lines, "{line}");
    drain();
}

/// Waits a moment for what is queued, at the end of the process.
pub(crate) fn drain() {
    if let Some(queue) = QUEUE.get() {
        queue.drain(WRITE_TIMEOUT);
    }
}

/// Whole lines, for the log of what happens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines;

impl Write for Lines {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        match QUEUE.get() {
            Some(queue) => {
                // What is dropped is counted there.
                let _ = queue.push(lines);
                Ok(lines.len())
            }
            None => {
                // Of an error here the log would tell at stderr, and panic.
                let _ = io::stderr().write_all(lines);
                Ok(lines.len())
            }
        }
    }

    /// Writes a line in one call, so that it is not queued in parts.
    fn write_fmt(&mut self, line: std::fmt::Arguments<'_>) -> io::Result<()> {
        self.write_all(line.to_string().as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        match QUEUE.get() {
            Some(_) => Ok(()),
            None => io::stderr().flush(),
        }
    }
}
