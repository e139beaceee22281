//! Tests of what passes.

use super::*;

const CLIENT_CERT_CHAIN: HeaderName = HeaderName::from_static("client-cert-chain");
const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

fn received() -> Received<'static> {
    Received {
        peer: PEER,
        port: 1,
        client: None,
        local: None,
        is_trusted: false,
        scheme: "https",
        version: Version::HTTP_2,
        is_early: false,
        began: Instant::now(),
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
    let line =
        |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
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
        x-forwarded-prefix: /admin
        x-forwarded-scheme: https
        x-forwarded-ssl: on
        x_forwarded_ssl: on
        x-real-ip: 203.0.113.1
        client-ip: 203.0.113.1
        proxy: http://203.0.113.1
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
        client: None,
        local: None,
        scheme: "http",
        version: Version::HTTP_11,
        is_early: false,
        began: Instant::now(),
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
        trailer: x-sum
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
        began: Instant::now(),
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
fn a_host_that_would_end_the_quotes_is_left_out() {
    let mut passed = fields("host: a");
    passed.insert(header::HOST, HeaderValue::from_static("a\";for=evil"));
    pass_request(&mut passed, received(), Version::HTTP_11);
    assert_eq!(passed[&FORWARDED], "for=192.0.2.7;proto=https");
}

#[test]
fn a_request_that_has_come_through_servers_of_this_kind_too_often_goes_round() {
    let others = "1.1 first, 1.1 not-altway, 2 altway.example (altway), ".repeat(40);
    let passed = |times: usize| fields(&format!("via: {others}{}", "3 altway,".repeat(times)));
    assert!(!is_looping(&HeaderMap::new()));
    assert!(!is_looping(&passed(15)));
    assert!(is_looping(&passed(16)));
    let mut in_lines = passed(15);
    in_lines.append(header::VIA, HeaderValue::from_static("1.1 altway"));
    assert!(is_looping(&in_lines));
    let mut own = HeaderMap::new();
    for _ in 0..16 {
        assert!(!is_looping(&own));
        pass_request(&mut own, received(), Version::HTTP_11);
    }
    assert!(is_looping(&own));
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
fn of_a_field_that_is_too_long_what_the_nearest_proxies_have_said_stays() {
    let trusted = Received {
        is_trusted: true,
        ..received()
    };
    for junk in ["198.51.100.1", "\"198.51.100.1", "\"\\"] {
        let mut passed = HeaderMap::new();
        let long = format!("{}{junk}, 203.0.113.9", "x, ".repeat(MAX_FORWARDED));
        passed.insert(X_FORWARDED_FOR, long.parse().unwrap());
        pass_request(&mut passed, trusted, Version::HTTP_11);
        let said = passed[&X_FORWARDED_FOR].to_str().unwrap();
        assert!(said.ends_with(&format!("{junk}, 203.0.113.9, 192.0.2.7")));
        assert!(said.starts_with("x, ") && said.len() < MAX_FORWARDED + 100);
    }
    // A comma within quotes is none between members.
    let mut passed = HeaderMap::new();
    let long = format!("for=\"{}\", for=203.0.113.9", "_a, ".repeat(MAX_FORWARDED));
    passed.insert(FORWARDED, long.parse().unwrap());
    pass_request(&mut passed, trusted, Version::HTTP_11);
    let expected = "for=203.0.113.9, for=192.0.2.7;proto=https";
    assert_eq!(passed[&FORWARDED], expected);
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
        trailer: x-sum
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

#[test]
fn addresses_are_written_as_they_are_displayed() {
    let v4 = (0..=255_u8).flat_map(|it| [[it, 0, 10, 99], [1, it, 100, it], [9, 109, 0, it]]);
    let v6 = [
        "::",
        "2001:db8::1",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "::ffff:255.255.255.255",
    ];
    let v6 = v6.map(|it| it.parse::<IpAddr>().unwrap());
    for address in v4.map(IpAddr::from).chain(v6) {
        let text = AddressText::of(address);
        assert_eq!(text.as_bytes(), address.to_string().as_bytes());
    }
}
