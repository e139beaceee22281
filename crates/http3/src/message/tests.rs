//! Messages that RFC 9114 section 4 allows, and ones that break its rules.

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
    let mut section = encoder.section();
    for (name, value) in fields {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        encoder.field(&mut section, name, value, Indexing::Repeating);
    }
    encoder.finish(&section, 0)
}

fn decoded(fields: &[(&str, &str)]) -> Result<Fields, HeadError> {
    Fields::decode(&mut Decoder::new(0), 0, &section(fields), LIMIT).map(|(fields, _)| fields)
}

fn request(fields: &[(&str, &str)]) -> Result<http::Request<()>, HeadError> {
    Ok(decoded(fields)?.into_request(false)?)
}

fn sent(head: &http::Request<()>) -> Vec<u8> {
    let mut encoder = Encoder::new();
    let section = encode_request(head, &mut encoder).unwrap();
    encoder.finish(&section, 0)
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
    assert_eq!(sent(&head), section(&fields));
    assert_malformed(&[&fields[..], &[(":path", "/")]].concat());
}

#[test]
fn extended_connect_names_its_protocol_where_that_was_announced() {
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "a.example"),
        (":path", "/chat"),
    ];
    assert_malformed(&fields);
    let head = decoded(&fields).unwrap().into_request(true).unwrap();
    assert_eq!(head.uri(), "https://a.example/chat");
    let protocol = head.extensions().get::<Protocol>().unwrap();
    assert_eq!(protocol.as_str(), "websocket");
    assert_eq!(sent(&head), section(&fields));
    for wrong in [
        [&fields[..2], &fields[3..4]].concat(),
        with((":protocol", "websocket")),
        [&[fields[0], (":protocol", "")], &fields[2..]].concat(),
    ] {
        assert!(decoded(&wrong).unwrap().into_request(true).is_err());
    }
    let mut get = http::Request::get("https://a.example/").body(()).unwrap();
    get.extensions_mut().insert(Protocol::new("websocket"));
    assert!(encode_request(&get, &mut Encoder::new()).is_err());
}

#[test]
fn cookies_are_joined() {
    let mut fields = with(("cookie", "a=1"));
    fields.extend([("accept", "*/*"), ("cookie", "b=2")]);
    let head = request(&fields).unwrap();
    let cookies: Vec<_> = head.headers().get_all("cookie").iter().collect();
    assert_eq!(cookies, ["a=1; b=2"]);
    assert_malformed(&[&GET[..3], &[("cookie", ""), GET[3]]].concat());
}

#[test]
fn a_response_needs_one_status_of_three_digits() {
    let response = |fields: &[_]| decoded(fields).and_then(|it| Ok(it.into_response()?));
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
    let trailers = decoded(&[("a", "b")]).unwrap().into_trailers().unwrap();
    assert_eq!(trailers["a"], "b");
    let sent = encode_trailers(&trailers, &mut Encoder::new());
    assert_eq!(sent.size(), 34);
    let wrong = decoded(&[(":status", "200")]).unwrap();
    assert_eq!(wrong.into_trailers(), Err(Malformed));
}

#[test]
fn a_content_length_is_one_plain_number() {
    let length = |fields: &[_]| decoded(fields).map(|fields| fields.content_length());
    assert_eq!(length(&with(("content-length", "5"))).unwrap(), Some(5));
    assert_eq!(length(&GET).unwrap(), None);
    assert_malformed(&[&GET[..], &[("content-length", "5"); 2]].concat());
}

#[test]
fn what_is_well_formed_and_refused_is_the_applications_to_answer() {
    for (fields, refusal) in [
        (
            [&without(":scheme")[..], &[(":scheme", "http")]].concat(),
            Refusal::Misdirected,
        ),
        (
            [&GET[..], &[("range", "bytes=0-"); 2]].concat(),
            Refusal::Repeated,
        ),
    ] {
        let request = request(&fields).unwrap();
        assert_eq!(request.extensions().get(), Some(&refusal));
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
    assert_eq!(sent(&head), section(&GET));
    let relative = http::Request::builder().uri("/x").body(()).unwrap();
    assert!(matches!(
        encode_request(&relative, &mut Encoder::new()),
        Err(Error::InvalidMessage { .. })
    ));
}

#[test]
fn a_response_is_sent_with_its_status_first_and_without_padding() {
    let head = http::Response::builder()
        .status(204)
        .header("server", " x ")
        .body(())
        .unwrap();
    let expected = section(&[(":status", "204"), ("server", "x")]);
    let mut encoder = Encoder::new();
    let section = encode_response(&head, &mut encoder).unwrap();
    assert_eq!(encoder.finish(&section, 0), expected);
    let switching = http::Response::builder().status(101).body(()).unwrap();
    assert!(encode_response(&switching, &mut encoder).is_err());
}

#[track_caller]
fn assert_malformed(fields: &[(&str, &str)]) {
    assert_eq!(
        request(fields).unwrap_err(),
        HeadError::Malformed,
        "{fields:?}"
    );
}
