//! The text of a line, in each format.

use super::{LogFormat, Protocol};
use crate::ClientCertificate;
use crate::request::check::RequestHead;
use altway_select::{ClientClass, ClientKey, Decision};
use http::{Method, StatusCode};
use std::fmt::{Display, Write as _};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

/// Bytes of the authority, of Referer and of User-Agent that a line says at most, before they are escaped.
const MAX_FIELD: usize = 256;

/// The parts of a request's head that a line has.
#[derive(Debug)]
pub(crate) struct LoggedHead {
    pub(crate) method: Method,
    /// The path, without the query.
    path: Box<str>,
    host: Option<Box<str>>,
    referer: Option<Box<str>>,
    agent: Option<Box<str>>,
    /// The client's certificate, where its site asks for one.
    certificate: Option<ClientCertificate>,
}

impl LoggedHead {
    /// A method that is none is told as GET.
    pub(crate) fn of(head: &impl RequestHead) -> Self {
        let (mut referer, mut agent) = (None, None);
        for (name, value) in head.fields() {
            let place = match name {
                b"referer" => &mut referer,
                b"user-agent" => &mut agent,
                _ => continue,
            };
            place.get_or_insert(value);
        }
        let target = head.target().unwrap_or_default();
        let path = match target.split(|byte| *byte == b'?').next() {
            Some(path) if !path.is_empty() => path,
            _ if target.is_empty() => b"",
            _ => b"/",
        };
        Self {
            method: Method::from_bytes(head.method()).unwrap_or_default(),
            path: String::from_utf8_lossy(path).into(),
            host: head.authority().map(bounded),
            referer: referer.map(bounded),
            agent: agent.map(bounded),
            certificate: None,
        }
    }

    /// The head of a request that was rejected before its end: `-` and no path.
    pub(crate) fn unknown() -> Self {
        Self {
            method: Method::from_bytes(b"-").unwrap_or_default(),
            path: Box::default(),
            host: None,
            referer: None,
            agent: None,
            certificate: None,
        }
    }

    pub(crate) fn with_certificate(mut self, certificate: Option<ClientCertificate>) -> Self {
        self.certificate = certificate;
        self
    }
}

/// The first [`MAX_FIELD`] bytes as text, without a character that is cut in two.
fn bounded(bytes: &[u8]) -> Box<str> {
    // A character that ends beyond the bound is left out, so it is read whole.
    const LONGEST: usize = 4;
    let bytes = &bytes[..bytes.len().min(MAX_FIELD + LONGEST)];
    let text = String::from_utf8_lossy(bytes);
    text[..text.floor_char_boundary(MAX_FIELD)].into()
}

/// The values of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) client: IpAddr,
    pub(crate) protocol: Protocol,
    pub(crate) head: &'a LoggedHead,
    pub(crate) status: StatusCode,
    pub(crate) bytes: u64,
    /// The response was given up before it was whole.
    pub(crate) is_cut: bool,
    /// `None` where there is no HTTP/3 to offer.
    pub(crate) logged_offer: Option<LoggedOffer>,
}

/// The offer that a client was told, and the class and key of the client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoggedOffer {
    pub(crate) decision: Decision,
    pub(crate) key: ClientKey,
    pub(crate) class: ClientClass,
}

/// A line with its line feed, and without its time and its duration.
#[derive(Debug)]
pub(crate) struct LineText {
    text: String,
    /// The offset of the time.
    time_at: usize,
    /// The offset of the duration, behind the time; `None` in a format without durations.
    duration_at: Option<usize>,
}

impl LineText {
    /// Adds the line, at that time and of that duration, to others.
    pub(super) fn push_to(
        &self,
        lines: &mut Vec<u8>,
        (time, duration): (SystemTime, Duration),
        format: LogFormat,
    ) {
        let text = self.text.as_bytes();
        lines.extend_from_slice(&text[..self.time_at]);
        format.push_time(lines, time);
        let mut rest = self.time_at;
        if let Some(at) = self.duration_at {
            lines.extend_from_slice(&text[rest..at]);
            push_seconds(lines, duration);
            rest = at;
        }
        lines.extend_from_slice(&text[rest..]);
    }
}

