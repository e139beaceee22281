//! HTTP/2 frames by hand.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::fields;
use super::tls::Tls;
use crate::server::Target;

/// DATA (RFC 9113 section 6.1).
pub const DATA: u8 = 0;
/// HEADERS (RFC 9113 section 6.2).
pub const HEADERS: u8 = 1;
/// RST_STREAM (RFC 9113 section 6.4).
pub const RST_STREAM: u8 = 3;
/// SETTINGS (RFC 9113 section 6.5).
pub const SETTINGS: u8 = 4;
/// PING (RFC 9113 section 6.7).
pub const PING: u8 = 6;
/// GOAWAY (RFC 9113 section 6.8).
pub const GOAWAY: u8 = 7;
/// WINDOW_UPDATE (RFC 9113 section 6.9).
pub const WINDOW_UPDATE: u8 = 8;
/// CONTINUATION (RFC 9113 section 6.10).
pub const CONTINUATION: u8 = 9;

/// END_STREAM of DATA and HEADERS.
pub const END_STREAM: u8 = 1;
/// END_HEADERS of HEADERS and CONTINUATION.
pub const END_HEADERS: u8 = 4;
/// ACK of SETTINGS and PING.
const ACK: u8 = 1;

/// The bytes of a frame.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len())
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    let head = [len[1], len[2], len[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// The frame of a `GET`, complete.
#[must_use]
pub fn get(stream: u32, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut list = vec![
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
    ];
    list.extend_from_slice(more);
    frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        stream,
        &fields::hpack(&list),
    )
}

/// A connection.
pub struct Http2 {
    tls: Tls,
    inbox: Vec<u8>,
}

/// A frame that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Type of the frame.
    pub kind: u8,
    /// Flags of the frame.
    pub flags: u8,
    /// Stream that the frame belongs to.
    pub stream: u32,
    /// Payload of the frame.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Status of a response, where it is in this frame.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        (self.kind == HEADERS).then(|| fields::hpack_status(&self.payload))?
    }
}

impl Http2 {
    /// Connects and sends preface and SETTINGS, with this initial window of each stream.
    ///
    /// # Errors
    /// The server refuses, or needs more than 3 s.
    pub fn connect(target: &Target, from: IpAddr, window: u32) -> io::Result<Self> {
        Self::over(Tls::connect(target, from, b"h2")?, window)
    }

    /// The same over a TLS connection.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn over(mut tls: Tls, window: u32) -> io::Result<Self> {
        let no_table = [&[0, 1][..], &[0; 4]].concat();
        let window = [&[0, 4][..], &window.to_be_bytes()].concat();
        let settings = frame(SETTINGS, 0, 0, &[no_table, window].concat());
        tls.write(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..]].concat())?;
        Ok(Self {
            tls,
            inbox: Vec::new(),
        })
    }

    /// Writes bytes, frames as a rule.
    ///
    /// # Errors
    /// The connection is gone, or the server has taken nothing for 3 s.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tls.write(bytes)
    }

    /// The next frame that arrives within `wait`. SETTINGS and PING are acknowledged.
    ///
    /// # Errors
    /// The connection is over.
    pub fn next(&mut self, wait: Duration) -> io::Result<Option<Frame>> {
        let deadline = Instant::now() + wait;
        loop {
            if let Some(frame) = self.take() {
                self.acknowledge(&frame)?;
                return Ok(Some(frame));
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return Ok(None);
            };
            let bytes = self.tls.read(left)?;
            self.inbox.extend(bytes);
        }
    }

    /// Requests `path` and reads the whole response; its status.
    ///
    /// # Errors
    /// The connection is over, the stream reset, or `wait` is over.
    pub fn fetch(&mut self, stream: u32, path: &str, wait: Duration) -> io::Result<u16> {
        self.write(&get(stream, path, &[]))?;
        let deadline = Instant::now() + wait;
        let mut status = None;
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            let Some(frame) = self.next(left)? else { break };
            if frame.kind == GOAWAY || (frame.kind == RST_STREAM && frame.stream == stream) {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            if frame.stream != stream {
                continue;
            }
            status = status.or(frame.status());
            if matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0 {
                return status.ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// The statuses of as many responses as arrive within `wait`, `enough` at most.
    pub fn statuses(&mut self, enough: usize, wait: Duration) -> Vec<u16> {
        let deadline = Instant::now() + wait;
        let mut statuses = Vec::new();
        while statuses.len() < enough
            && let Some(left) = deadline.checked_duration_since(Instant::now())
            && let Ok(Some(frame)) = self.next(left)
        {
            statuses.extend(frame.status());
        }
        statuses
    }

    /// Returns true if the server ends the connection within `wait`, by GOAWAY with an error or by
    /// closing.
    pub fn is_ended(&mut self, wait: Duration) -> bool {
        let deadline = Instant::now() + wait;
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            match self.next(left) {
                Ok(Some(frame))
                    if frame.kind == GOAWAY && frame.payload.get(4..8) != Some(&[0; 4]) =>
                {
                    return true;
                }
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
        false
    }

    /// The TLS connection below.
    pub fn tls(&mut self) -> &mut Tls {
        &mut self.tls
    }

    fn acknowledge(&mut self, frame: &Frame) -> io::Result<()> {
        match frame.kind {
            SETTINGS if frame.flags & ACK == 0 => self.write(&self::frame(SETTINGS, ACK, 0, &[])),
            PING if frame.flags & ACK == 0 => {
                self.write(&self::frame(PING, ACK, 0, &frame.payload))
            }
            _ => Ok(()),
        }
    }

    fn take(&mut self) -> Option<Frame> {
        let head = self.inbox.first_chunk::<9>()?;
        let len = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let frame = Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]),
            payload: self.inbox.get(9..9 + len)?.to_vec(),
        };
        self.inbox.drain(..9 + len);
        Some(frame)
    }
}
