//! Heads of messages as they came: the rules of RFC 9113 section 8, storage, and a view of it.
//!
//! A connection has one [`HeadBuffer`], which the HPACK decoder fills; the application sees it as a
//! [`Head`] while it handles the event. Nothing is allocated a message once the buffer has grown.

use altway_message as message;
use altway_message::{Cookies, FieldChecks, FieldKind, PseudoFields, Refusal, Rules, Version};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{Method, Request, Uri};

use crate::Priority;
use crate::hpack::{FIELD_OVERHEAD, Visitor};

/// The buffer is given back when one message has made it larger than this.
const MAX_RETAINED_CAPACITY: usize = 8 << 10;

/// A part of `text`.
type Span = (u32, u32);

#[derive(Clone, Copy, Debug)]
struct Field {
    kind: FieldKind,
    name: Span,
    value: Span,
}

/// The fields of one message.
#[derive(Debug)]
pub(crate) struct HeadBuffer {
    text: Vec<u8>,
    fields: Vec<Field>,
    pseudo: PseudoFields<Span>,
    host: Option<Span>,
    checks: FieldChecks,
    /// The reason for which the application answers a request that is well-formed with an error.
    refusal: Option<Refusal>,
    priority: Priority,
    /// Counted as section 6.5.2 says.
    size: usize,
    /// Increases with every message that is not the same as the one before.
    id: u64,
}

impl Default for HeadBuffer {
    fn default() -> Self {
        Self {
            text: Vec::new(),
            fields: Vec::new(),
            pseudo: PseudoFields::default(),
            host: None,
            checks: FieldChecks::new(Version::Http2),
            refusal: None,
            priority: Priority::default(),
            size: 0,
            id: 0,
        }
    }
}

impl HeadBuffer {
    /// Makes an empty one, of which the messages follow those up to number `id`.
    pub(crate) fn after(id: u64) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    /// Makes room for the next message.
    pub(crate) fn begin(&mut self) {
        let (mut text, mut fields) = (
            std::mem::take(&mut self.text),
            std::mem::take(&mut self.fields),
        );
        text.clear();
        fields.clear();
        if text.capacity() > MAX_RETAINED_CAPACITY {
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

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn view(&self) -> Head<'_> {
        Head { buffer: self }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn content_length(&self) -> Option<u64> {
        self.checks.content_length()
    }

    /// The priority of the Priority field, or the default.
    pub(crate) fn priority(&self) -> Priority {
        self.priority
    }

    pub(crate) fn is_method(&self, method: &[u8]) -> bool {
        let own = self.pseudo.method;
        own.is_some_and(|span| self.span(span) == method)
    }

    /// Checks a request. What is refused and yet well-formed is the application's to answer.
    pub(crate) fn check_request(&mut self, rules: Rules) -> Result<(), Refusal> {
        let host = self.host.map(|span| self.span(span));
        let head = self.pseudo.request(|span| self.span(*span), host);
        self.refusal = rules.check_stream(&head, &self.checks)?;
        Ok(())
    }

    /// Checks a response, and gives its status.
    pub(crate) fn check_response(&self) -> Result<u16, Refusal> {
        let status = self.pseudo.status.map(|span| self.span(span));
        message::check_response(status, &self.checks)
    }

    /// Checks trailers.
    pub(crate) fn check_trailers(&self) -> Result<(), Refusal> {
        let names = self.fields.iter().map(|field| self.span(field.name));
        message::check_trailers(&self.checks, names)
    }

    /// `:authority` of a request, or else its Host field.
    fn authority_or_host(&self) -> Option<Span> {
        let is_host = |field: &&Field| self.span(field.name) == b"host";
        let host = || self.fields.iter().find(is_host).map(|field| field.value);
        self.pseudo.authority.or_else(host)
    }

    /// The text, in memory that its parts share.
    fn copy(&self) -> Bytes {
        Bytes::copy_from_slice(&self.text)
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
}

/// Keeps fields while the list is within `limit`; counts them in any case.
pub(crate) struct Filling<'a> {
    pub(crate) buffer: &'a mut HeadBuffer,
    /// The limit in bytes as RFC 9113 section 6.5.2 counts them.
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
        buffer.checks.field(kind, value);
        if buffer.checks.refusal().is_some() {
            return;
        }
        if kind.is_pseudo() {
            let span = buffer.push(value);
            if let Some(place) = buffer.pseudo.place(kind) {
                *place = Some(span);
            }
            return;
        }
        let (name, span) = (buffer.push(name), buffer.push(value));
        match kind {
            FieldKind::Host => buffer.host = Some(span),
            FieldKind::Priority => buffer.priority = Priority::parse(value),
            _ => {}
        }
        buffer.fields.push(Field {
            kind,
            name,
            value: span,
        });
    }
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
    /// The part of the head.
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
        self.text(self.buffer.pseudo.method)
    }

