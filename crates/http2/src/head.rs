//! Heads of messages as they came: the rules of RFC 9113 section 8, storage, and a view of it.
//!
//! A connection has one [`HeadBuffer`], which the HPACK decoder fills; the application sees it as a
//! [`Head`] while it handles the event. Nothing is allocated a message once the buffer has grown.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{Method, Request, Response, StatusCode, Uri};

use crate::Priority;
use crate::field::FieldKind;
use crate::hpack::{FIELD_OVERHEAD, Visitor};

/// The buffer is given back when one message has made it larger than this.
const KEEP: usize = 8 << 10;

/// Why a list of fields is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A part of `text`.
type Span = (u32, u32);

#[derive(Clone, Copy, Debug)]
struct Field {
    kind: FieldKind,
    name: Span,
    value: Span,
}

/// The fields of one message.
#[derive(Debug, Default)]
pub(crate) struct HeadBuffer {
    text: Vec<u8>,
    fields: Vec<Field>,
    method: Option<Span>,
    scheme: Option<Span>,
    authority: Option<Span>,
    path: Option<Span>,
    protocol: Option<Span>,
    status: Option<u16>,
    content_length: Option<u64>,
    priority: Priority,
    /// Counted as section 6.5.2 says.
    size: usize,
    malformed: bool,
    /// Increases with every message that is not the same as the one before.
    id: u64,
}

impl HeadBuffer {
    /// Makes room for the next message.
    pub(crate) fn begin(&mut self) {
        let (mut text, mut fields) = (
            std::mem::take(&mut self.text),
            std::mem::take(&mut self.fields),
        );
        text.clear();
        fields.clear();
        if text.capacity() > KEEP {
            text = Vec::new();
            fields = Vec::new();
        }
        *self = Self {
            text,
            fields,
            id: self.id + 1,
            ..Self::default()
        };
    }

    pub(crate) fn view(&self) -> Head<'_> {
        Head { buffer: self }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// What the Priority field says, or the default.
    pub(crate) fn priority(&self) -> Priority {
        self.priority
    }

    pub(crate) fn is_method(&self, method: &[u8]) -> bool {
        self.method.is_some_and(|span| self.span(span) == method)
    }

    /// The rules for requests (section 8.3.1; RFC 8441 section 4 for `:protocol`).
    pub(crate) fn check_request(&self, extended_connect: bool) -> Result<(), Malformed> {
        let present = |span: Option<Span>| span.is_some_and(|(from, to)| from < to);
        let connect = self.is_method(b"CONNECT");
        let shape = if connect && self.protocol.is_none() {
            // Section 8.5: in CONNECT, ":scheme" and ":path" are omitted.
            self.scheme.is_none() && self.path.is_none() && present(self.authority)
        } else {
            let extended = self.protocol.is_none() || (connect && extended_connect);
            extended && present(self.method) && present(self.scheme) && self.path_is_valid()
        };
        let ok = shape && !self.malformed && self.status.is_none() && self.authorities_agree();
        ok.then_some(()).ok_or(Malformed)
    }

    /// The rules for responses (section 8.3.2).
    pub(crate) fn check_response(&self) -> Result<u16, Malformed> {
        let request_line = [
            self.method,
            self.scheme,
            self.authority,
            self.path,
            self.protocol,
        ];
        if self.malformed || request_line.iter().any(Option::is_some) {
            return Err(Malformed);
        }
        // Section 8.6: HTTP/2 "does not support the 101 (Switching Protocols) status code".
        self.status.filter(|status| *status != 101).ok_or(Malformed)
    }

    /// Section 8.1: "Trailers MUST NOT include pseudo-header fields".
    pub(crate) fn check_trailers(&self) -> Result<(), Malformed> {
        let has_pseudo = self.status.is_some()
            || [
                self.method,
                self.scheme,
                self.authority,
                self.path,
                self.protocol,
            ]
            .iter()
            .any(Option::is_some);
        (!self.malformed && !has_pseudo)
            .then_some(())
            .ok_or(Malformed)
    }

    /// "This pseudo-header field MUST NOT be empty for "http" or "https" URIs"; it starts with a
    /// slash, or is an asterisk in OPTIONS.
    fn path_is_valid(&self) -> bool {
        match self.path.map(|span| self.span(span)) {
            Some(b"*") => self.is_method(b"OPTIONS"),
            Some(path) => path.first() == Some(&b'/'),
            None => false,
        }
    }

    /// Section 8.3.1: a request with a Host field that "differs from" `:authority` is malformed;
    /// `:authority` "MUST NOT include the deprecated userinfo subcomponent".
    fn authorities_agree(&self) -> bool {
        let authority = self.authority.map(|span| self.span(span));
        if authority.is_some_and(|text| text.contains(&b'@')) {
            return false;
        }
        let mut hosts = self.fields.iter().filter(|f| f.kind == FieldKind::Host);
        let host = hosts.next().map(|field| self.span(field.value));
        let agree = match (authority, host) {
            (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host),
            _ => true,
        };
        agree && hosts.next().is_none()
    }

