//! Seeds of the targets of HTTP/3.

use super::{Seed, seed};

pub(super) fn qpack() -> Vec<Seed> {
    // RFC 9204 appendix B.2: a capacity, two insertions, and a section that refers to them.
    let instructions = b"\0\x22\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path";
    let section = [1, 4, 0x03, 0x81, 0x10, 0x11];
    // Appendix B.4: a duplicate.
    let duplicate = [0, 1, 0x02];
    // A field, twice; its insertion arrives, then the acknowledgement, then it is sent again.
    let twice = [[0, 1, 9, 0], [0, 1, 9, 0]].concat();
    let arrive = [2, 255, 3, 255, 0, 1, 9, 0, 4, 0];
    let long = [0, 1, 255, 30, 232, 3];
    let message = b"\x01\x03\0\0\xd1\0\x04body\x21\0\0\0";
    let control = b"\x04\x02\x06\x40\x07\x01\x04\x80\x0f\x07\0\x02\0i";
    vec![
        seed(
            "decode",
            &[&[0, 220, 0], instructions, &section, &duplicate],
        ),
        seed(
            "decode-waiting",
            &[&[0, 220, 0], &section, instructions, &section],
        ),
        seed("round-trip", &[&[1, 0, 16], &twice, &arrive]),
        seed(
            "round-trip-small",
            &[&[1, 100, 0], &twice, &arrive, &long, &[b'x'; 900]],
        ),
        seed("frames-control", &[&[2, 100, 2], control]),
        seed("frames-request", &[&[3, 100, 2], message]),
    ]
}

/// Operations, as `streams` reads them; `WITH` has bytes behind it.
const UNI: u8 = 0;
const GET: u8 = 2;
const POST: u8 = 3;
const WRITE: u8 = 4;
const OK: u8 = 5;
const FINISH: u8 = 6;
const RESET: u8 = 7;
const WAIT: u8 = 9;
const ANSWER: u8 = 10;
const DATA: u8 = 11;
const TRAILERS: u8 = 12;
const READ: u8 = 13;
const WITH: u8 = 0x10;

/// The peer's first request comes behind its control stream and ours: control, grease.
const FIRST: u8 = 3;

pub(super) fn streams() -> Vec<Seed> {
    let body = b"\0\x04body\x01\x03\0\0\x21t";
    let body = [&[WITH | WRITE, FIRST, 12][..], body].concat();
    let exchange = [GET, 0, FINISH, FIRST, ANSWER, 0, DATA, 200, TRAILERS, 0];
    let upload = [
        &[POST, 0][..],
        &body,
        &[FINISH, FIRST, READ, 0, ANSWER, 200],
    ]
    .concat();
    let reset = [POST, 0, RESET, FIRST, WAIT, 200];
    let table = b"\x10\x02\x09\x3f\xe1\x1f\x43x-a\x011";
    let waiting = b"\x11\0\x0a\x01\x08\x02\0\xd1\xd7\x50\x01a\x80";
    let update = b"\x14\0\x07\x80\x0f\x07\0\x02\0i";
    let request = [ANSWER, 0];
    let response = [OK, 0, WRITE, 0, FINISH, 0, READ, 0];
    vec![
        seed("exchange", &[&[2], &exchange]),
        seed("upload", &[&[2], &upload]),
        seed("reset", &[&[2], &reset]),
        seed("table", &[&[2], waiting, table, update]),
        seed("stall", &[&[2, POST, 0, WAIT, 250]]),
        seed("grease", &[&[0, WITH | UNI, 4, 3, b'a', b'b', b'c']]),
        seed("response", &[&[3], &request, &response]),
    ]
}

pub(super) fn datagrams() -> Vec<Seed> {
    let pass = [3, 0, 0];
    let request = [12, 0, 0];
    let steps = |steps: &[[u8; 3]]| steps.as_flattened().to_vec();
    let begun = steps(&[pass, request, request]);
    let mangled = [[7, 0, 3], [0, 0, 4], [8, 1, 9], [1, 1, 9], [9, 0, 7], pass];
    let lost = [[0, 0, 1], [4, 1, 0], [4, 1, 0], [11, 0, 50], pass];
    let shuffled = [[0, 0, 9], [5, 1, 3], [6, 1, 0], [1, 1, 2], [5, 1, 2], pass];
    let moved = [[0, 0, 9], [14, 0, 1], [1, 1, 9], request, pass];
    let ended = [[0, 0, 9], [13, 0, 0], [15, 0, 0], request, pass];
    let garbage = [[10, 0, 200], [10, 1, 250], [0, 0, 1], [1, 1, 1], pass];
    vec![
        seed("exchange", &[&begun, &pass]),
        seed("mangled", &[&begun, &steps(&mangled)]),
        seed("lost", &[&begun, &steps(&lost)]),
        seed("shuffled", &[&begun, &steps(&shuffled)]),
        seed("moved", &[&begun, &steps(&moved)]),
        seed("ended", &[&begun, &steps(&ended)]),
        seed("garbage", &[&steps(&garbage), &begun]),
    ]
}
