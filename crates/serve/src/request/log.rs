//! The access log: one line a request, in `key=value` form.
//!
//! ```text
//! 2026-11-22T02:05:13.123Z client=192.0.2.7 protocol=h2 method=GET path="/" status=200 bytes=600 offer=h3 reason="…"
//! ```
//!
//! A line costs a worker a copy into its own buffer. Buffers go to the queue of the [`LogWriter`] when
//! they are full, and when the worker calls [`AccessLog::flush`], some times a second: queueing each
//! line by itself would cost more than answering its request.

use crate::log_writer::{Dropped, LogWriter};
use crate::throttle::Throttle;
use altway_select::{Decision, Transport};
use http::{Method, StatusCode};
use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// A worker's buffer goes out when it holds so many bytes.
const BUFFER_BYTES: usize = 32 << 10;

/// How long a line waits at most; see [`AccessLog::flush`].
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_millis(100);

/// Where the lines of all workers go. A clone writes to the same place.
///
/// No request waits for the log: lines that it doesn't take in time are dropped and counted (see
/// [`LogWriter`]), and the count is a line of its own: `… dropped=17 reason="…"`.
#[derive(Clone)]
pub struct AccessLog(Arc<Inner>);

struct Inner {
    writer: LogWriter,
    /// `None`: it is no file.
    path: Option<PathBuf>,
    /// Of warnings about this log.
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
        Ok(Self::shared(LogWriter::start(writer)?))
    }

    /// Writes among other lines, for instance those of `tracing`.
    #[must_use]
    pub fn shared(writer: LogWriter) -> Self {
        Self::with(writer, None)
    }

    /// Appends to a file. If it isn't there it is made, readable by its owner only (mode 600), for it
    /// holds addresses. It may be truncated while the server runs, as log rotation by copying does, or
    /// renamed; see [`reopen`](Self::reopen).
    ///
    /// # Errors
    /// The file can't be made or opened, or the thread that writes can't be started.
    pub fn append(path: &Path) -> io::Result<Self> {
        let writer = LogWriter::start(open(path)?)?;
        Ok(Self::with(writer, Some(path.to_owned())))
    }

    fn with(writer: LogWriter, path: Option<PathBuf>) -> Self {
        Self(Arc::new(Inner {
            writer,
            path,
            throttle: Throttle::new(),
        }))
    }

    /// Opens the file anew by its name, after log rotation has renamed it; lines that wait go to the new
    /// one. Without effect on a log that is no file. May wait for the disk.
    ///
    /// # Errors
    /// The file can't be made or opened: the former one stays in use.
    pub fn reopen(&self) -> io::Result<()> {
        if let Some(path) = &self.0.path {
            self.0.writer.replace(open(path)?);
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

    /// Adds a line, made by [`Line`], with the time before it.
    pub(crate) fn add(&self, time: SystemTime, line: &[u8]) {
        LINES.with_borrow_mut(|lines| {
            lines.extend_from_slice(&Stamp::of(time).0);
            lines.extend_from_slice(line);
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
        if let Err(Dropped { in_all }) = self.0.writer.push(lines) {
            let text = "the access log takes lines too slowly, or not at all: they are dropped";
            self.warn(|| tracing::warn!(in_all, "{text}"));
        }
        lines.clear();
    }

    fn warn(&self, log: impl FnOnce()) {
        if self.0.throttle.admit(Instant::now()).is_some() {
            log();
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path)
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessLog")
    }
}

/// A time as RFC 3339 says it, in UTC and with milliseconds.
pub(crate) struct Stamp([u8; Stamp::LEN]);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.0).expect("ASCII"))
    }
}

impl Stamp {
    const LEN: usize = "2026-11-22T02:05:13.123Z".len();

    /// Years before 1970 and after 9999 are told as these.
    pub(crate) fn of(time: SystemTime) -> Self {
        thread_local! {
            /// The second that was told last.
            static LAST: RefCell<(u64, [u8; Stamp::LEN])> = const { RefCell::new((u64::MAX, [0; Stamp::LEN])) };
        }
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        LAST.with_borrow_mut(|(second, text)| {
            if *second != since.as_secs() {
                *second = since.as_secs();
                *text = Self::second(since.as_secs());
            }
            let millis = since.subsec_millis();
            for (place, digit) in [
                (20, millis / 100),
                (21, millis / 10 % 10),
                (22, millis % 10),
            ] {
                text[place] = b'0' + u8::try_from(digit).expect("one digit");
            }
            Self(*text)
        })
    }