    fn span(&self, (from, to): Span) -> &[u8] {
        &self.text[from as usize..to as usize]
    }

    fn push(&mut self, text: &[u8]) -> Span {
        let from = self.text.len();
        self.text.extend_from_slice(text);
        let end = |n: usize| u32::try_from(n).expect("bounded by the list's limit, a u32");
        (end(from), end(self.text.len()))
    }

    fn pseudo(&mut self, kind: FieldKind, value: &[u8]) {
        // Section 8.3: "All pseudo-header fields MUST appear in a field block before all regular
        // field lines", and "the same pseudo-header field name MUST NOT appear more than once".
        if !self.fields.is_empty() {
            self.malformed = true;
            return;
        }
        if kind == FieldKind::Status {
            self.malformed |= self.status.is_some();
            self.status = status(value);
            self.malformed |= self.status.is_none();
            return;
        }
        let span = self.push(value);
        let slot = match kind {
            FieldKind::Method => &mut self.method,
            FieldKind::Scheme => &mut self.scheme,
            FieldKind::Authority => &mut self.authority,
            FieldKind::Path => &mut self.path,
            _ => &mut self.protocol,
        };
        self.malformed |= slot.replace(span).is_some();
    }

    fn length(&mut self, value: &[u8]) {
        let length = decimal(value);
        // RFC 9110 section 8.6: repeated but equal values may stand for one.
        let agrees = self.content_length.is_none_or(|old| length == Some(old));
        self.malformed |= length.is_none() || !agrees;
        self.content_length = length;
    }
}

/// Keeps fields while the list is within `limit`; counts them in any case.
pub(crate) struct Filling<'a> {
    pub(crate) buffer: &'a mut HeadBuffer,
    /// As section 6.5.2 counts.
    pub(crate) limit: usize,
}

impl Visitor for Filling<'_> {
    fn field(&mut self, kind: FieldKind, name: &[u8], value: &[u8]) {
        let buffer = &mut *self.buffer;
        buffer.size = buffer
            .size
            .saturating_add(name.len() + value.len() + FIELD_OVERHEAD);
        if buffer.size > self.limit {
            return;
        }
        match kind {
            FieldKind::Malformed => buffer.malformed = true,
            FieldKind::Method
            | FieldKind::Scheme
            | FieldKind::Authority
            | FieldKind::Path
            | FieldKind::Protocol
            | FieldKind::Status => buffer.pseudo(kind, value),
            _ => {
                match kind {
                    FieldKind::ContentLength => buffer.length(value),
                    FieldKind::Priority => buffer.priority = Priority::parse(value),
                    _ => {}
                }
                let field = Field {
                    kind,
                    name: buffer.push(name),
                    value: buffer.push(value),
                };
                buffer.fields.push(field);
            }
        }
    }
}

/// Three digits, 100 to 999 (RFC 9110 section 15).
fn status(value: &[u8]) -> Option<u16> {
    let [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] = value else {
        return None;
    };
    let digit = |byte: &u8| u16::from(byte - b'0');
    Some(digit(a) * 100 + digit(b) * 10 + digit(c))
}

/// Digits alone: no sign, no list.
fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Tells the heads of one connection apart: equal ids mean equal heads, so that an application can
/// keep what it found out about the one before. (Unequal ids may mean equal heads.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeadId(u64);

/// The head of a message: pseudo-fields and fields as they came, checked by the rules of RFC 9113
/// section 8.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    buffer: &'a HeadBuffer,
}

/// The head keeps the rules of HTTP/2, but has something that a URI or method can't hold. A request
/// deserves 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("head can't be converted: {part}")]
pub struct InvalidHead {
    /// Which part.
    pub part: &'static str,
}

impl<'a> Head<'a> {
    /// See [`HeadId`].
    #[must_use]
    pub fn id(self) -> HeadId {
        HeadId(self.buffer.id)
    }

