//! The access log: one line a request, in the [`LogFormat`] that was chosen.
//!
//! A line costs a worker a copy into its own buffer. Buffers go to the queue of the [`LogWriter`] when
//! they are full, and when the worker calls [`AccessLog::flush`], some times a second: queueing each
//! line by itself would cost more than answering its request.

mod format;
mod line;
mod timestamp;

pub use format::{LogFormat, UnknownLogFormat};
pub(crate) use line::{Line, LineText, LoggedHead, LoggedOffer};

use crate::log_writer::{Dropped, LogWriter};
use crate::open_log;
use crate::throttle::Throttle;
use altway_select::Transport;
use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// A worker's buffer goes out when it holds so many bytes: some 500 lines. Each time wakes the thread that writes, and
/// where that has no processor of its own, costs the worker two switches between threads.
const BUFFER_BYTES: usize = 128 << 10;

/// Time that a line waits at most; see [`AccessLog::flush`].
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_millis(100);

/// The access log of all workers. Clones write to the same place.
///
/// No request waits for the log: lines that it can't write in time are dropped and counted (see [`LogWriter`]), and
/// the count gets a line of its own, `… dropped=17 reason="…"` or the same in JSON; the combined format has no such
/// line.
#[derive(Clone)]
pub struct AccessLog(Arc<Inner>);

struct Inner {
    writer: LogWriter,
    /// `None`: it is no file.
    path: Option<PathBuf>,
    format: LogFormat,
    /// Other lines than those of this log go to the writer.
    is_shared: bool,
    /// Limits the warnings about this log.
    throttle: Throttle,
}

thread_local! {
    /// The lines of this worker that are not written.
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl AccessLog {
    /// Writes whole lines to `writer`, many at once, on a thread of its own.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn new(writer: impl Write + Send + 'static) -> io::Result<Self> {
        Ok(Self::with(LogWriter::start(writer)?, None, false))
    }

    /// Writes to a shared destination with other lines, for instance those of `tracing`.
    #[must_use]
    pub fn shared(writer: LogWriter) -> Self {
        Self::with(writer, None, true)
    }

    /// Appends to a file. A missing file is made, readable by its owner only (mode 600), because it has addresses. It
    /// may be truncated while the server runs, as log rotation by copying does, or renamed; see
    /// [`reopen`](Self::reopen). Root follows no link of another user's to it ([`open_log`]).
    ///
    /// # Errors
    /// The file can't be made or opened, or the thread that writes can't be started.
    pub fn append(path: &Path) -> io::Result<Self> {
        let writer = LogWriter::start(open_log(path)?)?;
        Ok(Self::with(writer, Some(path.to_owned()), false))
    }

    /// The same log with lines in another format than [`LogFormat::KeyValue`]. Clones that were made
    /// before keep theirs.
    #[must_use]
    pub fn with_format(self, format: LogFormat) -> Self {
        let Inner {
            writer,
            path,
            is_shared,
            ..
        } = &*self.0;
        if !is_shared {
            writer.set_format(format);
        }
        Self(Arc::new(Inner {
            writer: writer.clone(),
            path: path.clone(),
            format,
            is_shared: *is_shared,
            throttle: Throttle::new(),
        }))
    }

    fn with(writer: LogWriter, path: Option<PathBuf>, is_shared: bool) -> Self {
        Self(Arc::new(Inner {
            writer,
            path,
            format: LogFormat::default(),
            is_shared,
            throttle: Throttle::new(),
        }))
    }

    /// Reopens the file by its name, after log rotation has renamed it; lines that wait go to the new file. No effect
    /// on a log that is no file. May block on the disk.
    ///
    /// # Errors
    /// The file can't be made or opened: the former one stays in use.
    pub fn reopen(&self) -> io::Result<()> {
        if let Some(path) = &self.0.path {
            self.0.writer.replace(open_log(path)?);
        }
        Ok(())
    }

    /// The file, if it is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Lines that were dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.writer.dropped_in_all()
    }

    /// The format of its lines.
    #[must_use]
    pub fn format(&self) -> LogFormat {
        self.0.format
    }

    /// Adds a line, made by [`Line::text`] in this log's format, with the time and the duration in it.
    pub(crate) fn add(&self, time: SystemTime, line: &LineText, duration: Duration) {
        LINES.with_borrow_mut(|lines| {
            line.push_to(lines, (time, duration), self.0.format);
            if lines.len() >= BUFFER_BYTES {
                self.queue(lines);
            }
        });
    }

    /// Queues what this thread has collected.
    pub(crate) fn flush(&self) {
        LINES.with_borrow_mut(|lines| self.queue(lines));
        if let Some(error) = self.0.writer.take_failure() {
            self.warn(|| tracing::warn!(error, "cannot write the access log; lines are lost"));
        }
    }

    /// Waits until everything queued is written, `limit` at most; whether it is.
    pub(crate) fn drain(&self, limit: Duration) -> bool {
        self.0.writer.drain(limit)
    }

    fn queue(&self, lines: &mut Vec<u8>) {
        if lines.is_empty() {
            return;
        }
        if let Err(Dropped { in_all }) = self.0.writer.push_buffer(lines) {
            let text = "the access log takes lines too slowly, or not at all: they are dropped";
            self.warn(|| tracing::warn!(in_all, "{text}"));
        }
    }

    fn warn(&self, log: impl FnOnce()) {
        if self.0.throttle.admit(Instant::now()).is_some() {
            log();
        }
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessLog")
    }
}

