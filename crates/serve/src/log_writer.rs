//! A log that never makes its callers wait: a thread of its own writes, out of a bounded queue.
//!
//! A pipe that nobody reads, a stalled disk or a network file system that has gone blocks whoever writes
//! to it. Were that a worker, every connection of the worker would wait. Here only the writing thread
//! waits; lines for which there is no room in the meantime are dropped and counted, and the count is
//! written as a line of its own as soon as the log takes lines again.

use crate::locks::lock;
use crate::request::log::LogFormat;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// The most bytes of lines that wait for one log, those that are being written included: 4 MiB, about 15,000 lines of
/// an access log. Its buffers grow by doubling, to at most twice as much.
pub const LOG_QUEUE_BYTES: usize = 4 << 20;

/// A buffer that has grown beyond this in a jam is given back after it.
const KEPT_BYTES: usize = 256 << 10;

/// A queue of whole lines, and the thread that writes them. Clones share it. Lines that wait when the
/// last clone is dropped are still written while the process lives; see [`drain`](Self::drain).
///
/// The writer costs a thread, and up to [`LOG_QUEUE_BYTES`] of memory while the writer is slow.
#[derive(Clone)]
pub struct LogWriter(Arc<Handle>);

/// The callers' end. The thread holds the queue only, and ends when this is dropped.
struct Handle(Arc<Queue>);

struct Queue {
    state: Mutex<State>,
    /// Signal that the thread has something to do.
    filled: Condvar,
    /// Everything is written.
    emptied: Condvar,
    capacity: usize,
}

#[derive(Default)]
struct State {
    lines: Vec<u8>,
    /// Bytes that are being written.
    writing: usize,
    /// Lines that were dropped since the last time that the log reported it.
    dropped: u64,
    /// All lines dropped so far.
    dropped_in_all: u64,
    /// The writer that takes the place of the present one.
    replacement: Option<Box<dyn Write + Send>>,
    /// True if the last write failed.
    failing: bool,
    /// The reason why writing began to fail, until somebody asks.
    failure: Option<String>,
    closed: bool,
    /// The format in which dropped lines are reported.
    format: LogFormat,
}

/// Lines were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct Dropped {
    /// All lines that this log has dropped so far.
    pub in_all: u64,
}

impl LogWriter {
    /// Starts the thread that writes to `writer`. The queue holds [`LOG_QUEUE_BYTES`].
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn start(writer: impl Write + Send + 'static) -> io::Result<Self> {
        Self::with_capacity(LOG_QUEUE_BYTES, writer)
    }

