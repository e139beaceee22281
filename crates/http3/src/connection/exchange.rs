//! Exchanges: a request and its response on one bidirectional stream, from either side's view.
//!
//! An exchange lives until both halves are over: the peer's message was read to its end (or given
//! up), and this side's was acknowledged (or given up). Heads and trailers that come are in `heads`,
//! content that comes and that nobody wants is in `unwanted`.

use std::cmp::Reverse;
use std::time::Instant;

use altway_fields::Priority;
use altway_quic::{Direction, QuicConnection};
use bytes::Bytes;
use http::{HeaderMap, Method};

use super::progress::Progress;
use super::tables::BlockedSection;
use super::unwanted::Unwanted;
use super::{Connection, FLOODS_PER_REQUEST, Phase, StreamLimiter};
use crate::failure::{Failure, Violation};
use crate::message::{self, Protocol};
use crate::receive::{Piece, Receiver};
use crate::send::{Kind, Sender};
use crate::{Code, Error, Event, Received, Role, StreamId, qpack};

/// A request and its response.
#[derive(Debug)]
pub(super) struct Exchange {
    /// Gone once the peer's message was read to its end or is not wanted.
    pub(super) receiver: Option<Receiver>,
    /// Server: the rest of the message is dropped as it comes. Gone once it has ended or was aborted.
    pub(super) unwanted: Option<Unwanted>,
    /// Gone once this side's message was acknowledged or given up.
    pub(super) sender: Option<Sender>,
    /// A section that came and can't be decoded yet.
    pub(super) blocked_section: Option<BlockedSection>,
    /// Trailers that were blocked, and that the application has not read.
    pub(super) trailers: Option<HeaderMap>,
    /// The application knows of it.
    pub(super) announced: bool,
    /// `Readable` was told and not yet followed by reading all.
    pub(super) readable: bool,
    /// The answer can't have a body.
    pub(super) head_request: bool,
    pub(super) interim_responses: u8,
    /// QUIC's priority of this side's message.
    pub(super) rank: i32,
    /// Server: a PRIORITY_UPDATE that came before the request's head.
    pub(super) requested_priority: Option<Priority>,
    /// True if the priority was raised while the message was being sent; others may have to yield to it.
    pub(super) raised: bool,
    /// Exchange after which this one is sent, whatever its rank.
    pub(super) yields_to: Option<StreamId>,
    pub(super) progress: Progress,
    /// Bytes that are counted in the connection's.
    pub(super) kept: usize,
}

impl Exchange {
    /// `method`: of the request, where it is known.
    pub(super) fn new(role: Role, limit: u64, method: Option<&Method>, now: Instant) -> Self {
        Self {
            receiver: Some(Receiver::new(role, limit)),
            unwanted: None,
            sender: Some(Sender::new()),
            blocked_section: None,
            trailers: None,
            announced: role == Role::Client,
            readable: false,
            head_request: method == Some(&Method::HEAD),
            interim_responses: 0,
            rank: 0,
            requested_priority: None,
            raised: false,
            yields_to: None,
            progress: Progress::new(now, method),
            kept: 0,
        }
    }

    /// Returns true if anything of this side's message was sent.
    pub(super) fn begun(&self) -> bool {
        self.progress.moved > 0
    }

    pub(super) fn on_sent(&mut self, bytes: usize) {
        self.progress.moved += bytes as u64;
    }

    fn is_over(&self) -> bool {
        self.receiver.is_none() && self.unwanted.is_none() && self.sender.is_none()
    }
}

impl Connection {
    /// Client: opens a stream and sends a request's head, whose URI must be absolute. `end`: there
    /// is no body.
    ///
    /// # Errors
    /// [`Error::StreamsExhausted`]: wait for [`Event::StreamsAvailable`]; this is also the answer
    /// before [`Event::Connected`], but for requests that [`Event::EarlyData`] allows.
    /// [`Error::UnknownConnection`] also when the connection has ended, though [`Event::Closed`] is
    /// still to come. [`Error::GoingAway`] after GOAWAY from either side.
    /// [`Error::InvalidMessage`], [`Error::HeadTooLarge`], [`Error::WrongRole`].
    pub fn send_request(
        &mut self,
        quic: &mut impl QuicConnection,
        head: &http::Request<()>,
        end: bool,
    ) -> Result<StreamId, Error> {
        if self.shared_config.role == Role::Server {
            return Err(Error::WrongRole {
                reason: "a server sends no requests",
            });
        }
        if self.go_away_sent.is_some() || self.go_away_received.is_some() {
            return Err(Error::GoingAway);
        }
        self.check_early(head, end)?;
        let extended = head.extensions().get::<Protocol>().is_some();
        if extended && !self.peer_settings.extended_connect {
            return Err(Error::InvalidMessage {
                reason: "the server has not announced extended CONNECT",
            });
        }
        let section = message::encode_request(head, &mut self.encoder)?;
        self.check_size(&section)?;
        let id = self.open_request(quic)?;
        let limit = self.shared_config.limits.max_field_section_size;
        let mut exchange = Exchange::new(Role::Client, limit, Some(head.method()), self.now);
        let sender = exchange.sender.as_mut();
        let sender = sender.expect("a new exchange has both halves");
        let encoded = self.encoder.finish(&section, id.get());
        sender.section(quic, id, Kind::Final { end }, &encoded)?;
        self.exchanges.insert(id, exchange);
        self.note_early(id, head);
        self.floods.earn(FLOODS_PER_REQUEST);
        Ok(id)
    }

