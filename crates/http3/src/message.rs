//! Conversion between field sections and `http` messages (RFC 9114 sections 4.2 and 4.3). The rules
//! are those of `altway-message`.
//!
//! A section that breaks them is malformed, which costs its stream (H3_MESSAGE_ERROR). Framing and
//! the body belong to `receive`, compression to `qpack`.

use altway_fields::indexing::comes_once;
use altway_message::{
    Cookies, FieldChecks, FieldKind, PseudoFields, Refusal, Rules, Scheme as Carried, Version,
    check_response, check_trailers,
};
use bytes::Bytes;
use http::header::{COOKIE, HOST};
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

/// Reason for which a field section gives no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// The section has to wait for so many insertions into the dynamic table.
    Blocked { required: u64 },
    /// The section could not be decompressed: the connection fails.
    Decompression,
    /// The section is above the limit.
    TooLarge,
    /// The section breaks the rules for fields: the stream fails.
    Malformed,
}

/// The message breaks the rules for fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl From<Refusal> for Malformed {
    fn from(_: Refusal) -> Self {
        Malformed
    }
}

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
#[derive(Debug)]
pub(crate) struct Fields {
    pseudo: PseudoFields<Vec<u8>>,
    checks: FieldChecks,
    map: HeaderMap,
    cookies: Cookies,
}

impl Fields {
    /// Decodes a stream's section, up to `limit` bytes as RFC 9114 section 4.2.2 counts.
    pub(crate) fn decode(
        decoder: &mut Decoder,
        stream: u64,
        section: &[u8],
        limit: u64,
    ) -> Result<(Self, Basis), HeadError> {
        let mut fields = Fields {
            pseudo: PseudoFields::default(),
            checks: FieldChecks::new(Version::Http3),
            map: HeaderMap::new(),
            cookies: Cookies::default(),
        };
        let basis = decoder.decode(stream, section, limit, |name, value| {
            fields.field(name, value)
        })?;
        fields.join_cookies()?;
        Ok((fields, basis))
    }

    /// The value of Content-Length.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.checks.content_length()
    }

    /// Converts the section to a request's head. `extended_connect`: RFC 9220 was announced. A
    /// request that is refused and yet well-formed is the application's to answer: the [`Refusal`]
    /// is among the extensions.
    pub(crate) fn into_request(
        self,
        extended_connect: bool,
    ) -> Result<http::Request<()>, Malformed> {
        let refusal = self.check_request(extended_connect)?;
        let mut request = http::Request::new(());
        *request.method_mut() = self.method()?;
        *request.uri_mut() = self.uri()?;
        *request.version_mut() = http::Version::HTTP_3;
        *request.headers_mut() = self.map;
        if let Some(protocol) = self.pseudo.protocol {
            let protocol = String::from_utf8(protocol).map_err(|_| Malformed)?;
            request.extensions_mut().insert(Protocol(protocol));
        }
        if let Some(refusal) = refusal {
            request.extensions_mut().insert(refusal);
        }
        Ok(request)
    }

    /// Converts the section to a response's head.
    pub(crate) fn into_response(self) -> Result<http::Response<()>, Malformed> {
        let mut response = http::Response::new(());
        let status = check_response(self.pseudo.status.as_deref(), &self.checks)?;
        *response.status_mut() = StatusCode::from_u16(status).map_err(|_| Malformed)?;
        *response.version_mut() = http::Version::HTTP_3;
        *response.headers_mut() = self.map;
        Ok(response)
    }

    /// Converts the section to trailers.
    pub(crate) fn into_trailers(self) -> Result<HeaderMap, Malformed> {
        let names = self.map.keys().map(|name| name.as_str().as_bytes());
        check_trailers(&self.checks, names)?;
        Ok(self.map)
    }

    fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        let kind = FieldKind::of(name).with_value(value);
        self.checks.field(kind, value);
        if let Some(refusal) = self.checks.refusal() {
            return Err(refusal.into());
        }
        if let Some(place) = self.pseudo.place(kind) {
            *place = Some(value.to_vec());
            return Ok(());
        }
        if kind == FieldKind::Cookie {
            self.cookies.push(value);
            return Ok(());
        }
        let name = HeaderName::from_lowercase(name).map_err(|_| Malformed)?;
        let value = HeaderValue::from_bytes(value).map_err(|_| Malformed)?;
        self.map
            .try_append(name, value)
            .map(drop)
            .map_err(|_| Malformed)
    }

    fn join_cookies(&mut self) -> Result<(), Malformed> {
        if let Some(cookies) = self.cookies.take() {
            let value = HeaderValue::from_maybe_shared(Bytes::from(cookies));
            self.map.insert(COOKIE, value.map_err(|_| Malformed)?);
        }
        Ok(())
    }

    /// The reason to answer the request with an error, if it is well-formed.
    fn check_request(&self, extended_connect: bool) -> Result<Option<Refusal>, Malformed> {
        let rules = Rules {
            scheme: Some(Carried::Https),
            extended_connect,
        };
        let host = self.map.get(HOST).map(HeaderValue::as_bytes);
        let head = self.pseudo.request(Vec::as_slice, host);
        Ok(rules.check_stream(&head, &self.checks)?)
    }

    fn method(&self) -> Result<Method, Malformed> {
        let method = self.pseudo.method.as_deref().unwrap_or_default();
        Method::from_bytes(method).map_err(|_| Malformed)
    }

    fn uri(&self) -> Result<Uri, Malformed> {
        let mut parts = Parts::default();
        let host = self.map.get(HOST).map(HeaderValue::as_bytes);
        let authority = self.pseudo.authority.as_deref().or(host).ok_or(Malformed)?;
        parts.authority = Some(Authority::try_from(authority).map_err(|_| Malformed)?);
        if let Some(scheme) = self.pseudo.scheme.as_deref() {
            parts.scheme = Some(Scheme::try_from(scheme).map_err(|_| Malformed)?);
        }
        if let Some(path) = self.pseudo.path.as_deref() {
            parts.path_and_query = Some(PathAndQuery::try_from(path).map_err(|_| Malformed)?);
        }
        Uri::from_parts(parts).map_err(|_| Malformed)
    }
}

/// Encodes a request's head. Fields of HTTP/1.1 connections are left out, and so is Host, whose
/// place `:authority` takes.
pub(crate) fn encode_request(
    head: &http::Request<()>,
    encoder: &mut Encoder,
) -> Result<Section, Error> {
    let uri = head.uri();
    let parts = PseudoFields {
        method: Some(head.method().as_str()),
        scheme: uri.scheme_str(),
        authority: uri.authority().map(Authority::as_str),
        path: uri.path_and_query().map(PathAndQuery::as_str),
        protocol: head.extensions().get().map(Protocol::as_str),
        status: None,
    };
    let fields = parts
        .to_send()
        .map_err(|reason| Error::InvalidMessage { reason })?;
    let mut section = encoder.section();
    for (name, value) in fields {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        encoder.field(&mut section, name, value, Indexing::Repeating);
    }
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
    encoder.field(&mut section, b":status", status, Indexing::Repeating);
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
        // RFC 9110 section 5.5: the white space around a value is no part of it, and clients refuse it.
        let (text, bytes) = (name.as_str().as_bytes(), value.as_bytes().trim_ascii());
        if name != HOST && FieldKind::may_be_sent(text, bytes) {
            let indexing = match value.is_sensitive() {
                true => Indexing::Never,
                false if comes_once(name.as_str()) => Indexing::Unique,
                false => Indexing::Repeating,
            };
            encoder.field(section, text, bytes, indexing);
        }
    }
}

#[cfg(test)]
mod tests;
