//! Between field sections and `http` messages: the rules of RFC 9114 sections 4.2 and 4.3.
//!
//! A section that breaks them is malformed, which costs its stream (H3_MESSAGE_ERROR). Framing and
//! the body belong to `receive`, compression to `qpack`.

use bytes::Bytes;
use http::header::{self, CONTENT_LENGTH, COOKIE, HOST};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

use crate::Error;
use crate::qpack::{self, Decoder, Encoder, Indexing, Section};

/// The protocol that an extended CONNECT asks for (`:protocol`, RFC 9220), for instance
/// `websocket`: an extension of such a request, in either role.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Protocol(String);

impl Protocol {
    /// Names a protocol of the "HTTP Upgrade Token Registry".
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a field section gives no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// It has to wait for so many insertions into the dynamic table.
    Blocked { required: u64 },
    /// It could not be decompressed: the connection fails.
    Decompression,
    /// It is above the limit.
    TooLarge,
    /// It breaks the rules for fields: the stream fails.
    Malformed,
}

/// The message breaks the rules for fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl From<Malformed> for HeadError {
    fn from(Malformed: Malformed) -> Self {
        HeadError::Malformed
    }
}

impl From<qpack::Error<Malformed>> for HeadError {
    fn from(error: qpack::Error<Malformed>) -> Self {
        match error {
            qpack::Error::Blocked { required } => HeadError::Blocked { required },
            qpack::Error::Decompression => HeadError::Decompression,
            qpack::Error::TooLarge => HeadError::TooLarge,
            qpack::Error::Visitor(Malformed) => HeadError::Malformed,
        }
    }
}

/// A field section taken apart.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pseudo: Pseudo,
    map: HeaderMap,
    /// All cookie fields, joined.
    cookies: Option<Vec<u8>>,
}

impl Fields {
    /// Decodes a stream's section, up to `limit` bytes as RFC 9114 section 4.2.2 counts.
    pub(crate) fn decode(
        decoder: &mut Decoder,
        stream: u64,
        section: &[u8],
        limit: u64,
    ) -> Result<Self, HeadError> {
        let mut fields = Fields::default();
        decoder.decode(stream, section, limit, |name, value| {
            fields.field(name, value)
        })?;
        fields.join_cookies()?;
        Ok(fields)
    }

    /// As a request's head. `extended_connect`: RFC 9220 was announced.
    pub(crate) fn into_request(
        self,
        extended_connect: bool,
    ) -> Result<http::Request<()>, Malformed> {
        let mut request = http::Request::new(());
        let (method, uri) = self.request_line()?;
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.version_mut() = http::Version::HTTP_3;
        *request.headers_mut() = self.map;
        if let Some(protocol) = self.pseudo.protocol {
            let protocol = String::from_utf8(protocol).map_err(|_| Malformed)?;
            if !extended_connect || protocol.is_empty() {
                return Err(Malformed);
            }
            request.extensions_mut().insert(Protocol(protocol));
        }
        Ok(request)
    }

    /// As a response's head.
    pub(crate) fn into_response(self) -> Result<http::Response<()>, Malformed> {
        let mut response = http::Response::new(());
        *response.status_mut() = self.status()?;
        *response.version_mut() = http::Version::HTTP_3;
        *response.headers_mut() = self.map;
        Ok(response)
    }