    /// Server: sends a response's head. `end`: there is no body. Interim responses (1xx) may come
    /// before the final one, with `end` false.
    ///
    /// # Errors
    /// [`Error::UnknownStream`] if the exchange is over, [`Error::OutOfOrder`] for a second final
    /// head, [`Error::InvalidMessage`], [`Error::HeadTooLarge`],
    /// [`Error::WrongRole`].
    pub fn send_response(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        head: &http::Response<()>,
        end: bool,
    ) -> Result<(), Error> {
        self.check_response()?;
        let interim = head.status().is_informational();
        if interim && end {
            return Err(Error::InvalidMessage {
                reason: "an interim response ends nothing",
            });
        }
        let section = message::encode_response(head, &mut self.encoder)?;
        let kind = match interim {
            true => Kind::Interim,
            false => Kind::Final { end },
        };
        self.send_section(quic, id, &section, kind)
    }

    /// Sends trailers, and with them the end of a message whose body was sent without. Where there is no
    /// field to send, the end alone.
    ///
    /// # Errors
    /// As [`send_data`](Self::send_data); [`Error::HeadTooLarge`].
    pub fn send_trailers(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        fields: &HeaderMap,
    ) -> Result<(), Error> {
        let section = message::encode_trailers(fields, &mut self.encoder);
        if section.size() == 0 {
            // RFC 9114 section 4.1: trailers are "optionally" there; and some peers take a section that
            // has no line for one that can't be decompressed.
            return self.end_message(quic, id);
        }
        self.send_section(quic, id, &section, Kind::Trailers)
    }

    /// Sends body bytes: takes as many as fit from the front of `data`, without copying. If any are
    /// left, wait for [`Event::Writable`] and call again with at least these bytes. `end` counts
    /// once `data` is empty.
    ///
    /// A server's stream is also done with reading once the peer has acknowledged all of the
    /// response: [`Event::Readable`](crate::Event::Readable) tells an application that waits for more.
    ///
    /// # Errors
    /// [`Error::UnknownStream`] if the exchange is over or the peer stopped it,
    /// [`Error::OutOfOrder`] before the head, after the end, or at an end short of what an earlier
    /// call began to send.
    pub fn send_data(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        data: &mut Bytes,
        end: bool,
    ) -> Result<(), Error> {
        let exchange = self.exchanges.get_mut(&id).ok_or(Error::UnknownStream)?;
        let sender = exchange.sender.as_mut().ok_or(Error::UnknownStream)?;
        let before = data.len();
        let sent = sender.data(quic, id, data, end);
        exchange.on_sent(before - data.len());
        self.check_written(quic, id, sent)
    }

    /// Reads body bytes, and the trailers behind them. Reading gives the peer credit to send on; not
    /// reading holds it back.
    ///
    /// # Errors
    /// [`Error::StreamReset`] if the exchange failed; this tells it, no event follows.
    /// [`Error::UnknownStream`] after the end or a reset.
    pub fn recv_data(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
    ) -> Result<Received, Error> {
        let exchange = self.exchanges.get_mut(&id).ok_or(Error::UnknownStream)?;
        let receiver = exchange.receiver.as_mut().ok_or(Error::UnknownStream)?;
        if receiver.in_head() || exchange.blocked_section.is_some() {
            exchange.readable = false;
            return Ok(Received::Pending);
        }
        if let Some(fields) = exchange.trailers.take() {
            return Ok(Received::Trailers(fields));
        }
        let piece = receiver.poll_body(&mut self.floods, &mut || quic.read(id));
        let piece = match self.check_kept(quic, id) {
            Ok(()) => piece,
            Err(failure) => Err(failure),
        };
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return Err(Error::UnknownStream);
        };
        let failure = match piece {
            Ok(Piece::Data(data)) => {
                exchange.progress.moved += data.len() as u64;
                return Ok(Received::Data(data));
            }
            Ok(Piece::Pending) => {
                exchange.readable = false;
                return Ok(Received::Pending);
            }
            Ok(Piece::End) => {
                exchange.receiver = None;
                self.remove_if_over(id);
                return Ok(Received::End);
            }
            Ok(Piece::Trailers(section)) => match self.on_trailers(id, &section) {
                Ok(Some(fields)) => return Ok(Received::Trailers(fields)),
                Ok(None) => match self.check_kept(quic, id) {
                    Ok(()) => return Ok(Received::Pending),
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            },
            Err(failure) => failure,
        };
        Err(match self.end_exchange(quic, id, failure) {
            Some(code) => Error::StreamReset { code },
            None => Error::UnknownConnection,
        })
    }

