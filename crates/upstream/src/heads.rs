//! The fields of messages that pass a proxy: what ends with the hop, and what the proxy says of the hop before.

use altway_message::hop_by_hop;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Version};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

const FORWARDED: HeaderName = HeaderName::from_static("forwarded");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const CLIENT_CERT: HeaderName = HeaderName::from_static("client-cert");
const EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// Fields by which servers learn of the client. Only proxies that are trusted may say them.
const OF_THE_CLIENT: [&str; 9] = [
    "client-cert",
    "client-cert-chain",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
];

/// The longest value that a field of forwarding grows to, in bytes; what would exceed it begins anew.
const MAX_FORWARDED: usize = 2_048;

/// A proxy's knowledge of a request that it passes on.
#[derive(Debug, Clone, Copy)]
pub struct Received<'r> {
    /// The address that the request came from: that of the client, or of a proxy before this one.
    pub peer: IpAddr,
    /// Its port.
    pub port: u16,
    /// The address and port that the peer's connection was made to, where that is known.
    pub local: Option<SocketAddr>,
    /// Whether that peer is a proxy whose word on the client counts.
    pub is_trusted: bool,
    /// `http` or `https`, as the client sees it.
    pub scheme: &'static str,
    /// The version that it came in.
    pub version: Version,
    /// Whether it came as early data (RFC 8470).
    pub is_early: bool,
    /// The certificate that the client has shown, as Client-Cert says it (RFC 9440 section 2.2).
    pub client_cert: Option<&'r HeaderValue>,
}

/// Makes the fields of a request those of the next hop, for an upstream that speaks `version`.
///
/// Fields of the hop go, with all that Connection names (RFC 9110 section 7.6.1); `TE: trailers` stays. Forwarded (RFC
/// 7239) and X-Forwarded-For, -Proto and -Host are replaced, or continued where the peer is trusted; names that a
/// server of CGI takes for one of these (`X_Forwarded_For`) go. Via has one entry more, and `Early-Data: 1` says what
/// came as early data (RFC 8470 section 5.1). Client-Cert (RFC 9440) is the certificate that the client has shown to this server,
/// and what else says so goes, unless a trusted peer says it. Host stays as it is.
pub fn pass_request(fields: &mut HeaderMap, received: Received<'_>, version: Version) {
    let given = std::mem::take(fields);
    fields.reserve(given.len() + MADE);
    pass_lines(&given, received, version, fields);
}

/// Fields that a request may have after it has passed, and had not before.
const MADE: usize = 8;

/// A head of a request that is written field by field.
pub(crate) trait Lines {
    /// Adds a field as the client has sent it.
    fn passed(&mut self, name: &HeaderName, value: &HeaderValue);

    /// Adds a field of the proxy. `value` is what a field can hold.
    fn made(&mut self, name: &HeaderName, value: &[u8]);
}

impl Lines for HeaderMap {
    fn passed(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.append(name, value.clone());
    }

    fn made(&mut self, name: &HeaderName, value: &[u8]) {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            self.append(name, value);
        }
    }
}

/// Writes the fields that [`pass_request`] makes of `fields`, which stay as they are.
pub(crate) fn pass_lines(
    fields: &HeaderMap,
    received: Received<'_>,
    version: Version,
    to: &mut impl Lines,
) {
    let named = NamedByConnection::of(fields);
    let passes = |name: &HeaderName| {
        let text = name.as_str();
        let may_be_said = received.is_trusted || !OF_THE_CLIENT.contains(&text);
        may_be_said && !named.is_dropped(text) && !is_lookalike(text)
    };
    // RFC 9113 section 8.2.3: crumbs are joined before they leave HTTP/2 and HTTP/3.
    let crumbs = fields.get_all(header::COOKIE);
    let has_crumbs = version < Version::HTTP_2 && crumbs.iter().nth(1).is_some();
    for (name, value) in fields {
        let is_joined = has_crumbs && *name == header::COOKIE;
        if !is_joined && !is_made(name, received) && passes(name) {
            to.passed(name, value);
        }
    }
    if has_crumbs {
        to.made(&header::COOKIE, &joined(crumbs.iter(), b"; "));
    }
    if has_te_trailers(fields) {
        to.made(&header::TE, b"trailers");
        if version < Version::HTTP_2 {
            // RFC 9110 section 10.1.4.
            to.made(&header::CONNECTION, b"te");
        }
    }
    forward(fields, received, passes, to);
    go_on(fields, &header::VIA, via(received.version), passes, to);
    if let Some(certificate) = received.client_cert {
        to.passed(&CLIENT_CERT, certificate);
    }
    if received.is_early {
        to.made(&EARLY_DATA, b"1");
    }
}

