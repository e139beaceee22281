//! The formats of the access log.

use super::line::push_json;
use super::timestamp::{CombinedLogTime, Rfc3339Time};
use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

/// The format in which the access log writes requests. In every format a request is one line, whatever its client
/// sends.
///
/// No format says the query of a request's target, for queries may hold secrets. `host`, `referer` and
/// `agent` (the authority, Referer and User-Agent) are cut after 256 bytes, before they are escaped; bytes
/// that are no UTF-8 are replaced by U+FFFD. They are left out where the request doesn't have them.
///
/// `class` is the client's class and `key` stands for its address, the same as in the selection log;
/// `propensity` is the probability with which `offer` was chosen, and `held` says that a coin chose it for the
/// week.
///
/// `duration` is the time in seconds from the beginning of the worker's turn that read the head to the end of the turn in
/// which the last byte was handed over, with the calls of the kernel that sent what it had room for. What it had no
/// room for leaves later: over TCP some dozens of KiB, over QUIC as much as a connection has ready to be sent.
/// `cut` says that the response was given up before that. A tunnel is never cut: it has no length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LogFormat {
    /// `key=value`, with texts in quotes as Rust escapes them. On one line:
    ///
    /// ```text
    /// 2026-11-22T02:05:13.123Z client=192.0.2.7 protocol=h2 method=GET path="/" status=200 bytes=600
    /// offer=h3 reason="…" class=firefox-linux key=9f3a6c21d0b4 propensity=0.975 held=1 duration=0.000123 host="example.org" referer="https://…" agent="Mozilla/5.0 …" cut=1
    /// ```
    #[default]
    KeyValue,
    /// A JSON object with the same keys and `time`; `status`, `bytes` and `duration` are numbers, and
    /// `cut` and `held` are `true` where they are there.
    Json,
    /// The combined format of Apache and nginx, and nothing beside it, so that what reads that format
    /// reads this: no duration, host or offer. Quotes, backslashes and everything that is no visible
    /// ASCII are escaped as nginx does it, like `\x22`. Without a path the request has its host.
    ///
    /// ```text
    /// 192.0.2.7 - - [22/Nov/2026:02:05:13 +0000] "GET / HTTP/2.0" 200 600 "https://…" "Mozilla/5.0 …"
    /// ```
    Combined,
}

impl LogFormat {
    /// Adds the time of a line as the format has it.
    pub(super) fn push_time(self, lines: &mut Vec<u8>, time: SystemTime) {
        match self {
            Self::KeyValue | Self::Json => lines.extend_from_slice(&Rfc3339Time::of(time).0),
            Self::Combined => lines.extend_from_slice(&CombinedLogTime::of(time).0),
        }
    }

    /// The line that stands for lines that were dropped; empty where the format has none.
    pub(crate) fn notice(self, dropped: u64, time: SystemTime) -> String {
        const REASON: &str = "the log takes lines too slowly, or not at all";
        let timestamp = Rfc3339Time::of(time);
        match self {
            Self::KeyValue => format!("{timestamp} dropped={dropped} reason=\"{REASON}\"\n"),
            Self::Json => {
                let mut text =
                    format!("{{\"time\":\"{timestamp}\",\"dropped\":{dropped},\"reason\":");
                push_json(&mut text, REASON);
                text.push_str("}\n");
                text
            }
            Self::Combined => String::new(),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::KeyValue => "key-value",
            Self::Json => "json",
            Self::Combined => "combined",
        })
    }
}

impl FromStr for LogFormat {
    type Err = UnknownLogFormat;

    fn from_str(text: &str) -> Result<Self, UnknownLogFormat> {
        match text {
            "key-value" => Ok(Self::KeyValue),
            "json" => Ok(Self::Json),
            "combined" => Ok(Self::Combined),
            _ => Err(UnknownLogFormat(text.into())),
        }
    }
}

/// A text that names no [`LogFormat`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no format of the access log: expected key-value, json or combined")]
pub struct UnknownLogFormat(String);