    /// Gives an exchange up in both directions (RESET_STREAM and STOP_SENDING). No event follows.
    /// Without effect on what is over already.
    pub fn reset_stream(&mut self, quic: &mut impl QuicConnection, id: StreamId, code: Code) {
        let Some(exchange) = self.exchanges.remove(&id) else {
            return;
        };
        self.kept -= exchange.kept;
        if exchange.receiver.is_some() || exchange.unwanted.is_some() {
            quic.stop(id, code.get());
            self.cancel_sections(id);
        }
        if exchange.sender.is_some() {
            quic.reset(id, code.get());
        }
        if exchange.raised {
            self.end_precedence(quic, id);
        }
        self.offer_streams(StreamLimiter::Us);
    }

    pub(super) fn on_writable(&mut self, quic: &mut impl QuicConnection, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let Some(sender) = &mut exchange.sender else {
            return;
        };
        // A failing write means that the peer stopped the stream, which its own event tells.
        if let Ok(true) = sender.writable(quic, id) {
            self.writable.insert((Reverse(exchange.rank), id));
        }
    }

    /// The peer has acknowledged all that this side sent.
    pub(super) fn on_finished(&mut self, quic: &mut impl QuicConnection, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        exchange.sender = None;
        let waits_for_more = exchange.receiver.is_some() && !exchange.readable;
        if exchange.raised {
            self.end_precedence(quic, id);
        }
        if self.shared_config.role == Role::Server {
            self.resets.earn(1);
            // Whoever has the whole response needs no more of its request to be read. This frees
            // streams whose application answered early and forgot them; one that waits for more is told.
            if waits_for_more {
                self.events.push_back(Event::Readable { stream: id });
            }
            self.stop_reading(quic, id, Code::H3_NO_ERROR);
            self.expect_progress(id);
        }
        self.remove_if_over(id);
        if self.shared_config.role == Role::Server && !self.owes_response() {
            self.events.push_back(Event::Delivered);
        }
    }