    /// As trailers. Section 4.3: pseudo-header fields "MUST NOT appear in trailer sections".
    pub(crate) fn into_trailers(self) -> Result<HeaderMap, Malformed> {
        match self.pseudo {
            Pseudo {
                method: None,
                scheme: None,
                authority: None,
                path: None,
                protocol: None,
                status: None,
            } => Ok(self.map),
            _ => Err(Malformed),
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        if let Some(name) = name.strip_prefix(b":") {
            return self.pseudo_field(name, value);
        }
        // Accepts lower-case token characters only, as section 4.2 demands.
        let name = HeaderName::from_lowercase(name).map_err(|_| Malformed)?;
        let value = HeaderValue::from_bytes(value).map_err(|_| Malformed)?;
        if !allowed(&name, &value) {
            return Err(Malformed);
        }
        if name == COOKIE {
            self.cookie(value.as_bytes());
            return Ok(());
        }
        self.map
            .try_append(name, value)
            .map(drop)
            .map_err(|_| Malformed)
    }

    /// Section 4.2.1: several cookie fields "MUST be concatenated into a single byte string using the
    /// two-byte delimiter of "; "" before they are passed on.
    fn cookie(&mut self, value: &[u8]) {
        match &mut self.cookies {
            None => self.cookies = Some(value.to_vec()),
            Some(cookies) => {
                cookies.extend_from_slice(b"; ");
                cookies.extend_from_slice(value);
            }
        }
    }

    fn join_cookies(&mut self) -> Result<(), Malformed> {
        if let Some(cookies) = self.cookies.take() {
            let value = HeaderValue::from_maybe_shared(Bytes::from(cookies));
            self.map.insert(COOKIE, value.map_err(|_| Malformed)?);
        }
        Ok(())
    }

    fn pseudo_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        // Section 4.3: "All pseudo-header fields MUST appear in the header section before regular
        // header fields", and undefined or repeated ones are malformed.
        if !self.map.is_empty() || self.cookies.is_some() {
            return Err(Malformed);
        }
        let slot = match name {
            b"method" => &mut self.pseudo.method,
            b"scheme" => &mut self.pseudo.scheme,
            b"authority" => &mut self.pseudo.authority,
            b"path" => &mut self.pseudo.path,
            b"protocol" => &mut self.pseudo.protocol,
            b"status" => &mut self.pseudo.status,
            _ => return Err(Malformed),
        };
        match slot.replace(value.to_vec()) {
            Some(_) => Err(Malformed),
            None => Ok(()),
        }
    }

    fn status(&self) -> Result<StatusCode, Malformed> {
        let Pseudo {
            method: None,
            scheme: None,
            authority: None,
            path: None,
            protocol: None,
            status: Some(status),
        } = &self.pseudo
        else {
            return Err(Malformed);
        };
        match StatusCode::from_bytes(status) {
            Ok(StatusCode::SWITCHING_PROTOCOLS) | Err(_) => Err(Malformed),
            Ok(status) => Ok(status),
        }
    }

    fn request_line(&self) -> Result<(Method, Uri), Malformed> {
        let method = self.pseudo.method.as_deref().ok_or(Malformed)?;
        let method = Method::from_bytes(method).map_err(|_| Malformed)?;
        if self.pseudo.status.is_some() {
            return Err(Malformed);
        }
        let mut parts = Parts::default();
        parts.authority = Some(self.authority()?);
        // RFC 9220: an extended CONNECT has ":scheme" and ":path" as other requests have.
        let tunnel = method == Method::CONNECT;
        let extended = self.pseudo.protocol.is_some();
        match (&self.pseudo.scheme, &self.pseudo.path) {
            (None, None) if tunnel && !extended => {}
            (Some(scheme), Some(path)) if tunnel == extended => {
                parts.scheme = Some(Scheme::try_from(&scheme[..]).map_err(|_| Malformed)?);
                parts.path_and_query = Some(path_and_query(path, &method)?);
            }
            _ => return Err(Malformed),
        }
        let uri = Uri::from_parts(parts).map_err(|_| Malformed)?;
        Ok((method, uri))
    }

    /// Section 4.3.1: a request "MUST contain either an ":authority" pseudo-header field or a
    /// "Host" header field. If these fields are present, they MUST NOT be empty. If both fields
    /// are present, they MUST contain the same value."
    fn authority(&self) -> Result<Authority, Malformed> {
        let mut hosts = self.map.get_all(HOST).iter();
        let host = hosts.next().map(HeaderValue::as_bytes);
        if hosts.next().is_some() {
            return Err(Malformed);
        }
        let authority = match (self.pseudo.authority.as_deref(), host) {
            (Some(authority), Some(host)) if authority.eq_ignore_ascii_case(host) => authority,
            (Some(_), Some(_)) | (None, None) => return Err(Malformed),
            (Some(one), None) | (None, Some(one)) => one,
        };
        // ":authority" "MUST NOT include the deprecated userinfo subcomponent".
        if authority.contains(&b'@') {
            return Err(Malformed);
        }
        Authority::try_from(authority).map_err(|_| Malformed)
    }
}

/// Section 4.3.1: ":path" "MUST NOT be empty for "http" or "https" URIs"; it starts with a slash,
/// or is an asterisk in OPTIONS.
fn path_and_query(path: &[u8], method: &Method) -> Result<PathAndQuery, Malformed> {
    let rooted = path.first() == Some(&b'/') || (path == b"*" && method == Method::OPTIONS);
    // The parser below would silently cut a fragment off.
    if !rooted || path.contains(&b'#') {
        return Err(Malformed);
    }
    PathAndQuery::try_from(path).map_err(|_| Malformed)
}

