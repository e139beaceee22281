//! The bytes of a whole connection of HTTP/1, however they arrive.

use altway_message::{Refusal, Rules, Scanner};

use super::reading::{Reading, chunked};
use crate::cuts::cuts;
use crate::input::Input;

/// Looks like a message, and is content.
const CONTENT: &[u8] = b"0\r\n\r\nGET /x HTTP/1.1\r\nHost: x\r\n\r\n5\r\n";

/// Findings of a scanner.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    heads: u64,
    refused: Option<Refusal>,
    broken: Option<Refusal>,
}

/// A byte that seeds the cuts, and then any bytes.
pub(super) fn any(mut input: Input<'_>, rules: Rules) {
    let seed = input.byte();
    let bytes = input.0;
    let (ends, found) = scan(bytes, seed, rules);
    let mut expected = messages(bytes);
    if found.refused.is_some() || found.broken.is_some() {
        // Others may go on.
        expected.truncate(ends.len());
    }
    assert_eq!(ends, expected, "the ends of heads");
}

/// A byte that seeds the cuts, and then requests that keep the rules: all of them are found.
pub(super) fn good(mut input: Input<'_>, rules: Rules) {
    let seed = input.byte();
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    while !input.is_empty() {
        let content = push_head(&mut bytes, &mut input);
        expected.push(bytes.len());
        bytes.extend(content);
    }
    let (ends, found) = scan(&bytes, seed, rules);
    let heads = u64::try_from(expected.len()).expect("few");
    assert_eq!(
        found,
        Found {
            heads,
            ..Found::default()
        }
    );
    assert_eq!(ends, expected, "the ends of heads");
    assert_eq!(messages(&bytes), expected, "the account is right");
}

/// Appends a head, and gives its content.
fn push_head(bytes: &mut Vec<u8>, input: &mut Input<'_>) -> Vec<u8> {
    let kind = input.byte();
    let (framing, content) = match kind % 4 {
        0 => (String::new(), Vec::new()),
        1 => {
            let content = content(input);
            (format!("Content-Length: {}\r\n", content.len()), content)
        }
        _ => {
            let mut encoded = Vec::new();
            for _ in 0..input.byte() % 4 {
                push_chunk(&mut encoded, input);
            }
            encoded.extend_from_slice(input.choose(&[
                b"0\r\n\r\n",
                b"000\r\n\r\n",
                b"0;last\r\nEtag: \"0\"\r\n\r\n",
                b"0\r\nX:\r\nY: \xff 0\r\n\r\n",
            ]));
            ("transfer-encoding: Chunked\r\n".into(), encoded)
        }
    };
    let before: &[u8] = if kind & 4 == 0 { b"" } else { b"\r\n" };
    let line: &[u8] = match kind & 8 {
        0 => b"POST /a?b HTTP/1.1\r\n",
        _ => b"GET / HTTP/1.1\r\nX: y, \r\n",
    };
    bytes.extend([before, line, b"Host: a\r\n", framing.as_bytes(), b"\r\n"].concat());
    content
}

/// A chunk of a byte at least.
fn push_chunk(bytes: &mut Vec<u8>, input: &mut Input<'_>) {
    let extension = input.choose(&["", ";", ";a=b", "; a=\"\u{e9}\""]);
    let content = [b"0", &content(input)[..]].concat();
    bytes.extend(format!("{:02X}{extension}\r\n", content.len()).into_bytes());
    bytes.extend([&content[..], b"\r\n"].concat());
}

fn content(input: &mut Input<'_>) -> Vec<u8> {
    let len = usize::from(input.byte()) % (2 * CONTENT.len());
    CONTENT.iter().copied().cycle().take(len).collect()
}

/// Returns where heads end, and what is found: at once, byte by byte, and cut by the seed alike.
fn scan(bytes: &[u8], seed: u8, rules: Rules) -> (Vec<usize>, Found) {
    let (mut ends, mut at) = (Vec::new(), 0);
    let by_byte = follow(bytes.chunks(1), bytes, rules, |heads| {
        at += 1;
        if heads > ends.len() as u64 {
            ends.push(at);
        }
    });
    let whole = follow(std::iter::once(bytes), bytes, rules, |_| {});
    assert_eq!(whole, by_byte, "byte by byte");
    let cut = follow(cuts(bytes, seed), bytes, rules, |_| {});
    assert_eq!(whole, cut, "in pieces");
    (ends, whole)
}

fn follow<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    bytes: &[u8],
    rules: Rules,
    mut each: impl FnMut(u64),
) -> Found {
    let (mut scanner, mut read, mut broken) = (Scanner::new(rules), 0, None);
    for piece in pieces {
        if let Err(error) = scanner.scan(piece) {
            broken = Some(error.refusal);
            if scanner.refused().is_none() {
                check_admitted(&bytes[..read + error.at], scanner.heads());
            }
            break;
        }
        read += piece.len();
        each(scanner.heads());
    }
    Found {
        heads: scanner.heads(),
        refused: scanner.refused(),
        broken,
    }
}

/// Asserts that what was passed on before content was found broken does not have its end.
fn check_admitted(bytes: &[u8], heads: u64) {
    let ends = messages(bytes);
    assert_eq!(ends.len() as u64, heads);
    let last = ends.last().expect("content stands behind a head");
    assert!(chunked(&bytes[*last..]).is_none(), "it has its end");
}

/// The ends of all heads, by an account of its own.
fn messages(bytes: &[u8]) -> Vec<usize> {
    let (mut ends, mut at) = (Vec::new(), 0);
    while let Some(head) = Reading::by_httparse(&bytes[at..]) {
        at += head.len;
        ends.push(at);
        match content_len(&head, &bytes[at..]) {
            Some(len) => at += len,
            None => break,
        }
    }
    ends
}

/// None if it does not end in these bytes.
fn content_len(head: &Reading<'_>, bytes: &[u8]) -> Option<usize> {
    if !head.values("transfer-encoding").is_empty() {
        return chunked(bytes);
    }
    let Some(length) = head.values("content-length").pop() else {
        return Some(0);
    };
    let length = std::str::from_utf8(length).ok()?.parse().ok()?;
    (length <= bytes.len()).then_some(length)
}
