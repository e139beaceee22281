//! Requests that two parsers could read differently, byte by byte over raw connections: the table of
//! `altway-message` over the three protocols, and what only HTTP/1.1 can write.

use crate::common::{Running, raw::Raw, soon};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

#[path = "../../../message/tests/cases/head.rs"]
mod head;

use head::{Abstract, parse, table};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// The verdict of a protocol on each case.
fn cases(protocol: usize) -> impl Iterator<Item = (Abstract, &'static str, &'static str)> {
    table().map(move |(text, verdicts)| {
        let expected = verdicts.split(' ').nth(protocol).unwrap();
        (parse(text), expected, text)
    })
}

fn has(head: &Abstract, name: &str) -> bool {
    head.fields.iter().any(|(it, _)| it == name.as_bytes())
}

/// An accepted request has some answer of the folder's; a refused one has its own.
#[track_caller]
fn assert_verdict(status: &str, expected: &str, case: &str) {
    match expected {
        "ok" => assert!(
            matches!(status, "200" | "204" | "404" | "405" | "206"),
            "{status}: {case}"
        ),
        expected => assert_eq!(status, expected, "{case}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_case_of_the_table_has_its_verdict_over_http1() {
    let server = Running::tls(|_| {});
    for (head, expected, text) in cases(0) {
        let Some(mut bytes) = head.raw() else {
            continue;
        };
        if has(&head, "content-length") {
            bytes.extend(b"hello");
        } else if has(&head, "transfer-encoding") {
            bytes.extend(b"0\r\n\r\n");
        }
        let client = server.connect_tls(&[b"http/1.1"]).await;
        let answer = soon(exchange(client, &bytes)).await;
        assert_verdict(&statuses(&answer).remove(0), expected, text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_case_of_the_table_has_its_verdict_over_http2() {
    let server = Running::tls(|_| {});
    for (head, expected, text) in cases(1) {
        let block = literals(&head);
        let body = has(&head, "content-length");
        let mut bytes = [PREFACE, &frame(1, 4 | u8::from(!body), &block)].concat();
        if body {
            bytes.extend(frame(0, 1, b"hello"));
        }
        let mut client = server.connect_tls(&[b"h2"]).await;
        client.write_all(&bytes).await.unwrap();
        assert_verdict(&soon(http2_answer(client)).await, expected, text);
    }
}

#[test]
fn each_case_of_the_table_has_its_verdict_over_http3() {
    let server = Running::tls(|_| {});
    let mut client = Raw::new(&server);
    for (head, expected, text) in cases(2) {
        let mut bytes = http3_head(&head);
        if has(&head, "content-length") {
            bytes.extend(b"\0\x05hello");
        }
        let stream = client.ask(&bytes);
        let status = match client.answer_or_reset(stream) {
            Ok(answer) => http3_status(&answer),
            // RFC 9114 section 8.1: H3_MESSAGE_ERROR.
            Err(0x10e) => "malformed".into(),
            Err(code) => format!("reset with {code:#x}"),
        };
        assert_verdict(&status, expected, text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_request_is_counted_as_refused_over_every_protocol() {
    let server = Running::tls(|_| {});
    let head = parse("GET https localhost /a#b");
    let client = server.connect_tls(&[b"http/1.1"]).await;
    let answer = soon(exchange(client, &head.raw().unwrap())).await;
    assert_eq!(statuses(&answer), ["400"]);
    let mut client = server.connect_tls(&[b"h2"]).await;
    let request = [PREFACE, &frame(1, 5, &literals(&head))].concat();
    client.write_all(&request).await.unwrap();
    assert_eq!(soon(http2_answer(client)).await, "malformed");
    let mut client = Raw::new(&server);
    let stream = client.ask(&http3_head(&head));
    assert_eq!(client.answer_or_reset(stream), Err(0x10e));
    let counted = server.monitor().metrics().incidents;
    assert_eq!(counted, [("refused request", 3)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raw_requests_of_http1_have_one_meaning_or_none() {
    let server = Running::clear(|_| {});
    for (status, bytes) in [
        ("200", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("200", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("200", "GET / HTTP/1.0\r\n\r\n"),
        ("200", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("200", "GET http://a:80/ HTTP/1.1\r\nHost: A\r\n\r\n"),
        ("200", "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("200", "GET http://a?x HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("204", "OPTIONS http://a?x HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("204", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("400", "GET /?q#x HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("400", "GET /#x HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("400", "GET http://a/#x HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("400", "GET http://a?x#y HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("400", "GET ?x HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("400", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("400", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("421", "GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("400", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("400", "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("400", "GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("400", "GET / HTTP/1.1\r\n\r\n"),
        ("400", "GET http://a/ HTTP/1.1\r\n\r\n"),
        ("200", "GET http://a/ HTTP/1.0\r\n\r\n"),
        ("400", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        ("400", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
        ("400", "GET / HTTP/1.1\nHost: a\r\n\r\n"),
        ("400", "GET / HTTP/1.1\r\nHost: a\n\r\n"),
        ("400", "GET / HTTP/1.1\r\nHost: a\r\n\n"),
        ("400", "GET / HTTP/1.1\nHost: a\n\n"),
        ("400", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("400", "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n"),
        ("400", "GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
        ("400", "GET / HTTP/1.1\r\nHost: a\r\nX: \u{1}\r\n\r\n"),
        (
            "400",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        ),
        (
            "400",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
        ),
        (
            "400",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "501",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "400",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "405",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
    ] {
        let answer = soon(exchange(server.connect().await, bytes.as_bytes())).await;
        assert_eq!(statuses(&answer), [status], "{bytes:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_proxy_that_terminates_tls_requests_are_of_the_scheme_https() {
    let (clear, behind) = (Running::clear(|_| {}), Running::behind_tls_proxy());
    for (server, http, https) in [(clear, "200", "421"), (behind, "421", "200")] {
        for (expected, scheme) in [(http, "http"), (https, "https")] {
            let bytes = format!("GET {scheme}://a/ HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = soon(exchange(server.connect().await, bytes.as_bytes())).await;
            assert_eq!(statuses(&answer), [expected], "HTTP/1.1 {scheme}");
            let head = parse(if scheme == "http" {
                "GET http a /"
            } else {
                "GET https a /"
            });
            let mut client = server.connect().await;
            let request = frame(1, 5, &literals(&head));
            client
                .write_all(&[PREFACE, &request].concat())
                .await
                .unwrap();
            assert_eq!(soon(http2_answer(client)).await, expected, "h2c {scheme}");
        }
        let origin_form = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let answer = soon(exchange(server.connect().await, origin_form.as_bytes())).await;
        assert_eq!(statuses(&answer), ["200"], "it names no scheme");
    }
}

/// A request that hides behind a message which two parsers end at different places is never answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_smuggled_behind_a_request() {
    let server = Running::clear(|_| {});
    let good = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n";
    for (expected, first) in [
        (&["200", "200"][..], good.to_owned()),
        // Nobody reads the content, so that the answer is the connection's last.
        (
            &["405"],
            format!("{chunked}\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n"),
        ),
        (
            &["400"],
            format!("{chunked}Content-Length: 5\r\n\r\n0\r\n\r\n"),
        ),
        (&["400"], "GET /#x HTTP/1.1\r\nHost: a\r\n\r\n".into()),
        (
            &["200", "400"],
            format!("{good}GET / HTTP/1.1\nHost: a\n\n"),
        ),
    ] {
        let answer = soon(exchange(
            server.connect().await,
            [&first, good].concat().as_bytes(),
        ))
        .await;
        assert_eq!(statuses(&answer), expected, "{first:?}");
    }
    // Broken content ends the connection, whatever was said of the request.
    for content in [
        "0\r\nX: y\n\n",
        "0\n\n",
        "1 \r\na\r\n0\r\n\r\n",
        "0\r\nHost: b\r\n\r\n",
    ] {
        let bytes = format!("{chunked}\r\n{content}{good}");
        let answer = soon(exchange(server.connect().await, bytes.as_bytes())).await;
        assert!(
            !statuses(&answer).contains(&"200".to_owned()),
            "{content:?}"
        );
    }
}

/// All that the server says until it closes, or the client has waited for long enough.
async fn exchange(mut client: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) -> Vec<u8> {
    // A server that refuses may close before it has read all.
    let _ = client.write_all(bytes).await;
    let _ = client.flush().await;
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    let patience = std::time::Duration::from_millis(400);
    while let Ok(Ok(1..)) = {
        let read = tokio::time::timeout(patience, client.read(&mut buffer)).await;
        if let Ok(Ok(len)) = read {
            answer.extend_from_slice(&buffer[..len]);
        }
        read
    } {}
    answer
}

fn statuses(answer: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(answer);
    let parts = text.split("HTTP/1.").skip(1);
    parts.map(|part| part[2..5].to_owned()).collect()
}

/// A field block of HPACK's literals alone.
fn literals(head: &Abstract) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in head.lines() {
        block.extend([&[0, u8::try_from(name.len()).unwrap()], name].concat());
        block.extend([&[u8::try_from(value.len()).unwrap()], value].concat());
    }
    block
}

/// A HEADERS frame of QPACK's literals alone.
fn http3_head(head: &Abstract) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in head.lines() {
        prefixed(0x20, 3, name, &mut section);
        prefixed(0, 7, value, &mut section);
    }
    let len = u16::try_from(section.len()).unwrap() | 0x4000;
    [&[1][..], &len.to_be_bytes(), &section].concat()
}

pub(crate) fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let len = u8::try_from(payload.len()).unwrap();
    [&[0, 0, len, kind, flags, 0, 0, 0, 1], payload].concat()
}

/// The status or "malformed" of stream 1.
pub(crate) async fn http2_answer(mut client: impl AsyncRead + Unpin) -> String {
    loop {
        let mut header = [0; 9];
        client.read_exact(&mut header).await.unwrap();
        let mut payload = vec![0; usize::from(header[1]) << 8 | usize::from(header[2])];
        client.read_exact(&mut payload).await.unwrap();
        match (header[3], &header[5..]) {
            (1, [0, 0, 0, 1]) => return hpack_status(&payload),
            // RST_STREAM with PROTOCOL_ERROR.
            (3, [0, 0, 0, 1]) if payload == [0, 0, 0, 1] => return "malformed".into(),
            (3 | 7, _) => return format!("{header:?} {payload:?}"),
            _ => {}
        }
    }
}

/// RFC 7541 appendix A: `:status` has the static indices 8 to 14.
fn hpack_status(block: &[u8]) -> String {
    match block {
        [first @ 0x88..=0x8e, ..] => {
            ["200", "204", "206", "304", "400", "404", "500"][usize::from(first - 0x88)].into()
        }
        [0x08 | 0x48, len, rest @ ..] if *len < 0x80 => String::from_utf8_lossy(&rest[..3]).into(),
        [0x08 | 0x48, _, rest @ ..] => huffman_digits(rest),
        other => format!("{other:x?}"),
    }
}

/// RFC 9204 appendix A: `:status` has the static indices 24 to 28 and 63 to 71.
pub(crate) fn http3_status(answer: &[u8]) -> String {
    let section = answer.windows(3).find(|it| it[0] == 0 && it[1] == 0);
    match section {
        Some([_, _, 0xd8]) => "103".into(),
        Some([_, _, 0xd9]) => "200".into(),
        Some([_, _, 0xdb]) => "404".into(),
        _ => {
            let at = answer.windows(2).position(|it| it == [0, 0]).unwrap() + 2;
            match answer[at..] {
                [0xff, 0x00, ..] => "100".into(),
                [0xff, 0x01, ..] => "204".into(),
                [0xff, 0x04, ..] => "400".into(),
                [0xff, 0x06, ..] => "421".into(),
                [0x5f, _, len, ref rest @ ..] if len < 0x80 => {
                    String::from_utf8_lossy(&rest[..3]).into()
                }
                [0x5f, _, _, ref rest @ ..] => huffman_digits(rest),
                ref other => format!("{other:x?}"),
            }
        }
    }
}

/// Three digits in the Huffman code of RFC 7541 appendix B.
fn huffman_digits(bytes: &[u8]) -> String {
    let mut bits = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
    let mut text = String::new();
    while text.len() < 3 {
        let mut code = (0..5).fold(0, |code, _| code << 1 | bits.next().unwrap());
        if code <= 2 {
            text.push(char::from(b'0' + code));
            continue;
        }
        code = code << 1 | bits.next().unwrap();
        text.push(char::from(b'3' + code - 0x19));
    }
    text
}

/// A string with a prefix integer before it, not coded.
fn prefixed(flags: u8, bits: u8, text: &[u8], out: &mut Vec<u8>) {
    let (max, len) = ((1usize << bits) - 1, text.len());
    if len < max {
        out.push(flags | u8::try_from(len).unwrap());
    } else {
        out.extend([
            flags | u8::try_from(max).unwrap(),
            u8::try_from(len - max).unwrap(),
        ]);
    }
    out.extend_from_slice(text);
}
