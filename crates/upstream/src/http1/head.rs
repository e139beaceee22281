//! Heads of messages of HTTP/1.1 as a client writes and reads them (RFC 9112 sections 3 to 6).

mod sanitize;

use super::kept;
use crate::heads::{self, Lines, Received};
use altway_message::hop_by_hop;
use bytes::Bytes;
use http::header::{
    CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, StatusCode, Version};
use std::mem::MaybeUninit;
use std::time::Duration;

/// The most fields of a response. Their bytes are bounded as well, by the room for a head.
const MAX_FIELDS: usize = 1_000;

/// The most fields of a response that needs no memory for the places of its lines: nearly all have fewer.
const USUAL_FIELDS: usize = 100;

/// The extent of a request's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentLength {
    /// No content.
    None,
    /// Content of so many bytes.
    Known(u64),
    /// Content to be sent in chunks.
    Unknown,
}

/// The fields of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fields<'r> {
    /// Fields that are sent as they are.
    Made(&'r HeaderMap),
    /// A client's, which pass by the rules of [`heads`].
    ForwardedHead(ForwardedHead<'r>),
}

/// The fields of a client's request on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForwardedHead<'r> {
    pub(crate) fields: &'r HeaderMap,
    pub(crate) received: Received<'r>,
    /// The Host of the request; `None`: it has none.
    pub(crate) host: Option<&'r HeaderValue>,
}

impl<'r> Fields<'r> {
    /// The fields as they were given.
    pub(crate) fn given(&self) -> &'r HeaderMap {
        match self {
            Self::Made(fields) => fields,
            Self::ForwardedHead(passed) => passed.fields,
        }
    }
}

/// Writes the head of a request behind what `head` has. Content-Length and Transfer-Encoding are those of `length`,
/// whatever `fields` say.
pub(crate) fn write_request(
    head: &mut Vec<u8>,
    method: &Method,
    target: &str,
    fields: Fields<'_>,
    length: ContentLength,
) {
    for part in [method.as_str(), " ", target, " HTTP/1.1\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
    // RFC 9110 section 7.2: Host comes first.
    let host = match fields {
        Fields::Made(fields) => fields.get(HOST),
        Fields::ForwardedHead(passed) => passed.host,
    };
    if let Some(host) = host {
        write_field(head, HOST.as_str(), host.as_bytes());
    }
    match fields {
        Fields::Made(fields) => {
            let mut lines = MadeLines(head);
            fields
                .iter()
                .for_each(|(name, value)| lines.passed(name, value));
        }
        Fields::ForwardedHead(ForwardedHead {
            fields, received, ..
        }) => {
            let mut lines = PassedLines(MadeLines(head));
            heads::pass_lines(fields, received, Version::HTTP_11, &mut lines);
        }
    }
    match length {
        // RFC 9110 section 8.6: content would have a meaning, and there is none.
        ContentLength::None if matches!(method.as_str(), "POST" | "PUT" | "PATCH") => {
            write_field(head, CONTENT_LENGTH.as_str(), b"0");
        }
        ContentLength::None => {}
        ContentLength::Known(bytes) => {
            write_field(head, CONTENT_LENGTH.as_str(), bytes.to_string().as_bytes());
        }
        ContentLength::Unknown => write_field(head, TRANSFER_ENCODING.as_str(), b"chunked"),
    }
    head.extend_from_slice(b"\r\n");
}

/// The lines of a head but for those that stand apart.
struct MadeLines<'h>(&'h mut Vec<u8>);

impl Lines for MadeLines<'_> {
    fn passed(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.made(name, value.as_bytes());
    }

    fn joined(&mut self, name: &HeaderName, parts: &[&[u8]]) {
        if *name != HOST && *name != CONTENT_LENGTH && *name != TRANSFER_ENCODING {
            write_parts(self.0, name.as_str(), parts);
        }
    }
}

/// The same without Expect: the request has no content for which a server could ask.
struct PassedLines<'h>(MadeLines<'h>);

impl Lines for PassedLines<'_> {
    fn passed(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.made(name, value.as_bytes());
    }

    fn joined(&mut self, name: &HeaderName, parts: &[&[u8]]) {
        if *name != EXPECT {
            self.0.joined(name, parts);
        }
    }
}

/// Writes a line of a head, or of trailers.
pub(crate) fn write_field(to: &mut Vec<u8>, name: &str, value: &[u8]) {
    write_parts(to, name, &[value]);
}

