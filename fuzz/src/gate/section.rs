//! Lists of fields as HTTP/2 and HTTP/3 have them.

use altway_message::{FieldChecks, FieldKind, Head, Request, Rules, Scheme, Version};
use http::uri::{self, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use crate::input::Input;

const NAMES: [&[u8]; 16] = [
    b":method",
    b":scheme",
    b":authority",
    b":path",
    b":protocol",
    b":status",
    b"host",
    b"content-length",
    b"transfer-encoding",
    b"connection",
    b"te",
    b"cookie",
    b"range",
    b"expect",
    b"priority",
    b"x-\xff",
];

const VALUES: [&[u8]; 16] = [
    b"GET",
    b"CONNECT",
    b"OPTIONS",
    b"https",
    b"http",
    b"a.example",
    b"a.example:443",
    b"[::1]:80",
    b"/",
    b"/a?b",
    b"*",
    b"websocket",
    b"trailers",
    b"200",
    b"5",
    b"bytes=0-1",
];

type Field<'a> = (&'a [u8], &'a [u8]);

/// Fields one behind the other: a byte each for the name and the value, which are known ones, or so many
/// bytes that follow.
pub(super) fn run(mut input: Input<'_>, rules: Rules) {
    let mut fields = Vec::new();
    while !input.is_empty() {
        fields.push((word(&mut input, &NAMES), word(&mut input, &VALUES)));
    }
    let [http2, http3] = [Version::Http2, Version::Http3].map(|version| {
        let (head, checks) = collect(&fields, version);
        let checked = rules.check(&head, &checks);
        let answered = checked.map_or_else(|it| !it.is_malformed(version), |_| true);
        if answered {
            let held = hold(&head, &fields).expect("what is answered can be held");
            assert!(held.headers().len() <= fields.len());
            if let Ok(request) = checked {
                check(&request, &head, &held, &checks);
            }
        }
        checked.ok()
    });
    assert_eq!(http2, http3);
}

fn word<'a>(input: &mut Input<'a>, known: &[&'static [u8]; 16]) -> &'a [u8] {
    match input.byte() {
        which @ ..0x80 => known[usize::from(which) % known.len()],
        len => input.take(usize::from(len - 0x80)),
    }
}

/// The parts of a head, as both engines collect them.
fn collect<'a>(fields: &[Field<'a>], version: Version) -> (Head<'a>, FieldChecks) {
    let (mut checks, mut head) = (FieldChecks::new(version), Head::default());
    for (name, value) in fields {
        let kind = FieldKind::of(name).with_value(value);
        checks.field(kind, value);
        let place = match kind {
            FieldKind::Method => &mut head.method,
            FieldKind::Scheme => &mut head.scheme,
            FieldKind::Authority => &mut head.authority,
            FieldKind::Path => &mut head.path,
            FieldKind::Protocol => &mut head.protocol,
            FieldKind::Host => &mut head.host,
            _ => continue,
        };
        *place = Some(value);
    }
    (head, checks)
}

/// Builds the request as both engines do; every field by itself.
fn hold(head: &Head<'_>, fields: &[Field<'_>]) -> http::Result<http::Request<()>> {
    let mut request = http::Request::new(());
    *request.method_mut() = Method::from_bytes(head.method.unwrap_or_default())?;
    let mut parts = uri::Parts::default();
    if let Some(authority) = head.authority.or(head.host) {
        parts.authority = Some(uri::Authority::try_from(authority)?);
        parts.scheme = head.scheme.map(uri::Scheme::try_from).transpose()?;
    }
    parts.path_and_query = head.path.map(PathAndQuery::try_from).transpose()?;
    *request.uri_mut() = Uri::from_parts(parts)?;
    let regular = fields.iter().filter(|(name, _)| !name.starts_with(b":"));
    for (name, value) in regular {
        let (name, value) = (
            HeaderName::from_lowercase(name)?,
            HeaderValue::from_bytes(value)?,
        );
        request.headers_mut().try_append(name, value)?;
    }
    Ok(request)
}

/// The gate and the http crate have the same request.
fn check(request: &Request<'_>, head: &Head<'_>, held: &http::Request<()>, checks: &FieldChecks) {
    let (uri, target) = (held.uri(), request.target);
    let text = |text: Option<&str>| text.map(|it| it.as_bytes().to_vec());
    assert_eq!(head.method, Some(held.method().as_str().as_bytes()));
    let path = uri.path_and_query().map(PathAndQuery::as_str);
    assert_eq!(text(path), target.path.map(<[u8]>::to_vec));
    let authority = target.authority.expect("a request has an authority");
    assert_eq!(uri.host().map(str::as_bytes), Some(authority.host));
    assert_eq!(uri.port_u16(), authority.port);
    if let Some(scheme) = uri.scheme() {
        let https = scheme.as_str().eq_ignore_ascii_case("https");
        assert_eq!(https, target.scheme == Some(Scheme::Https));
    }
    assert_eq!(checks.content_length(), length(held.headers()));
}

fn length(fields: &HeaderMap) -> Option<u64> {
    let value = fields.get(http::header::CONTENT_LENGTH)?;
    value.to_str().expect("ASCII").parse().ok()
}
