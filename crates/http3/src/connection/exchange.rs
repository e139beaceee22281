//! Exchanges: a request and its response on one bidirectional stream, from either side's view.
//!
//! An exchange lives until both halves are over: the peer's message was read to its end (or given
//! up), and this side's was acknowledged (or given up).

use altway_quic::{self as quic, Direction};
use bytes::Bytes;
use http::{Method, StatusCode};

use super::{Connection, Giver, Phase};
use crate::failure::{Failure, Violation};
use crate::message::{self, HeadError, Malformed};
use crate::receive::{Body, Follow, Head, Receiver, decompression_failed};
use crate::send::Sender;
use crate::{Code, Error, Event, Received, Role, StreamId, qpack};

/// Interim responses that a client takes before the final one. Real servers send one or two; the
/// bound keeps a hostile one from filling the queue of events.
const MAX_INTERIM_RESPONSES: u8 = 16;

/// One request and its response.
#[derive(Debug)]
pub(super) struct Exchange {
    /// Gone once the peer's message was read to its end or given up.
    receiver: Option<Receiver>,
    /// Gone once this side's message was acknowledged or given up.
    sender: Option<Sender>,
    /// The application knows of it.
    announced: bool,
    /// `Readable` was told and not yet followed by reading all.
    readable: bool,
    /// The answer can't have a body.
    head_request: bool,
    interim_responses: u8,
}

impl Exchange {
    fn new(role: Role, limit: u64, head_request: bool) -> Self {
        Self {
            receiver: Some(Receiver::new(role, limit)),
            sender: Some(Sender::new()),
            announced: role == Role::Client,
            readable: false,
            head_request,
            interim_responses: 0,
        }
    }

    fn is_over(&self) -> bool {
        self.receiver.is_none() && self.sender.is_none()
    }
}

impl Connection {
    /// Client: opens a stream and sends a request's head.
    pub(crate) fn send_request(
        &mut self,
        quic: &mut quic::Connection,
        head: &http::Request<()>,
        end: bool,
    ) -> Result<StreamId, Error> {
        if self.role == Role::Server {
            return Err(Error::WrongRole {
                reason: "a server sends no requests",
            });
        }
        if self.go_away_sent.is_some() || self.go_away_received.is_some() {
            return Err(Error::GoingAway);
        }
        let encoded = message::encode_request(head)?;
        self.check_head_size(&encoded)?;
        let id = self.open_request(quic)?;
        let limit = self.limits.max_field_section_size;
        let mut exchange = Exchange::new(Role::Client, limit, head.method() == Method::HEAD);
        let sender = exchange
            .sender
            .as_mut()
            .expect("a new exchange has both halves");
        sender.head(quic, id, &encoded, end)?;
        self.exchanges.insert(id, exchange);
        Ok(id)
    }

    /// Server: sends a response's head; any number of interim ones, then the final one.
    pub(crate) fn send_response(
        &mut self,
        quic: &mut quic::Connection,
        id: StreamId,
        head: &http::Response<()>,
        end: bool,
    ) -> Result<(), Error> {
        if self.role == Role::Client {
            return Err(Error::WrongRole {
                reason: "a client sends no responses",
            });
        }
        let interim = head.status().is_informational();
        if interim && end {
            return Err(Error::InvalidMessage {
                reason: "an interim response ends nothing",
            });
        }
        let encoded = message::encode_response(head)?;
        self.check_head_size(&encoded)?;
        let exchange = self.exchanges.get_mut(&id).ok_or(Error::UnknownStream)?;
        let sender = exchange.sender.as_mut().ok_or(Error::UnknownStream)?;
        match interim {
            true => sender.interim(quic, id, &encoded),
            false => sender.head(quic, id, &encoded, end),
        }
    }

    /// Sends body bytes, as many as fit.
    pub(crate) fn send_data(
        &mut self,
        quic: &mut quic::Connection,
        id: StreamId,
        data: &mut Bytes,
        end: bool,
    ) -> Result<(), Error> {
        let exchange = self.exchanges.get_mut(&id).ok_or(Error::UnknownStream)?;
        let sender = exchange.sender.as_mut().ok_or(Error::UnknownStream)?;
        sender.data(quic, id, data, end)
    }

    /// Reads body bytes.
    pub(crate) fn recv_data(
        &mut self,
        quic: &mut quic::Connection,
        id: StreamId,
    ) -> Result<Received, Error> {
        let exchange = self.exchanges.get_mut(&id).ok_or(Error::UnknownStream)?;
        let receiver = exchange.receiver.as_mut().ok_or(Error::UnknownStream)?;
        if receiver.in_head() {
            return Ok(Received::Pending);
        }
        match receiver.poll_body(&mut || quic.read(id)) {
            Ok(Received::Pending) => {
                exchange.readable = false;
                Ok(Received::Pending)
            }
            Ok(Received::End) => {
                exchange.receiver = None;
                self.remove_if_over(id);
                Ok(Received::End)
            }
            Ok(data) => Ok(data),
            Err(failure) => Err(match self.end_exchange(quic, id, failure) {
                Some(code) => Error::StreamReset { code },
                None => Error::UnknownConnection,
            }),
        }
    }