    fn second(second: u64) -> [u8; Self::LEN] {
        const LAST: i64 = 253_402_300_799;
        let second = i64::try_from(second).map_or(LAST, |second| second.min(LAST));
        let at = OffsetDateTime::from_unix_timestamp(second).expect("within the years up to 9999");
        let (date, time) = (at.date(), at.time());
        let text = format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.000Z",
            date.year(),
            u8::from(date.month()),
            date.day(),
            time.hour(),
            time.minute(),
            time.second()
        );
        text.as_bytes()
            .try_into()
            .expect("each part has its number of digits")
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

/// What a line says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) client: IpAddr,
    pub(crate) protocol: Protocol,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) status: StatusCode,
    pub(crate) bytes: u64,
    pub(crate) decision: Option<Decision>,
}

impl Line<'_> {
    /// The line behind its time, with the line feed.
    pub(crate) fn text(&self) -> String {
        let Self {
            client,
            protocol,
            method,
            path,
            bytes,
            ..
        } = self;
        let status = self.status.as_u16();
        // Debug escapes quotes and control characters: a path can't forge another line.
        let mut text = format!(
            " client={client} protocol={protocol} method={method} path={path:?} status={status} bytes={bytes}"
        );
        if let Some(Decision { offer, reason, .. }) = &self.decision {
            write!(text, " offer={offer} reason=\"{reason}\"").expect("a string takes everything");
        }
        text.push('\n');
        text
    }
}

/// The line of a response that is on its way, logged when dropped.
#[derive(Debug)]
pub(crate) struct LogEntry {
    log: AccessLog,
    client: IpAddr,
    protocol: Protocol,
    method: Method,
    path: Box<str>,
    status: StatusCode,
    bytes: u64,
    decision: Option<Decision>,
}

impl LogEntry {
    pub(crate) fn new(log: &AccessLog, line: Line<'_>) -> Self {
        Self {
            log: log.clone(),
            client: line.client,
            protocol: line.protocol,
            method: line.method.clone(),
            path: line.path.into(),
            status: line.status,
            bytes: line.bytes,
            decision: line.decision,
        }
    }

    /// Counts bytes of the body that were handed to the transport.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }
}

impl Drop for LogEntry {
    fn drop(&mut self) {
        let line = Line {
            client: self.client,
            protocol: self.protocol,
            method: &self.method,
            path: &self.path,
            status: self.status,
            bytes: self.bytes,
            decision: self.decision,
        };
        self.log.add(SystemTime::now(), line.text().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Mutex;

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

    fn line(path: &str) -> String {
        let line = Line {
            client: Ipv4Addr::LOCALHOST.into(),
            protocol: Protocol::Http2,
            method: &Method::GET,
            path,
            status: StatusCode::OK,
            bytes: 7,
            decision: None,
        };
        line.text()
    }

    #[test]
    fn a_time_has_milliseconds_and_no_surprises() {
        let stamp = |millis| {
            let stamp = Stamp::of(UNIX_EPOCH + Duration::from_millis(millis)).0;
            String::from_utf8(stamp.into()).unwrap()
        };
        assert_eq!(stamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(stamp(1_795_313_113_123), "2026-11-22T02:05:13.123Z");
        assert_eq!(stamp(1_795_313_113_009), "2026-11-22T02:05:13.009Z");
        assert_eq!(stamp(1_709_164_800_000), "2024-02-29T00:00:00.000Z");
        assert_eq!(stamp(u64::MAX / 2), "9999-12-31T23:59:59.807Z");
    }

    #[test]
    fn a_path_cannot_forge_a_line() {
        let text = line("/\" status=500\n");
        assert_eq!(
            text,
            " client=127.0.0.1 protocol=h2 method=GET path=\"/\\\" status=500\\n\" status=200 bytes=7\n"
        );
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
        log.add(UNIX_EPOCH, text.as_bytes());
        assert_eq!(len(), 0);
        log.flush();
        let one = Stamp::LEN + text.len();
        assert_eq!(len(), one);
        let many = BUFFER_BYTES / one + 1;
        (0..many).for_each(|_| log.add(UNIX_EPOCH, text.as_bytes()));
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
            log.add(UNIX_EPOCH, line(name).as_bytes());
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
        log.add(UNIX_EPOCH, line("/a").as_bytes());
        log.flush();
        assert!(log.drain(Duration::from_secs(10)));
        let text = std::fs::read_to_string(moved.join("log")).unwrap();
        assert!(text.contains("/a"), "{text}");
    }
}
