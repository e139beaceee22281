//! Seeds of the targets above the engines.

use super::{Seed, seed};
use altway_serve::fuzzing::{Relayed, offer};

pub(super) fn requests() -> Vec<Seed> {
    let get = |target: &str, fields: &str| {
        format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n").into_bytes()
    };
    let asked = |name, target: &str, fields: &str| seed(name, &[&get(target, fields)]);
    vec![
        asked("index", "/", ""),
        asked("folder", "/sub?a=b", ""),
        asked("encoded", "/sp%20ace//a.css", ""),
        asked("dots", "/sub/%2e%2e/../secret", ""),
        asked("link", "/out", ""),
        asked("range", "/digits", "Range: bytes=2-5\r\n"),
        asked("range-suffix", "/inside", "Range: bytes=-3\r\n"),
        asked("range-behind", "/digits", "Range: bytes=10-\r\n"),
        asked("if-none-match", "/digits", "If-None-Match: W/\"a\", *\r\n"),
        asked("if-match", "/digits", "If-Match: \"a\"\r\n"),
        asked(
            "if-range",
            "/digits",
            "Range: bytes=0-0\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
        ),
        asked(
            "if-modified-since",
            "/digits",
            "If-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT\r\n",
        ),
        seed("head", &[b"HEAD /digits HTTP/1.1\r\n\r\n"]),
        seed("options", &[b"OPTIONS * HTTP/1.1\r\n\r\n"]),
    ]
}

/// A message with descriptors.
fn message(descriptors: u8, text: &[u8]) -> Vec<u8> {
    let len = u16::try_from(text.len()).expect("a short message");
    [&[descriptors][..], &len.to_le_bytes(), text].concat()
}

pub(super) fn takeover() -> Vec<Seed> {
    let sockets = b"{\"say\":\"sockets\"}";
    let refused = b"{\"say\":\"refused\",\"reason\":\"no\"}";
    let hello = b"{\"say\":\"hello\",\"protocol\":1,\"version\":\"0\"}";
    let offer = message(0, &offer());
    vec![
        seed("taken", &[&offer, &message(6, sockets)]),
        seed(
            "in-parts",
            &[&offer, &message(2, sockets), &message(4, sockets)],
        ),
        seed("too-many", &[&offer, &message(7, sockets)]),
        seed("too-few", &[&offer, &message(5, sockets)]),
        seed("refused", &[&message(1, refused)]),
        seed("hello", &[&message(0, hello)]),
    ]
}

pub(super) fn relay() -> Vec<Seed> {
    let relayed = |payload: &[u8]| Relayed {
        remote: ([192, 0, 2, 1], 1234).into(),
        local_ip: Some([192, 0, 2, 2].into()),
        ecn: 3,
        payload: payload.to_vec(),
    };
    // Connection IDs of worker 1 of the first process, and of the second.
    let short = b"\x40\0\x01\x01\x02\x03\x04\x05\x06";
    let long = b"\xc0\0\0\0\x01\x08\0\x01\x01\x02\x03\x04\x05\x06";
    let message = |payload: &[u8]| message(0, &relayed(payload).message());
    let datagram = |payload: &[u8]| {
        let len = u16::try_from(payload.len()).expect("a short one");
        [&[0, 1, 0, 2, 0, 7][..], &len.to_le_bytes(), &[0], payload].concat()
    };
    let messages = [message(short), message(long)].map(|it| it[1..].to_vec());
    vec![
        seed("messages", &[&[0], &messages.concat()]),
        seed("datagrams", &[&[1], &datagram(short), &datagram(long)]),
    ]
}

/// Operations of clients, as [`crate::server`] reads them; each is of the first client, to the server of
/// files, or of the second, to that of the service.
mod operation {
    pub(super) const SEND: u8 = 0;
    pub(super) const REPEAT: u8 = 1;
    pub(super) const SAY: u8 = 2;
    pub(super) const READ: u8 = 4;
    pub(super) const HALF_CLOSE: u8 = 5;
    pub(super) const GO: u8 = 6;
    pub(super) const WAIT: u8 = 7;
}

pub(super) fn server() -> Vec<Seed> {
    use operation::{GO, HALF_CLOSE, READ, REPEAT, SAY, SEND, WAIT};
    const FILES: u8 = 0;
    const SERVICE: u8 = 9;
    let open = |who| vec![SEND, who];
    let say = |who, what, stream| vec![SAY, who, what, stream];
    let (wait, read) = (|who| vec![WAIT, who], |who| vec![READ, who, 200]);
    let run = |name, parts: &[Vec<u8>]| seed(name, &[&parts.concat()]);
    let of = |who, sentences: &[(u8, u8)]| {
        let said = sentences
            .iter()
            .map(|&(what, stream)| say(who, what, stream));
        [vec![open(who)], said.collect(), vec![wait(who)]].concat()
    };
    let and = |mut parts: Vec<Vec<u8>>, more: &[Vec<u8>]| {
        parts.extend_from_slice(more);
        parts
    };
    let download = [(7, 0), (14, 0)];
    let chunks = [(2, 0), (3, 0), (3, 0)];
    let upload = [(6, 0), (9, 1), (10, 1), (10, 1)];
    // More of them than files that the server may keep open.
    let half_closed: Vec<_> = (SERVICE..SERVICE + 5)
        .map(|who| and(of(who, &[(2, 0)]), &[vec![HALF_CLOSE, who], wait(who)]))
        .collect();
    let ask = b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n";
    let pipelined = [&[REPEAT, FILES, ask.len() as u8, 200], &ask[..]].concat();
    vec![
        run("h1-unread", &of(FILES, &[(0, 0), (1, 0), (0, 0)])),
        run(
            "h1-read",
            &and(of(FILES, &[(0, 0)]), &[read(FILES), wait(FILES)]),
        ),
        run("h1-unread-service", &of(SERVICE, &[(0, 0), (0, 0)])),
        run(
            "h1-chunks",
            &and(of(SERVICE, &chunks), &[say(SERVICE, 4, 0), read(SERVICE)]),
        ),
        run("h1-unfinished", &of(SERVICE, &chunks)),
        run("h1-half-closed", &half_closed.concat()),
        run("h1-unwanted", &of(SERVICE, &[(5, 0), (3, 0)])),
        run("h1-unwanted-files", &of(FILES, &[(5, 0), (3, 0)])),
        run("h1-pipelined", &[open(FILES), pipelined, wait(FILES)]),
        run("h2-closed-windows", &of(FILES, &download)),
        run("h2-closed-windows-service", &of(SERVICE, &download)),
        run(
            "h2-gone",
            &and(
                of(FILES, &download),
                &[vec![HALF_CLOSE, FILES], wait(FILES)],
            ),
        ),
        run(
            "h2-opened",
            &and(of(FILES, &download), &[say(FILES, 15, 0), read(FILES)]),
        ),
        run(
            "h2-echo",
            &and(of(SERVICE, &upload), &[say(SERVICE, 11, 1), read(SERVICE)]),
        ),
        run("h2-unfinished", &of(SERVICE, &upload)),
        run(
            "h2-reset",
            &of(SERVICE, &[(6, 0), (8, 1), (12, 1), (8, 3), (13, 3)]),
        ),
        run(
            "again",
            &and(of(FILES, &download), &[vec![GO, FILES], open(FILES)]),
        ),
    ]
}
