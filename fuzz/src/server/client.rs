//! A client that sends what it is told to, as far as the server takes it, and never waits.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use crate::wire::{self, PREFACE, frame, setting};

/// The most bytes that an operation sends.
const MAX_SENT: usize = 64 << 10;

/// Bytes that are read at once.
const PIECE: usize = 1 << 10;

/// `:scheme: http`, `:method`, `:path` and `:authority: x` (RFC 7541 appendix A).
const SCHEME: &[u8] = b"\x86\x41\x01x";
const GET: u8 = 0x82;
const POST: u8 = 0x83;

/// A connection; the client resets it when it is dropped.
pub(super) struct Client(TcpStream);

impl Client {
    pub(super) fn connect(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).expect("the server takes connections");
        let socket = SockRef::from(&stream);
        socket.set_nonblocking(true).expect("an open socket");
        // Without TIME-WAIT ports last for any number of connections.
        let reset = socket.set_linger(Some(Duration::ZERO));
        reset.expect("an open socket");
        Self(stream)
    }

    pub(super) fn send(&mut self, mut bytes: &[u8]) {
        while let Ok(sent @ 1..) = self.0.write(bytes) {
            bytes = &bytes[sent..];
        }
    }

    pub(super) fn send_again(&mut self, bytes: &[u8], times: usize) {
        let times = times.min(MAX_SENT / bytes.len().max(1));
        self.send(&bytes.repeat(times));
    }

    /// Says something that makes sense; of HTTP/2, on this stream.
    pub(super) fn say(&mut self, what: u8, stream: u8) {
        self.send(&sentence(what, stream.into()));
    }

    pub(super) fn read(&mut self, pieces: usize) {
        let mut piece = [0; PIECE];
        for _ in 0..pieces {
            if !matches!(self.0.read(&mut piece), Ok(1..)) {
                return;
            }
        }
    }

    pub(super) fn half_close(&mut self) {
        // Where the server has reset the connection there is nothing to close.
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

/// Pieces of requests that a fuzzer would take long to come upon.
fn sentence(what: u8, stream: u32) -> Vec<u8> {
    let large = |method| head(method, b"/large", stream);
    match what % 16 {
        0 => b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n".into(),
        1 => b"GET /large HTTP/1.1\r\nHost: x\r\nRange: bytes=7-\r\n\r\n".into(),
        2 => b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".into(),
        3 => [b"400\r\n", &[b'x'; 0x400][..], b"\r\n"].concat(),
        4 => b"0\r\n\r\n".into(),
        5 => b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n".into(),
        6 => [PREFACE, &frame(wire::SETTINGS, 0, 0, &[])].concat(),
        7 => [PREFACE, &window(0)].concat(),
        8 => large(GET),
        9 => head(POST, b"/echo", stream),
        10 => frame(wire::DATA, 0, stream, &[b'x'; 0x400]),
        11 => frame(wire::DATA, wire::END_STREAM, stream, &[]),
        12 => frame(wire::RST_STREAM, 0, stream, &[0, 0, 0, 8]),
        13 => frame(wire::WINDOW_UPDATE, 0, stream, &[0, 1, 0, 0]),
        14 => (0..64)
            .flat_map(|n| head(GET, b"/large", 2 * n + 1))
            .collect(),
        _ => window(1 << 20),
    }
}

fn window(size: u32) -> Vec<u8> {
    let windows = setting(wire::INITIAL_WINDOW_SIZE, size);
    frame(wire::SETTINGS, 0, 0, &windows)
}

/// HEADERS of a request, which ends with them if it is a GET.
fn head(method: u8, path: &[u8], stream: u32) -> Vec<u8> {
    let len = u8::try_from(path.len()).expect("a short path");
    let block = [&[method], SCHEME, &[0x04, len], path].concat();
    let end = if method == GET { wire::END_STREAM } else { 0 };
    frame(wire::HEADERS, wire::END_HEADERS | end, stream, &block)
}