/// The protocol that a request came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    Http3,
}

impl Protocol {
    /// The protocol's version as the combined format spells it, like nginx.
    pub(crate) const fn version(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
            Self::Http3 => "HTTP/3.0",
        }
    }

    pub(crate) const fn transport(self) -> Transport {
        match self {
            Self::Http1 | Self::Http2 => Transport::Tcp,
            Self::Http3 => Transport::Quic,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http1 => "h1",
            Self::Http2 => "h2",
            Self::Http3 => "h3",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, StatusCode};
    use std::net::Ipv4Addr;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Mutex;
    use std::time::UNIX_EPOCH;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn line(path: &str) -> LineText {
        let head = LoggedHead::of(&Request::get(path).body(()).unwrap());
        let line = Line {
            client: Ipv4Addr::LOCALHOST.into(),
            protocol: Protocol::Http2,
            head: &head,
            status: StatusCode::OK,
            bytes: 7,
            is_cut: false,
            logged_offer: None,
        };
        line.text(LogFormat::KeyValue)
    }

    #[test]
    fn a_log_in_json_counts_what_it_drops_in_json_unless_others_share_its_writer() {
        let dropped = |format: LogFormat| format.notice(17, UNIX_EPOCH);
        let notice = dropped(LogFormat::Json);
        let said: serde_json::Value = serde_json::from_str(&notice).unwrap();
        assert_eq!(said["dropped"], 17);
        assert_eq!(said["time"], "1970-01-01T00:00:00.000Z");
        assert_eq!(dropped(LogFormat::Combined), "");
        let own = AccessLog::new(Written::default()).unwrap();
        let own = own.with_format(LogFormat::Json);
        assert_eq!(own.0.writer.format(), LogFormat::Json);
        let writer = LogWriter::start(Written::default()).unwrap();
        let shared = AccessLog::shared(writer).with_format(LogFormat::Json);
        assert_eq!(shared.format(), LogFormat::Json);
        assert_eq!(shared.0.writer.format(), LogFormat::KeyValue);
    }

    #[test]
    fn lines_go_out_when_there_are_many_or_when_asked() {
        let written = Written::default();
        let log = AccessLog::new(written.clone()).unwrap();
        let text = line("/");
        let len = || {
            assert!(log.drain(Duration::from_secs(10)));
            written.0.lock().unwrap().len()
        };
        log.add(UNIX_EPOCH, &text, Duration::ZERO);
        assert_eq!(len(), 0);
        log.flush();
        let one = {
            let mut lines = Vec::new();
            text.push_to(
                &mut lines,
                (UNIX_EPOCH, Duration::ZERO),
                LogFormat::KeyValue,
            );
            lines.len()
        };
        assert_eq!(len(), one);
        let many = BUFFER_BYTES / one + 1;
        (0..many).for_each(|_| log.add(UNIX_EPOCH, &text, Duration::ZERO));
        assert_eq!(len(), (1 + many) * one);
    }

    #[test]
    fn a_new_file_is_its_owners_alone_and_another_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |name: &str| {
            let path = dir.path().join(name);
            AccessLog::append(&path).unwrap();
            std::fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!(mode("new"), 0o600);
        let there = dir.path().join("there");
        std::fs::write(&there, "before\n").unwrap();
        std::fs::set_permissions(&there, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(mode("there"), 0o640);
    }

    #[test]
    fn a_file_that_was_renamed_is_followed_by_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let [path, rotated] = ["log", "log.1"].map(|name| dir.path().join(name));
        let log = AccessLog::append(&path).unwrap();
        let add = |name: &str| {
            log.add(UNIX_EPOCH, &line(name), Duration::ZERO);
            log.flush();
            assert!(log.drain(Duration::from_secs(10)));
        };
        add("/a");
        std::fs::rename(&path, &rotated).unwrap();
        add("/b");
        log.reopen().unwrap();
        add("/c");
        let has = |path: &Path, name: &str| std::fs::read_to_string(path).unwrap().contains(name);
        assert!(has(&rotated, "/a") && has(&rotated, "/b") && !has(&rotated, "/c"));
        assert!(has(&path, "/c") && !has(&path, "/b"));
    }

    #[test]
    fn a_file_that_cannot_be_opened_anew_leaves_the_former_one() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("logs");
        std::fs::create_dir(&folder).unwrap();
        let log = AccessLog::append(&folder.join("log")).unwrap();
        let moved = dir.path().join("moved");
        std::fs::rename(&folder, &moved).unwrap();
        assert!(log.reopen().is_err());
        log.add(UNIX_EPOCH, &line("/a"), Duration::ZERO);
        log.flush();
        assert!(log.drain(Duration::from_secs(10)));
        let text = std::fs::read_to_string(moved.join("log")).unwrap();
        assert!(text.contains("/a"), "{text}");
    }
}
