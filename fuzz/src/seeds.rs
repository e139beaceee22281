//! Inputs to begin with: one for each thing that a fuzzer would take long to come upon.
//!
//! They stand under `corpus/` as `seed-NAME`; `cargo run -p altway-fuzz --example seeds` writes them anew,
//! and a test says when that is due.

mod gate;
mod http3;
mod server;

use crate::wire::{self, PREFACE, frame, setting};

/// `GET https / ` and `POST https /`, from the static table of RFC 7541.
const GET: &[u8] = &[0x82, 0x87, 0x84];
const POST: &[u8] = &[0x83, 0x87, 0x84];
/// `:status: 200`, and 103 as a literal.
const OK: &[u8] = &[0x88];
const EARLY_HINTS: &[u8] = &[0x08, 3, b'1', b'0', b'3'];

const END_BOTH: u8 = wire::END_STREAM | wire::END_HEADERS;
const PADDED: u8 = 8;

/// A seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Name of the case that it shows.
    pub name: &'static str,
    /// The target's input.
    pub input: Vec<u8>,
}

/// All seeds of a target.
///
/// # Panics
/// There is no target of that name.
#[must_use]
pub fn seeds(target: &str) -> Vec<Seed> {
    match target {
        "frames" => frames(),
        "hpack" => hpack(),
        "connection" => connection(),
        "qpack" => http3::qpack(),
        "streams" => http3::streams(),
        "datagrams" => http3::datagrams(),
        "gate" => gate::gate(),
        "requests" => server::requests(),
        "takeover" => server::takeover(),
        "relay" => server::relay(),
        "server" => server::server(),
        _ => panic!("no target {target}"),
    }
}

fn seed(name: &'static str, parts: &[&[u8]]) -> Seed {
    Seed {
        name,
        input: parts.concat(),
    }
}

/// Bits of the mode of [`crate::frames`].
const CLIENT: u8 = 1;
const GREETED: u8 = 2;
const FRAMED: u8 = 4;
const ANSWERS: u8 = 8;

