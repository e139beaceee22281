//! Heads that come or go once more as they are. A page's requests are often alike, and so are the
//! responses to them: a head that was decoded, or encoded, is not made again from nothing.
//!
//! One head of each direction is remembered, from its second time on: one that comes once costs a
//! comparison and the memory of its bytes.

use std::sync::{Arc, Weak};

use altway_fields::Priority;
use altway_quic::QuicConnection;
use bytes::{Bytes, BytesMut};
use http::{Request, Response};

use super::Connection;
use crate::receive::Body;
use crate::send::{Kind, append_headers};
use crate::{Error, StreamId, frame, message, qpack};

/// Longer sections are not remembered: they are rare, and every connection would hold one.
const MAX_SECTION: usize = 1024;

/// The last request that came.
#[derive(Debug, Default)]
pub(super) struct LastRequest {
    section: Vec<u8>,
    /// The decoded section, once it came twice.
    decoded: Option<Decoded>,
}

#[derive(Debug)]
struct Decoded {
    basis: qpack::Basis,
    meaning: RequestHead,
}

/// Meaning of a request's field section.
#[derive(Clone, Debug)]
pub(super) struct RequestHead {
    pub(super) head: Arc<Request<()>>,
    /// Content's length, by the fields.
    pub(super) body: Body,
    /// Response's priority, by the fields.
    pub(super) priority: Priority,
}

/// The last response that was sent by [`Connection::send_message`].
#[derive(Debug, Default)]
pub(super) struct LastResponse {
    /// Holds no head in memory that nobody sends any more.
    head: Weak<Response<()>>,
    /// The encoded section, once it was sent twice.
    encoded: Option<Encoded>,
}

#[derive(Debug)]
struct Encoded {
    section: qpack::Section,
    /// Length of the DATA frame's payload, bytes.
    len: usize,
    /// The HEADERS frame, and the header of the DATA frame.
    frames: Bytes,
}

impl LastRequest {
    /// Returns the meaning of a section that was taken before.
    pub(super) fn find(
        &self,
        decoder: &mut qpack::Decoder,
        id: StreamId,
        section: &[u8],
    ) -> Option<RequestHead> {
        let decoded = self.decoded.as_ref()?;
        let same = self.section == section && decoder.decode_again(id.get(), decoded.basis);
        same.then(|| decoded.meaning.clone())
    }

    /// Remembers the meaning of a section.
    pub(super) fn keep(&mut self, section: &[u8], basis: qpack::Basis, meaning: &RequestHead) {
        self.decoded = (self.section == section).then(|| Decoded {
            basis,
            meaning: meaning.clone(),
        });
        if self.decoded.is_none() && section.len() <= MAX_SECTION {
            self.section.clear();
            self.section.extend_from_slice(section);
        }
    }
}

impl Connection {
    /// Server: sends a response's final head, and body bytes behind it: takes as many as fit from the
    /// front of `data`, as [`send_data`](Self::send_data) does, which sends what is left. `end` counts
    /// once `data` is empty.
    ///
    /// For responses that are the same again and again: a head that is sent once more, as the same
    /// `Arc`, is not encoded anew as long as the peer's table allows.
    ///
    /// # Errors
    /// As [`send_response`](Self::send_response) and [`send_data`](Self::send_data).
    pub fn send_message(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        head: &Arc<Response<()>>,
        data: &mut Bytes,
        end: bool,
    ) -> Result<(), Error> {
        self.check_response()?;
        if head.status().is_informational() {
            return Err(Error::InvalidMessage {
                reason: "an interim response has no body",
            });
        }
        let exchange = self.exchanges.get(&id).ok_or(Error::UnknownStream)?;
        let sender = exchange.sender.as_ref().ok_or(Error::UnknownStream)?;
        // What is not sent is never acknowledged, so the table must not wait for it.
        sender.check(Kind::Final { end })?;
        let frames = match self.encoded_before(id, head, data.len()) {
            Some(frames) => frames,
            None => self.encode(id, head, data.len())?,
        };
        let exchange = self.exchanges.get_mut(&id).ok_or(Error::UnknownStream)?;
        let sender = exchange.sender.as_mut().ok_or(Error::UnknownStream)?;
        let before = frames.len() + data.len();
        let sent = sender.message(quic, id, frames, data, end);
        exchange.on_sent(before - data.len());
        self.check_written(quic, id, sent)
    }

    /// The frames of a head that was sent before, if they still say what they said.
    fn encoded_before(
        &mut self,
        id: StreamId,
        head: &Arc<Response<()>>,
        len: usize,
    ) -> Option<Bytes> {
        let last = &self.last_response;
        let encoded = last.encoded.as_ref()?;
        let same = encoded.len == len && last.is(head) && self.check_size(&encoded.section).is_ok();
        let same = same && self.encoder.finish_again(&encoded.section, id.get());
        same.then(|| encoded.frames.clone())
    }

    fn encode(
        &mut self,
        id: StreamId,
        head: &Arc<Response<()>>,
        len: usize,
    ) -> Result<Bytes, Error> {
        let section = message::encode_response(head, &mut self.encoder)?;
        self.check_size(&section)?;
        let encoded = self.encoder.finish(&section, id.get());
        let mut frames = BytesMut::with_capacity(encoded.len() + 2 * frame::MAX_HEADER_LEN);
        append_headers(&encoded, &mut frames);
        if len > 0 {
            frame::encode_header(frame::kind::DATA, len as u64, &mut frames);
        }
        let frames = frames.freeze();
        let encoded = self.last_response.is(head).then(|| Encoded {
            section,
            len,
            frames: frames.clone(),
        });
        self.last_response = LastResponse {
            head: Arc::downgrade(head),
            encoded,
        };
        Ok(frames)
    }
}

impl LastResponse {
    /// The place of a head stays its own as long as it is remembered, if only weakly.
    fn is(&self, head: &Arc<Response<()>>) -> bool {
        std::ptr::eq(self.head.as_ptr(), Arc::as_ptr(head))
    }
}
