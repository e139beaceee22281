//! Tests of the heads that are written and read.

use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Result<Option<(ResponseHead, usize)>, BadHead> {
    ResponseHead::parse(&Bytes::copy_from_slice(text.as_bytes()))
}

fn extent(method: &Method, text: &str) -> Result<Extent, BadHead> {
    parse(text)?.unwrap().0.extent(*method == Method::HEAD)
}

#[test]
fn a_request_has_its_host_first_and_one_length() {
    let fields: HeaderMap = [
        ("accept", "*/*"),
        ("content-length", "7"),
        ("host", "a.test"),
    ]
    .into_iter()
    .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
    .collect();
    let write = |method, length| {
        let mut head = Vec::new();
        write_request(&mut head, method, "/a?b", Fields::Made(&fields), length);
        String::from_utf8(head).unwrap()
    };
    assert_eq!(
        write(&Method::GET, ContentLength::None),
        "GET /a?b HTTP/1.1\r\nhost: a.test\r\naccept: */*\r\n\r\n"
    );
    assert_eq!(
        write(&Method::POST, ContentLength::None),
        "POST /a?b HTTP/1.1\r\nhost: a.test\r\naccept: */*\r\ncontent-length: 0\r\n\r\n"
    );
    let known = write(&Method::PUT, ContentLength::Known(7));
    assert!(known.ends_with("\r\naccept: */*\r\ncontent-length: 7\r\n\r\n"));
    let unknown = write(&Method::PUT, ContentLength::Unknown);
    assert!(unknown.ends_with("\r\naccept: */*\r\ntransfer-encoding: chunked\r\n\r\n"));
}

#[test]
fn a_client_s_fields_are_written_as_they_pass() {
    let fields: HeaderMap = [
        ("accept", "*/*"),
        ("connection", "x-hop"),
        ("content-length", "0"),
        ("expect", "100-continue"),
        ("host", "a.test"),
        ("x-forwarded-for", "203.0.113.1"),
        ("x-hop", "1"),
    ]
    .into_iter()
    .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
    .collect();
    let received = Received {
        peer: std::net::Ipv4Addr::LOCALHOST.into(),
        port: 1,
        client: None,
        local: None,
        is_trusted: false,
        scheme: "https",
        version: Version::HTTP_2,
        is_early: false,
        began: std::time::Instant::now(),
        client_cert: None,
    };
    let host = HeaderValue::from_static("b.test");
    let passed = Fields::ForwardedHead(ForwardedHead {
        fields: &fields,
        received,
        host: Some(&host),
    });
    let mut head = Vec::new();
    let none = ContentLength::None;
    write_request(&mut head, &Method::GET, "/", passed, none);
    let mut map = fields.clone();
    heads::pass_request(&mut map, received, Version::HTTP_11);
    map.insert(HOST, host);
    map.remove(EXPECT);
    let mut made = Vec::new();
    write_request(&mut made, &Method::GET, "/", Fields::Made(&map), none);
    let lines = |head: &[u8]| {
        let text = String::from_utf8(head.to_vec()).unwrap();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines[1], "host: b.test");
        lines.sort();
        lines
    };
    assert_eq!(lines(&head), lines(&made));
    assert!(!lines(&head).iter().any(|line| line.starts_with("x-hop")));
}

#[test]
fn a_head_is_read_when_it_is_whole() {
    let text = "HTTP/1.1 200 Fine\r\nContent-Length: 5\r\nX: y\r\n\r\n";
    for cut in 0..text.len() {
        assert!(parse(&text[..cut]).unwrap().is_none(), "{cut}");
    }
    let (head, len) = parse(&format!("{text}hello")).unwrap().unwrap();
    assert_eq!(
        (head.status, head.version),
        (StatusCode::OK, Version::HTTP_11)
    );
    assert_eq!(head.fields["x"], "y");
    assert_eq!(len, text.len());
    assert!(head.keeps_connection().is_some());
}

#[test]
fn a_head_has_as_many_fields_as_it_may() {
    let many = |count| {
        let lines: String = (0..count).map(|n| format!("x-{n}: {n}\r\n")).collect();
        format!("HTTP/1.1 200 OK\r\n{lines}\r\n")
    };
    for count in [USUAL_FIELDS, USUAL_FIELDS + 1, MAX_FIELDS] {
        let text = many(count);
        let (head, len) = parse(&text).unwrap().unwrap();
        assert_eq!((head.fields.len(), len), (count, text.len()));
        assert_eq!(
            head.fields[format!("x-{}", count - 1)],
            format!("{}", count - 1)
        );
        assert!(parse(&text[..text.len() - 1]).unwrap().is_none());
    }
    assert!(parse(&many(MAX_FIELDS + 1)).is_err());
}

