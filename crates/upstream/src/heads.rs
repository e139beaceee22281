//! The fields of messages that pass a proxy: what ends with the hop, and what the proxy says of the hop before.

use crate::ClientNumber;
use altway_message::{Refusal, hop_by_hop, response_length};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Version};
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

const FORWARDED: HeaderName = HeaderName::from_static("forwarded");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const CLIENT_CERT: HeaderName = HeaderName::from_static("client-cert");
const EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// Fields by which servers learn of the client and of what it has asked for: those of the standards, and others that Rails, Rack,
/// Spring or ASP.NET believe unasked. Only proxies that are trusted may say them.
const OF_THE_CLIENT: [&str; 13] = [
    "client-cert",
    "client-cert-chain",
    "client-ip",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-real-ip",
];

/// A field that no standard has, and that programs of CGI take for the proxy of their own requests (`HTTP_PROXY`): by it a client has
/// them send those elsewhere (CVE-2016-5385).
const PROXY: &str = "proxy";

/// The length that a response's fields give its content; `None`: they give none. Several lines of the same length become one.
///
/// # Errors
/// The lengths differ or are none, as [`response_length`] says.
pub(crate) fn content_length(fields: &mut HeaderMap) -> Result<Option<u64>, Refusal> {
    let values = fields.get_all(header::CONTENT_LENGTH).iter();
    let Some(length) = response_length(values.map(HeaderValue::as_bytes))? else {
        return Ok(None);
    };
    if length.is_repeated {
        fields.insert(header::CONTENT_LENGTH, length.bytes.into());
    }
    Ok(Some(length.bytes))
}

/// The longest value of a field of forwarding to which a member is added, in bytes; of a longer one the oldest members go.
const MAX_FORWARDED: usize = 2_048;

/// A proxy's knowledge of a request that it passes on.
#[derive(Debug, Clone, Copy)]
pub struct Received<'r> {
    /// The address that the request came from: that of the client, or of a proxy before this one.
    pub peer: IpAddr,
    /// Port of the peer.
    pub port: u16,
    /// The client among whom places at a server are shared out; `None` for one that speaks for many.
    pub client: Option<ClientNumber>,
    /// The address and port that the peer's connection was made to, where that is known.
    pub local: Option<SocketAddr>,
    /// True if that peer is a proxy whose word on the client counts.
    pub is_trusted: bool,
    /// `http` or `https`, as the client sees it.
    pub scheme: &'static str,
    /// The version that it came in.
    pub version: Version,
    /// True if the request came as early data (RFC 8470).
    pub is_early: bool,
    /// Time at which its head was there.
    pub began: Instant,
    /// The certificate that the client has shown, as Client-Cert says it (RFC 9440 section 2.2).
    pub client_cert: Option<&'r HeaderValue>,
}

/// Makes the fields of a request those of the next hop, for an upstream that speaks `version`.
///
/// Fields of the hop go, with all that Connection names (RFC 9110 section 7.6.1); `TE: trailers` stays. Forwarded (RFC
/// 7239) and X-Forwarded-For, -Proto and -Host are replaced, or continued where the peer is trusted; names that a
/// server of CGI takes for one of these (`X_Forwarded_For`) go, and so does `Proxy`. Via has one entry more, and `Early-Data: 1` says what
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

    /// Adds a field of the proxy. Its value is that of the `parts`, one after the other, and what a field can hold.
    fn joined(&mut self, name: &HeaderName, parts: &[&[u8]]);

    /// Adds a field of the proxy, whose value is in one.
    fn made(&mut self, name: &HeaderName, value: &[u8]) {
        self.joined(name, &[value]);
    }
}

impl Lines for HeaderMap {
    fn passed(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.append(name, value.clone());
    }

