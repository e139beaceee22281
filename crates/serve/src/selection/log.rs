//! The selection log: a line of JSON for each page, with what was decided for its client, what that rests on, and how
//! long the page took.

use crate::log_writer::{Dropped, LogWriter};
use crate::open_log;
use crate::request::log::LogFormat;
use crate::throttle::Throttle;
use altway_select::SelectionEntry;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The log to which the lines of all workers go, from which `altway policy evaluate` says what other policies would have been
/// worth. A clone writes to the same file.
///
/// A line is a [`SelectionEntry`] as JSON. No client waits for it: lines that the file doesn't take in time are dropped
/// and counted, as in an [`AccessLog`](crate::AccessLog). Addresses stand in it as keyed hashes only, so that with a
/// state folder a client is the same after a restart, and without one it is another.
#[derive(Clone)]
pub struct SelectionLog(Arc<Inner>);

struct Inner {
    writer: LogWriter,
    path: PathBuf,
    /// The state of warnings about this log.
    throttle: Throttle,
}

impl SelectionLog {
    /// Appends to a file. If it isn't there it is made, readable by its owner only (mode 600). Root follows no link of
    /// another user's to it ([`open_log`]).
    ///
    /// # Errors
    /// The file can't be made or opened, or the thread that writes can't be started.
    pub fn append(path: &Path) -> io::Result<Self> {
        let writer = LogWriter::start(open_log(path)?)?;
        writer.set_format(LogFormat::Json);
        Ok(Self(Arc::new(Inner {
            writer,
            path: path.to_owned(),
            throttle: Throttle::new(),
        })))
    }

    /// Opens the file anew by its name, after log rotation has renamed it.
    ///
    /// # Errors
    /// The file can't be made or opened: the former one stays in use.
    pub fn reopen(&self) -> io::Result<()> {
        self.0.writer.replace(open_log(&self.0.path)?);
        Ok(())
    }

    /// Returns the file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Queues a line.
    pub(crate) fn add(&self, entry: &SelectionEntry) {
        let Ok(mut line) = serde_json::to_vec(entry) else {
            return;
        };
        line.push(b'\n');
        if let Err(Dropped { in_all, .. }) = self.0.writer.push(&line) {
            self.warn(|| {
                tracing::warn!(
                    in_all,
                    "the selection log takes lines too slowly: they are dropped"
                );
            });
        }
        if let Some(error) = self.0.writer.take_failure() {
            self.warn(|| tracing::warn!(error, "cannot write the selection log; lines are lost"));
        }
    }

    /// Lines that were dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.writer.dropped_in_all()
    }

    /// Waits until everything queued is written, `limit` at most; whether it is.
    pub(crate) fn drain(&self, limit: Duration) -> bool {
        self.0.writer.drain(limit)
    }

    fn warn(&self, log: impl FnOnce()) {
        if self.0.throttle.admit(Instant::now()).is_some() {
            log();
        }
    }
}

impl fmt::Debug for SelectionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SelectionLog")
    }
}