    /// The peer wants no more of what this side sends. For a server, the exchange is over.
    pub(super) fn on_stopped(&mut self, quic: &mut impl QuicConnection, id: StreamId, code: Code) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            // For instance the stream without meaning.
            return quic.reset(id, code.get());
        };
        if self.shared_config.role == Role::Server {
            return self.fail_exchange(quic, id, Failure::Reset(code));
        }
        let Some(sender) = exchange.sender.take() else {
            return;
        };
        // RFC 9000 section 3.5 asks for a reset, with the peer's code.
        quic.reset(id, code.get());
        if !sender.is_ended() {
            self.events
                .push_back(Event::SendStopped { stream: id, code });
        }
        self.remove_if_over(id);
    }

    /// Client: gives up the requests that the server will not process.
    pub(super) fn reject_from(&mut self, quic: &mut impl QuicConnection, first: u64) {
        for id in self.streams(|id, _| id.get() >= first) {
            self.reset_stream(quic, id, Code::H3_REQUEST_CANCELLED);
            let code = Code::H3_REQUEST_REJECTED;
            self.events
                .push_back(Event::StreamReset { stream: id, code });
        }
    }

    /// Tells a client that was refused a stream that there may be one now.
    pub(super) fn offer_streams(&mut self, limiter: StreamLimiter) {
        if self.phase == Phase::Open && self.wants_stream == Some(limiter) {
            self.wants_stream = None;
            self.events.push_back(Event::StreamsAvailable);
        }
    }

    /// Ends an exchange that failed and tells the application, if it knows of it.
    pub(super) fn fail_exchange(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        failure: Failure,
    ) {
        let announced = self
            .exchanges
            .get(&id)
            .is_some_and(|exchange| exchange.announced);
        if let Some(code) = self.end_exchange(quic, id, failure)
            && announced
        {
            self.events
                .push_back(Event::StreamReset { stream: id, code });
        }
    }

    /// Server: whether a response is to be acknowledged, or made.
    fn owes_response(&self) -> bool {
        let mut exchanges = self.exchanges.values();
        exchanges.any(|exchange| exchange.sender.is_some())
    }

    /// The streams of exchanges, in order.
    pub(super) fn streams(&self, are: impl Fn(StreamId, &Exchange) -> bool) -> Vec<StreamId> {
        let streams = self.exchanges.iter().filter(|(id, it)| are(**id, it));
        let mut streams: Vec<_> = streams.map(|(id, _)| *id).collect();
        streams.sort_unstable();
        streams
    }

    pub(super) fn remove_if_over(&mut self, id: StreamId) {
        if self.exchanges.get(&id).is_some_and(Exchange::is_over) {
            let removed = self.exchanges.remove(&id);
            self.kept -= removed.map_or(0, |it| it.kept);
            self.offer_streams(StreamLimiter::Us);
        }
    }

    /// Sends the end of a message whose body was sent without.
    fn end_message(&mut self, quic: &mut impl QuicConnection, id: StreamId) -> Result<(), Error> {
        let exchange = self.exchanges.get_mut(&id).ok_or(Error::UnknownStream)?;
        let sender = exchange.sender.as_mut().ok_or(Error::UnknownStream)?;
        sender.check(Kind::Trailers)?;
        sender.data(quic, id, &mut Bytes::new(), true)
    }

    fn send_section(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        section: &qpack::Section,
        kind: Kind,
    ) -> Result<(), Error> {
        self.check_size(section)?;
        let exchange = self.exchanges.get_mut(&id).ok_or(Error::UnknownStream)?;
        let sender = exchange.sender.as_mut().ok_or(Error::UnknownStream)?;
        // What is not sent is never acknowledged, so the table must not wait for it.
        sender.check(kind)?;
        let encoded = self.encoder.finish(section, id.get());
        let sent = sender.section(quic, id, kind, &encoded);
        exchange.on_sent(encoded.len());
        self.check_written(quic, id, sent)
    }

    /// Server: QUIC takes nothing on a stream that the peer has stopped, and says so before its event
    /// comes. The exchange ends here as it would there, and is counted: the application drops it
    /// when its call fails, and nothing would be left to count.
    pub(super) fn check_written(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        written: Result<(), Error>,
    ) -> Result<(), Error> {
        if self.shared_config.role == Role::Client || !matches!(written, Err(Error::UnknownStream))
        {
            return written;
        }
        if let Err(violation) = self.resets.spend(1) {
            self.fail(quic, violation);
            return Err(Error::UnknownConnection);
        }
        let code = Code::H3_REQUEST_CANCELLED;
        self.reset_stream(quic, id, code);
        Err(Error::StreamReset { code })
    }

    /// Ends an exchange that failed; the code to tell, or `None` if the connection went with it.
    fn end_exchange(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        failure: Failure,
    ) -> Option<Code> {
        let (ours, told) = match failure {
            Failure::Connection(violation) => {
                self.fail(quic, violation);
                return None;
            }
            Failure::Stream(code) => (code, code),
            Failure::Reset(code) => (Code::H3_REQUEST_CANCELLED, code),
        };
        if let Err(violation) = self.count_reset(id) {
            self.fail(quic, violation);
            return None;
        }
        self.reset_stream(quic, id, ours);
        Some(told)
    }

    /// Server: a request that is given up before it was answered was work for nothing.
    fn count_reset(&mut self, id: StreamId) -> Result<(), Violation> {
        let sender = self.exchanges.get(&id).and_then(|it| it.sender.as_ref());
        match sender.is_some_and(|sender| !sender.is_ended()) {
            true if self.shared_config.role == Role::Server => self.resets.spend(1),
            _ => Ok(()),
        }
    }

    fn open_request(&mut self, quic: &mut impl QuicConnection) -> Result<StreamId, Error> {
        if self.exchanges.len() >= self.shared_config.limits.max_concurrent_requests as usize {
            self.wants_stream = Some(StreamLimiter::Us);
            return Err(Error::StreamsExhausted);
        }
        quic.open(Direction::Bidirectional).ok_or_else(|| {
            if quic.is_ending() {
                // Its end is still to be told.
                return Error::UnknownConnection;
            }
            self.wants_stream = Some(StreamLimiter::Peer);
            Error::StreamsExhausted
        })
    }

    /// Checks that this side may send a response.
    pub(super) fn check_response(&self) -> Result<(), Error> {
        match self.shared_config.role {
            Role::Server => Ok(()),
            Role::Client => Err(Error::WrongRole {
                reason: "a client sends no responses",
            }),
        }
    }

    pub(super) fn check_size(&self, section: &qpack::Section) -> Result<(), Error> {
        let (size, limit) = (section.size(), self.peer_settings.max_field_section_size);
        match size > limit {
            true => Err(Error::HeadTooLarge { size, limit }),
            false => Ok(()),
        }
    }
}
