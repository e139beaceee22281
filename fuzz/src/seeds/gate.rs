//! Seeds of the gate.

use super::{Seed, seed};

/// The first byte of an input: what follows, and bits of the rules.
const HEAD: u8 = 0;
const CONNECTION: u8 = 1;
const GOOD: u8 = 2;
const SECTION: u8 = 3;
const CLEAR: u8 = 4;
const EXTENDED: u8 = 8;

/// A seed of cuts.
const CUT: u8 = 7;

pub(super) fn gate() -> Vec<Seed> {
    let mut seeds = heads();
    seeds.extend(refused());
    seeds.extend(connections());
    seeds.extend(sections());
    seeds
}

fn heads() -> Vec<Seed> {
    let head = |name, head: &str| seed(name, &[&[HEAD], head.as_bytes()]);
    let get = "GET /a?b HTTP/1.1\r\nHost: a.example:443\r\nAccept: */*\r\nX:\t y \r\n\r\n";
    let absolute = "GET HTTP://[::1]:80/a HTTP/1.1\r\nhost: [::1]\r\n\r\n";
    vec![
        head("head", get),
        head("head-old", "GET / HTTP/1.0\r\n\r\n"),
        seed("head-absolute", &[&[HEAD | CLEAR], absolute.as_bytes()]),
        head("head-connect", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n"),
        head("head-asterisk", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
        head(
            "head-length",
            "\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        ),
    ]
}

/// Returns requests that some parser takes, and the gate does not: a gate that did would differ
/// from another one.
fn refused() -> Vec<Seed> {
    let post = |name, fields: &str| {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        seed(name, &[&[HEAD], head.as_bytes()])
    };
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    let line_feed = b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n";
    let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let connection = |name, parts: &[&[u8]]| seed(name, &[&[CONNECTION, CUT], &parts.concat()]);
    vec![
        post(
            "refused-lengths",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
        ),
        post(
            "refused-both",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        ),
        post("refused-control", "X: a\u{1}b\r\n"),
        seed("refused-old", &[&[HEAD], old]),
        seed("refused-line-feed", &[&[HEAD], line_feed]),
        connection("refused-return", &[b"\r", get, get]),
        connection("refused-chunk-end", &[chunked, b"1\r\nab\n0\r\n\r\n", get]),
        connection("refused-last-chunk", &[chunked, b"0\r0\r\n\r\n", get]),
    ]
}

fn connections() -> Vec<Seed> {
    let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nG\r\n\r\n";
    let chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        3;x=\"y\"\r\n\r\n0\r\n0\r\nEtag: x\r\n\r\n";
    let folded = b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n";
    let broken =
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: a\r\n\r\n";
    let connection = [CONNECTION, CUT];
    // Kinds of requests: without content, with a length, with chunks.
    let requests = [GOOD, CUT, 0, 1, 40, 4, 2, 2, 1, 9, 2, 60, 3, 13, 5, 0];
    vec![
        seed("connection", &[&connection, get, post, chunked, get]),
        seed("connection-refused", &[&connection, post, folded, get]),
        seed("connection-broken", &[&connection, get, broken]),
        seed("requests", &[&requests]),
    ]
}

fn sections() -> Vec<Seed> {
    // Numbers of names and of values.
    let get = [0, 0, 1, 3, 2, 5, 3, 9];
    let range = [11, 12, 12, 15, 7, 14];
    let connect = [0, 1, 2, 6];
    let websocket = [0, 1, 4, 11, 1, 3, 2, 5, 3, 8];
    let own = b"\x81x\x83y\xffz";
    vec![
        seed("section", &[&[SECTION], &get, &range, own]),
        seed("section-connect", &[&[SECTION], &connect]),
        seed("section-websocket", &[&[SECTION | EXTENDED], &websocket]),
        seed(
            "section-host",
            &[&[SECTION | CLEAR, 0, 0, 1, 4, 3, 8, 6, 5]],
        ),
    ]
}
