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
const CLIENT_CERT_CHAIN: HeaderName = HeaderName::from_static("client-cert-chain");
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
    let wants_trailers = has_te_trailers(fields);
    remove_fields_of_the_hop(fields);
    remove_lookalikes(fields);
    if wants_trailers {
        fields.insert(header::TE, HeaderValue::from_static("trailers"));
        if version < Version::HTTP_2 {
            // RFC 9110 section 10.1.4.
            fields.insert(header::CONNECTION, HeaderValue::from_static("te"));
        }
    }
    if version < Version::HTTP_2 {
        join_cookies(fields);
    }
    forward(fields, received);
    append_via(fields, received.version);
    if let Some(certificate) = received.client_cert {
        fields.insert(CLIENT_CERT, certificate.clone());
        // It speaks of another certificate.
        fields.remove(CLIENT_CERT_CHAIN);
    }
    if received.is_early {
        fields.insert(EARLY_DATA, HeaderValue::from_static("1"));
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
    // Nearly all messages say nothing there, or what is taken away anyhow.
    let names_more = fields.get_all(header::CONNECTION).iter().any(|value| {
        let mut options = hop_by_hop::options(value.as_bytes());
        options.any(|it| {
            !USUAL_OPTIONS
                .iter()
                .any(|usual| it.eq_ignore_ascii_case(usual))
        })
    });
    remove_those(fields, |fields, name| {
        if !names_more {
            return hop_by_hop::FIELDS.contains(&name);
        }
        let values = fields.get_all(header::CONNECTION).iter();
        hop_by_hop::is_dropped(name.as_bytes(), values.map(HeaderValue::as_bytes))
    });
}

/// Options of Connection that name no field, or one of the hop.
const USUAL_OPTIONS: [&[u8]; 4] = [b"keep-alive", b"close", b"te", b"upgrade"];

/// Removes the fields whose names `are` meant: with one look at each, and without memory where there are none.
fn remove_those(fields: &mut HeaderMap, are: impl Fn(&HeaderMap, &str) -> bool) {
    let names = fields.keys().filter(|name| are(fields, name.as_str()));
    let gone: Vec<HeaderName> = names.cloned().collect();
    for name in gone {
        fields.remove(name);
    }
}

fn remove_fields_of_the_client(fields: &mut HeaderMap) {
    remove_those(fields, |_, name| OF_THE_CLIENT.contains(&name));
}

/// Servers that pass fields in variables take `-` and `_` for the same.
fn remove_lookalikes(fields: &mut HeaderMap) {
    remove_those(fields, |_, name| {
        name.contains('_') && {
            let plain = name.replace('_', "-");
            OF_THE_CLIENT.contains(&plain.as_str())
                || matches!(
                    plain.as_str(),
                    "content-length" | "transfer-encoding" | "early-data"
                )
        }
    });
}

fn has_te_trailers(fields: &HeaderMap) -> bool {
    let values = fields.get_all(header::TE).iter();
    let mut members = values.flat_map(|value| hop_by_hop::options(value.as_bytes()));
    members.any(|member| member.eq_ignore_ascii_case(b"trailers"))
}

/// RFC 9113 section 8.2.3: crumbs are joined before they leave HTTP/2 and HTTP/3.
fn join_cookies(fields: &mut HeaderMap) {
    let mut crumbs = fields.get_all(header::COOKIE).iter();
    if let (Some(first), Some(second)) = (crumbs.next(), crumbs.next()) {
        let mut joined = first.as_bytes().to_vec();
        for crumb in std::iter::once(second).chain(crumbs) {
            joined.extend_from_slice(b"; ");
            joined.extend_from_slice(crumb.as_bytes());
        }
        // What was in fields can be in a field.
        if let Ok(joined) = HeaderValue::from_bytes(&joined) {
            fields.insert(header::COOKIE, joined);
        }
    }
}