/// Tells the fields that the proxy writes itself, whatever the client says there.
fn is_made(name: &HeaderName, received: Received<'_>) -> bool {
    match name.as_str() {
        "forwarded" | "via" | "x-forwarded-for" => true,
        // The chain speaks of another certificate.
        "client-cert" | "client-cert-chain" => received.client_cert.is_some(),
        "early-data" => received.is_early,
        _ => false,
    }
}

/// Makes the fields of a response, which came in `version`, those of the hop to the client.
///
/// Fields of the hop go, and so does Alt-Svc: it speaks of the upstream's ports, not of this server's.
pub fn pass_response(fields: &mut HeaderMap, version: Version) {
    remove_fields_of_the_hop(fields);
    fields.remove(header::ALT_SVC);
    append_via(fields, version);
}

/// Removes from trailers what may not stand there or speaks of one hop (RFC 9110 section 6.5.1).
pub fn pass_trailers(fields: &mut HeaderMap) {
    remove_fields_of_the_hop(fields);
    for name in [
        header::CONTENT_LENGTH,
        header::HOST,
        header::ALT_SVC,
        header::AUTHORIZATION,
        header::SET_COOKIE,
        header::CONTENT_ENCODING,
        header::CONTENT_TYPE,
        header::CONTENT_RANGE,
    ] {
        fields.remove(name);
    }
    remove_fields_of_the_client(fields);
}

/// Whether a status is one of those that pass as they come, ahead of the response: all of the interim ones but 100,
/// which answers an expectation, and 101, which ends HTTP.
#[must_use]
pub fn is_passed_ahead(status: StatusCode) -> bool {
    status.is_informational()
        && status != StatusCode::CONTINUE
        && status != StatusCode::SWITCHING_PROTOCOLS
}

fn remove_fields_of_the_hop(fields: &mut HeaderMap) {
    let named = NamedByConnection::of(fields);
    let gone = fields.keys().filter(|name| named.is_dropped(name.as_str()));
    let gone: Vec<HeaderName> = gone.cloned().collect();
    for name in gone {
        fields.remove(name);
    }
}

/// The fields of one hop, with those that a message names in Connection.
struct NamedByConnection<'f> {
    fields: &'f HeaderMap,
    /// `Connection` names fields other than those of every hop.
    names_more: bool,
}

impl<'f> NamedByConnection<'f> {
    fn of(fields: &'f HeaderMap) -> Self {
        // Nearly all messages say nothing there, or what is taken away anyhow.
        let names_more = fields.get_all(header::CONNECTION).iter().any(|value| {
            let mut options = hop_by_hop::options(value.as_bytes());
            options.any(|it| {
                !USUAL_OPTIONS
                    .iter()
                    .any(|usual| it.eq_ignore_ascii_case(usual))
            })
        });
        Self { fields, names_more }
    }

    fn is_dropped(&self, name: &str) -> bool {
        if !self.names_more {
            return hop_by_hop::FIELDS.contains(&name);
        }
        let values = self.fields.get_all(header::CONNECTION).iter();
        hop_by_hop::is_dropped(name.as_bytes(), values.map(HeaderValue::as_bytes))
    }
}

/// Options of Connection that name no field, or one of the hop.
const USUAL_OPTIONS: [&[u8]; 4] = [b"keep-alive", b"close", b"te", b"upgrade"];

fn remove_fields_of_the_client(fields: &mut HeaderMap) {
    for name in OF_THE_CLIENT {
        fields.remove(name);
    }
}