fn frames() -> Vec<Seed> {
    let get = frame(wire::HEADERS, END_BOTH, 1, GET);
    let post = frame(wire::HEADERS, wire::END_HEADERS, 3, POST);
    let body = frame(wire::DATA, wire::END_STREAM | PADDED, 3, b"\x02body\0\0");
    let cut = [
        frame(wire::HEADERS, wire::END_STREAM, 5, &GET[..1]),
        frame(wire::CONTINUATION, 0, 5, &GET[1..2]),
        frame(wire::CONTINUATION, wire::END_HEADERS, 5, &GET[2..]),
    ];
    let windows = setting(wire::INITIAL_WINDOW_SIZE, 100);
    let settings = frame(wire::SETTINGS, 0, 0, &windows);
    let update = frame(wire::WINDOW_UPDATE, 0, 1, &[0, 0, 1, 0]);
    let response = frame(wire::HEADERS, wire::END_HEADERS, 1, OK);
    let informational = frame(wire::HEADERS, wire::END_HEADERS, 1, EARLY_HINTS);
    let data = frame(wire::DATA, 0, 1, b"hello");
    let trailers = frame(wire::HEADERS, END_BOTH, 1, b"\0\x01t\x01x");
    let goaway = frame(wire::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
    let reset = frame(wire::RST_STREAM, 0, 3, &[0, 0, 0, 8]);
    let priority = frame(wire::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=0, i");
    let services = frame(wire::ALTSVC, 0, 1, b"\0\0clear");
    let empty = frame(wire::SETTINGS, 0, 0, &[]);
    let server = [GREETED | ANSWERS, 0];
    let client = [CLIENT | GREETED | ANSWERS, 0];
    let framed = [wire::PING, 0, 0, 8];
    vec![
        seed("preface", &[&[0, 7], PREFACE, &empty, &get]),
        seed("requests", &[&server, &get, &post, &body, &cut.concat()]),
        seed("small-windows", &[&server, &settings, &get, &update]),
        seed("priorities", &[&server, &priority, &get, &get, &post]),
        seed("reset", &[&server, &post, &reset, &goaway]),
        seed("cuts", &[&[GREETED, 3], &get, &post, &body]),
        seed(
            "response",
            &[&client, &informational, &response, &data, &trailers],
        ),
        seed("services", &[&client, &services, &goaway, &reset]),
        seed("framed", &[&[GREETED | FRAMED, 0], &framed, &[0; 8]]),
    ]
}

fn hpack() -> Vec<Seed> {
    // RFC 7541 appendix C.4: three requests with Huffman code.
    let first = b"\x11\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
    let second = b"\x0c\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf";
    // Appendix C.6 begins with a smaller table: 0x3f and the rest beyond 31.
    let smaller = b"\x04\x3f\xe1\x01\x82";
    let acknowledged = [0xff];
    let no_blocks = [0; 8];
    let one_block = [2, 1, 1, 5, 3, 2, 9, 0, 0, 0, 0, 0, 0, 0];
    let twice = [3, 0, 0, 3, 0, 0, 3, 0];
    let sizes = [1, 2, 0, 1, 0, 0, 100, 0, 2, 100, 0];
    let long = [6, 1, 200, 0, b'n'];
    vec![
        seed("decode-requests", &[&[0, 0, 16], first, second]),
        seed(
            "decode-smaller-table",
            &[&[0, 0, 1], smaller, &acknowledged, smaller, first],
        ),
        seed("round-trip-block", &[&[1], &one_block, &twice]),
        seed("round-trip-sizes", &[&[1], &one_block, &sizes, &twice]),
        seed("round-trip-long", &[&[1], &no_blocks, &long, &[b'v'; 200]]),
    ]
}

/// Kinds of operations, as `connection::Operation` reads them.
mod operation {
    pub(super) const REQUEST: u8 = 0;
    pub(super) const RESPOND: u8 = 3;
    pub(super) const INFORM: u8 = 6;
    pub(super) const OFFER: u8 = 7;
    pub(super) const OFFER_LAST: u8 = 9;
    pub(super) const TRAILERS: u8 = 10;
    pub(super) const RESET: u8 = 11;
    pub(super) const RELEASE: u8 = 12;
    pub(super) const PUMP: u8 = 13;
    pub(super) const PASS: u8 = 15;
    pub(super) const WAIT: u8 = 18;
    pub(super) const PRIORITISE: u8 = 19;
    pub(super) const INJECT: u8 = 20;
    pub(super) const SHUTDOWN: u8 = 21;
    pub(super) const CLOSE: u8 = 22;
    pub(super) const ALTSVC: u8 = 23;
}

/// Two configurations: the defaults, and windows of 256 bytes with DATA of 64.
const DEFAULTS: [u8; 20] = [0; 20];
const SMALL: [u8; 20] = [0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0];

const SERVER: u8 = 0x80;
const TO_SERVER: [u8; 4] = [operation::PASS, SERVER, 0, 0];
const TO_CLIENT: [u8; 4] = [operation::PASS, 0, 0, 0];
const SEND_GET: [u8; 4] = [operation::REQUEST, 0, 1, 0];
const SEND_POST: [u8; 4] = [operation::REQUEST, 2, 2, 0];
const RESPOND: [u8; 4] = [operation::RESPOND, 0, 0, 3];
const BODY: [u8; 4] = [operation::OFFER_LAST, SERVER, 0, 16];

fn connection() -> Vec<Seed> {
    let mut seeds = exchanges();
    seeds.extend(endings());
    seeds
}

fn operations(name: &'static str, config: [u8; 20], operations: &[[u8; 4]]) -> Seed {
    seed(name, &[&config, operations.as_flattened()])
}

fn exchanges() -> Vec<Seed> {
    use operation::{ALTSVC, INFORM, OFFER, PRIORITISE, PUMP, RELEASE, TRAILERS};
    let answered = [SEND_GET, TO_SERVER, RESPOND, BODY, TO_CLIENT];
    let upload = [[OFFER, 0, 0, 4], [PUMP, 0, 200, 0], TO_SERVER, TO_CLIENT];
    let informed = [SEND_GET, TO_SERVER, [INFORM, 0, 3, 0], RESPOND];
    let two = [SEND_GET, SEND_GET, [PRIORITISE, 1, 8, 0], TO_SERVER];
    let services = [SEND_GET, TO_SERVER, [ALTSVC, 0, 9, 0]];
    let release = [&answered[..], &[[RELEASE, 0, 200, 0]]].concat();
    let trailers = [&informed[..], &[[TRAILERS, SERVER, 0, 0]]].concat();
    let upload = [&[SEND_POST][..], &upload, &upload].concat();
    let priorities = [&two[..], &[RESPOND, BODY]].concat();
    vec![
        operations("exchange", DEFAULTS, &answered),
        operations("release", SMALL, &release),
        operations("upload", SMALL, &upload),
        operations("trailers", DEFAULTS, &trailers),
        operations("priorities", DEFAULTS, &priorities),
        operations("services", DEFAULTS, &services),
    ]
}

fn endings() -> Vec<Seed> {
    use operation::{CLOSE, INJECT, RESET, SHUTDOWN, WAIT};
    let shutdown = [SHUTDOWN, SERVER, 0, 0];
    let windows = [INJECT, 0, 36, 8];
    let both = [SEND_GET, SEND_POST, TO_SERVER, RESPOND];
    let reset = [&both[..], &[[RESET, 0, 0, 0], BODY]].concat();
    let shutdown = [SEND_GET, TO_SERVER, shutdown, TO_CLIENT, SEND_GET];
    let settings = [SEND_GET, windows, TO_SERVER, RESPOND];
    let stall = [SEND_POST, TO_SERVER, [WAIT, 0, 255, 255]];
    let close = [SEND_GET, TO_SERVER, [CLOSE, 0, 2, 0]];
    vec![
        operations("reset", DEFAULTS, &reset),
        operations("shutdown", DEFAULTS, &shutdown),
        operations("settings", DEFAULTS, &settings),
        operations("stall", DEFAULTS, &stall),
        operations("close", DEFAULTS, &close),
    ]
}
