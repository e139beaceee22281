//! The access log: one line a request, in `key=value` form.
//!
//! ```text
//! 2026-11-22T02:05:13.123Z client=192.0.2.7 protocol=h2 method=GET path="/" status=200 bytes=600 offer=h3 reason="…"
//! ```
//!
//! A line costs a worker a copy into its own buffer. Buffers go out when they are full, and when the
//! worker calls [`AccessLog::flush`], some times a second: writing each line by itself would cost
//! more than answering its request.

use altway_policy::Decision;
use http::{Method, StatusCode, Uri};
use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// A worker's buffer goes out when it holds so many bytes.
const BUFFER_BYTES: usize = 32 << 10;

/// How long a line waits at most; see [`AccessLog::flush`].
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_millis(100);

/// Where the lines of all workers go. A clone writes to the same place.
#[derive(Clone)]
pub struct AccessLog(Arc<Mutex<Sink>>);

struct Sink {
    writer: Box<dyn Write + Send>,
    /// Said once, so that a full disk doesn't fill the other log.
    failed: bool,
}

thread_local! {
    /// The lines of this worker that are not written.
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl AccessLog {
    /// Writes whole lines to `writer`, many at once. What can't be written is lost, with one
    /// warning.
    #[must_use]
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Sink {
            writer: Box::new(writer),
            failed: false,
        })))
    }

    /// Appends to a file, which is made if it isn't there. It may be truncated while the server
    /// runs, as log rotation by copying does.
    ///
    /// # Errors
    /// The file can't be made or opened.
    pub fn append(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self::new(file))
    }

    /// Adds a line, made by [`Line`], with the time before it.
    pub(crate) fn add(&self, time: SystemTime, line: &[u8]) {
        LINES.with_borrow_mut(|lines| {
            lines.extend_from_slice(&Stamp::of(time).0);
            lines.extend_from_slice(line);
            if lines.len() >= BUFFER_BYTES {
                self.write(lines);
            }
        });
    }

    /// Writes what this thread has collected.
    pub(crate) fn flush(&self) {
        LINES.with_borrow_mut(|lines| self.write(lines));
    }

    fn write(&self, lines: &mut Vec<u8>) {
        if lines.is_empty() {
            return;
        }
        let mut sink = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = sink.writer.write_all(lines);
        if let Err(error) = written.and_then(|()| sink.writer.flush())
            && !std::mem::replace(&mut sink.failed, true)
        {
            tracing::warn!(%error, "cannot write the access log; lines are lost");
        }
        lines.clear();
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessLog")
    }
}

/// A time as RFC 3339 says it, in UTC and with milliseconds.
struct Stamp([u8; Stamp::LEN]);

impl Stamp {
    const LEN: usize = "2026-11-22T02:05:13.123Z".len();

    /// Years before 1970 and after 9999 are told as these.
    fn of(time: SystemTime) -> Self {
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

impl From<http::Version> for Protocol {
    fn from(version: http::Version) -> Self {
        match version {
            http::Version::HTTP_3 => Self::Http3,
            http::Version::HTTP_2 => Self::Http2,
            _ => Self::Http1,
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
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) client: IpAddr,
    pub(crate) protocol: Protocol,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) status: u16,
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
            status,
            bytes,
            ..
        } = self;
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

/// What the log tells of a request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) client: IpAddr,
    pub(crate) protocol: Protocol,
    pub(crate) method: Method,
    pub(crate) target: Uri,
}

impl Asked {
    pub(crate) fn of<B>(client: IpAddr, request: &http::Request<B>) -> Self {
        Self {
            client,
            protocol: request.version().into(),
            method: request.method().clone(),
            target: request.uri().clone(),
        }
    }
}

/// A request and its answer, logged when dropped.
#[derive(Debug)]
pub(crate) struct Exchange {
    log: AccessLog,
    asked: Asked,
    status: StatusCode,
    bytes: u64,
    decision: Option<Decision>,
}

impl Exchange {
    pub(crate) fn begin(
        log: &AccessLog,
        asked: Asked,
        status: StatusCode,
        decision: Option<Decision>,
    ) -> Self {
        Self {
            log: log.clone(),
            asked,
            status,
            bytes: 0,
            decision,
        }
    }

    /// Body bytes were handed to the transport.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let line = Line {
            client: self.asked.client,
            protocol: self.asked.protocol,
            method: self.asked.method.as_str(),
            path: self.asked.target.path(),
            status: self.status.as_u16(),
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
            method: "GET",
            path,
            status: 200,
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
        let log = AccessLog::new(written.clone());
        let text = line("/");
        let len = || written.0.lock().unwrap().len();
        log.add(UNIX_EPOCH, text.as_bytes());
        assert_eq!(len(), 0);
        log.flush();
        let one = Stamp::LEN + text.len();
        assert_eq!(len(), one);
        let many = BUFFER_BYTES / one + 1;
        (0..many).for_each(|_| log.add(UNIX_EPOCH, text.as_bytes()));
        assert_eq!(len(), (1 + many) * one);
    }
}