impl Line<'_> {
    pub(crate) fn text(&self, format: LogFormat) -> LineText {
        let mut text = match format {
            LogFormat::KeyValue => String::new(),
            LogFormat::Json => "{\"time\":\"".to_owned(),
            LogFormat::Combined => format!("{} - - [", self.client),
        };
        let time_at = text.len();
        let duration_at = match format {
            LogFormat::KeyValue | LogFormat::Json => Some(self.push_pairs(Pairs {
                is_json: format == LogFormat::Json,
                text: &mut text,
            })),
            LogFormat::Combined => {
                self.push_combined(&mut text);
                None
            }
        };
        text.push('\n');
        LineText {
            text,
            time_at,
            duration_at,
        }
    }

    /// Appends the rest of a line behind the time: keys with their values. Returns the offset of the duration.
    fn push_pairs(&self, mut pairs: Pairs<'_>) -> usize {
        let head = self.head;
        pairs.push_in_json("\"");
        // An address and a method hold nothing to escape: a method is a token (RFC 9110 section 9.1).
        pairs.word("client", self.client);
        pairs.word("protocol", self.protocol);
        pairs.word("method", &head.method);
        pairs.string("path", &head.path);
        pairs.number("status", self.status.as_u16());
        pairs.number("bytes", self.bytes);
        if let Some(LoggedOffer {
            decision,
            key,
            class,
        }) = &self.logged_offer
        {
            pairs.word("offer", decision.offer);
            pairs.string("reason", &decision.reason.to_string());
            pairs.word("class", class);
            pairs.word("key", key);
            pairs.number("propensity", decision.propensity);
            pairs.flag("held", decision.held);
        }
        pairs.key("duration");
        let duration_at = pairs.text.len();
        let (host, referer, agent) = (&head.host, &head.referer, &head.agent);
        for (key, value) in [("host", host), ("referer", referer), ("agent", agent)] {
            if let Some(value) = value {
                pairs.string(key, value);
            }
        }
        if let Some(it) = &head.certificate {
            pairs.string("subject", it.subject());
            pairs.word("fingerprint", it.fingerprint());
        }
        pairs.flag("cut", self.is_cut);
        pairs.push_in_json("}");
        duration_at
    }

    /// Appends the rest of a line behind the time.
    fn push_combined(&self, text: &mut String) {
        let head = self.head;
        push(text, format_args!("] \"{} ", head.method));
        // CONNECT has a host in place of a path.
        let path = Some(&head.path).filter(|path| !path.is_empty());
        let target = path.or(head.host.as_ref()).map_or("-", |target| target);
        push_combined(text, target, true);
        let (version, status, bytes) = (self.protocol.version(), self.status.as_u16(), self.bytes);
        push(text, format_args!(" {version}\" {status} {bytes}"));
        for value in [&head.referer, &head.agent] {
            text.push_str(" \"");
            push_combined(text, value.as_deref().unwrap_or("-"), false);
            text.push('"');
        }
    }
}

/// Keys and values of a line: as `key=value`, or those of a JSON object.
struct Pairs<'a> {
    text: &'a mut String,
    is_json: bool,
}

impl Pairs<'_> {
    fn push_in_json(&mut self, text: &str) {
        self.text.push_str(if self.is_json { text } else { "" });
    }

    fn key(&mut self, key: &str) {
        let [before, behind] = match self.is_json {
            true => [",\"", "\":"],
            false => [" ", "="],
        };
        for part in [before, key, behind] {
            self.text.push_str(part);
        }
    }

    fn number(&mut self, key: &str, value: impl Display) {
        self.key(key);
        push(self.text, format_args!("{value}"));
    }

    /// Appends a text in which nothing is to be escaped.
    fn word(&mut self, key: &str, value: impl Display) {
        match self.is_json {
            true => self.number(key, format_args!("\"{value}\"")),
            false => self.number(key, value),
        }
    }

    /// Appends a text in quotes. Outside of JSON it is escaped as `Debug` does it: it can't end its line.
    fn string(&mut self, key: &str, value: &str) {
        self.key(key);
        match self.is_json {
            true => push_json(self.text, value),
            false => push(self.text, format_args!("{value:?}")),
        }
    }

    fn flag(&mut self, key: &str, is_set: bool) {
        if is_set {
            self.number(key, if self.is_json { "true" } else { "1" });
        }
    }
}

/// Adds seconds with six decimals. The usual ones, below 10, by hand: what formats any number would cost as much as the rest
/// of a line that is known.
fn push_seconds(lines: &mut Vec<u8>, duration: Duration) {
    use std::io::Write as _;
    let (seconds, mut micros) = (duration.as_secs(), duration.subsec_micros());
    if seconds >= 10 {
        return write!(lines, "{seconds}.{micros:06}").expect("memory takes everything");
    }
    let mut digits = *b"0.000000";
    digits[0] += seconds as u8;
    for digit in digits[2..].iter_mut().rev() {
        *digit += (micros % 10) as u8;
        micros /= 10;
    }
    lines.extend_from_slice(&digits);
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("a string takes everything");
}

/// Adds a string of JSON (RFC 8259 section 7). What terminals or editors take for the end of a line, or for
/// more than text, is escaped as well.
pub(super) fn push_json(text: &mut String, value: &str) {
    text.push('"');
    for char in value.chars() {
        match char {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            char if char.is_control() || matches!(char, '\u{2028}' | '\u{2029}') => {
                push(text, format_args!("\\u{:04x}", u32::from(char)));
            }
            char => text.push(char),
        }
    }
    text.push('"');
}

/// Adds a value of the combined format. `is_word`: spaces would end it.
fn push_combined(text: &mut String, value: &str, is_word: bool) {
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' => push(text, format_args!("\\x{byte:02X}")),
            b' ' if is_word => text.push_str("\\x20"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => push(text, format_args!("\\x{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests;
