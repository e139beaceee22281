//! Between field sections and `http` messages: the rules of RFC 9114 sections 4.2 and 4.3.
//!
//! A section that breaks them is malformed, which costs its stream (H3_MESSAGE_ERROR). Framing and
//! the body belong to `receive`, compression to `qpack`.

use bytes::Bytes;
use http::header::{self, CONTENT_LENGTH, COOKIE, HOST};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

use crate::Error;
use crate::qpack::{self, Basis, Decoder, Encoder, Indexing, Section};

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
    ) -> Result<(Self, Basis), HeadError> {
        let mut fields = Fields::default();
        let basis = decoder.decode(stream, section, limit, |name, value| {
            fields.field(name, value)
        })?;
        fields.join_cookies()?;
        Ok((fields, basis))
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
mod tests;
