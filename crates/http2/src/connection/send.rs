//! Sending for the application: heads, bodies, trailers, resets, and the order of streams.

use altway_message::PseudoFields;
use bytes::Bytes;
use http::uri::{Authority, PathAndQuery};
use http::{Method, Request};

use super::Turn;
use crate::config::Role;
use crate::event::StreamId;
use crate::field_block::Indexing;
use crate::fields::Fields;
use crate::frame::{self, FrameHeader, HEADER_LEN, MAX_PAYLOAD, flag, kind};
use crate::hpack::FIELD_OVERHEAD;
use crate::stream::{Progress, Stream};
use crate::{Code, Error};

/// A frame of DATA that was sent pays so many control frames back: the WINDOW_UPDATE that answers.
const CONTROL_FRAMES_PER_DATA: u32 = 8;

impl Turn<'_> {
    /// Server: sends the final response's head. `end`: it has no body; else
    /// [`send_data`](Turn::send_data) follows. `fields` are left out where HTTP/2 has no place for
    /// them (RFC 9113 section 8.2.2).
    ///
    /// # Errors
    /// [`Error::UnknownStream`]; a second head; status 101 or below 200.
    pub fn send_response<'f>(
        &mut self,
        stream: StreamId,
        status: u16,
        fields: impl Into<Fields<'f>>,
        end: bool,
    ) -> Result<(), Error> {
        if !(200..1000).contains(&status) {
            return Err(Error::InvalidMessage {
                reason: "status of a final response is 200 to 999",
            });
        }
        self.head_expected(stream)?;
        self.put_response(stream, status, fields.into(), end);
        let stream_state = self.stream(stream)?;
        stream_state.sending = if end { Progress::Done } else { Progress::Body };
        if end {
            self.settle(stream.0);
        }
        Ok(())
    }

    /// Server: sends an interim response: 100 to let a client that asked with `Expect:
    /// 100-continue` send its body, or another 1xx.
    ///
    /// # Errors
    /// [`Error::UnknownStream`]; after the final head; status 101 (HTTP/2 has none) or not 1xx.
    pub fn send_informational<'f>(
        &mut self,
        stream: StreamId,
        status: u16,
        fields: impl Into<Fields<'f>>,
    ) -> Result<(), Error> {
        if status == 101 || !(100..200).contains(&status) {
            return Err(Error::InvalidMessage {
                reason: "status of an interim response is 100 or 102 to 199",
            });
        }
        self.head_expected(stream)?;
        self.put_response(stream, status, fields.into(), false);
        Ok(())
    }

    /// Client: sends a request's head, with an absolute URI (or an authority alone in CONNECT).
    /// `protocol` makes it an extended CONNECT (RFC 8441). `end`: it has no body.
    ///
    /// # Errors
    /// [`Error::GoingAway`], [`Error::StreamsExhausted`], [`Error::HeadTooLarge`], or what HTTP/2
    /// can't express.
    pub fn send_request(
        &mut self,
        head: &Request<()>,
        protocol: Option<&str>,
        end: bool,
    ) -> Result<StreamId, Error> {
        self.stream_expected()?;
        let pseudo = pseudo_fields(head, protocol)?;
        let limit = self.connection.peer.max_header_list_size;
        let fields = Fields::from(head.headers());
        let pseudo_size = |(name, value): (&str, &str)| name.len() + value.len() + FIELD_OVERHEAD;
        let size = pseudo.clone().map(pseudo_size).sum::<usize>() + fields.list_size();
        if size > limit {
            return Err(Error::HeadTooLarge { size, limit });
        }
        self.send_preface();
        let id = match self.connection.last_stream {
            0 => 1,
            last => last + 2,
        };
        self.connection.last_stream = id;
        self.put_head(id, end, |connection, out| {
            for (name, value) in pseudo {
                // Paths seldom repeat; they would push out what does.
                let indexing = match name {
                    ":path" => Indexing::Without,
                    _ => Indexing::Incremental,
                };
                let (name, value) = (name.as_bytes(), value.as_bytes());
                connection.encoder.field(name, value, indexing, out);
            }
            fields.encode(&mut connection.encoder, out);
        });
        let mut stream = self.new_stream(id);
        stream.sending = if end { Progress::Done } else { Progress::Body };
        stream.bodiless = head.method() == Method::HEAD;
        self.connection.streams.insert(stream);
        Ok(StreamId(id))
    }

    /// Sends the next bytes of a body: at most one DATA frame, and as much as the windows allow.
    /// Gives how many of `data`'s bytes that were. Where it was less than all, or `end` is false,
    /// the stream waits for its turn: [`next_sendable`](Turn::next_sendable) names it, and the
    /// application goes on with the rest. `end`: `data` is the last of the body.
    ///
    /// # Errors
    /// [`Error::UnknownStream`]; before the head or after the end.
    pub fn send_data(&mut self, stream: StreamId, data: &Bytes, end: bool) -> Result<usize, Error> {
        let max_payload = self.max_payload();
        let window = self.connection.send_window.available();
        let (now, least) = (self.now, self.connection.config.timeouts.stall_bytes);
        let state = self.body_expected(stream)?;
        let len = data
            .len()
            .min(window)
            .min(state.send_window.available())
            .min(max_payload);
        let last = end && len == data.len();
        if len > 0 {
            state.moved(len, least, now);
            state.send_window.consume(len);
            self.connection.send_window.consume(len);
            self.connection.control.earn(CONTROL_FRAMES_PER_DATA);
        }
        if len > 0 || last {
            self.put_data(stream.0, data, len, last);
        }
        if last {
            self.sent_all(stream);
        } else {
            self.schedule(stream.0);
        }
        Ok(len)
    }

    /// Returns the bytes of a body that the peer's windows take now, this stream's and the
    /// connection's, in frames of any number. 0 as well for a stream that is gone.
    ///
    /// Ask this first, and then read as much: so nothing is held that can't be sent.
    #[must_use]
    pub fn send_capacity(&self, stream: StreamId) -> usize {
        let state = self.connection.streams.get(stream.0);
        let window = state.map_or(0, |state| state.send_window.available());
        window.min(self.connection.send_window.available())
    }

    /// Ends a body with fields.
    ///
    /// # Errors
    /// [`Error::UnknownStream`]; before the head or after the end.
    pub fn send_trailers<'f>(
        &mut self,
        stream: StreamId,
        fields: impl Into<Fields<'f>>,
    ) -> Result<(), Error> {
        self.body_expected(stream)?;
        let fields = fields.into();
        self.put_head(stream.0, true, |connection, out| {
            fields.encode(&mut connection.encoder, out);
        });
        self.sent_all(stream);
        Ok(())
    }

    /// The stream whose turn it is to send, by urgency and order (RFC 9218): give it one
    /// [`send_data`](Turn::send_data). A stream that has nothing to say now is left out until the
    /// application calls `send_data` for it again. `None`: none can send.
    ///
    /// Call it until `None` or until the output is as large as the application wants to send at
    /// once.
    pub fn next_sendable(&mut self) -> Option<StreamId> {
        let connection = &mut *self.connection;
        if connection.send_window.available() == 0 {
            return None;
        }
        loop {
            let id = connection.scheduler.pop()?;
            let Some(stream) = connection.streams.get_mut(id) else {
                continue;
            };
            stream.queued = false;
            if stream.send_window.available() > 0 {
                stream.wants = false;
                return Some(StreamId(id));
            }
        }
    }

    /// The application holds `n` bytes of a body no longer: the peer may send as many more.
    pub fn release(&mut self, stream: StreamId, n: usize) {
        if n == 0 {
            return;
        }
        let growth = self.growth(self.connection.config.max_stream_window);
        let state = self.connection.streams.get_mut(stream.0);
        if let Some(state) = state.filter(|state| state.receiving == Progress::Body)
            && let Some(increment) = state.receive_window.release(n, growth)
        {
            // Its time begins now: before, it may have waited for us.
            state.progressed = growth.now;
            self.window_update(stream.0, increment);
        }
        self.release_connection(n);
    }

    /// The application threw `n` bytes of a body away, and wants no more of that body: the peer may
    /// send as many more on other streams.
    pub fn discard(&mut self, n: usize) {
        self.release_connection(n);
    }

    pub(super) fn release_connection(&mut self, n: usize) {
        if n == 0 {
            return;
        }
        let growth = self.growth(self.connection.config.max_connection_window);
        if let Some(increment) = self.connection.receive_window.release(n, growth) {
            self.window_update(0, increment);
            self.measure_rtt();
        }
    }

    /// Abandons a stream in both directions. Without effect if it is gone.
    pub fn reset_stream(&mut self, stream: StreamId, code: Code) {
        if self.connection.streams.get_mut(stream.0).is_some() {
            self.put_reset(stream.0, code);
            self.forget(stream.0);
        }
    }

    /// Server: names alternative services for `origin` by an ALTSVC frame (RFC 7838 section 4), as
    /// the Alt-Svc field does for the origin of its response.
    ///
    /// # Errors
    /// An empty origin, or more than a frame holds.
    pub fn send_alt_svc(&mut self, origin: &str, value: &str) -> Result<(), Error> {
        if self.connection.role == Role::Client {
            return Err(Error::WrongRole {
                reason: "a client has no alternative services",
            });
        }
        let len = u16::try_from(origin.len()).unwrap_or(u16::MAX);
        let payload = [&len.to_be_bytes(), origin.as_bytes(), value.as_bytes()].concat();
        if origin.is_empty() || usize::from(len) != origin.len() || payload.len() > MAX_PAYLOAD {
            return Err(Error::InvalidMessage {
                reason: "origin is empty, or origin and value exceed a frame",
            });
        }
        self.send_preface();
        self.put(kind::ALTSVC, flag::NONE, 0, &payload);
        Ok(())
    }

    fn max_payload(&self) -> usize {
        let own = self.connection.config.max_data_payload;
        own.clamp(1, self.connection.peer.max_frame_size)
    }

    fn stream(&mut self, stream: StreamId) -> Result<&mut Stream, Error> {
        let found = self.connection.streams.get_mut(stream.0);
        found.ok_or(Error::UnknownStream)
    }

    fn head_expected(&mut self, stream: StreamId) -> Result<(), Error> {
        if self.connection.role == Role::Client {
            return Err(Error::WrongRole {
                reason: "a client can't respond",
            });
        }
        match self.stream(stream)?.sending {
            Progress::Head => Ok(()),
            _ => Err(Error::OutOfOrder {
                reason: "a second head",
            }),
        }
    }

    fn body_expected(&mut self, stream: StreamId) -> Result<&mut Stream, Error> {
        let state = self.stream(stream)?;
        match state.sending {
            Progress::Head => Err(Error::OutOfOrder {
                reason: "body before the head",
            }),
            Progress::Body => Ok(state),
            Progress::Done => Err(Error::OutOfOrder {
                reason: "body after its end",
            }),
        }
    }

    fn stream_expected(&mut self) -> Result<(), Error> {
        let connection = &mut *self.connection;
        if connection.role == Role::Server {
            return Err(Error::WrongRole {
                reason: "a server can't send requests",
            });
        }
        // Section 5.1.1: "Stream identifiers cannot be reused", so 2^30 requests end it.
        if connection.is_going_away() || connection.last_stream >= (1 << 31) - 1 {
            return Err(Error::GoingAway);
        }
        if connection.streams.len() >= connection.max_streams() {
            connection.wants_stream = true;
            return Err(Error::StreamsExhausted);
        }
        Ok(())
    }

    fn put_response(&mut self, stream: StreamId, status: u16, fields: Fields<'_>, end: bool) {
        self.put_head(stream.0, end, |connection, out| {
            connection.encoder.status(status, out);
            fields.encode(&mut connection.encoder, out);
        });
    }

    /// HEADERS, with CONTINUATION where the block does not fit into one frame.
    fn put_head(
        &mut self,
        id: u32,
        end: bool,
        encode: impl FnOnce(&mut super::Connection, &mut Vec<u8>),
    ) {
        let max = self.connection.peer.max_frame_size;
        let out = self.output.buffer();
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_LEN]);
        self.connection.encoder.begin(out);
        encode(self.connection, out);
        let len = out.len() - start - HEADER_LEN;
        let ended = if end { flag::END_STREAM } else { flag::NONE };
        let mut header = FrameHeader {
            len,
            kind: kind::HEADERS,
            flags: ended | flag::END_HEADERS,
            stream: id,
        };
        if len <= max {
            return header.put_at(start, out);
        }
        let rest = out.split_off(start + HEADER_LEN + max);
        header.len = max;
        header.flags = ended;
        header.put_at(start, out);
        put_continuations(out, id, &rest, max);
    }

    fn put_data(&mut self, id: u32, data: &Bytes, len: usize, last: bool) {
        let header = FrameHeader {
            len,
            kind: kind::DATA,
            flags: if last { flag::END_STREAM } else { flag::NONE },
            stream: id,
        };
        header.put(self.output.buffer());
        self.output.body(data, len);
    }

    fn sent_all(&mut self, stream: StreamId) {
        let connection = &mut *self.connection;
        let Some(state) = connection.streams.get_mut(stream.0) else {
            return;
        };
        state.sending = Progress::Done;
        state.wants = false;
        if std::mem::take(&mut state.queued) {
            connection.scheduler.remove(stream.0, state.priority);
        }
        self.settle(stream.0);
    }

    /// A stream that has more to send.
    fn schedule(&mut self, id: u32) {
        let connection = &mut *self.connection;
        let Some(stream) = connection.streams.get_mut(id) else {
            return;
        };
        stream.wants = true;
        stream.queue_in(&mut connection.scheduler);
    }
}

fn put_continuations(out: &mut Vec<u8>, id: u32, block: &[u8], max: usize) {
    let mut frames = block.chunks(max).peekable();
    while let Some(part) = frames.next() {
        let flags = if frames.peek().is_none() {
            flag::END_HEADERS
        } else {
            flag::NONE
        };
        frame::put(out, kind::CONTINUATION, flags, id, part);
    }
}

/// Names and values of a request's pseudo-fields.
fn pseudo_fields<'a>(
    head: &'a Request<()>,
    protocol: Option<&'a str>,
) -> Result<impl Iterator<Item = (&'static str, &'a str)> + Clone, Error> {
    let uri = head.uri();
    let parts = PseudoFields {
        method: Some(head.method().as_str()),
        scheme: uri.scheme_str(),
        authority: uri.authority().map(Authority::as_str),
        path: uri.path_and_query().map(PathAndQuery::as_str),
        protocol,
        status: None,
    };
    let fields = parts.to_send();
    fields.map_err(|reason| Error::InvalidMessage { reason })
}
