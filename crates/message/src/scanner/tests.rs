//! Connections byte by byte: good ones of any cut, and what is refused or broken where.

use super::*;
use crate::Scheme;

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &[u8] = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nG\r\n\r\n";
const CHUNKED: &[u8] = b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
    3;x=\"y\"\r\n\r\n0\r\nA\r\n0123456789\r\n000\r\nEtag: x\r\nX: \r\n\r\n";

fn scanner() -> Scanner {
    Scanner::new(Rules::http1(Scheme::Http))
}

/// The number of good heads and the reason to refuse the next one, whatever the cuts.
fn scanned(bytes: &[u8]) -> (u64, Option<Refusal>) {
    let mut whole = scanner();
    whole.scan(bytes).unwrap();
    let result = (whole.heads(), whole.refused());
    for cut in 1..bytes.len().min(400) {
        let mut parts = scanner();
        for part in bytes.chunks(cut) {
            parts.scan(part).unwrap();
        }
        assert_eq!(
            (parts.heads(), parts.refused()),
            result,
            "in parts of {cut}"
        );
    }
    result
}

fn broken(bytes: &[u8]) -> Broken {
    let result = scanner().scan(bytes).unwrap_err();
    let mut parts = scanner();
    for (at, byte) in bytes.iter().enumerate() {
        if let Err(broken) = parts.scan(&[*byte]) {
            assert_eq!(broken.refusal, result.refusal);
            // A section is refused where it ends.
            assert!(at >= result.at, "{at} {result:?}");
            return result;
        }
    }
    panic!("not broken in parts");
}

fn chunked(content: &str) -> Vec<u8> {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    [head.as_bytes(), content.as_bytes()].concat()
}

#[test]
fn requests_behind_each_other_are_counted_whatever_their_content_looks_like() {
    assert_eq!(scanned(GET), (1, None));
    let all = [GET, POST, CHUNKED, b"\r\n\r\n", GET, CHUNKED, POST, GET].concat();
    assert_eq!(scanned(&all), (7, None));
}

#[test]
fn a_head_that_is_refused_is_known_by_its_number() {
    let bad = b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(
        scanned(&[GET, POST, bad, GET].concat()),
        (2, Some(Refusal::Fragment))
    );
}

#[test]
fn heads_that_other_parsers_repair_are_refused() {
    let cases: [(&str, Refusal); 25] = [
        ("GET / HTTP/1.1\nHost: a\r\n\r\n", Refusal::LineEnd),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", Refusal::LineEnd),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", Refusal::LineEnd),
        ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::LineEnd),
        (
            "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
            Refusal::FieldValue,
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\n X: b\r\n\r\n", Refusal::Fold),
        (" GET / HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::RequestLine),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::RequestLine),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", Refusal::RequestLine),
        ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::RequestLine),
        ("GET /\r\nHost: a\r\n\r\n", Refusal::RequestLine),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", Refusal::HttpVersion),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", Refusal::HttpVersion),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", Refusal::HttpVersion),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", Refusal::FieldName),
        ("GET / HTTP/1.1\r\n\tHost: a\r\n\r\n", Refusal::Fold),
        ("GET / HTTP/1.1\r\nHost\r\n\r\n", Refusal::FieldLine),
        ("GET / HTTP/1.1\r\n: a\r\n\r\n", Refusal::FieldName),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
            Refusal::FieldValue,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nX: \u{b}\r\n\r\n",
            Refusal::FieldValue,
        ),
        ("G@T / HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::Method),
        (
            "OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n",
            Refusal::TargetForm,
        ),
        ("GET /\u{7f} HTTP/1.1\r\nHost: a\r\n\r\n", Refusal::PathByte),
        ("GET http://a/ HTTP/1.1\r\n\r\n", Refusal::AuthorityMissing),
        ("CONNECT a:443 HTTP/1.1\r\n\r\n", Refusal::AuthorityMissing),
    ];
    for (head, refusal) in cases {
        assert_eq!(scanned(head.as_bytes()), (0, Some(refusal)), "{head:?}");
    }
    assert_eq!(scanner().scan(b"\r"), Ok(()));
    assert_eq!(
        scanned(b"\rGET / HTTP/1.1\r\n\r\n"),
        (0, Some(Refusal::Method))
    );
}