/// Writes a line whose value is in parts.
fn write_parts(to: &mut Vec<u8>, name: &str, parts: &[&[u8]]) {
    to.extend_from_slice(name.as_bytes());
    to.extend_from_slice(b": ");
    parts.iter().for_each(|part| to.extend_from_slice(part));
    to.extend_from_slice(b"\r\n");
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
    /// Fields; those of the hop are among them only where Connection names others, but for Upgrade where it is required.
    pub(crate) fields: HeaderMap,
    hop: Hop,
}

/// The words of a response's head on its hop, and on its framing.
#[derive(Debug, Default)]
struct Hop {
    /// Connection says `close`.
    closes: bool,
    /// Connection says `keep-alive`.
    keeps: bool,
    /// Connection names fields other than those of every hop.
    names_more: bool,
    coding: Coding,
    upgrades: bool,
    has_length: bool,
    /// Time for which Keep-Alive says that the server keeps the connection without a request.
    idle_timeout: Option<Duration>,
}

/// The transfer coding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Coding {
    #[default]
    None,
    Chunked,
    Else,
}

impl Hop {
    /// The words of all lines of Connection, which may name a field that precedes them.
    fn of(lines: &[httparse::Header<'_>]) -> Self {
        let mut hop = Self::default();
        let is_connection = |it: &&httparse::Header<'_>| it.name.eq_ignore_ascii_case("connection");
        for line in lines.iter().filter(is_connection) {
            for option in hop_by_hop::options(line.value) {
                hop.closes |= option.eq_ignore_ascii_case(b"close");
                hop.keeps |= option.eq_ignore_ascii_case(b"keep-alive");
            }
            hop.names_more |= heads::names_more(line.value);
        }
        hop
    }

    /// Takes note of another line.
    fn note(&mut self, name: &HeaderName, value: &[u8]) {
        match name.as_str() {
            "content-length" => self.has_length = true,
            "upgrade" => self.upgrades = true,
            "keep-alive" => self.idle_timeout = kept::idle_timeout(value),
            "transfer-encoding" => {
                let is_chunked = value.eq_ignore_ascii_case(b"chunked");
                self.coding = match self.coding {
                    Coding::None if is_chunked => Coding::Chunked,
                    _ => Coding::Else,
                };
            }
            _ => {}
        }
    }
}

/// The end of a response's content (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Content of so many bytes.
    Length(u64),
    /// Content in chunks.
    Chunked,
    /// Content up to the connection's end.
    ToTheEnd,
}

impl Extent {
    /// The length of content that is within so many bytes; `None`: there is more of it, or nobody knows.
    pub(crate) fn within(self, bytes: usize) -> Option<usize> {
        let Self::Length(length) = self else {
            return None;
        };
        usize::try_from(length).ok().filter(|it| *it <= bytes)
    }
}

/// The bytes that were read are no head of a response, or it contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the head of the upstream's response is malformed")]
pub(crate) struct BadHead;

impl ResponseHead {
    /// Reads a head from the beginning of `input`, with its length; `None`: it is not there whole. Fields that break the grammar
    /// are put right or left out where that leaves no doubt about the rest, and the connection carries no other request then.
    ///
    /// # Errors
    /// [`BadHead`].
    pub(crate) fn parse(input: &Bytes) -> Result<Option<(Self, usize)>, BadHead> {
        let refused = |error| {
            tracing::debug!("the head of an upstream's response can't be read: {error}");
            BadHead
        };
        match Self::parse_valid(input) {
            Err(error @ (httparse::Error::HeaderName | httparse::Error::HeaderValue)) => {
                let sanitized = sanitize::sanitize(input).map_err(|BadHead| refused(error))?;
                let Some((head, len)) = sanitized else {
                    return Ok(None);
                };
                let parsed = Self::parse_valid(&head.into()).map_err(refused)?;
                let (mut head, _) = parsed.ok_or(BadHead)?;
                head.hop.closes = true;
                Ok(Some((head, len)))
            }
            parsed => parsed.map_err(refused),
        }
    }

