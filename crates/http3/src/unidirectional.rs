//! Unidirectional streams (RFC 9114 section 6.2): the peer's control and QPACK streams, the refusal
//! of all others, and this side's streams of these kinds. What they carry means nothing here.

use altway_quic::{Direction, QuicConnection};
use bytes::{Buf, Bytes, BytesMut};

use crate::failure::Violation;
use crate::frame::{self, Frame};
use crate::settings;
use crate::{Code, Role, StreamId, varint};

/// Stream types of RFC 9114 section 6.2 and RFC 9204 section 4.2.
pub(crate) mod stream_type {
    pub(crate) const CONTROL: u64 = 0x00;
    pub(crate) const PUSH: u64 = 0x01;
    pub(crate) const QPACK_ENCODER: u64 = 0x02;
    pub(crate) const QPACK_DECODER: u64 = 0x03;
}

/// Result of taking a piece of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The piece is used up.
    Consumed,
    /// A frame on the control stream; there may be more in the piece.
    Frame(Frame),
    /// Bytes of the QPACK encoder stream.
    Encoder(Bytes),
    /// Bytes of the QPACK decoder stream.
    Decoder(Bytes),
    /// The stream is of no use: it is to be stopped.
    Unwanted,
}

#[derive(Debug)]
enum Stream {
    Untyped {
        bytes: [u8; varint::MAX_LEN],
        filled: usize,
    },
    Control(frame::Decoder),
    QpackEncoder,
    QpackDecoder,
}

/// The peer's unidirectional streams. At most as many as QUIC lets it open at once.
#[derive(Debug)]
pub(crate) struct Incoming {
    role: Role,
    /// Streams in any order: they are few, and a table has room for twice as many.
    streams: Vec<(StreamId, Stream)>,
    /// True for each of control, QPACK encoder and QPACK decoder stream that there was.
    seen: [bool; 3],
}

impl Incoming {
    pub(crate) fn new(role: Role) -> Self {
        Self {
            role,
            streams: Vec::new(),
            seen: [false; 3],
        }
    }

    /// The peer opened a stream.
    pub(crate) fn open(&mut self, id: StreamId) {
        let stream = Stream::Untyped {
            bytes: [0; varint::MAX_LEN],
            filled: 0,
        };
        self.streams.push((id, stream));
    }

    /// Returns the number of the peer's streams that stay open as long as the connection.
    pub(crate) fn lasting(&self) -> usize {
        self.seen.iter().filter(|seen| **seen).count()
    }

    /// Takes bytes from the front of `piece`; to be called until it answers other than a frame.
    pub(crate) fn receive(
        &mut self,
        id: StreamId,
        piece: &mut Bytes,
    ) -> Result<Outcome, Violation> {
        let Some(at) = self.position(id) else {
            return Ok(Outcome::Unwanted);
        };
        let stream = &mut self.streams[at].1;
        if let Stream::Untyped { bytes, filled } = stream {
            let Some(stream_type) = take_type(bytes, filled, piece) else {
                return Ok(Outcome::Consumed);
            };
            let Some(typed) = typed(stream_type, self.role, &mut self.seen)? else {
                self.streams.swap_remove(at);
                return Ok(Outcome::Unwanted);
            };
            *stream = typed;
        }
        match stream {
            Stream::Control(frames) => {
                let frame = frames.decode(piece)?;
                return Ok(frame.map_or(Outcome::Consumed, Outcome::Frame));
            }
            Stream::Untyped { .. } => {}
            _ if piece.is_empty() => {}
            Stream::QpackEncoder => return Ok(Outcome::Encoder(std::mem::take(piece))),
            Stream::QpackDecoder => return Ok(Outcome::Decoder(std::mem::take(piece))),
        }
        Ok(Outcome::Consumed)
    }

    /// The peer ended or reset a stream. RFC 9114 section 6.2.1: "If either control stream is
    /// closed at any point, this MUST be treated as a connection error of type
    /// H3_CLOSED_CRITICAL_STREAM"; RFC 9204 section 4.2 says the same of QPACK's.
    pub(crate) fn close(&mut self, id: StreamId) -> Result<(), Violation> {
        let Some(at) = self.position(id) else {
            return Ok(());
        };
        match self.streams.swap_remove(at).1 {
            Stream::Untyped { .. } => Ok(()),
            _ => Err(closed_critical_stream()),
        }
    }