    fn joined(&mut self, name: &HeaderName, parts: &[&[u8]]) {
        let value = Bytes::from(parts.concat());
        if let Ok(value) = HeaderValue::from_maybe_shared(value) {
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
    let seen = RequestFields::of(fields);
    let named = NamedByConnection {
        fields,
        names_more: seen.names_more,
    };
    let passes = |name: &HeaderName| {
        let text = name.as_str();
        let may_be_said = received.is_trusted || !OF_THE_CLIENT.contains(&text);
        may_be_said && !named.is_dropped(text) && !is_lookalike(text) && text != PROXY
    };
    for (name, value) in fields {
        if !is_made(name, received) && passes(name) {
            to.passed(name, value);
        }
    }
    if seen.takes_trailers {
        to.made(&header::TE, b"trailers");
        if version < Version::HTTP_2 {
            // RFC 9110 section 10.1.4.
            to.made(&header::CONNECTION, b"te");
        }
    }
    let mut said = ForwardedFields { fields, passes, to };
    said.forward(&seen, received);
    said.go_on(&header::VIA, seen.via, &[via(received.version).as_bytes()]);
    if let Some(certificate) = received.client_cert {
        to.passed(&CLIENT_CERT, certificate);
    }
    if received.is_early {
        to.made(&EARLY_DATA, b"1");
    }
}

/// The fields of a request on which others depend, found in one look at all of them: to ask the map for each costs more.
#[derive(Default)]
struct RequestFields<'f> {
    host: Option<&'f HeaderValue>,
    takes_trailers: bool,
    /// `Connection` names fields other than those of every hop.
    names_more: bool,
    forwarded: bool,
    via: bool,
    x_forwarded_for: bool,
    x_forwarded_host: bool,
    x_forwarded_proto: bool,
}

impl<'f> RequestFields<'f> {
    fn of(fields: &'f HeaderMap) -> Self {
        let mut seen = Self::default();
        for (name, value) in fields {
            match name.as_str() {
                "host" => seen.host = seen.host.or(Some(value)),
                "te" => seen.takes_trailers |= takes_trailers(value),
                "connection" => seen.names_more |= names_more(value.as_bytes()),
                "forwarded" => seen.forwarded = true,
                "via" => seen.via = true,
                "x-forwarded-for" => seen.x_forwarded_for = true,
                "x-forwarded-host" => seen.x_forwarded_host = true,
                "x-forwarded-proto" => seen.x_forwarded_proto = true,
                _ => {}
            }
        }
        seen
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
    strip_response(fields);
    append_via(fields, version);
}

/// Makes the Upgrade of a response with the status 426 that of the hop to a client of `version`. Such a response has to
/// say which protocols are required (RFC 9110 section 15.5.22), with the connection option that belongs to it (section
/// 7.8), over the one version that has the field. Whatever else says Upgrade speaks of the server's own connection.
pub(crate) fn pass_required_upgrade(fields: &mut HeaderMap, version: Version) {
    if version != Version::HTTP_11 {
        fields.remove(header::UPGRADE);
    } else if fields.contains_key(header::UPGRADE) {
        fields.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

/// Removes from trailers what may not stand there or speaks of one hop (RFC 9110 section 6.5.1).
pub fn pass_trailers(fields: &mut HeaderMap) {
    remove_fields_of_the_hop(fields);
    for name in [
        header::CONTENT_LENGTH,
        header::TRAILER,
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

/// Returns whether a status is one of those that pass as they come, ahead of the response: all of the interim ones
/// but 100, which answers an expectation, and 101, which ends HTTP.
#[must_use]
pub fn is_passed_ahead(status: StatusCode) -> bool {
    status.is_informational()
        && status != StatusCode::CONTINUE
        && status != StatusCode::SWITCHING_PROTOCOLS
}

/// Tells the fields of a response that do not pass, whatever its Connection says.
pub(crate) fn ends_with_the_hop(name: &HeaderName) -> bool {
    *name == header::ALT_SVC || hop_by_hop::FIELDS.contains(&name.as_str())
}

/// Removes the fields of the hop from those of a response, and Alt-Svc.
pub(crate) fn strip_response(fields: &mut HeaderMap) {
    remove_fields_of_the_hop(fields);
    fields.remove(header::ALT_SVC);
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
        let mut values = fields.get_all(header::CONNECTION).iter();
        let names_more = values.any(|value| names_more(value.as_bytes()));
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

/// Returns true if a value of Connection names fields other than those of every hop. Nearly all say nothing,
/// or what is taken away anyhow.
pub(crate) fn names_more(connection: &[u8]) -> bool {
    hop_by_hop::options(connection).any(|it| {
        !USUAL_OPTIONS
            .iter()
            .any(|usual| it.eq_ignore_ascii_case(usual))
    })
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

fn takes_trailers(te: &HeaderValue) -> bool {
    let mut members = hop_by_hop::options(te.as_bytes());
    members.any(|member| member.eq_ignore_ascii_case(b"trailers"))
}

/// The fields that say more than the client has said, on their way.
struct ForwardedFields<'s, P, L> {
    fields: &'s HeaderMap,
    /// Returns true if the client's own field of that name counts.
    passes: P,
    to: &'s mut L,
}

impl<P: Fn(&HeaderName) -> bool, L: Lines> ForwardedFields<'_, P, L> {
    /// Writes the fields by which servers learn of the client.
    fn forward(&mut self, seen: &RequestFields<'_>, received: Received<'_>) {
        let address = AddressText::of(received.peer);
        let address = address.as_bytes();
        self.go_on(&X_FORWARDED_FOR, seen.x_forwarded_for, &[address]);
        // RFC 7239 section 6: IPv6 is in brackets and quoted.
        let (before, after): (&[u8], &[u8]) = match received.peer {
            IpAddr::V4(_) => (b"for=", b""),
            IpAddr::V6(_) => (b"for=\"[", b"]\""),
        };
        let host = seen.host.and_then(|host| host.to_str().ok());
        let host = host.filter(|host| !host.contains(['"', '\\']));
        let [open, host, close]: [&[u8]; 3] = match host {
            Some(host) => [b";host=\"", host.as_bytes(), b"\""],
            None => [b""; 3],
        };
        let scheme = received.scheme.as_bytes();
        let member = [
            before, address, after, open, host, close, b";proto=", scheme,
        ];
        self.go_on(&FORWARDED, seen.forwarded, &member);
        if !(seen.x_forwarded_proto && (self.passes)(&X_FORWARDED_PROTO)) {
            self.to.made(&X_FORWARDED_PROTO, scheme);
        }
        if let Some(host) = seen.host
            && !(seen.x_forwarded_host && (self.passes)(&X_FORWARDED_HOST))
        {
            self.to.passed(&X_FORWARDED_HOST, host);
        }
    }

    /// Writes a list with one member more, which is that of the parts, all in one line. `is_seen`: the client has sent it.
    fn go_on(&mut self, name: &HeaderName, is_seen: bool, member: &[&[u8]]) {
        if !is_seen || !(self.passes)(name) {
            return self.to.joined(name, member);
        }
        self.to.made(name, &with_member(self.fields, name, member));
    }
}

/// An address as text.
struct AddressText {
    text: [u8; Self::LONGEST],
    len: usize,
}

impl AddressText {
    /// Bytes of the longest: IPv6 that ends as IPv4 does.
    const LONGEST: usize = 45;

    fn of(address: IpAddr) -> Self {
        let mut text = [0; Self::LONGEST];
        let mut rest = &mut text[..];
        // It has room for any.
        let _ = match address {
            // The formatting of integers costs several times as much.
            IpAddr::V4(address) => write_octets(&mut rest, address.octets()),
            IpAddr::V6(address) => write!(rest, "{address}"),
        };
        let len = Self::LONGEST - rest.len();
        Self { text, len }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.text[..self.len]
    }
}

fn write_octets(to: &mut &mut [u8], octets: [u8; 4]) -> std::io::Result<()> {
    for (place, octet) in octets.into_iter().enumerate() {
        let digits = [octet / 100, octet / 10 % 10, octet % 10].map(|digit| b'0' + digit);
        let leading = usize::from(octet < 100) + usize::from(octet < 10);
        to.write_all(if place == 0 { b"" } else { b"." })?;
        to.write_all(&digits[leading..])?;
    }
    Ok(())
}

fn with_member(fields: &HeaderMap, name: &HeaderName, member: &[&[u8]]) -> Vec<u8> {
    let values = fields.get_all(name).iter().map(HeaderValue::as_bytes);
    let values = values.filter(|it| !it.is_empty());
    let mut list = values.collect::<Vec<_>>().join(&b", "[..]);
    if list.len() > MAX_FORWARDED {
        list = latest(&list, *name == FORWARDED).to_vec();
    }
    if !list.is_empty() {
        list.extend_from_slice(b", ");
    }
    member.iter().for_each(|part| list.extend_from_slice(part));
    list
}

/// The latest members of a list, as many as there is room for: what the nearest proxies say of the client counts, and not what
/// the client itself has put before it. `has_quotes`: a comma between quotes separates nothing (RFC 7239 section 4).
fn latest(list: &[u8], has_quotes: bool) -> &[u8] {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (place, byte) in list.iter().enumerate() {
        let rest = &list[place + 1..];
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' if has_quotes => is_quoted = !is_quoted,
            b',' if !is_quoted && rest.len() <= MAX_FORWARDED => return rest.trim_ascii(),
            _ => {}
        }
    }
    &[]
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

/// Servers of this kind that a request may have come through: nobody means so many to stand in a row.
const MAX_PASSES: usize = 16;

/// Returns true if a request goes round, by its Via: what comes to the proxy must not be passed on to it without end (RFC
/// 9110 section 7.6).
#[must_use]
pub fn is_looping(fields: &HeaderMap) -> bool {
    let lists = fields.get_all(header::VIA).iter();
    let members = lists.flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
    let is_ours = |member: &&[u8]| member.trim_ascii().ends_with(b" altway");
    members.filter(is_ours).count() >= MAX_PASSES
}

/// Adds the entry of this server (RFC 9110 section 7.6.3). `version`: that of the message.
pub(crate) fn append_via(fields: &mut HeaderMap, version: Version) {
    let entry = via(version);
    if !fields.contains_key(header::VIA) {
        // Nearly always: the text is none of its own.
        fields.insert(header::VIA, HeaderValue::from_static(entry));
    } else if let Ok(list) =
        HeaderValue::from_bytes(&with_member(fields, &header::VIA, &[entry.as_bytes()]))
    {
        fields.insert(header::VIA, list);
    }
}

#[cfg(test)]
mod tests;
