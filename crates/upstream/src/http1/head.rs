//! Heads of messages of HTTP/1.1 as a client writes and reads them (RFC 9112 sections 3 to 6).

use super::kept;
use crate::heads::{self, Lines, Received};
use altway_message::hop_by_hop;
use bytes::Bytes;
use http::header::{
    CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use http::{Method, StatusCode, Version};
use std::mem::MaybeUninit;
use std::time::Duration;

/// The most fields of a response.
const MAX_FIELDS: usize = 100;

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
    /// Fields; those of the hop are among them only where Connection names others.
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

/// The bytes that were read are no head of a response, or it contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the head of the upstream's response is malformed")]
pub(crate) struct BadHead;

impl ResponseHead {
    /// Reads a head from the beginning of `input`, with its length; `None`: it is not there whole.
    ///
    /// # Errors
    /// [`BadHead`].
    pub(crate) fn parse(input: &Bytes) -> Result<Option<(Self, usize)>, BadHead> {
        let mut lines = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut head = httparse::Response::new(&mut []);
        let parser = httparse::ParserConfig::default();
        let len = match parser.parse_response_with_uninit_headers(&mut head, input, &mut lines) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(BadHead),
        };
        let status = head.code.and_then(|code| StatusCode::from_u16(code).ok());
        let mut fields = HeaderMap::with_capacity(head.headers.len() + MADE);
        let mut hop = Hop::of(head.headers);
        for line in head.headers.iter() {
            let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| BadHead)?;
            hop.note(&name, line.value);
            if !hop.names_more && heads::ends_with_the_hop(&name) {
                continue;
            }
            let value = HeaderValue::from_maybe_shared(input.slice_ref(line.value));
            fields.append(name, value.map_err(|_| BadHead)?);
        }
        let version = match head.version {
            Some(1) => Version::HTTP_11,
            _ => Version::HTTP_10,
        };
        let head = Self {
            status: status.ok_or(BadHead)?,
            version,
            fields,
            hop,
        };
        Ok(Some((head, len)))
    }

    /// The extent of the content that follows; `is_head`: the request's method is HEAD. Several lines of the same length become one.
    ///
    /// # Errors
    /// [`BadHead`]: the head says two things, or what cannot be understood. It may be another server's reading by
    /// which somebody else's response is smuggled in.
    pub(crate) fn extent(&mut self, is_head: bool) -> Result<Extent, BadHead> {
        let status = self.status;
        let has_none = status.is_informational()
            || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
            || is_head;
        if has_none {
            return Ok(Extent::Length(0));
        }
        let length = self.content_length()?;
        match (self.hop.coding, length) {
            (Coding::None, Some(length)) => Ok(Extent::Length(length)),
            (Coding::None, None) => Ok(Extent::ToTheEnd),
            // No other coding was asked for (RFC 9112 section 7.4).
            (Coding::Chunked, None) if self.version == Version::HTTP_11 => Ok(Extent::Chunked),
            _ => Err(BadHead),
        }
    }

    fn content_length(&mut self) -> Result<Option<u64>, BadHead> {
        if !self.hop.has_length {
            return Ok(None);
        }
        let mut values = self.fields.get_all(CONTENT_LENGTH).iter();
        let Some(first) = values.next() else {
            return Ok(None);
        };
        let mut is_repeated = false;
        for value in values {
            is_repeated = true;
            if value != first {
                return Err(BadHead);
            }
        }
        let length = altway_message::content_length(first.as_bytes()).map_err(|_| BadHead)?;
        if is_repeated {
            self.fields.insert(CONTENT_LENGTH, length.into());
        }
        Ok(Some(length))
    }

    /// Time for which the connection may wait for another request; `None`: the server does not keep it (RFC 9112 section 9.3).
    pub(crate) fn keeps_connection(&self) -> Option<Duration> {
        let is_kept = match self.version {
            Version::HTTP_11 => !self.hop.closes,
            _ => self.hop.keeps && !self.hop.closes,
        };
        is_kept.then(|| kept::time(self.hop.idle_timeout))
    }

    /// Returns whether it opens the protocol that the request has asked for.
    pub(crate) fn switches(&self) -> bool {
        self.status == StatusCode::SWITCHING_PROTOCOLS && self.hop.upgrades
    }

    /// The fields that go beyond the hop.
    pub(crate) fn into_stripped(mut self) -> HeaderMap {
        if self.hop.names_more {
            heads::strip_response(&mut self.fields);
        }
        self.fields
    }
}