fn forward(fields: &mut HeaderMap, received: Received<'_>) {
    let host = fields.get(header::HOST).cloned();
    let peer = received.peer.to_string();
    let mut forwarded = String::with_capacity(96);
    match received.peer {
        IpAddr::V4(_) => forwarded.extend(["for=", &peer]),
        // RFC 7239 section 6: IPv6 is in brackets and quoted.
        IpAddr::V6(_) => forwarded.extend(["for=\"[", &peer, "]\""]),
    }
    if let Some(Ok(host)) = host.as_ref().map(HeaderValue::to_str)
        && !host.contains(['"', '\\'])
    {
        // Writing to a text does not fail.
        let _ = write!(forwarded, ";host=\"{host}\"");
    }
    forwarded.extend([";proto=", received.scheme]);
    if !received.is_trusted {
        remove_fields_of_the_client(fields);
    }
    append(fields, &FORWARDED, &forwarded);
    append(fields, &X_FORWARDED_FOR, &peer);
    let said =
        |fields: &HeaderMap, name: &HeaderName| received.is_trusted && fields.contains_key(name);
    if !said(fields, &X_FORWARDED_PROTO) {
        let scheme = match received.scheme {
            "https" => Ok(HeaderValue::from_static("https")),
            scheme => HeaderValue::from_str(scheme),
        };
        if let Ok(scheme) = scheme {
            fields.insert(X_FORWARDED_PROTO, scheme);
        }
    }
    if !said(fields, &X_FORWARDED_HOST)
        && let Some(host) = host
    {
        fields.insert(X_FORWARDED_HOST, host);
    }
}

/// Adds a member to a list, all in one line.
fn append(fields: &mut HeaderMap, name: &HeaderName, member: &str) {
    if !fields.contains_key(name) {
        if let Ok(value) = HeaderValue::from_str(member) {
            fields.insert(name, value);
        }
        return;
    }
    let mut list = Vec::new();
    for value in fields.get_all(name) {
        list.extend_from_slice(value.as_bytes());
        list.extend_from_slice(b", ");
    }
    if list.len() > MAX_FORWARDED {
        list.clear();
    }
    list.extend_from_slice(member.as_bytes());
    if let Ok(value) = HeaderValue::from_bytes(&list) {
        fields.insert(name, value);
    }
}