#[test]
fn chunks_are_taken_as_the_grammar_has_them() {
    for content in [
        "0\r\n\r\n",
        "1;\r\na\r\n0;a=b\r\n\r\n",
        "00001\r\na\r\n0000000000000000\r\n\r\n",
    ] {
        let input = [&chunked(content)[..], GET].concat();
        assert_eq!(scanned(&input), (2, None), "{content:?}");
    }
    for content in [
        "\r\n",
        ";\r\n",
        " 1\r\n",
        "1 \r\n",
        "1 ;a\r\n",
        "+1\r\n",
        "0x1\r\n",
        "g\r\n",
        "1\n",
        "1\r\r",
        "1;a\n",
        "1;\0\r\n",
        "1\r\nab",
        "1\r\na\n",
        "1\r\na\r0",
        "00000000000000001\r\n",
        "0\r\n\n",
        "0\r\nX: y\n",
    ] {
        let input = chunked(content);
        let head = chunked("").len();
        let broken = broken(&input);
        assert!(
            broken.at >= head && broken.at < input.len(),
            "{content:?} {broken:?}"
        );
    }
}

#[test]
fn trailers_are_fields_that_may_be_there() {
    for (trailer, refusal) in [
        ("Host: b", Refusal::Trailer),
        ("Content-Length: 5", Refusal::Trailer),
        ("X : y", Refusal::FieldName),
        ("X\0: y", Refusal::FieldName),
        ("X: \u{1}", Refusal::FieldValue),
        ("X: y\r\n z", Refusal::Fold),
        ("X", Refusal::FieldLine),
    ] {
        let input = chunked(&format!("0\r\n{trailer}\r\n\r\n"));
        assert_eq!(broken(&input).refusal, refusal, "{trailer:?}");
    }
}

#[test]
fn what_is_kept_is_bounded() {
    let mut scanner = scanner();
    scanner.scan(b"GET / HTTP/1.1\r\nHost: a\r\n").unwrap();
    for _ in 0..MAX_HEAD {
        scanner.scan(b"X: yyyyyyyy").unwrap();
        assert!(scanner.kept.len() <= MAX_HEAD);
    }
    assert_eq!(scanner.refused(), Some(Refusal::TooLarge));
    let mut scanner = self::scanner();
    scanner.scan(&chunked("0\r\n")).unwrap();
    let endless = std::iter::repeat_with(|| scanner.scan(b"X: y\r\n"));
    let broken = endless.take(MAX_TRAILERS).find_map(Result::err);
    assert_eq!(broken.unwrap().refusal, Refusal::TooLarge);
    let mut scanner = self::scanner();
    for _ in 0..100_000 {
        scanner.scan(b"\r\n").unwrap();
    }
    assert_eq!((scanner.kept.len(), scanner.heads()), (0, 0));
}

#[test]
fn a_head_with_too_many_fields_is_refused_before_the_first_of_them() {
    let head = |fields: usize| {
        let fields = "X: y\r\n".repeat(fields - 1);
        format!("\r\nGET / HTTP/1.1\r\nHost: a\r\n{fields}").into_bytes()
    };
    let most = [head(MAX_FIELDS), b"\r\n".to_vec()].concat();
    let over = [&most[..], &head(MAX_FIELDS + 7), b"\r\n"].concat();
    let at = most.len() + head(MAX_FIELDS).len();
    for len in [1, 3, 1000, over.len()] {
        let (mut scanner, mut read) = (scanner(), 0);
        let broken = over.chunks(len).find_map(|part| {
            let broken = scanner.scan(part).err();
            read += broken.map_or(part.len(), |broken| broken.at);
            broken
        });
        assert_eq!(broken.unwrap().refusal, Refusal::TooLarge);
        assert_eq!((read, scanner.heads()), (at, 1), "in parts of {len}");
        assert_eq!(scanner.refused(), Some(Refusal::TooLarge));
    }
}
