//! HTTP/3 by hand over a QUIC connection.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use quinn_proto::{Dir, StreamId};

use super::fields;
use super::packet::varint;
use super::quic::Quic;
use crate::server::Target;

/// A frame (RFC 9114 section 7.1).
#[must_use]
pub fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = varint(kind);
    frame.extend(varint(payload.len() as u64));
    frame.extend_from_slice(payload);
    frame
}

/// The HEADERS frame of a request without a body.
#[must_use]
pub fn request(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut list = vec![
        (":method", method),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
    ];
    list.extend_from_slice(more);
    frame(1, &fields::qpack(&list))
}

/// A connection with a control stream.
pub struct Http3 {
    /// The QUIC connection below.
    pub quic: Quic,
    /// The control stream.
    pub control: StreamId,
}

impl Http3 {
    /// Connects and sends empty SETTINGS; each stream's receive window is `window`.
    ///
    /// # Errors
    /// No handshake within 3 s, or no stream is allowed.
    pub fn connect(target: &Target, from: IpAddr, window: u32) -> io::Result<Self> {
        let mut quic = Quic::connect(target, from, window)?;
        let control = quic.open(Dir::Uni, &[0, 4, 0]);
        let control = control.ok_or_else(|| io::Error::other("no stream is allowed"))?;
        Ok(Self { quic, control })
    }

    /// Sends a `GET`; `None`: the server allows no more streams now.
    pub fn get(&mut self, path: &str, more: &[(&str, &str)]) -> Option<StreamId> {
        let id = self.quic.open(Dir::Bi, &request("GET", path, more))?;
        self.quic.finish(id);
        Some(id)
    }

    /// Requests `path` and reads the whole response; its status.
    ///
    /// # Errors
    /// The connection is over, the stream reset, or `wait` is over.
    pub fn fetch(&mut self, path: &str, wait: Duration) -> io::Result<u16> {
        let deadline = Instant::now() + wait;
        let mut stream = None;
        self.quic.turn();
        while stream.is_none() && self.quic.lost().is_none() && Instant::now() < deadline {
            stream = self.get(path, &[]);
            if stream.is_none() {
                self.quic.drive(Duration::from_millis(5), |_| false);
            }
        }
        let stream = stream.ok_or(io::ErrorKind::ConnectionReset)?;
        let (bytes, over) = self.response(stream, deadline);
        let status = status(&bytes).filter(|_| over);
        status.ok_or_else(|| match self.quic.lost() {
            Some(lost) => io::Error::other(lost.clone()),
            None => io::ErrorKind::TimedOut.into(),
        })
    }

    /// All that arrives on a stream until `deadline` or its end, and whether it ended.
    pub fn response(&mut self, stream: StreamId, deadline: Instant) -> (Vec<u8>, bool) {
        let (mut bytes, mut over) = (Vec::new(), false);
        let left = deadline.saturating_duration_since(Instant::now());
        self.quic.drive(left, |quic| {
            let (more, end) = quic.read(stream, usize::MAX);
            bytes.extend(more);
            over |= end;
            over
        });
        (bytes, over)
    }
}

/// Status of a response whose HEADERS frame begins `bytes`.
#[must_use]
pub fn status(bytes: &[u8]) -> Option<u16> {
    let (kind, rest) = bytes.split_first()?;
    let head = match rest.first()? >> 6 {
        0 => 1,
        1 => 2,
        2 => 4,
        _ => 8,
    };
    (*kind == 1).then(|| fields::qpack_status(rest.get(head..)?))?
}
