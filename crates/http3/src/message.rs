//! Between field sections and `http` messages: the rules of RFC 9114 sections 4.2 and 4.3.
//!
//! A section that breaks them is malformed, which costs its stream (H3_MESSAGE_ERROR). Framing and
//! the body belong to `receive`, compression to `qpack`.

use http::header::{CONTENT_LENGTH, HOST};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

use crate::Error;
use crate::qpack::{self, Encoder};

/// Why a field section gives no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadError {
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
            qpack::Error::Decompression => HeadError::Decompression,
            qpack::Error::TooLarge => HeadError::TooLarge,
            qpack::Error::Visitor(Malformed) => HeadError::Malformed,
        }
    }
}

/// Reads a request's head.
pub(crate) fn decode_request(section: &[u8], limit: u64) -> Result<http::Request<()>, HeadError> {
    let section = Section::decode(section, limit)?;
    let mut request = http::Request::new(());
    let (method, uri) = section.request_line()?;
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.version_mut() = http::Version::HTTP_3;
    *request.headers_mut() = section.fields;
    Ok(request)
}

/// Reads a response's head.
pub(crate) fn decode_response(section: &[u8], limit: u64) -> Result<http::Response<()>, HeadError> {
    let section = Section::decode(section, limit)?;
    let mut response = http::Response::new(());
    *response.status_mut() = section.status()?;
    *response.version_mut() = http::Version::HTTP_3;
    *response.headers_mut() = section.fields;
    Ok(response)
}

/// Checks a trailer section. Section 4.3: pseudo-header fields "MUST NOT appear in trailer
/// sections".
pub(crate) fn check_trailers(section: &[u8], limit: u64) -> Result<(), HeadError> {
    let section = Section::decode(section, limit)?;
    match section.pseudo {
        Pseudo {
            method: None,
            scheme: None,
            authority: None,
            path: None,
            status: None,
        } => Ok(()),
        _ => Err(HeadError::Malformed),
    }
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
pub(crate) fn encode_request(head: &http::Request<()>) -> Result<Encoder, Error> {
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
    let mut encoder = Encoder::new();
    encoder.field(b":method", head.method().as_str().as_bytes(), false);
    // Section 4.4: in CONNECT, ":scheme" and ":path" are omitted.
    if head.method() != Method::CONNECT {
        let Some(scheme) = uri.scheme_str() else {
            return invalid("uri without scheme");
        };
        encoder.field(b":scheme", scheme.as_bytes(), false);
        encoder.field(b":authority", authority.as_bytes(), false);
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        encoder.field(b":path", path.as_bytes(), false);
    } else {
        encoder.field(b":authority", authority.as_bytes(), false);
    }
    encode_fields(head.headers(), &mut encoder);
    Ok(encoder)
}

/// Encodes a response's head. Fields of HTTP/1.1 connections are left out.
pub(crate) fn encode_response(head: &http::Response<()>) -> Result<Encoder, Error> {
    // Section 4.5: HTTP/3 "does not support the 101 (Switching Protocols) informational status".
    if head.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Error::InvalidMessage {
            reason: "status 101 does not exist in HTTP/3",
        });
    }
    let mut encoder = Encoder::new();
    encoder.field(b":status", head.status().as_str().as_bytes(), false);
    encode_fields(head.headers(), &mut encoder);
    Ok(encoder)
}

fn encode_fields(fields: &HeaderMap, encoder: &mut Encoder) {
    for (name, value) in fields {
        if name != HOST && allowed(name, value) {
            encoder.field(
                name.as_str().as_bytes(),
                value.as_bytes(),
                value.is_sensitive(),
            );
        }
    }
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
    status: Option<Vec<u8>>,
}

/// A field section taken apart.
#[derive(Debug, Default)]
struct Section {
    pseudo: Pseudo,
    fields: HeaderMap,
}

impl Section {
    fn decode(section: &[u8], limit: u64) -> Result<Self, HeadError> {
        let mut parsed = Section::default();
        qpack::decode(section, limit, |name, value| parsed.field(name, value))?;
        Ok(parsed)
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
        self.fields
            .try_append(name, value)
            .map(drop)
            .map_err(|_| Malformed)
    }

    fn pseudo_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        // Section 4.3: "All pseudo-header fields MUST appear in the header section before regular
        // header fields", and undefined or repeated ones are malformed.
        if !self.fields.is_empty() {
            return Err(Malformed);
        }
        let slot = match name {
            b"method" => &mut self.pseudo.method,
            b"scheme" => &mut self.pseudo.scheme,
            b"authority" => &mut self.pseudo.authority,
            b"path" => &mut self.pseudo.path,
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
        match (&self.pseudo.scheme, &self.pseudo.path) {
            (None, None) if method == Method::CONNECT => {}
            (Some(scheme), Some(path)) if method != Method::CONNECT => {
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
        let mut hosts = self.fields.get_all(HOST).iter();
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 10_000;

    const GET: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a.example"),
        (":path", "/x?y"),
    ];

    fn section(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut encoder = Encoder::new();
        for (name, value) in fields {
            encoder.field(name.as_bytes(), value.as_bytes(), false);
        }
        encoder.section().to_vec()
    }

    fn request(fields: &[(&str, &str)]) -> Result<http::Request<()>, HeadError> {
        decode_request(&section(fields), LIMIT)
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
        let sent = encode_request(&head).unwrap();
        assert_eq!(sent.section(), section(&fields));
        assert_malformed(&[&fields[..], &[(":path", "/")]].concat());
    }

    #[test]
    fn a_response_needs_one_status_of_three_digits() {
        let response = |fields: &[_]| decode_response(&section(fields), LIMIT);
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
        assert_eq!(check_trailers(&section(&[("a", "b")]), LIMIT), Ok(()));
        let wrong = section(&[(":status", "200")]);
        assert_eq!(check_trailers(&wrong, LIMIT), Err(HeadError::Malformed));
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
        assert_eq!(encode_request(&head).unwrap().section(), section(&GET));
        let relative = http::Request::builder().uri("/x").body(()).unwrap();
        assert!(matches!(
            encode_request(&relative),
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
        assert_eq!(encode_response(&head).unwrap().section(), expected);
        let switching = http::Response::builder().status(101).body(()).unwrap();
        assert!(encode_response(&switching).is_err());
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