    /// Keeps no room for more streams.
    pub(crate) fn shrink(&mut self) {
        self.streams.shrink_to_fit();
    }

    fn position(&self, id: StreamId) -> Option<usize> {
        self.streams.iter().position(|(of, _)| *of == id)
    }
}

/// A stream of this side: bytes wait here until QUIC lets a stream be opened and takes them. How many
/// there may be is the business of those who queue them.
#[derive(Debug)]
pub(crate) struct Outgoing {
    stream_type: u64,
    stream: Option<StreamId>,
    begun: bool,
    unsent: BytesMut,
}

impl Outgoing {
    pub(crate) fn new(stream_type: u64) -> Self {
        Self {
            stream_type,
            stream: None,
            begun: false,
            unsent: BytesMut::new(),
        }
    }

    /// Takes a stream, if there is one; nothing is sent on it before there is something to say.
    pub(crate) fn open(&mut self, quic: &mut impl QuicConnection) {
        if self.stream.is_none()
            && let Some(id) = quic.open(Direction::Unidirectional)
        {
            // Ahead of all messages.
            quic.set_priority(id, i32::MAX);
            self.stream = Some(id);
        }
    }

    /// Returns the bytes that wait, to be added to; [`flush`](Self::flush) afterwards.
    pub(crate) fn unsent(&mut self) -> &mut BytesMut {
        if !std::mem::replace(&mut self.begun, true) {
            varint::encode(self.stream_type, &mut self.unsent);
        }
        &mut self.unsent
    }

    pub(crate) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Returns the number of bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.unsent.len()
    }

    /// Returns true if this is the stream's ID.
    pub(crate) fn is(&self, id: StreamId) -> bool {
        self.stream == Some(id)
    }

    /// Keeps no room for more bytes, if none wait.
    pub(crate) fn shrink(&mut self) {
        if self.unsent.is_empty() {
            self.unsent = BytesMut::new();
        }
    }

    /// Writes what waits, as far as the stream takes it; QUIC's `StreamsAvailable` and `Writable`
    /// events tell when to call again.
    pub(crate) fn flush(&mut self, quic: &mut impl QuicConnection) {
        if self.unsent.is_empty() {
            return;
        }
        self.open(quic);
        let Some(id) = self.stream else { return };
        let mut chunks = [self.unsent.split().freeze()];
        // Fails only if the peer stopped the stream, which its own event tells.
        let _ = quic.write(id, &mut chunks);
        let [unsent] = chunks;
        self.unsent.extend_from_slice(&unsent);
    }
}

/// The violation of a control or QPACK stream's end.
pub(crate) fn closed_critical_stream() -> Violation {
    Violation::new(
        Code::H3_CLOSED_CRITICAL_STREAM,
        "control or qpack stream closed",
    )
}

fn typed(stream_type: u64, role: Role, seen: &mut [bool; 3]) -> Result<Option<Stream>, Violation> {
    let (slot, stream) = match stream_type {
        stream_type::CONTROL => (
            0,
            Stream::Control(frame::Decoder::control(settings::MAX_PAYLOAD)),
        ),
        stream_type::QPACK_ENCODER => (1, Stream::QpackEncoder),
        stream_type::QPACK_DECODER => (2, Stream::QpackDecoder),
        stream_type::PUSH => return Err(push_refused(role)),
        // Section 6.2: "Implementations MUST [...] be able to handle [...] unknown stream types";
        // "MAY request that the sender stops".
        _ => return Ok(None),
    };
    if std::mem::replace(&mut seen[slot], true) {
        let reason = "second stream of a kind that there is once";
        return Err(Violation::new(Code::H3_STREAM_CREATION_ERROR, reason));
    }
    Ok(Some(stream))
}

/// Section 6.2.2: "Only servers can push; if a server receives a client-initiated push stream, this
/// MUST be treated as a connection error of type H3_STREAM_CREATION_ERROR." Section 4.6: a client
/// "MUST treat receipt of a push stream as a connection error of type H3_ID_ERROR when no
/// MAX_PUSH_ID frame has been sent".
fn push_refused(role: Role) -> Violation {
    match role {
        Role::Server => Violation::new(Code::H3_STREAM_CREATION_ERROR, "push stream from a client"),
        Role::Client => Violation::new(Code::H3_ID_ERROR, "push was never allowed"),
    }
}