/// Fields that a response may be given beyond those that it has.
const MADE: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Option<(ResponseHead, usize)>, BadHead> {
        ResponseHead::parse(&Bytes::copy_from_slice(text.as_bytes()))
    }

    fn extent(method: &Method, text: &str) -> Result<Extent, BadHead> {
        parse(text)?.unwrap().0.extent(*method == Method::HEAD)
    }

    #[test]
    fn a_request_has_its_host_first_and_one_length() {
        let fields: HeaderMap = [
            ("accept", "*/*"),
            ("content-length", "7"),
            ("host", "a.test"),
        ]
        .into_iter()
        .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
        .collect();
        let write = |method, length| {
            let mut head = Vec::new();
            write_request(&mut head, method, "/a?b", Fields::Made(&fields), length);
            String::from_utf8(head).unwrap()
        };
        assert_eq!(
            write(&Method::GET, ContentLength::None),
            "GET /a?b HTTP/1.1\r\nhost: a.test\r\naccept: */*\r\n\r\n"
        );
        assert_eq!(
            write(&Method::POST, ContentLength::None),
            "POST /a?b HTTP/1.1\r\nhost: a.test\r\naccept: */*\r\ncontent-length: 0\r\n\r\n"
        );
        let known = write(&Method::PUT, ContentLength::Known(7));
        assert!(known.ends_with("\r\naccept: */*\r\ncontent-length: 7\r\n\r\n"));
        let unknown = write(&Method::PUT, ContentLength::Unknown);
        assert!(unknown.ends_with("\r\naccept: */*\r\ntransfer-encoding: chunked\r\n\r\n"));
    }

    #[test]
    fn a_client_s_fields_are_written_as_they_pass() {
        let fields: HeaderMap = [
            ("accept", "*/*"),
            ("connection", "x-hop"),
            ("content-length", "0"),
            ("expect", "100-continue"),
            ("host", "a.test"),
            ("x-forwarded-for", "203.0.113.1"),
            ("x-hop", "1"),
        ]
        .into_iter()
        .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
        .collect();
        let received = Received {
            peer: std::net::Ipv4Addr::LOCALHOST.into(),
            port: 1,
            local: None,
            is_trusted: false,
            scheme: "https",
            version: Version::HTTP_2,
            is_early: false,
            client_cert: None,
        };
        let host = HeaderValue::from_static("b.test");
        let passed = Fields::ForwardedHead(ForwardedHead {
            fields: &fields,
            received,
            host: Some(&host),
        });
        let mut head = Vec::new();
        let none = ContentLength::None;
        write_request(&mut head, &Method::GET, "/", passed, none);
        let mut map = fields.clone();
        heads::pass_request(&mut map, received, Version::HTTP_11);
        map.insert(HOST, host);
        map.remove(EXPECT);
        let mut made = Vec::new();
        write_request(&mut made, &Method::GET, "/", Fields::Made(&map), none);
        let lines = |head: &[u8]| {
            let text = String::from_utf8(head.to_vec()).unwrap();
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            assert_eq!(lines[1], "host: b.test");
            lines.sort();
            lines
        };
        assert_eq!(lines(&head), lines(&made));
        assert!(!lines(&head).iter().any(|line| line.starts_with("x-hop")));
    }

    #[test]
    fn a_head_is_read_when_it_is_whole() {
        let text = "HTTP/1.1 200 Fine\r\nContent-Length: 5\r\nX: y\r\n\r\n";
        for cut in 0..text.len() {
            assert!(parse(&text[..cut]).unwrap().is_none(), "{cut}");
        }
        let (head, len) = parse(&format!("{text}hello")).unwrap().unwrap();
        assert_eq!(
            (head.status, head.version),
            (StatusCode::OK, Version::HTTP_11)
        );
        assert_eq!(head.fields["x"], "y");
        assert_eq!(len, text.len());
        assert!(head.keeps_connection().is_some());
    }

    #[test]
    fn what_is_no_head_is_malformed() {
        let many = format!(
            "HTTP/1.1 200 OK\r\n{}\r\n",
            "a: b\r\n".repeat(MAX_FIELDS + 1)
        );
        for text in [
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/1.1 abc OK\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            &many,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    /// Cases, one a line: method, status, lines of the head, extent.
    const EXTENTS: &[(&str, u16, &str, Result<Extent, BadHead>)] = &[
        ("GET", 200, "content-length: 5", Ok(Extent::Length(5))),
        (
            "GET",
            200,
            "content-length: 5|content-length: 5",
            Ok(Extent::Length(5)),
        ),
        (
            "GET",
            200,
            "content-length: 5|content-length: 6",
            Err(BadHead),
        ),
        ("GET", 200, "content-length: 5, 5", Err(BadHead)),
        ("GET", 200, "content-length: +5", Err(BadHead)),
        ("GET", 200, "content-length: -1", Err(BadHead)),
        (
            "GET",
            200,
            "transfer-encoding: Chunked",
            Ok(Extent::Chunked),
        ),
        ("GET", 200, "transfer-encoding: gzip, chunked", Err(BadHead)),
        ("GET", 200, "transfer-encoding: gzip", Err(BadHead)),
        (
            "GET",
            200,
            "transfer-encoding: chunked|content-length: 5",
            Err(BadHead),
        ),
        (
            "GET",
            200,
            "transfer-encoding: chunked|transfer-encoding: chunked",
            Err(BadHead),
        ),
        ("GET", 200, "x: y", Ok(Extent::ToTheEnd)),
        ("HEAD", 200, "content-length: 5", Ok(Extent::Length(0))),
        (
            "HEAD",
            200,
            "transfer-encoding: chunked",
            Ok(Extent::Length(0)),
        ),
        ("GET", 204, "x: y", Ok(Extent::Length(0))),
        ("GET", 304, "content-length: 5", Ok(Extent::Length(0))),
    ];

    #[test]
    fn the_extent_of_content_has_one_reading() {
        for (method, status, lines, expected) in EXTENTS {
            let lines = lines.replace('|', "\r\n");
            let text = format!("HTTP/1.1 {status} It\r\n{lines}\r\n\r\n");
            let method = method.parse().unwrap();
            assert_eq!(extent(&method, &text), *expected, "{text}");
        }
        let old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(extent(&Method::GET, old), Err(BadHead));
    }

    #[test]
    fn a_length_that_is_said_twice_is_passed_once() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n";
        let mut head = parse(text).unwrap().unwrap().0;
        head.extent(false).unwrap();
        assert_eq!(head.fields.get_all(CONTENT_LENGTH).iter().count(), 1);
    }

    #[test]
    fn fields_of_the_hop_are_gone_when_the_head_passes() {
        for (lines, left) in [
            ("connection: close|x: y|alt-svc: clear", "x"),
            (
                "keep-alive: 5|transfer-encoding: chunked|x: y|upgrade: h2c",
                "x",
            ),
            (
                "x: y|x-hop: 1|connection: keep-alive, x-hop|alt-svc: clear",
                "x",
            ),
            (
                "transfer-encoding: chunked|connection: x-hop|x: y|te: a",
                "x",
            ),
        ] {
            let lines = lines.replace('|', "\r\n");
            let head = parse(&format!("HTTP/1.1 200 It\r\n{lines}\r\n\r\n"));
            let fields = head.unwrap().unwrap().0.into_stripped();
            let names: Vec<_> = fields.keys().map(HeaderName::as_str).collect();
            assert_eq!(names, [left], "{lines}");
        }
    }

    #[test]
    fn the_server_says_whether_the_connection_stays() {
        for (text, stays) in [
            ("HTTP/1.1 200 OK\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n", false),
            (
                "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
                false,
            ),
            ("HTTP/1.0 200 OK\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n", true),
        ] {
            assert_eq!(
                parse(text).unwrap().unwrap().0.keeps_connection().is_some(),
                stays,
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_input_is_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let begun = [b"HTTP/1.1 200 OK\r\n", &text[..]].concat();
            for input in [Bytes::from(text), Bytes::from(begun)] {
                if let Ok(Some((mut head, len))) = ResponseHead::parse(&input) {
                    prop_assert!(len <= input.len());
                    let _ = head.extent(false);
                }
            }
        }
    }
}