/// RFC 9110 section 7.6.3: the protocol of the message as it was received, and who received it.
fn append_via(fields: &mut HeaderMap, version: Version) {
    let entry = match version {
        Version::HTTP_10 => "1.0 altway",
        Version::HTTP_2 => "2 altway",
        Version::HTTP_3 => "3 altway",
        _ => "1.1 altway",
    };
    match fields.entry(header::VIA) {
        // Nearly always: the text is none of its own.
        header::Entry::Vacant(vacant) => drop(vacant.insert(HeaderValue::from_static(entry))),
        header::Entry::Occupied(_) => append(fields, &header::VIA, entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    fn received() -> Received<'static> {
        Received {
            peer: PEER,
            port: 1,
            local: None,
            is_trusted: false,
            scheme: "https",
            version: Version::HTTP_2,
            is_early: false,
            client_cert: None,
        }
    }

    fn fields(lines: &str) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for line in lines.lines().map(str::trim).filter(|it| !it.is_empty()) {
            let (name, value) = line.split_once(':').unwrap();
            let name: HeaderName = name.parse().unwrap();
            fields.append(name, value.trim().parse().unwrap());
        }
        fields
    }

    fn lines(fields: &HeaderMap) -> Vec<String> {
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}: {}", value.to_str().unwrap())
        };
        let mut lines: Vec<_> = fields.iter().map(line).collect();
        lines.sort();
        lines
    }

    fn check_request(given: &str, received: Received<'_>, version: Version, expected: &str) {
        let mut passed = fields(given);
        pass_request(&mut passed, received, version);
        assert_eq!(lines(&passed), lines(&fields(expected)), "{given}");
    }

    #[test]
    fn a_request_says_whom_it_is_from() {
        let expected = "
            host: a.example:8443
            accept: */*
            via: 2 altway
            forwarded: for=192.0.2.7;host=\"a.example:8443\";proto=https
            x-forwarded-for: 192.0.2.7
            x-forwarded-host: a.example:8443
            x-forwarded-proto: https";
        let given = "host: a.example:8443\naccept: */*";
        check_request(given, received(), Version::HTTP_11, expected);
        check_request(given, received(), Version::HTTP_2, expected);
    }

    #[test]
    fn what_clients_say_of_themselves_is_replaced() {
        check_request(
            "host: a
            forwarded: for=203.0.113.1
            x-forwarded-for: 203.0.113.1
            x-forwarded-for: 203.0.113.2
            x-forwarded-host: b
            x-forwarded-proto: http
            x-forwarded-port: 1
            x-real-ip: 203.0.113.1
            client-cert: :AAAA:
            client-cert-chain: :AAAA:
            client_cert: :AAAA:
            x_forwarded_for: 203.0.113.1
            x-forwarded_host: b
            content_length: 5
            x_other: stays",
            received(),
            Version::HTTP_11,
            "host: a
            via: 2 altway
            forwarded: for=192.0.2.7;host=\"a\";proto=https
            x-forwarded-for: 192.0.2.7
            x-forwarded-host: a
            x-forwarded-proto: https
            x_other: stays",
        );
    }

    #[test]
    fn what_a_trusted_proxy_says_is_continued() {
        let received = Received {
            is_trusted: true,
            peer: "2001:db8::1".parse().unwrap(),
            port: 1,
            local: None,
            scheme: "http",
            version: Version::HTTP_11,
            is_early: false,
            client_cert: None,
        };
        check_request(
            "host: a
            via: 1.0 first, 1.1 second
            forwarded: for=203.0.113.1;proto=https
            x-forwarded-for: 203.0.113.1
            x-forwarded-for: 203.0.113.2
            x-forwarded-host: b
            x-forwarded-proto: https
            x-real-ip: 203.0.113.1",
            received,
            Version::HTTP_11,
            "host: a
            via: 1.0 first, 1.1 second, 1.1 altway
            forwarded: for=203.0.113.1;proto=https, for=\"[2001:db8::1]\";host=\"a\";proto=http
            x-forwarded-for: 203.0.113.1, 203.0.113.2, 2001:db8::1
            x-forwarded-host: b
            x-forwarded-proto: https
            x-real-ip: 203.0.113.1",
        );
    }

    #[test]
    fn what_belongs_to_the_hop_goes_and_te_trailers_stays() {
        let given = "host: a
            connection: keep-alive, X-One
            connection: x-two, host, content-length, x-forwarded-for
            keep-alive: timeout=5
            proxy-connection: keep-alive
            proxy-authorization: Basic eDp5
            transfer-encoding: chunked
            te: gzip;q=0.5, Trailers
            trailer: x-sum
            upgrade: h2c
            content-length: 5
            x-one: 1
            x-two: 2
            x-three: 3";
        let expected = "host: a
            content-length: 5
            x-three: 3
            te: trailers
            via: 2 altway
            forwarded: for=192.0.2.7;host=\"a\";proto=https
            x-forwarded-for: 192.0.2.7
            x-forwarded-host: a
            x-forwarded-proto: https";
        check_request(given, received(), Version::HTTP_2, expected);
        let expected = format!("{expected}\nconnection: te");
        check_request(given, received(), Version::HTTP_11, &expected);
    }

    #[test]
    fn a_client_s_certificate_is_told_by_this_server_or_a_trusted_one() {
        let own = HeaderValue::from_static(":AQ==:");
        for (is_trusted, client_cert, expected) in [
            (false, None, None),
            (true, None, Some(":AAAA:")),
            (false, Some(&own), Some(":AQ==:")),
            (true, Some(&own), Some(":AQ==:")),
        ] {
            let received = Received {
                is_trusted,
                client_cert,
                ..received()
            };
            let mut passed = fields("client-cert: :AAAA:\nclient-cert-chain: :BBBB:");
            pass_request(&mut passed, received, Version::HTTP_11);
            let told = passed.get(CLIENT_CERT).map(|it| it.to_str().unwrap());
            assert_eq!(told, expected);
            let chain = is_trusted && client_cert.is_none();
            assert_eq!(passed.contains_key(CLIENT_CERT_CHAIN), chain);
        }
    }

    #[test]
    fn early_data_is_told_and_never_taken_back() {
        let early = Received {
            is_early: true,
            ..received()
        };
        for (given, received, expected) in [
            ("", early, Some("1")),
            ("early-data: 0", early, Some("1")),
            ("early-data: 1", received(), Some("1")),
            ("early_data: 1", received(), None),
            ("", received(), None),
        ] {
            let mut passed = fields(given);
            pass_request(&mut passed, received, Version::HTTP_11);
            let said = passed.get(&EARLY_DATA).map(|it| it.to_str().unwrap());
            assert_eq!(said, expected, "{given}");
        }
    }

    #[test]
    fn cookies_are_joined_for_http1_and_left_for_http2() {
        for (version, expected) in [(Version::HTTP_11, 1), (Version::HTTP_2, 3)] {
            let mut passed = fields("cookie: a=1\ncookie: b=2\ncookie: c=3");
            pass_request(&mut passed, received(), version);
            assert_eq!(passed.get_all(header::COOKIE).iter().count(), expected);
            if expected == 1 {
                assert_eq!(passed[header::COOKIE], "a=1; b=2; c=3");
            }
        }
    }

    #[test]
    fn a_host_that_would_end_the_quotes_is_left_out() {
        let mut passed = fields("host: a");
        passed.insert(header::HOST, HeaderValue::from_static("a\";for=evil"));
        pass_request(&mut passed, received(), Version::HTTP_11);
        assert_eq!(passed[&FORWARDED], "for=192.0.2.7;proto=https");
    }

    #[test]
    fn forwarded_lists_have_an_end() {
        let mut passed = HeaderMap::new();
        for _ in 0..1_000 {
            pass_request(
                &mut passed,
                Received {
                    is_trusted: true,
                    ..received()
                },
                Version::HTTP_11,
            );
        }
        assert!(passed[&X_FORWARDED_FOR].len() < MAX_FORWARDED + 100);
        assert!(passed[header::VIA].len() < MAX_FORWARDED + 100);
    }

    #[test]
    fn a_response_loses_what_belongs_to_the_hop_and_the_offer_of_the_upstream() {
        let mut passed = fields(
            "content-type: text/plain
            content-length: 5
            connection: close, x-secret
            keep-alive: timeout=5
            x-secret: 1
            alt-svc: h3=\":443\"
            transfer-encoding: chunked
            upgrade: h2c
            proxy-authenticate: Basic
            www-authenticate: Basic",
        );
        pass_response(&mut passed, Version::HTTP_11);
        let expected = "content-type: text/plain
            content-length: 5
            www-authenticate: Basic
            via: 1.1 altway";
        assert_eq!(lines(&passed), lines(&fields(expected)));
    }

    #[test]
    fn trailers_keep_what_is_not_of_framing() {
        let mut passed = fields(
            "grpc-status: 0
            content-length: 7
            transfer-encoding: chunked
            host: b
            x-forwarded-for: 203.0.113.1",
        );
        pass_trailers(&mut passed);
        assert_eq!(lines(&passed), ["grpc-status: 0"]);
    }

    #[test]
    fn interim_responses_pass_but_those_that_are_between_two_ends() {
        for (status, expected) in [
            (100, false),
            (101, false),
            (102, true),
            (103, true),
            (200, false),
        ] {
            assert_eq!(
                is_passed_ahead(StatusCode::from_u16(status).unwrap()),
                expected
            );
        }
    }
}