/// The body's length as announced. Fields that disagree, or are no number, are malformed.
pub(crate) fn content_length(fields: &HeaderMap) -> Result<Option<u64>, Malformed> {
    let mut length = None;
    for value in fields.get_all(CONTENT_LENGTH) {
        let digits = value.to_str().map_err(|_| Malformed)?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Malformed);
        }
        let value = digits.parse().map_err(|_| Malformed)?;
        if length.is_some_and(|length| length != value) {
            return Err(Malformed);
        }
        length = Some(value);
    }
    Ok(length)
}

/// Encodes a request's head. Fields of HTTP/1.1 connections are left out, and so is Host, whose
/// place `:authority` takes.
pub(crate) fn encode_request(
    head: &http::Request<()>,
    encoder: &mut Encoder,
) -> Result<Section, Error> {
    let invalid = |reason| Err(Error::InvalidMessage { reason });
    let uri = head.uri();
    let Some(authority) = uri.authority() else {
        return invalid("uri without authority");
    };
    let authority = authority
        .as_str()
        .rsplit('@')
        .next()
        .expect("rsplit yields at least one");
    let tunnel = head.method() == Method::CONNECT;
    let protocol = head.extensions().get::<Protocol>();
    if protocol.is_some() && !tunnel {
        return invalid("a protocol is asked for by CONNECT alone");
    }
    let mut section = encoder.section();
    let mut put = |name: &str, value: &str| {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        encoder.field(&mut section, name, value, Indexing::Welcome);
    };
    put(":method", head.method().as_str());
    if let Some(protocol) = protocol {
        put(":protocol", protocol.as_str());
    }
    // Section 4.4: in CONNECT, ":scheme" and ":path" are omitted; RFC 9220 has them again.
    if !tunnel || protocol.is_some() {
        let Some(scheme) = uri.scheme_str() else {
            return invalid("uri without scheme");
        };
        put(":scheme", scheme);
        put(
            ":path",
            uri.path_and_query().map_or("/", PathAndQuery::as_str),
        );
    }
    put(":authority", authority);
    encode_fields(head.headers(), encoder, &mut section);
    Ok(section)
}

/// Encodes a response's head. Fields of HTTP/1.1 connections are left out.
pub(crate) fn encode_response(
    head: &http::Response<()>,
    encoder: &mut Encoder,
) -> Result<Section, Error> {
    // Section 4.5: HTTP/3 "does not support the 101 (Switching Protocols) informational status".
    if head.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Error::InvalidMessage {
            reason: "status 101 does not exist in HTTP/3",
        });
    }
    let mut section = encoder.section();
    let status = head.status();
    let status = status.as_str().as_bytes();
    encoder.field(&mut section, b":status", status, Indexing::Welcome);
    encode_fields(head.headers(), encoder, &mut section);
    Ok(section)
}

/// Encodes trailers. Fields of HTTP/1.1 connections are left out.
pub(crate) fn encode_trailers(fields: &HeaderMap, encoder: &mut Encoder) -> Section {
    let mut section = encoder.section();
    encode_fields(fields, encoder, &mut section);
    section
}

fn encode_fields(fields: &HeaderMap, encoder: &mut Encoder, section: &mut Section) {
    for (name, value) in fields {
        if name != HOST && allowed(name, value) {
            let indexing = match value.is_sensitive() {
                true => Indexing::Never,
                false if comes_once(name) => Indexing::Useless,
                false => Indexing::Welcome,
            };
            let name = name.as_str().as_bytes();
            encoder.field(section, name, value.as_bytes(), indexing);
        }
    }
}

/// Whether a field seldom comes again with the same value. What does would only be pushed out of the
/// dynamic table by it.
fn comes_once(name: &HeaderName) -> bool {
    [
        header::AGE,
        CONTENT_LENGTH,
        header::CONTENT_RANGE,
        header::ETAG,
        header::IF_MODIFIED_SINCE,
        header::IF_NONE_MATCH,
        header::LAST_MODIFIED,
        header::LOCATION,
        header::RANGE,
        header::SET_COOKIE,
    ]
    .contains(name)
}

/// Section 4.2: "An endpoint MUST NOT generate an HTTP/3 field section containing
/// connection-specific fields; any message containing connection-specific fields MUST be treated
/// as malformed. The only exception [...] is the TE header field, which MAY be present [...] when
/// it is, it MUST NOT contain any value other than trailers."
fn allowed(name: &HeaderName, value: &HeaderValue) -> bool {
    match name.as_str() {
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => false,
        "te" => value.as_bytes().eq_ignore_ascii_case(b"trailers"),
        _ => true,
    }
}

