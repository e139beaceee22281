//! The sending half of an exchange: heads and DATA frames into a QUIC stream that takes what fits.
//!
//! Body bytes are handed on by reference. What did not fit stays with the application, except the
//! bytes of frame headers and heads, which wait here: one head at most.

use altway_quic::QuicConnection;
use bytes::{Buf, Bytes, BytesMut};

use crate::frame::{self, kind};
use crate::{Error, StreamId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The final head is still to come.
    Head,
    /// DATA may be sent.
    Body,
    /// All is said, but some of it waits here.
    Ending,
    /// All is with the QUIC engine.
    Ended,
}

/// A field section's place in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An interim head; more follow.
    Interim,
    /// The final head, perhaps without a body.
    Final { end: bool },
    /// Behind the body, and with the end.
    Trailers,
}

/// Pieces of a body up to so many bytes are copied: a peer that opens its window by a byte at a time would
/// make each byte hold the piece that it is a part of.
const COPIED_BYTES: usize = 4 << 10;

const CUT_SHORT: &str = "less data than a frame already announced";

/// The sending half of an exchange.
#[derive(Debug)]
pub(crate) struct Sender {
    state: State,
    /// Frame bytes that the stream has not taken yet.
    unsent: Bytes,
    /// Payload that is still owed to the DATA frame begun last.
    owed: u64,
    /// The application waits for `Writable`.
    blocked: bool,
}

impl Sender {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Head,
            unsent: Bytes::new(),
            owed: 0,
            blocked: false,
        }
    }

    /// Returns true if the message was given whole, if perhaps not yet sent.
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.state, State::Ending | State::Ended)
    }

    /// Checks that a field section of this kind may be sent now.
    pub(crate) fn check(&self, kind: Kind) -> Result<(), Error> {
        match (kind, self.state) {
            // Bounded all the same: an application that outruns the stream hears of it.
            (Kind::Interim, State::Head) if !self.unsent.is_empty() => {
                Err(out_of_order("an interim head still waits to be sent"))
            }
            (Kind::Interim | Kind::Final { .. }, State::Head) => Ok(()),
            (Kind::Interim | Kind::Final { .. }, _) => Err(out_of_order("second head")),
            (Kind::Trailers, State::Body) if self.owed == 0 => Ok(()),
            (Kind::Trailers, State::Body) => Err(out_of_order(CUT_SHORT)),
            (Kind::Trailers, State::Head) => Err(out_of_order("trailers before the head")),
            (Kind::Trailers, _) => Err(out_of_order("trailers after the end")),
        }
    }

    /// Sends a field section.
    pub(crate) fn section(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        kind: Kind,
        section: &[u8],
    ) -> Result<(), Error> {
        self.check(kind)?;
        let mut frame = BytesMut::with_capacity(frame::MAX_HEADER_LEN + section.len());
        append_headers(section, &mut frame);
        self.append(frame.freeze());
        self.state = match kind {
            Kind::Interim => State::Head,
            Kind::Final { end: false } => State::Body,
            Kind::Final { end: true } | Kind::Trailers => State::Ending,
        };
        self.flush(quic, id)
    }

    /// Sends a final head and body bytes, as many as fit, from the front of `data`. `frames`: the
    /// HEADERS frame, and, if there is data, the header of a DATA frame for all of it.
    pub(crate) fn message(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        frames: Bytes,
        data: &mut Bytes,
        end: bool,
    ) -> Result<(), Error> {
        self.check(Kind::Final { end })?;
        self.append(frames);
        self.state = State::Body;
        self.owed = data.len() as u64;
        if data.is_empty() && !end {
            return self.flush(quic, id);
        }
        self.body(quic, id, data, end, 0)
    }

    /// Sends body bytes: as many as fit, from the front of `data`.
    pub(crate) fn data(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        data: &mut Bytes,
        end: bool,
    ) -> Result<(), Error> {
        match self.state {
            State::Body => self.body(quic, id, data, end, COPIED_BYTES),
            State::Head => Err(out_of_order("data before the head")),
            State::Ending | State::Ended => Err(out_of_order("data after the end")),
        }
    }

    /// `copied`: pieces up to so many bytes are copied.
    fn body(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        data: &mut Bytes,
        end: bool,
        copied: usize,
    ) -> Result<(), Error> {
        while !data.is_empty() {
            if self.owed == 0 && self.unsent.is_empty() {
                self.begin_frame(data.len());
            }
            if !self.write(quic, id, data, copied)? {
                self.blocked = true;
                return Ok(());
            }
        }
        if end {
            if self.owed > 0 {
                return Err(out_of_order(CUT_SHORT));
            }
            self.state = State::Ending;
            self.flush(quic, id)?;
        }
        Ok(())
    }

    /// Returns true if something waits for the peer to let it go.
    pub(crate) fn is_held_up(&self) -> bool {
        self.blocked || !self.unsent.is_empty()
    }

    /// The stream takes bytes again. Whether the application waits for that.
    pub(crate) fn writable(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
    ) -> Result<bool, Error> {
        self.flush(quic, id)?;
        Ok(self.unsent.is_empty() && std::mem::take(&mut self.blocked))
    }

    fn append(&mut self, frame: Bytes) {
        self.unsent = match self.unsent.is_empty() {
            true => frame,
            false => [&self.unsent[..], &frame].concat().into(),
        };
    }

    fn begin_frame(&mut self, len: usize) {
        let mut header = BytesMut::with_capacity(frame::MAX_HEADER_LEN);
        frame::encode_header(kind::DATA, len as u64, &mut header);
        self.unsent = header.freeze();
        self.owed = len as u64;
    }

    /// Writes what waits and then `data`, up to the end of the frame. Whether all of that fitted.
    fn write(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        data: &mut Bytes,
        copied: usize,
    ) -> Result<bool, Error> {
        let len = usize::try_from(self.owed)
            .unwrap_or(usize::MAX)
            .min(data.len());
        if len <= copied {
            return self.write_copy(quic, id, data, len);
        }
        let mut chunks = [std::mem::take(&mut self.unsent), data.slice(..len)];
        let fitted = quic.write(id, &mut chunks);
        let [unsent, left] = chunks;
        let written = len - left.len();
        self.unsent = unsent;
        self.owed -= written as u64;
        data.advance(written);
        Ok(fitted?)
    }

    fn write_copy(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        data: &mut Bytes,
        len: usize,
    ) -> Result<bool, Error> {
        self.flush(quic, id)?;
        if !self.unsent.is_empty() {
            return Ok(false);
        }
        let written = quic.write_copy(id, &data[..len])?;
        self.owed -= written as u64;
        data.advance(written);
        Ok(written == len)
    }

    fn flush(&mut self, quic: &mut impl QuicConnection, id: StreamId) -> Result<(), Error> {
        if !self.unsent.is_empty() {
            let mut chunks = [std::mem::take(&mut self.unsent)];
            let fitted = quic.write(id, &mut chunks);
            [self.unsent] = chunks;
            if !fitted? {
                return Ok(());
            }
        }
        if self.state == State::Ending {
            // Fails only if the peer stopped the stream, which its own event tells.
            let _ = quic.finish(id);
            self.state = State::Ended;
        }
        Ok(())
    }
}

/// Appends a field section's frame.
pub(crate) fn append_headers(section: &[u8], out: &mut BytesMut) {
    frame::encode_header(kind::HEADERS, section.len() as u64, out);
    out.extend_from_slice(section);
}

fn out_of_order(reason: &'static str) -> Error {
    Error::OutOfOrder { reason }
}