    pub(crate) fn with_capacity(
        capacity: usize,
        writer: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            capacity,
        });
        let of_thread = Arc::clone(&queue);
        let writer = Box::new(writer);
        thread::Builder::new()
            .name("log".into())
            .spawn(move || of_thread.write_all(writer))?;
        Ok(Self(Arc::new(Handle(queue))))
    }

    /// Queues whole lines, without waiting until they are written.
    ///
    /// # Errors
    /// The queue has no room for them: they are dropped, and counted.
    pub fn push(&self, lines: &[u8]) -> Result<(), Dropped> {
        let queue = &self.0.0;
        let mut state = queue.state();
        state.admit(lines, queue.capacity)?;
        state.lines.extend_from_slice(lines);
        drop(state);
        queue.filled.notify_one();
        Ok(())
    }

    /// Queues the whole lines of a buffer, and leaves it empty. Costs no copy unless other lines wait.
    ///
    /// # Errors
    /// The errors of [`push`](Self::push).
    pub(crate) fn push_buffer(&self, lines: &mut Vec<u8>) -> Result<(), Dropped> {
        let queue = &self.0.0;
        let mut state = queue.state();
        let admitted = state.admit(lines, queue.capacity);
        match &admitted {
            Ok(()) if state.lines.is_empty() => std::mem::swap(&mut state.lines, lines),
            Ok(()) => state.lines.append(lines),
            Err(_) => lines.clear(),
        }
        drop(state);
        queue.filled.notify_one();
        admitted
    }

    /// All lines that were dropped so far.
    pub(crate) fn dropped_in_all(&self) -> u64 {
        self.0.0.state().dropped_in_all
    }

    /// Writes to `writer` from now on: what is queued goes there as well, unless it is being written.
    pub fn replace(&self, writer: impl Write + Send + 'static) {
        self.0.0.state().replacement = Some(Box::new(writer));
        self.0.0.filled.notify_one();
    }

    /// Reports dropped lines in that format from now on.
    pub(crate) fn set_format(&self, format: LogFormat) {
        self.0.0.state().format = format;
    }

    #[cfg(test)]
    pub(crate) fn format(&self) -> LogFormat {
        self.0.0.state().format
    }

    /// Waits until everything queued is written, for at most `limit`; returns true if it is.
    pub fn drain(&self, limit: Duration) -> bool {
        let queue = &self.0.0;
        let deadline = Instant::now() + limit;
        let mut state = queue.state();
        while !state.is_empty() || state.writing > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = queue.emptied.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Returns the reason why the last write failed, once for each time that writing begins to fail.
    pub fn take_failure(&self) -> Option<String> {
        self.0.0.state().failure.take()
    }
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogWriter")
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.filled.notify_one();
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The thread: writes what comes until the last handle is dropped.
    fn write_all(&self, mut writer: Box<dyn Write + Send>) {
        let mut batch = Batch::default();
        while self.take(&mut batch) {
            if let Some(replacement) = batch.replacement.take() {
                writer = replacement;
            }
            let written = writer.write_all(&batch.lines);
            let written = written.and_then(|()| writer.flush());
            self.written(&mut batch, &written);
        }
    }

    /// Waits for something to write, or for another place to write it to; false: there will be no more.
    fn take(&self, batch: &mut Batch) -> bool {
        let nothing =
            |state: &mut State| state.is_empty() && state.replacement.is_none() && !state.closed;
        let waited = self.filled.wait_while(self.state(), nothing);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_empty() && state.replacement.is_none() {
            return false;
        }
        std::mem::swap(&mut batch.lines, &mut state.lines);
        state.writing = batch.lines.len();
        batch.replacement = state.replacement.take();
        batch.dropped = std::mem::take(&mut state.dropped);
        if batch.dropped > 0 {
            let notice = state.format.notice(batch.dropped, SystemTime::now());
            batch.lines.extend_from_slice(notice.as_bytes());
        }
        true
    }

    fn written(&self, batch: &mut Batch, written: &io::Result<()>) {
        let mut state = self.state();
        let queued = std::mem::take(&mut state.writing);
        if let Err(error) = written {
            let lost = count(&batch.lines[..queued]);
            state.dropped += batch.dropped + lost;
            state.dropped_in_all += lost;
            if !state.failing {
                state.failure = Some(error.to_string());
            }
        }
        state.failing = written.is_err();
        if state.is_empty() {
            self.emptied.notify_all();
        }
        drop(state);
        batch.lines.clear();
        batch.lines.shrink_to(KEPT_BYTES);
    }
}

/// Lines that the thread writes at a time.
#[derive(Default)]
struct Batch {
    lines: Vec<u8>,
    /// Dropped lines that its last line reports.
    dropped: u64,
    replacement: Option<Box<dyn Write + Send>>,
}

impl State {
    /// Counts lines for which there is no room as dropped.
    fn admit(&mut self, lines: &[u8], capacity: usize) -> Result<(), Dropped> {
        if self.lines.len() + self.writing + lines.len() <= capacity {
            return Ok(());
        }
        let dropped = count(lines);
        self.dropped += dropped;
        self.dropped_in_all += dropped;
        let in_all = self.dropped_in_all;
        Err(Dropped { in_all })
    }

    /// Returns true if there is nothing to write. While writing fails, a count of dropped lines waits
    /// for the next lines, as trying it again and again would spin.
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && (self.dropped == 0 || self.failing)
    }
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests;
