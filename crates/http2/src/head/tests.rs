//! The rules of RFC 9113 section 8, one by one.

use super::*;

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.example"),
    (":path", "/x?y"),
];

const RULES: Rules = Rules {
    scheme: None,
    extended_connect: false,
};

fn filled(fields: &[(&str, &str)]) -> HeadBuffer {
    let mut buffer = HeadBuffer::default();
    buffer.begin();
    fill(&mut buffer, fields);
    buffer
}

fn fill(buffer: &mut HeadBuffer, fields: &[(&str, &str)]) {
    let mut filling = Filling {
        buffer,
        limit: 10_000,
    };
    for (name, value) in fields {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        filling.field(FieldKind::of(name).with_value(value), name, value);
    }
}

fn is_request(fields: &[(&str, &str)]) -> bool {
    filled(fields).check_request(RULES).is_ok()
}

fn with(extra: (&'static str, &'static str)) -> Vec<(&'static str, &'static str)> {
    [&GET[..], &[extra]].concat()
}

fn without(name: &str) -> Vec<(&'static str, &'static str)> {
    GET.into_iter().filter(|field| field.0 != name).collect()
}

#[test]
fn a_request_becomes_method_absolute_uri_and_fields() {
    let fields = [
        &GET[..],
        &[("accept", "*/*"), ("cookie", "a=1"), ("cookie", "b=2")],
    ]
    .concat();
    let mut buffer = filled(&fields);
    buffer.check_request(RULES).unwrap();
    let head = buffer.view();
    assert_eq!(head.method(), Some(&b"GET"[..]));
    assert_eq!(head.field("accept"), Some(&b"*/*"[..]));
    assert_eq!(head.fields().count(), 3);
    let request = head.to_request().unwrap();
    assert_eq!(request.uri(), "https://a.example/x?y");
    assert_eq!(request.version(), http::Version::HTTP_2);
    assert_eq!(request.headers()["cookie"], "a=1; b=2", "crumbs are joined");
}

#[test]
fn each_message_has_its_own_id_and_nothing_of_the_one_before() {
    let mut buffer = filled(&with(("content-length", "5")));
    let first = buffer.view().id();
    buffer.begin();
    fill(&mut buffer, &GET);
    assert_ne!(buffer.view().id(), first);
    assert_eq!(buffer.content_length(), None);
    buffer.check_request(RULES).unwrap();
}

#[test]
fn host_stands_in_for_a_missing_authority_and_must_agree_with_one() {
    let mut fields = without(":authority");
    let mut buffer = filled(&fields);
    buffer.check_request(RULES).unwrap();
    assert_eq!(buffer.view().refusal(), Some(Refusal::AuthorityMissing));
    assert_eq!(buffer.view().to_request().unwrap().uri(), "/x?y");
    fields.push(("host", "b.example:81"));
    let request = filled(&fields).view().to_request().unwrap();
    assert_eq!(request.uri(), "https://b.example:81/x?y");
    assert!(is_request(&with(("host", "A.example"))));
    assert!(!is_request(&with(("host", "c.example"))));
    fields.push(("host", "b.example:81"));
    assert!(!is_request(&fields), "two hosts");
}

#[test]
fn incomplete_repeated_unknown_or_late_pseudo_fields_are_malformed() {
    assert!(is_request(&GET));
    for name in [":method", ":scheme", ":path"] {
        assert!(!is_request(&without(name)), "{name}");
    }
    for extra in [
        (":method", "GET"),
        (":path", "/"),
        (":status", "200"),
        (":protocol", "websocket"),
        (":other", ""),
        (":", ""),
    ] {
        assert!(!is_request(&with(extra)), "{extra:?}");
    }
    let late = [&[("accept", "*/*")], &GET[..]].concat();
    assert!(!is_request(&late));
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
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("content-length", "+5"),
        ("content-length", "5, 5"),
        ("content-length", ""),
        ("content-length", "99999999999999999999"),
    ] {
        assert!(!is_request(&with(extra)), "{extra:?}");
    }
    assert!(is_request(&with(("te", "trailers"))));
}

#[test]
fn bad_paths_and_authorities_are_malformed() {
    for path in ["", "x", "*"] {
        let fields = [&without(":path")[..], &[(":path", path)]].concat();
        assert!(!is_request(&fields), "{path}");
    }
    let fields = [
        &without(":authority")[..],
        &[(":authority", "user@a.example")],
    ]
    .concat();
    assert!(!is_request(&fields));
    let fields = [&without(":path")[..], &[(":path", "/a#b")]].concat();
    assert!(!is_request(&fields));
}

#[test]
fn what_is_well_formed_and_refused_is_the_applications_to_answer() {
    let fields = with(("range", "bytes=0-"));
    assert!(is_request(&fields));
    let twice = [&fields[..], &[("range", "bytes=1-")]].concat();
    let mut buffer = filled(&twice);
    buffer.check_request(RULES).unwrap();
    let request = buffer.view().to_request().unwrap();
    let refusal = request.extensions().get::<Refusal>();
    assert_eq!(refusal, Some(&Refusal::Repeated));
}

#[test]
fn options_may_ask_about_the_server_as_a_whole() {
    let fields = [
        (":method", "OPTIONS"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "*"),
    ];
    assert!(is_request(&fields));
    assert_eq!(
        filled(&fields).view().to_request().unwrap().uri().path(),
        "*"
    );
}

#[test]
fn connect_has_an_authority_alone_unless_it_is_extended() {
    let connect = [(":method", "CONNECT"), (":authority", "a.example:443")];
    assert!(is_request(&connect));
    assert!(!is_request(&connect[..1]));
    assert!(!is_request(&[&connect[..], &[(":path", "/")]].concat()));
    let extended = [
        &connect[..],
        &[
            (":protocol", "websocket"),
            (":scheme", "https"),
            (":path", "/"),
        ],
    ]
    .concat();
    let extended_connect = Rules {
        extended_connect: true,
        ..RULES
    };
    assert!(filled(&extended).check_request(extended_connect).is_ok());
    assert!(filled(&extended).check_request(RULES).is_err());
    assert_eq!(filled(&extended).view().protocol(), Some(&b"websocket"[..]));
}

#[test]
fn a_response_needs_one_status_of_three_digits() {
    let status = |fields: &[_]| filled(fields).check_response();
    assert_eq!(status(&[(":status", "404")]), Ok(404));
    for fields in [
        &[][..],
        &[(":status", "20")],
        &[(":status", "099")],
        &[(":status", "101")],
        &[(":status", "200"), (":status", "200")],
        &[(":status", "200"), (":path", "/")],
    ] {
        assert!(status(fields).is_err(), "{fields:?}");
    }
}

#[test]
fn trailers_have_no_pseudo_fields() {
    assert_eq!(filled(&[("a", "b")]).check_trailers(), Ok(()));
    assert_eq!(
        filled(&[(":status", "200")]).check_trailers(),
        Err(Refusal::PseudoField)
    );
}

#[test]
fn a_list_above_the_limit_is_counted_and_not_kept() {
    let mut buffer = HeadBuffer::default();
    buffer.begin();
    let mut filling = Filling {
        buffer: &mut buffer,
        limit: 100,
    };
    let value = [b'v'; 30];
    for _ in 0..3 {
        filling.field(FieldKind::Regular, b"name", &value);
    }
    assert_eq!(buffer.size(), 3 * 66);
    assert_eq!(buffer.view().fields().count(), 1);
}