    /// `:scheme` of a request; none in CONNECT.
    #[must_use]
    pub fn scheme(self) -> Option<&'a [u8]> {
        self.text(self.buffer.pseudo.scheme)
    }

    /// `:authority` of a request, or else its Host field.
    #[must_use]
    pub fn authority(self) -> Option<&'a [u8]> {
        self.text(self.buffer.authority_or_host())
    }

    /// `:path` of a request, with the query; none in CONNECT.
    #[must_use]
    pub fn path(self) -> Option<&'a [u8]> {
        self.text(self.buffer.pseudo.path)
    }

    /// `:protocol` of an extended CONNECT (RFC 8441).
    #[must_use]
    pub fn protocol(self) -> Option<&'a [u8]> {
        self.text(self.buffer.pseudo.protocol)
    }

    /// `:status` of a response, 100 to 999.
    #[must_use]
    pub fn status(self) -> Option<u16> {
        self.buffer.check_response().ok()
    }

    /// The reason to answer a request with an error, by [`Refusal::status`], though it is well-formed.
    #[must_use]
    pub fn refusal(self) -> Option<Refusal> {
        self.buffer.refusal
    }

    /// Content-Length, if there is one.
    #[must_use]
    pub fn content_length(self) -> Option<u64> {
        self.buffer.content_length()
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

    /// Converts the head to a request of the `http` crate, version HTTP/2. The URI is absolute
    /// where there is an authority. Several Cookie fields are joined (RFC 9113 section 8.2.3).
    /// `:protocol` is left to [`protocol`](Head::protocol). A [`refusal`](Head::refusal) is an
    /// extension of the request.
    ///
    /// Its text is copied once: what is kept of the request keeps all of that. The map has room for a field more.
    ///
    /// # Errors
    /// Method, scheme, authority or path are no valid ones.
    pub fn to_request(self) -> Result<Request<()>, InvalidHead> {
        let mut request = Request::new(());
        let method = self.method().unwrap_or_default();
        *request.method_mut() = Method::from_bytes(method).map_err(|_| invalid(":method"))?;
        let text = self.buffer.copy();
        *request.uri_mut() = self.uri(&text)?;
        *request.version_mut() = http::Version::HTTP_2;
        *request.headers_mut() = self.headers(&text, self.buffer.fields.len() + 1)?;
        if let Some(refusal) = self.refusal() {
            request.extensions_mut().insert(refusal);
        }
        Ok(request)
    }

    /// The fields alone, as for trailers.
    ///
    /// # Errors
    /// A name or value is one that HTTP/2 allows and `http` does not.
    pub fn to_headers(self) -> Result<HeaderMap, InvalidHead> {
        self.headers(&self.buffer.copy(), self.buffer.fields.len())
    }

    /// The fields, as parts of a copy of the buffer's `text`, in a map with room for `capacity`.
    fn headers(self, text: &Bytes, capacity: usize) -> Result<HeaderMap, InvalidHead> {
        let mut headers = HeaderMap::with_capacity(capacity);
        let mut cookies = Cookies::default();
        let value = |bytes| HeaderValue::from_maybe_shared::<Bytes>(bytes);
        for field in &self.buffer.fields {
            if field.kind == FieldKind::Cookie {
                cookies.push(self.buffer.span(field.value));
                continue;
            }
            let name = self.buffer.span(field.name);
            let name = HeaderName::from_lowercase(name).map_err(|_| invalid("field name"))?;
            let value = value(part(text, field.value)).map_err(|_| invalid("field value"))?;
            headers
                .try_append(name, value)
                .map_err(|_| invalid("number of fields"))?;
        }
        if let Some(cookies) = cookies.take() {
            let cookies = value(cookies.into()).map_err(|_| invalid("field value"))?;
            headers.insert(header::COOKIE, cookies);
        }
        Ok(headers)
    }

    /// The target, as parts of a copy of the buffer's `text`.
    fn uri(self, text: &Bytes) -> Result<Uri, InvalidHead> {
        let mut parts = Parts::default();
        if let Some(authority) = self.buffer.authority_or_host() {
            let authority = Authority::from_maybe_shared(part(text, authority));
            parts.authority = Some(authority.map_err(|_| invalid(":authority"))?);
        }
        if let Some(path) = self.buffer.pseudo.path {
            let path = PathAndQuery::from_maybe_shared(part(text, path));
            parts.path_and_query = Some(path.map_err(|_| invalid(":path"))?);
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

fn part(text: &Bytes, (from, to): Span) -> Bytes {
    text.slice(from as usize..to as usize)
}

fn invalid(part: &'static str) -> InvalidHead {
    InvalidHead { part }
}

#[cfg(test)]
mod tests;