#[derive(Debug, Default)]
struct Pseudo {
    method: Option<Vec<u8>>,
    scheme: Option<Vec<u8>>,
    authority: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    protocol: Option<Vec<u8>>,
    status: Option<Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 10_000;

    const GET: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/x?y"),
        (":authority", "a.example"),
    ];

    fn section(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut encoder = Encoder::new();
        let mut section = encoder.section();
        for (name, value) in fields {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            encoder.field(&mut section, name, value, Indexing::Welcome);
        }
        encoder.finish(&section, 0)
    }

    fn decoded(fields: &[(&str, &str)]) -> Result<Fields, HeadError> {
        Fields::decode(&mut Decoder::new(0), 0, &section(fields), LIMIT)
    }

    fn request(fields: &[(&str, &str)]) -> Result<http::Request<()>, HeadError> {
        Ok(decoded(fields)?.into_request(false)?)
    }

    fn sent(head: &http::Request<()>) -> Vec<u8> {
        let mut encoder = Encoder::new();
        let section = encode_request(head, &mut encoder).unwrap();
        encoder.finish(&section, 0)
    }

    fn with(extra: (&'static str, &'static str)) -> Vec<(&'static str, &'static str)> {
        [&GET[..], &[extra]].concat()
    }

    fn without(name: &str) -> Vec<(&'static str, &'static str)> {
        GET.into_iter().filter(|field| field.0 != name).collect()
    }

    #[test]
    fn a_request_becomes_method_absolute_uri_and_fields() {
        let request = request(&with(("accept", "*/*"))).unwrap();
        assert_eq!(request.method(), Method::GET);
        assert_eq!(request.uri(), "https://a.example/x?y");
        assert_eq!(request.headers()["accept"], "*/*");
        assert_eq!(request.version(), http::Version::HTTP_3);
    }

    #[test]
    fn host_stands_in_for_a_missing_authority_and_must_agree_with_one() {
        let mut fields = without(":authority");
        assert_malformed(&fields);
        fields.push(("host", "b.example:81"));
        assert_eq!(request(&fields).unwrap().uri(), "https://b.example:81/x?y");
        assert!(request(&with(("host", "A.example"))).is_ok());
        assert_malformed(&with(("host", "c.example")));
        fields.push(("host", "b.example:81"));
        assert_malformed(&fields);
    }

    #[test]
    fn incomplete_repeated_unknown_or_late_pseudo_fields_are_malformed() {
        for name in [":method", ":scheme", ":path"] {
            assert_malformed(&without(name));
        }
        for extra in [
            (":method", "GET"),
            (":path", "/"),
            (":status", "200"),
            (":protocol", "websocket"),
            (":", ""),
        ] {
            assert_malformed(&with(extra));
        }
        let mut late = vec![("accept", "*/*")];
        late.extend(GET);
        assert_malformed(&late);
    }

    #[test]
    fn bad_names_values_and_connection_fields_are_malformed() {
        for extra in [
            ("Accept", "*/*"),
            ("", "x"),
            ("a b", "x"),
            ("a", "x\ny"),
            ("a", "x\0"),
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("keep-alive", "1"),
            ("proxy-connection", "x"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
        ] {
            assert_malformed(&with(extra));
        }
        assert!(request(&with(("te", "trailers"))).is_ok());
    }

    #[test]
    fn bad_paths_and_authorities_are_malformed() {
        for path in ["", "x", "*", "/a#b", "/a b"] {
            let mut fields = without(":path");
            fields.push((":path", path));
            assert_malformed(&fields);
        }
        for authority in ["", "user@a.example", "a b"] {
            let mut fields = without(":authority");
            fields.push((":authority", authority));
            assert_malformed(&fields);
        }
    }

    #[test]
    fn options_may_ask_about_the_server_as_a_whole() {
        let fields = [
            (":method", "OPTIONS"),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", "*"),
        ];
        assert_eq!(request(&fields).unwrap().uri().path(), "*");
    }

    #[test]
    fn connect_has_an_authority_alone() {
        let fields = [(":method", "CONNECT"), (":authority", "a.example:443")];
        let head = request(&fields).unwrap();
        assert_eq!(head.uri().authority().unwrap(), "a.example:443");
        assert_eq!(sent(&head), section(&fields));
        assert_malformed(&[&fields[..], &[(":path", "/")]].concat());
    }

    #[test]
    fn extended_connect_names_its_protocol_where_that_was_announced() {
        let fields = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "https"),
            (":path", "/chat"),
            (":authority", "a.example"),
        ];
        assert_malformed(&fields);
        let head = decoded(&fields).unwrap().into_request(true).unwrap();
        assert_eq!(head.uri(), "https://a.example/chat");
        let protocol = head.extensions().get::<Protocol>().unwrap();
        assert_eq!(protocol.as_str(), "websocket");
        assert_eq!(sent(&head), section(&fields));
        for wrong in [
            [&fields[..2], &fields[4..]].concat(),
            with((":protocol", "websocket")),
            [&[fields[0], (":protocol", "")], &fields[2..]].concat(),
        ] {
            assert!(decoded(&wrong).unwrap().into_request(true).is_err());
        }
        let mut get = http::Request::get("https://a.example/").body(()).unwrap();
        get.extensions_mut().insert(Protocol::new("websocket"));
        assert!(encode_request(&get, &mut Encoder::new()).is_err());
    }

    #[test]
    fn cookies_are_joined() {
        let mut fields = with(("cookie", "a=1"));
        fields.extend([("accept", "*/*"), ("cookie", "b=2")]);
        let head = request(&fields).unwrap();
        let cookies: Vec<_> = head.headers().get_all("cookie").iter().collect();
        assert_eq!(cookies, ["a=1; b=2"]);
        assert_malformed(&[&GET[..3], &[("cookie", ""), GET[3]]].concat());
    }

    #[test]
    fn a_response_needs_one_status_of_three_digits() {
        let response = |fields: &[_]| decoded(fields).and_then(|it| Ok(it.into_response()?));
        assert_eq!(response(&[(":status", "404")]).unwrap().status(), 404);
        for fields in [
            &[][..],
            &[(":status", "20")],
            &[(":status", "101")],
            &[(":status", "200"), (":status", "200")],
            &[(":status", "200"), (":path", "/")],
        ] {
            assert_eq!(response(fields).unwrap_err(), HeadError::Malformed);
        }
    }

    #[test]
    fn trailers_have_no_pseudo_fields() {
        let trailers = decoded(&[("a", "b")]).unwrap().into_trailers().unwrap();
        assert_eq!(trailers["a"], "b");
        let sent = encode_trailers(&trailers, &mut Encoder::new());
        assert_eq!(sent.size(), 34);
        let wrong = decoded(&[(":status", "200")]).unwrap();
        assert_eq!(wrong.into_trailers(), Err(Malformed));
    }

    #[test]
    fn content_lengths_agree_and_are_plain_numbers() {
        let length = |values: &[&'static str]| {
            let mut fields = HeaderMap::new();
            for value in values {
                fields.append(CONTENT_LENGTH, HeaderValue::from_static(value));
            }
            content_length(&fields)
        };
        assert_eq!(length(&[]), Ok(None));
        assert_eq!(length(&["5", "5"]), Ok(Some(5)));
        for wrong in [
            &["5", "6"][..],
            &["+5"],
            &["5, 5"],
            &[""],
            &["99999999999999999999"],
        ] {
            assert_eq!(length(wrong), Err(Malformed), "{wrong:?}");
        }
    }

    #[test]
    fn a_request_is_sent_without_userinfo_host_and_connection_fields() {
        let head = http::Request::builder()
            .uri("https://user:pw@a.example/x?y")
            .header("host", "a.example")
            .header("connection", "keep-alive")
            .header("te", "gzip")
            .body(())
            .unwrap();
        assert_eq!(sent(&head), section(&GET));
        let relative = http::Request::builder().uri("/x").body(()).unwrap();
        assert!(matches!(
            encode_request(&relative, &mut Encoder::new()),
            Err(Error::InvalidMessage { .. })
        ));
    }

    #[test]
    fn a_response_is_sent_with_its_status_first() {
        let head = http::Response::builder()
            .status(204)
            .header("server", "x")
            .body(())
            .unwrap();
        let expected = section(&[(":status", "204"), ("server", "x")]);
        let mut encoder = Encoder::new();
        let section = encode_response(&head, &mut encoder).unwrap();
        assert_eq!(encoder.finish(&section, 0), expected);
        let switching = http::Response::builder().status(101).body(()).unwrap();
        assert!(encode_response(&switching, &mut encoder).is_err());
    }

    #[track_caller]
    fn assert_malformed(fields: &[(&str, &str)]) {
        assert_eq!(
            request(fields).unwrap_err(),
            HeadError::Malformed,
            "{fields:?}"
        );
    }
}