#[test]
fn what_is_no_head_is_malformed() {
    let many = format!(
        "HTTP/1.1 200 OK\r\n{}\r\n",
        "a: b\r\n".repeat(MAX_FIELDS + 1)
    );
    for text in [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX Y: z\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: z\r\n\r\n",
        "HTTP/1.1 200 OK\r\n X: y\r\n\r\n",
        &many,
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_field_that_is_none_is_left_out_and_the_connection_is_not_used_again() {
    let text =
        "HTTP/1.1 200 OK\r\nX(Y): z\r\nA: b\r\n c\r\nD: e\u{1}f\r\nContent-Length: 2\r\n\r\nok";
    for cut in 0..text.len() - 2 {
        assert!(parse(&text[..cut]).unwrap().is_none(), "{cut}");
    }
    let (mut head, len) = parse(text).unwrap().unwrap();
    assert_eq!(len, text.len() - 2);
    assert_eq!(head.extent(false), Ok(Extent::Length(2)));
    assert_eq!(head.keeps_connection(), None);
    let fields = head.into_stripped();
    assert_eq!(fields["a"], "b  c");
    assert_eq!(fields["d"], "e f");
    assert_eq!(fields.len(), 3);
}

#[test]
fn whitespace_before_a_colon_does_not_pass() {
    let text = "HTTP/1.1 200 OK\r\nX : y\r\nTransfer-Encoding \t: chunked\r\n\r\n";
    let (mut head, _) = parse(text).unwrap().unwrap();
    assert_eq!(head.extent(false), Ok(Extent::Chunked));
    let fields = head.into_stripped();
    let fields: Vec<_> = fields.iter().collect();
    assert_eq!(
        fields,
        [(&"x".parse().unwrap(), &HeaderValue::from_static("y"))]
    );
}

/// Cases, one a line: method, status, lines of the head, extent.
const EXTENTS: &[(&str, u16, &str, Result<Extent, BadHead>)] = &[
    ("GET", 200, "content-length: 5", Ok(Extent::Length(5))),
    (
        "GET",
        200,
        "content-length: 5|content-length: 5",
        Ok(Extent::Length(5)),
    ),
    (
        "GET",
        200,
        "content-length: 5|content-length: 6",
        Err(BadHead),
    ),
    ("GET", 200, "content-length: 5, 5", Err(BadHead)),
    ("GET", 200, "content-length: +5", Err(BadHead)),
    ("GET", 200, "content-length: -1", Err(BadHead)),
    (
        "GET",
        200,
        "transfer-encoding: Chunked",
        Ok(Extent::Chunked),
    ),
    ("GET", 200, "transfer-encoding: gzip, chunked", Err(BadHead)),
    ("GET", 200, "transfer-encoding: gzip", Err(BadHead)),
    (
        "GET",
        200,
        "transfer-encoding: chunked|content-length: 5",
        Err(BadHead),
    ),
    (
        "GET",
        200,
        "transfer-encoding: chunked|transfer-encoding: chunked",
        Err(BadHead),
    ),
    ("GET", 200, "x: y", Ok(Extent::ToTheEnd)),
    ("HEAD", 200, "content-length: 5", Ok(Extent::Length(0))),
    (
        "HEAD",
        200,
        "transfer-encoding: chunked",
        Ok(Extent::Length(0)),
    ),
    ("GET", 204, "x: y", Ok(Extent::Length(0))),
    ("GET", 304, "content-length: 5", Ok(Extent::Length(0))),
];

#[test]
fn the_extent_of_content_has_one_reading() {
    for (method, status, lines, expected) in EXTENTS {
        let lines = lines.replace('|', "\r\n");
        let text = format!("HTTP/1.1 {status} It\r\n{lines}\r\n\r\n");
        let method = method.parse().unwrap();
        assert_eq!(extent(&method, &text), *expected, "{text}");
    }
    let old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(extent(&Method::GET, old), Err(BadHead));
}

#[test]
fn a_length_that_is_said_twice_is_passed_once() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n";
    for is_head in [false, true] {
        let mut head = parse(text).unwrap().unwrap().0;
        head.extent(is_head).unwrap();
        assert_eq!(head.fields.get_all(CONTENT_LENGTH).iter().count(), 1);
    }
}

#[test]
fn what_is_no_length_does_not_pass_with_a_head_without_content() {
    for lines in [
        "Content-Length: -1",
        "Content-Length: 5\r\nContent-Length: 6",
    ] {
        let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n");
        let mut head = parse(&text).unwrap().unwrap().0;
        assert_eq!(head.extent(true), Ok(Extent::Length(0)));
        assert!(!head.fields.contains_key(CONTENT_LENGTH), "{lines}");
    }
}

#[test]
fn fields_of_the_hop_are_gone_when_the_head_passes() {
    for (lines, left) in [
        ("connection: close|x: y|alt-svc: clear", "x"),
        (
            "keep-alive: 5|transfer-encoding: chunked|x: y|upgrade: h2c",
            "x",
        ),
        (
            "x: y|x-hop: 1|connection: keep-alive, x-hop|alt-svc: clear",
            "x",
        ),
        (
            "transfer-encoding: chunked|connection: x-hop|x: y|te: a",
            "x",
        ),
    ] {
        let lines = lines.replace('|', "\r\n");
        let head = parse(&format!("HTTP/1.1 200 It\r\n{lines}\r\n\r\n"));
        let fields = head.unwrap().unwrap().0.into_stripped();
        let names: Vec<_> = fields.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, [left], "{lines}");
    }
}

#[test]
fn the_server_says_whether_the_connection_stays() {
    for (text, stays) in [
        ("HTTP/1.1 200 OK\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n", false),
        (
            "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
            false,
        ),
        ("HTTP/1.0 200 OK\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n", true),
    ] {
        assert_eq!(
            parse(text).unwrap().unwrap().0.keeps_connection().is_some(),
            stays,
            "{text}"
        );
    }
}

proptest! {
    #[test]
    fn any_input_is_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let begun = [b"HTTP/1.1 200 OK\r\n", &text[..]].concat();
        for input in [Bytes::from(text), Bytes::from(begun)] {
            if let Ok(Some((mut head, len))) = ResponseHead::parse(&input) {
                prop_assert!(len <= input.len());
                let _ = head.extent(false);
            }
        }
    }
}