/// Moves bytes of the stream type from `piece` to `bytes`; the type once it is whole.
fn take_type(
    bytes: &mut [u8; varint::MAX_LEN],
    filled: &mut usize,
    piece: &mut Bytes,
) -> Option<u64> {
    while !piece.is_empty() {
        // An integer is whole after eight bytes at the latest, so the index holds.
        bytes[*filled] = piece.get_u8();
        *filled += 1;
        if let Some((stream_type, _)) = varint::decode(&bytes[..*filled]) {
            return Some(stream_type);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(index: u64) -> StreamId {
        StreamId::new(Role::Client, Direction::Unidirectional, index)
    }

    fn receive(incoming: &mut Incoming, index: u64, bytes: &'static [u8]) -> Result<Outcome, Code> {
        incoming
            .receive(id(index), &mut Bytes::from_static(bytes))
            .map_err(|violation| violation.code)
    }

    fn incoming(role: Role) -> Incoming {
        let mut incoming = Incoming::new(role);
        (0..8).for_each(|index| incoming.open(id(index)));
        incoming
    }

    #[test]
    fn a_control_stream_yields_its_frames_however_it_is_cut() {
        let mut incoming = incoming(Role::Server);
        assert_eq!(receive(&mut incoming, 0, &[0x40]), Ok(Outcome::Consumed));
        let mut piece = Bytes::from_static(&[0x00, 0x04, 0x00, 0x07, 0x01, 0x04]);
        let mut next = || incoming.receive(id(0), &mut piece).unwrap();
        assert_eq!(next(), Outcome::Frame(Frame::Settings(Bytes::new())));
        assert_eq!(next(), Outcome::Frame(Frame::GoAway(4)));
        assert_eq!(next(), Outcome::Consumed);
    }

    #[test]
    fn a_second_control_or_qpack_stream_is_an_error() {
        for stream_type in [&[0x00][..], &[0x02], &[0x03]] {
            let mut incoming = incoming(Role::Client);
            assert_eq!(
                receive(&mut incoming, 0, stream_type),
                Ok(Outcome::Consumed)
            );
            let second = receive(&mut incoming, 1, stream_type);
            assert_eq!(second, Err(Code::H3_STREAM_CREATION_ERROR));
        }
    }

    #[test]
    fn qpack_streams_yield_their_bytes() {
        let mut incoming = incoming(Role::Server);
        let bytes = Bytes::from_static(&[0x20]);
        let outcome = receive(&mut incoming, 0, &[0x02, 0x20]);
        assert_eq!(outcome, Ok(Outcome::Encoder(bytes)));
        let bytes = Bytes::from_static(&[0x44]);
        assert_eq!(receive(&mut incoming, 1, &[0x03]), Ok(Outcome::Consumed));
        let outcome = receive(&mut incoming, 1, &[0x44]);
        assert_eq!(outcome, Ok(Outcome::Decoder(bytes)));
    }

    #[test]
    fn push_streams_are_errors_and_unknown_ones_unwanted() {
        let push = receive(&mut incoming(Role::Server), 0, &[0x01]);
        assert_eq!(push, Err(Code::H3_STREAM_CREATION_ERROR));
        let push = receive(&mut incoming(Role::Client), 0, &[0x01]);
        assert_eq!(push, Err(Code::H3_ID_ERROR));
        let unknown = receive(&mut incoming(Role::Server), 0, &[0x21]);
        assert_eq!(unknown, Ok(Outcome::Unwanted));
    }

    #[test]
    fn only_critical_streams_must_stay_open() {
        for stream_type in [&[0x00][..], &[0x02], &[0x03]] {
            let mut incoming = incoming(Role::Server);
            receive(&mut incoming, 0, stream_type).unwrap();
            let code = incoming.close(id(0)).unwrap_err().code;
            assert_eq!(code, Code::H3_CLOSED_CRITICAL_STREAM);
        }
        let mut incoming = incoming(Role::Server);
        receive(&mut incoming, 0, &[0x21]).unwrap();
        receive(&mut incoming, 1, &[0x40]).unwrap();
        assert!(incoming.close(id(0)).is_ok());
        assert!(incoming.close(id(1)).is_ok());
    }
}