/// Tells a name that servers which pass fields in variables take for one of the proxy's: `-` and `_` are the same there.
fn is_lookalike(name: &str) -> bool {
    name.contains('_') && {
        let plain = name.replace('_', "-");
        OF_THE_CLIENT.contains(&plain.as_str())
            || matches!(
                plain.as_str(),
                "content-length" | "transfer-encoding" | "early-data"
            )
    }
}

fn has_te_trailers(fields: &HeaderMap) -> bool {
    let values = fields.get_all(header::TE).iter();
    let mut members = values.flat_map(|value| hop_by_hop::options(value.as_bytes()));
    members.any(|member| member.eq_ignore_ascii_case(b"trailers"))
}

/// The values of a field in one.
fn joined<'v>(values: impl Iterator<Item = &'v HeaderValue>, between: &[u8]) -> Vec<u8> {
    let mut joined = Vec::new();
    for value in values {
        if !joined.is_empty() {
            joined.extend_from_slice(between);
        }
        joined.extend_from_slice(value.as_bytes());
    }
    joined
}

/// Writes the fields by which servers learn of the client. `passes`: the client's own field of that name counts.
fn forward(
    fields: &HeaderMap,
    received: Received<'_>,
    passes: impl Fn(&HeaderName) -> bool,
    to: &mut impl Lines,
) {
    let host = fields.get(header::HOST);
    // The longest address has 39 bytes, and writing to a text does not fail.
    let mut forwarded = String::with_capacity(128);
    let start = match received.peer {
        IpAddr::V4(_) => "for=",
        // RFC 7239 section 6: IPv6 is in brackets and quoted.
        IpAddr::V6(_) => "for=\"[",
    };
    forwarded.push_str(start);
    let _ = write!(forwarded, "{}", received.peer);
    let address = start.len()..forwarded.len();
    go_on(fields, &X_FORWARDED_FOR, &forwarded[address], &passes, to);
    if received.peer.is_ipv6() {
        forwarded.push_str("]\"");
    }
    if let Some(Ok(host)) = host.map(HeaderValue::to_str)
        && !host.contains(['"', '\\'])
    {
        forwarded.extend([";host=\"", host, "\""]);
    }
    forwarded.extend([";proto=", received.scheme]);
    go_on(fields, &FORWARDED, &forwarded, &passes, to);
    let is_said = |name: &HeaderName| fields.contains_key(name) && passes(name);
    if !is_said(&X_FORWARDED_PROTO) {
        to.made(&X_FORWARDED_PROTO, received.scheme.as_bytes());
    }
    if let Some(host) = host
        && !is_said(&X_FORWARDED_HOST)
    {
        to.passed(&X_FORWARDED_HOST, host);
    }
}

/// Writes a list with one member more, all in one line. `passes`: what was received of it stands before that.
fn go_on(
    fields: &HeaderMap,
    name: &HeaderName,
    member: &str,
    passes: impl Fn(&HeaderName) -> bool,
    to: &mut impl Lines,
) {
    if !fields.contains_key(name) || !passes(name) {
        return to.made(name, member.as_bytes());
    }
    to.made(name, &with_member(fields, name, member));
}

fn with_member(fields: &HeaderMap, name: &HeaderName, member: &str) -> Vec<u8> {
    let mut list = joined(fields.get_all(name).iter(), b", ");
    if list.len() > MAX_FORWARDED {
        list.clear();
    }
    if !list.is_empty() {
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(member.as_bytes());
    list
}

/// The entry of Via: the protocol of the message as it was received, and who received it.
fn via(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0 altway",
        Version::HTTP_2 => "2 altway",
        Version::HTTP_3 => "3 altway",
        _ => "1.1 altway",
    }
}

/// RFC 9110 section 7.6.3.
fn append_via(fields: &mut HeaderMap, version: Version) {
    let entry = via(version);
    if !fields.contains_key(header::VIA) {
        // Nearly always: the text is none of its own.
        fields.insert(header::VIA, HeaderValue::from_static(entry));
    } else if let Ok(list) = HeaderValue::from_bytes(&with_member(fields, &header::VIA, entry)) {
        fields.insert(header::VIA, list);
    }
}

#[cfg(test)]
mod tests;
