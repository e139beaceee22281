//! Exchanges: a request and its response on one bidirectional stream, from either side's view.
//!
//! An exchange lives until both halves are over: the peer's message was read to its end (or given
//! up), and this side's was acknowledged (or given up). What the application sends is in `send`, heads and trailers
//! that come are in `heads`, content that comes and that nobody wants is in `unwanted`.

use std::cmp::Reverse;
use std::time::Instant;

use altway_fields::Priority;
use altway_message::InterimResponses;
use altway_quic::QuicConnection;
use http::{HeaderMap, Method};

use super::progress::Progress;
use super::tables::BlockedSection;
use super::unwanted::Unwanted;
use super::{Connection, Phase, StreamLimiter};
use crate::failure::{Failure, Violation};
use crate::receive::{Piece, Receiver};
use crate::send::Sender;
use crate::{Code, Error, Event, Received, Role, StreamId};

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
    pub(super) interim_responses: InterimResponses,
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
            interim_responses: InterimResponses::default(),
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
        if self.shared_config.role == Role::Server {
            self.tell_delivered();
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

    /// Ends an exchange that failed and tells the application, if it knows of it, or of a request that it will not know of. A client
    /// knows of all exchanges.
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
        let Some(code) = self.end_exchange(quic, id, failure) else {
            return;
        };
        let malformed = Failure::Stream(Code::H3_MESSAGE_ERROR);
        if announced {
            self.events
                .push_back(Event::StreamReset { stream: id, code });
        } else if failure == malformed {
            self.events.push_back(Event::RequestMalformed);
        }
    }

    /// Server: whether a response is to be acknowledged, or made.
    fn owes_response(&self) -> bool {
        let mut exchanges = self.exchanges.values();
        exchanges.any(|exchange| exchange.sender.is_some())
    }

    /// Has [`Event::Delivered`] told as well once the peer has acknowledged all responses that have an end by now, while others
    /// are in progress. For servers.
    pub fn watch_delivery(&mut self) {
        self.watches_delivery = true;
    }

    fn tell_delivered(&mut self) {
        let mut senders = self.exchanges.values().filter_map(|it| it.sender.as_ref());
        let in_progress = match self.watches_delivery {
            true if senders.any(Sender::is_ended) => return,
            _ => self.owes_response(),
        };
        if self.watches_delivery || !in_progress {
            self.watches_delivery = false;
            self.events.push_back(Event::Delivered { in_progress });
        }
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
}