    /// The same where all fields are valid.
    fn parse_valid(input: &Bytes) -> Result<Option<(Self, usize)>, httparse::Error> {
        let mut usual = [const { MaybeUninit::uninit() }; USUAL_FIELDS];
        let mut many;
        let mut head = httparse::Response::new(&mut []);
        let mut parser = httparse::ParserConfig::default();
        // RFC 9112 section 5.1: of whitespace before a colon a proxy "MUST remove any" from a response.
        parser.allow_spaces_after_header_name_in_responses(true);
        let parsed = match parser.parse_response_with_uninit_headers(&mut head, input, &mut usual) {
            Err(httparse::Error::TooManyHeaders) => {
                many = vec![MaybeUninit::uninit(); MAX_FIELDS];
                head = httparse::Response::new(&mut []);
                parser.parse_response_with_uninit_headers(&mut head, input, &mut many)
            }
            parsed => parsed,
        };
        let httparse::Status::Complete(len) = parsed? else {
            return Ok(None);
        };
        let status = head.code.and_then(|code| StatusCode::from_u16(code).ok());
        let mut fields = HeaderMap::with_capacity(head.headers.len() + MADE);
        let mut hop = Hop::of(head.headers);
        for line in head.headers.iter() {
            let name = HeaderName::from_bytes(line.name.as_bytes());
            let name = name.map_err(|_| httparse::Error::HeaderName)?;
            hop.note(&name, line.value);
            let is_kept = name == UPGRADE && status == Some(StatusCode::UPGRADE_REQUIRED);
            if !hop.names_more && !is_kept && heads::ends_with_the_hop(&name) {
                continue;
            }
            let value = HeaderValue::from_maybe_shared(input.slice_ref(line.value));
            fields.append(name, value.map_err(|_| httparse::Error::HeaderValue)?);
        }
        let version = match head.version {
            Some(1) => Version::HTTP_11,
            _ => Version::HTTP_10,
        };
        let head = Self {
            status: status.ok_or(httparse::Error::Status)?,
            version,
            fields,
            hop,
        };
        Ok(Some((head, len)))
    }

    /// The extent of the content that follows; `is_head`: the request's method is HEAD. Several lines of the same length become one;
    /// where no content follows, what is no length is left out.
    ///
    /// # Errors
    /// [`BadHead`]: the head says two things, or what cannot be understood. It may be another server's reading by
    /// which somebody else's response is smuggled in.
    pub(crate) fn extent(&mut self, is_head: bool) -> Result<Extent, BadHead> {
        let status = self.status;
        let has_none = status.is_informational()
            || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
            || is_head;
        let length = match self.hop.has_length {
            true => heads::content_length(&mut self.fields),
            false => Ok(None),
        };
        if has_none {
            if length.is_err() {
                self.fields.remove(CONTENT_LENGTH);
            }
            return Ok(Extent::Length(0));
        }
        let length = length.map_err(|_| BadHead)?;
        match (self.hop.coding, length) {
            (Coding::None, Some(length)) => Ok(Extent::Length(length)),
            (Coding::None, None) => Ok(Extent::ToTheEnd),
            // No other coding was asked for (RFC 9112 section 7.4).
            (Coding::Chunked, None) if self.version == Version::HTTP_11 => Ok(Extent::Chunked),
            _ => Err(BadHead),
        }
    }

    /// Time for which the connection may wait for another request; `None`: the server does not keep it (RFC 9112 section 9.3).
    pub(crate) fn keeps_connection(&self) -> Option<Duration> {
        let is_kept = match self.version {
            Version::HTTP_11 => !self.hop.closes,
            _ => self.hop.keeps && !self.hop.closes,
        };
        let is_kept = is_kept && !self.announces_content_in_vain();
        is_kept.then(|| kept::time(self.hop.idle_timeout))
    }

    /// Returns whether it has fields of content that its status can't have (RFC 9110 section 15.3.5): applications that
    /// send 204 with content send that, too, and it would be taken for the next response.
    fn announces_content_in_vain(&self) -> bool {
        let length = || self.fields.get(CONTENT_LENGTH);
        let has_length = || self.hop.has_length && length().is_none_or(|it| it != "0");
        self.status == StatusCode::NO_CONTENT && (self.hop.coding != Coding::None || has_length())
    }

    /// Returns whether it opens the protocol that the request has asked for.
    pub(crate) fn switches(&self) -> bool {
        self.status == StatusCode::SWITCHING_PROTOCOLS && self.hop.upgrades
    }

    /// The fields that go beyond the hop, and Upgrade if the status is [`StatusCode::UPGRADE_REQUIRED`].
    pub(crate) fn into_stripped(mut self) -> HeaderMap {
        if self.hop.names_more {
            let required = self.fields.remove(UPGRADE);
            heads::strip_response(&mut self.fields);
            if let Some(required) = required
                && self.status == StatusCode::UPGRADE_REQUIRED
            {
                self.fields.insert(UPGRADE, required);
            }
        }
        self.fields
    }
}

/// Returns whether a connection begins with a SETTINGS frame of HTTP/2 (RFC 9113 section 3.4), before which its server sends nothing.
pub(crate) fn is_http2(input: &[u8]) -> bool {
    matches!(input, [0, _, _, 4, 0, 0, 0, 0, 0, ..])
}

/// Fields that a response may be given beyond those that it has.
const MADE: usize = 1;

#[cfg(test)]
mod tests;