    /// Gives the exchange up, in both directions.
    pub(crate) fn reset_stream(&mut self, quic: &mut quic::Connection, id: StreamId, code: Code) {
        let Some(exchange) = self.exchanges.remove(&id) else {
            return;
        };
        if exchange.receiver.is_some() {
            quic.stop(id, code.get());
        }
        if exchange.sender.is_some() {
            quic.reset(id, code.get());
        }
        self.offer_streams(Giver::Us);
    }

    /// Wants no more of the peer's message; this side's goes on.
    pub(crate) fn stop_reading(&mut self, quic: &mut quic::Connection, id: StreamId, code: Code) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        if exchange.receiver.take().is_some() {
            quic.stop(id, code.get());
            self.remove_if_over(id);
        }
    }

    /// Server: takes in a stream that the client opened.
    pub(super) fn accept_request(
        &mut self,
        quic: &mut quic::Connection,
        id: StreamId,
    ) -> Result<(), Violation> {
        if self.role == Role::Client {
            // RFC 9114 section 6.1: "Clients MUST treat receipt of a server-initiated
            // bidirectional stream as a connection error of type H3_STREAM_CREATION_ERROR".
            let reason = "bidirectional stream from a server";
            let code = Code::H3_STREAM_CREATION_ERROR;
            return Err(Violation::new(code, reason));
        }
        let limit = self.limits.max_field_section_size;
        let exchange = Exchange::new(Role::Server, limit, false);
        self.exchanges.insert(id, exchange);
        self.next_request = id.get() + 4;
        match self.go_away_sent {
            Some(first_refused) if id.get() >= first_refused => {
                self.reset_stream(quic, id, Code::H3_REQUEST_REJECTED);
            }
            _ => self.read_head(quic, id),
        }
        Ok(())
    }

    pub(super) fn on_readable(&mut self, quic: &mut quic::Connection, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let Some(receiver) = &exchange.receiver else {
            return;
        };
        if receiver.in_head() {
            return self.read_head(quic, id);
        }
        // A reset is told at once, even if the application does not read.
        if let Some(code) = quic.received_reset(id) {
            self.fail_exchange(quic, id, Failure::Reset(Code::new(code)));
        } else if !std::mem::replace(&mut exchange.readable, true) {
            self.events.push_back(Event::Readable { stream: id });
        }
    }

    pub(super) fn on_writable(&mut self, quic: &mut quic::Connection, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let Some(sender) = &mut exchange.sender else {
            return;
        };
        // A failing write means that the peer stopped the stream, which its own event tells.
        if let Ok(true) = sender.writable(quic, id) {
            self.events.push_back(Event::Writable { stream: id });
        }
    }

    /// The peer has acknowledged all that this side sent.
    pub(super) fn on_finished(&mut self, quic: &mut quic::Connection, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        exchange.sender = None;
        if self.role == Role::Server {
            // Whoever has the whole response needs no more of its request to be read. This frees
            // streams whose application answered early and forgot them.
            self.stop_reading(quic, id, Code::H3_NO_ERROR);
        }
        self.remove_if_over(id);
    }

    /// The peer wants no more of what this side sends. For a server, the exchange is over.
    pub(super) fn on_stopped(&mut self, quic: &mut quic::Connection, id: StreamId, code: Code) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        if self.role == Role::Server {
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
    pub(super) fn reject_from(&mut self, quic: &mut quic::Connection, first: u64) {
        let mut rejected: Vec<StreamId> = self
            .exchanges
            .keys()
            .copied()
            .filter(|id| id.get() >= first)
            .collect();
        rejected.sort_unstable();
        for id in rejected {
            self.reset_stream(quic, id, Code::H3_REQUEST_CANCELLED);
            let code = Code::H3_REQUEST_REJECTED;
            self.events
                .push_back(Event::StreamReset { stream: id, code });
        }
    }

    /// Tells a client that was refused a stream that there may be one now.
    pub(super) fn offer_streams(&mut self, giver: Giver) {
        if self.phase == Phase::Open && self.wants_stream == Some(giver) {
            self.wants_stream = None;
            self.events.push_back(Event::StreamsAvailable);
        }
    }

    fn open_request(&mut self, quic: &mut quic::Connection) -> Result<StreamId, Error> {
        if self.exchanges.len() >= self.limits.max_concurrent_requests as usize {
            self.wants_stream = Some(Giver::Us);
            return Err(Error::StreamsExhausted);
        }
        quic.open(Direction::Bidirectional).ok_or_else(|| {
            self.wants_stream = Some(Giver::Peer);
            Error::StreamsExhausted
        })
    }

    fn read_head(&mut self, quic: &mut quic::Connection, id: StreamId) {
        if let Err(failure) = self.try_read_head(quic, id) {
            self.fail_exchange(quic, id, failure);
        }
    }

    fn try_read_head(&mut self, quic: &mut quic::Connection, id: StreamId) -> Result<(), Failure> {
        loop {
            let Some(exchange) = self.exchanges.get_mut(&id) else {
                return Ok(());
            };
            let Some(receiver) = &mut exchange.receiver else {
                return Ok(());
            };
            let section = match receiver.poll_head(&mut || quic.read(id))? {
                Head::Section(section) => section,
                Head::TooLarge => return self.on_large_head(quic, id),
                Head::Pending => return Ok(()),
            };
            let done = match self.role {
                Role::Server => self.on_request(quic, id, &section).map(|()| true),
                Role::Client => self.on_response(quic, id, &section),
            };
            match done {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(HeadError::TooLarge) => return self.on_large_head(quic, id),
                Err(HeadError::Malformed) => return Err(Failure::Stream(Code::H3_MESSAGE_ERROR)),
                Err(HeadError::Decompression) => return Err(decompression_failed().into()),
            }
        }
    }

    fn on_request(
        &mut self,
        quic: &mut quic::Connection,
        id: StreamId,
        section: &[u8],
    ) -> Result<(), HeadError> {
        let head = message::decode_request(section, self.limits.max_field_section_size)?;
        let body = body_of(message::content_length(head.headers())?);
        self.begin_body(quic, id, body, |end| Event::Request {
            stream: id,
            head,
            end,
        });
        Ok(())
    }

    /// Whether that was the final response.
    fn on_response(
        &mut self,
        quic: &mut quic::Connection,
        id: StreamId,
        section: &[u8],
    ) -> Result<bool, HeadError> {
        let head = message::decode_response(section, self.limits.max_field_section_size)?;
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return Ok(true);
        };
        if head.status().is_informational() {
            exchange.interim_responses += 1;
            if exchange.interim_responses > MAX_INTERIM_RESPONSES {
                return Err(Malformed.into());
            }
            self.events
                .push_back(Event::Informational { stream: id, head });
            return Ok(false);
        }
        let bodiless = matches!(
            head.status(),
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
        let body = match exchange.head_request || bodiless {
            true => Body::Empty,
            false => body_of(message::content_length(head.headers())?),
        };
        self.begin_body(quic, id, body, |end| Event::Response {
            stream: id,
            head,
            end,
        });
        Ok(true)
    }

    /// The final head is there: tells the application, with what is known of the body.
    fn begin_body(
        &mut self,
        quic: &mut quic::Connection,
        id: StreamId,
        body: Body,
        event: impl FnOnce(bool) -> Event,
    ) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let Some(receiver) = &mut exchange.receiver else {
            return;
        };
        receiver.begin_body(body);
        let follow = match receiver.poll_follow(&mut || quic.read(id)) {
            Ok(follow) => follow,
            Err(failure) => return self.fail_exchange(quic, id, failure),
        };
        exchange.announced = true;
        self.events.push_back(event(follow == Follow::End));
        match follow {
            Follow::End => {
                exchange.receiver = None;
                self.remove_if_over(id);
            }
            Follow::Some => {
                exchange.readable = true;
                self.events.push_back(Event::Readable { stream: id });
            }
            Follow::Pending => {}
        }
    }

    /// A head above the limit. RFC 9114 section 4.2.2: a server "can choose to send" status 431.
    fn on_large_head(&mut self, quic: &mut quic::Connection, id: StreamId) -> Result<(), Failure> {
        if self.role == Role::Client {
            return Err(Failure::Stream(Code::H3_EXCESSIVE_LOAD));
        }
        let mut head = http::Response::new(());
        *head.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        match self.send_response(quic, id, &head, true) {
            Ok(()) => self.stop_reading(quic, id, Code::H3_NO_ERROR),
            Err(_) => self.reset_stream(quic, id, Code::H3_EXCESSIVE_LOAD),
        }
        Ok(())
    }

    /// Ends an exchange that failed and tells the application, if it knows of it.
    fn fail_exchange(&mut self, quic: &mut quic::Connection, id: StreamId, failure: Failure) {
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

    /// Ends an exchange that failed; the code to tell, or `None` if the connection went with it.
    fn end_exchange(
        &mut self,
        quic: &mut quic::Connection,
        id: StreamId,
        failure: Failure,
    ) -> Option<Code> {
        match failure {
            Failure::Connection(violation) => {
                self.fail(quic, violation);
                None
            }
            Failure::Stream(code) => {
                self.reset_stream(quic, id, code);
                Some(code)
            }
            Failure::Reset(code) => {
                self.reset_stream(quic, id, Code::H3_REQUEST_CANCELLED);
                Some(code)
            }
        }
    }

    fn remove_if_over(&mut self, id: StreamId) {
        if self.exchanges.get(&id).is_some_and(Exchange::is_over) {
            self.exchanges.remove(&id);
            self.offer_streams(Giver::Us);
        }
    }

    fn check_head_size(&self, head: &qpack::Encoder) -> Result<(), Error> {
        let (size, limit) = (head.size(), self.peer_settings.max_field_section_size);
        match size > limit {
            true => Err(Error::HeadTooLarge { size, limit }),
            false => Ok(()),
        }
    }
}

fn body_of(content_length: Option<u64>) -> Body {
    content_length.map_or(Body::Any, Body::Exactly)
}