    /// `:method` of a request.
    #[must_use]
    pub fn method(self) -> Option<&'a [u8]> {
        self.text(self.buffer.method)
    }

    /// `:scheme` of a request; none in CONNECT.
    #[must_use]
    pub fn scheme(self) -> Option<&'a [u8]> {
        self.text(self.buffer.scheme)
    }

    /// `:authority` of a request, or else its Host field.
    #[must_use]
    pub fn authority(self) -> Option<&'a [u8]> {
        self.text(self.buffer.authority)
            .or_else(|| self.field("host"))
    }

    /// `:path` of a request, with the query; none in CONNECT.
    #[must_use]
    pub fn path(self) -> Option<&'a [u8]> {
        self.text(self.buffer.path)
    }

    /// `:protocol` of an extended CONNECT (RFC 8441).
    #[must_use]
    pub fn protocol(self) -> Option<&'a [u8]> {
        self.text(self.buffer.protocol)
    }

    /// `:status` of a response, 100 to 999.
    #[must_use]
    pub fn status(self) -> Option<u16> {
        self.buffer.status
    }

    /// Content-Length, if there is one.
    #[must_use]
    pub fn content_length(self) -> Option<u64> {
        self.buffer.content_length
    }

    /// Names (lower case) and values of the fields, in their order, without pseudo-fields.
    pub fn fields(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let buffer = self.buffer;
        let fields = buffer.fields.iter();
        fields.map(|field| (buffer.span(field.name), buffer.span(field.value)))
    }

    /// The first field called `name` (lower case).
    #[must_use]
    pub fn field(self, name: &str) -> Option<&'a [u8]> {
        self.fields()
            .find(|(candidate, _)| *candidate == name.as_bytes())
            .map(|(_, value)| value)
    }

    /// As a request of the `http` crate, version HTTP/2. The URI is absolute where there is an
    /// authority. Several Cookie fields are joined (RFC 9113 section 8.2.3). `:protocol` is left to
    /// [`protocol`](Head::protocol).
    ///
    /// # Errors
    /// Method, scheme, authority or path are no valid ones.
    pub fn to_request(self) -> Result<Request<()>, InvalidHead> {
        let mut request = Request::new(());
        let method = self.method().unwrap_or_default();
        *request.method_mut() = Method::from_bytes(method).map_err(|_| invalid(":method"))?;
        *request.uri_mut() = self.uri()?;
        *request.version_mut() = http::Version::HTTP_2;
        *request.headers_mut() = self.to_headers()?;
        Ok(request)
    }

    /// As a response of the `http` crate, version HTTP/2.
    ///
    /// # Errors
    /// It has no status, as trailers have none.
    pub fn to_response(self) -> Result<Response<()>, InvalidHead> {
        let mut response = Response::new(());
        let status = self.status().unwrap_or_default();
        *response.status_mut() = StatusCode::from_u16(status).map_err(|_| invalid(":status"))?;
        *response.version_mut() = http::Version::HTTP_2;
        *response.headers_mut() = self.to_headers()?;
        Ok(response)
    }

    /// The fields alone, as for trailers.
    ///
    /// # Errors
    /// A name or value is one that HTTP/2 allows and `http` does not.
    pub fn to_headers(self) -> Result<HeaderMap, InvalidHead> {
        let mut headers = HeaderMap::with_capacity(self.buffer.fields.len());
        let mut cookies: Vec<u8> = Vec::new();
        for field in &self.buffer.fields {
            let (name, value) = (self.buffer.span(field.name), self.buffer.span(field.value));
            if field.kind == FieldKind::Cookie {
                if !cookies.is_empty() {
                    cookies.extend_from_slice(b"; ");
                }
                cookies.extend_from_slice(value);
                continue;
            }
            let name = HeaderName::from_lowercase(name).map_err(|_| invalid("field name"))?;
            let value = HeaderValue::from_bytes(value).map_err(|_| invalid("field value"))?;
            headers
                .try_append(name, value)
                .map_err(|_| invalid("number of fields"))?;
        }
        if !cookies.is_empty() {
            let cookies = HeaderValue::from_bytes(&cookies).map_err(|_| invalid("field value"))?;
            headers.insert(header::COOKIE, cookies);
        }
        Ok(headers)
    }

    fn uri(self) -> Result<Uri, InvalidHead> {
        let mut parts = Parts::default();
        if let Some(authority) = self.authority() {
            let authority = Authority::try_from(authority).map_err(|_| invalid(":authority"))?;
            parts.authority = Some(authority);
        }
        if let Some(path) = self.path() {
            // The parser would silently cut a fragment off.
            if path.contains(&b'#') {
                return Err(invalid(":path"));
            }
            let path = PathAndQuery::try_from(path).map_err(|_| invalid(":path"))?;
            parts.path_and_query = Some(path);
        }
        if let Some(scheme) = self.scheme().filter(|_| parts.authority.is_some()) {
            parts.scheme = Some(Scheme::try_from(scheme).map_err(|_| invalid(":scheme"))?);
        }
        Uri::from_parts(parts).map_err(|_| invalid("target"))
    }

    fn text(self, span: Option<Span>) -> Option<&'a [u8]> {
        span.map(|span| self.buffer.span(span))
    }
}

fn invalid(part: &'static str) -> InvalidHead {
    InvalidHead { part }
}

#[cfg(test)]
mod tests;
