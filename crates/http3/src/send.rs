//! The sending half of an exchange: heads and DATA frames into a QUIC stream that takes what fits.
//!
//! Body bytes are handed on by reference. What did not fit stays with the application, except the
//! bytes of frame headers and heads, which wait here: one head at most.

use altway_quic::Connection;
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

    /// Whether everything was said, if perhaps not yet sent.
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.state, State::Ending | State::Ended)
    }

    /// Sends an interim head; more follow.
    pub(crate) fn interim(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        section: &[u8],
    ) -> Result<(), Error> {
        self.check_head()?;
        // Bounded all the same: an application that outruns the stream hears of it.
        if !self.unsent.is_empty() {
            return Err(out_of_order("an interim head still waits to be sent"));
        }
        self.unsent = headers_frame(section);
        self.flush(quic, id)
    }

    /// Sends the final head.
    pub(crate) fn head(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        section: &[u8],
        end: bool,
    ) -> Result<(), Error> {
        self.check_head()?;
        self.append(headers_frame(section));
        self.state = if end { State::Ending } else { State::Body };
        self.flush(quic, id)
    }

    /// Sends body bytes: as many as fit, from the front of `data`.
    pub(crate) fn data(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        data: &mut Bytes,
        end: bool,
    ) -> Result<(), Error> {
        match self.state {
            State::Body => {}
            State::Head => return Err(out_of_order("data before the head")),
            State::Ending | State::Ended => return Err(out_of_order("data after the end")),
        }
        while !data.is_empty() {
            if self.owed == 0 && self.unsent.is_empty() {
                self.begin_frame(data.len());
            }
            if !self.write(quic, id, data)? {
                self.blocked = true;
                return Ok(());
            }
        }
        if end {
            if self.owed > 0 {
                return Err(out_of_order("less data than a frame already announced"));
            }
            self.state = State::Ending;
            self.flush(quic, id)?;
        }
        Ok(())
    }

    /// Sends trailers, and with them the end.
    pub(crate) fn trailers(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        section: &[u8],
    ) -> Result<(), Error> {
        match self.state {
            State::Body if self.owed == 0 => {}
            State::Body => return Err(out_of_order("less data than a frame already announced")),
            State::Head => return Err(out_of_order("trailers before the head")),
            State::Ending | State::Ended => return Err(out_of_order("trailers after the end")),
        }
        self.append(headers_frame(section));
        self.state = State::Ending;
        self.flush(quic, id)
    }

    /// Whether something waits for the peer to let it go.
    pub(crate) fn is_held_up(&self) -> bool {
        self.blocked || !self.unsent.is_empty()
    }

    /// The stream takes bytes again. Whether the application waits for that.
    pub(crate) fn writable(&mut self, quic: &mut Connection, id: StreamId) -> Result<bool, Error> {
        self.flush(quic, id)?;
        Ok(self.unsent.is_empty() && std::mem::take(&mut self.blocked))
    }

    fn check_head(&self) -> Result<(), Error> {
        match self.state {
            State::Head => Ok(()),
            _ => Err(out_of_order("second head")),
        }
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
        quic: &mut Connection,
        id: StreamId,
        data: &mut Bytes,
    ) -> Result<bool, Error> {
        let len = usize::try_from(self.owed)
            .unwrap_or(usize::MAX)
            .min(data.len());
        let mut chunks = [std::mem::take(&mut self.unsent), data.slice(..len)];
        let fitted = quic.write(id, &mut chunks);
        let [unsent, left] = chunks;
        let written = len - left.len();
        self.unsent = unsent;
        self.owed -= written as u64;
        data.advance(written);
        Ok(fitted?)
    }

    fn flush(&mut self, quic: &mut Connection, id: StreamId) -> Result<(), Error> {
        let mut chunks = [std::mem::take(&mut self.unsent)];
        let fitted = quic.write(id, &mut chunks);
        [self.unsent] = chunks;
        if fitted? && self.state == State::Ending {
            // Fails only if the peer stopped the stream, which its own event tells.
            let _ = quic.finish(id);
            self.state = State::Ended;
        }
        Ok(())
    }
}

fn headers_frame(section: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(frame::MAX_HEADER_LEN + section.len());
    frame::encode_header(kind::HEADERS, section.len() as u64, &mut out);
    out.extend_from_slice(section);
    out.freeze()
}

fn out_of_order(reason: &'static str) -> Error {
    Error::OutOfOrder { reason }
}
