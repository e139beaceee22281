//! Heads and trailers that come: from stream to application.

use std::sync::Arc;

use altway_quic::QuicConnection;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};

use super::exchange::Exchange;
use super::head_cache::RequestHead;
use super::tables::BlockedSection;
use super::{Connection, FLOODS_PER_REQUEST, Phase, priorities};
use crate::failure::{Failure, Violation};
use crate::message::{Fields, HeadError, Malformed};
use crate::receive::{Body, Follow, Head, decompression_failed};
use crate::{Code, Event, Role, StreamId};

/// Result of taking a field section.
enum SectionOutcome {
    /// The section was the final head.
    Final,
    /// The section was an interim head.
    Interim,
    /// The section waits, or the exchange is over.
    No,
}

impl Connection {
    /// Server: takes in a stream that the client opened.
    pub(super) fn accept_request(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
    ) -> Result<(), Violation> {
        if self.shared_config.role == Role::Client {
            // RFC 9114 section 6.1: "Clients MUST treat receipt of a server-initiated
            // bidirectional stream as a connection error of type H3_STREAM_CREATION_ERROR".
            let reason = "bidirectional stream from a server";
            let code = Code::H3_STREAM_CREATION_ERROR;
            return Err(Violation::new(code, reason));
        }
        let limit = self.shared_config.limits.max_field_section_size;
        let mut exchange = Exchange::new(Role::Server, limit, None, self.now);
        exchange.requested_priority = self.pending_priorities.remove(&id.get());
        self.exchanges.insert(id, exchange);
        self.next_request = id.get() + 4;
        self.floods.earn(FLOODS_PER_REQUEST);
        match self.go_away_sent {
            Some(first_refused) if id.get() >= first_refused => {
                self.reset_stream(quic, id, Code::H3_REQUEST_REJECTED);
            }
            _ => self.read_head(quic, id),
        }
        Ok(())
    }

    pub(super) fn on_readable(&mut self, quic: &mut impl QuicConnection, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        if exchange.unwanted.is_some() {
            return self.discard(quic, id);
        }
        let Some(receiver) = &exchange.receiver else {
            return;
        };
        // A reset is told at once, even if the application does not read.
        if let Some(code) = quic.received_reset(id) {
            self.fail_exchange(quic, id, Failure::Reset(Code::new(code)));
        } else if exchange.blocked_section.is_some() {
            // What is behind the section has to wait with it.
        } else if receiver.in_head() {
            self.read_head(quic, id);
        } else if !std::mem::replace(&mut exchange.readable, true) {
            self.events.push_back(Event::Readable { stream: id });
        }
    }

    /// A head's entries are there.
    pub(super) fn go_on_with_head(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        section: Bytes,
    ) {
        match self.on_head(quic, id, section) {
            Ok(SectionOutcome::Interim) => self.read_head(quic, id),
            Ok(SectionOutcome::Final | SectionOutcome::No) => {}
            Err(failure) => self.fail_exchange(quic, id, failure),
        }
    }

    /// The entries of trailers are there.
    pub(super) fn go_on_with_trailers(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        section: &Bytes,
    ) {
        match self.on_trailers(id, section) {
            Ok(Some(fields)) => {
                let Some(exchange) = self.exchanges.get_mut(&id) else {
                    return;
                };
                exchange.trailers = Some(fields);
                exchange.readable = true;
                self.events.push_back(Event::Readable { stream: id });
            }
            Ok(None) => {}
            Err(failure) => self.fail_exchange(quic, id, failure),
        }
    }

    /// Trailers came, or have what they waited for. None if they have to wait.
    pub(super) fn on_trailers(
        &mut self,
        id: StreamId,
        section: &Bytes,
    ) -> Result<Option<HeaderMap>, Failure> {
        let limit = self.shared_config.limits.max_field_section_size;
        let fields = Fields::decode(&mut self.decoder, id.get(), section, limit);
        let trailers = fields.and_then(|(fields, _)| Ok(fields.into_trailers()?));
        match trailers {
            Ok(fields) => Ok(Some(fields)),
            Err(HeadError::Blocked { required }) => {
                self.block(id, BlockedSection::Trailers(section.clone()), required)?;
                Ok(None)
            }
            Err(HeadError::Malformed) => Err(Failure::Stream(Code::H3_MESSAGE_ERROR)),
            Err(HeadError::TooLarge) => Err(Failure::Stream(Code::H3_EXCESSIVE_LOAD)),
            Err(HeadError::Decompression) => Err(decompression_failed().into()),
        }
    }

    fn read_head(&mut self, quic: &mut impl QuicConnection, id: StreamId) {
        let read = self.try_read_head(quic, id);
        let read = match (read, self.check_kept(quic, id)) {
            // It is too large for the room that there is.
            (Ok(()), Err(_)) => self.on_large_head(quic, id),
            (read, _) => read,
        };
        if let Err(failure) = read {
            self.fail_exchange(quic, id, failure);
        }
    }

    fn try_read_head(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
    ) -> Result<(), Failure> {
        loop {
            let Some(exchange) = self.exchanges.get_mut(&id) else {
                return Ok(());
            };
            let Some(receiver) = &mut exchange.receiver else {
                return Ok(());
            };
            let section = match receiver.poll_head(&mut self.floods, &mut || quic.read(id))? {
                Head::Section(section) => section,
                Head::TooLarge => return self.on_large_head(quic, id),
                Head::Pending => return Ok(()),
            };
            match self.on_head(quic, id, section)? {
                SectionOutcome::Interim => {}
                SectionOutcome::Final | SectionOutcome::No => return Ok(()),
            }
        }
    }

    fn on_head(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        section: Bytes,
    ) -> Result<SectionOutcome, Failure> {
        if let Some(request) = self.last_request.find(&mut self.decoder, id, &section) {
            self.begin_request(quic, id, request);
            return Ok(SectionOutcome::Final);
        }
        let limit = self.shared_config.limits.max_field_section_size;
        let fields = Fields::decode(&mut self.decoder, id.get(), &section, limit);
        let taken = fields.and_then(|(fields, basis)| {
            Ok(match self.shared_config.role {
                Role::Server => {
                    let request = self.on_request(fields)?;
                    self.last_request.keep(&section, basis, &request);
                    self.begin_request(quic, id, request);
                    SectionOutcome::Final
                }
                Role::Client => self.on_response(quic, id, fields)?,
            })
        });
        match taken {
            Ok(taken) => Ok(taken),
            Err(HeadError::Blocked { required }) => {
                self.block(id, BlockedSection::Head(section), required)?;
                Ok(SectionOutcome::No)
            }
            Err(HeadError::TooLarge) => self.on_large_head(quic, id).map(|()| SectionOutcome::No),
            Err(HeadError::Malformed) => Err(Failure::Stream(Code::H3_MESSAGE_ERROR)),
            Err(HeadError::Decompression) => Err(decompression_failed().into()),
        }
    }

    fn on_request(&self, fields: Fields) -> Result<RequestHead, Malformed> {
        let body = body_of(fields.content_length());
        let head = fields.into_request(self.shared_config.settings.extended_connect)?;
        Ok(RequestHead {
            body,
            priority: priorities::of_request(&head),
            head: Arc::new(head),
        })
    }

    fn begin_request(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        request: RequestHead,
    ) {
        let RequestHead {
            head,
            body,
            priority,
        } = request;
        self.prioritise_request(quic, id, priority);
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.progress.tunnel = head.method() == Method::CONNECT;
        }
        self.begin_body(id, body);
        if let Some(follow) = self.poll_follow(quic, id) {
            self.announce_request(quic, id, head, follow);
        }
    }

    /// Server: tells the application of a request, if it may be told now.
    pub(super) fn announce_request(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        head: Arc<Request<()>>,
        follow: Follow,
    ) {
        let admitted = match self.phase {
            Phase::Early => self.admit_early(quic, id, head, follow),
            _ => Some(head),
        };
        let Some(head) = admitted else { return };
        let event = Event::Request {
            stream: id,
            head,
            end: follow == Follow::End,
        };
        self.announce(id, follow, event);
    }

    fn on_response(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        fields: Fields,
    ) -> Result<SectionOutcome, Malformed> {
        let length = fields.content_length();
        let head = fields.into_response()?;
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return Ok(SectionOutcome::No);
        };
        if head.status().is_informational() {
            let counted = exchange.interim_responses.count(head.headers());
            counted.map_err(|_| Malformed)?;
            self.events
                .push_back(Event::Informational { stream: id, head });
            return Ok(SectionOutcome::Interim);
        }
        let bodiless = matches!(
            head.status(),
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
        let body = match exchange.head_request || bodiless {
            true => Body::Empty,
            false => body_of(length),
        };
        self.begin_body(id, body);
        if let Some(follow) = self.poll_follow(quic, id) {
            let end = follow == Follow::End;
            let event = Event::Response {
                stream: id,
                head,
                end,
            };
            self.announce(id, follow, event);
        }
        Ok(SectionOutcome::Final)
    }

    /// The final head is there.
    fn begin_body(&mut self, id: StreamId, body: Body) {
        let exchange = self.exchanges.get_mut(&id);
        if let Some(receiver) = exchange.and_then(|it| it.receiver.as_mut()) {
            receiver.begin_body(body);
        }
    }

    /// Returns what follows the head, as far as it is known; `None`: the exchange is over.
    pub(super) fn poll_follow(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
    ) -> Option<Follow> {
        let receiver = self.exchanges.get_mut(&id)?.receiver.as_mut()?;
        match receiver.poll_follow(&mut || quic.read(id)) {
            Ok(follow) => Some(follow),
            Err(failure) => {
                self.fail_exchange(quic, id, failure);
                None
            }
        }
    }

    /// Tells the application of a final head, with what is known of the body.
    fn announce(&mut self, id: StreamId, follow: Follow, event: Event) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        exchange.announced = true;
        self.events.push_back(event);
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
    fn on_large_head(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
    ) -> Result<(), Failure> {
        if self.shared_config.role == Role::Client {
            return Err(Failure::Stream(Code::H3_EXCESSIVE_LOAD));
        }
        self.report_rejected_head(quic, id, Event::RequestTooLarge { stream: id });
        Ok(())
    }

    /// Server: tells the application of a request whose head is rejected, and reads no more of it.
    pub(super) fn report_rejected_head(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        event: Event,
    ) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.announced = true;
            self.events.push_back(event);
            self.stop_reading(quic, id, Code::H3_NO_ERROR);
        }
    }

    /// Server: answers a request that the application is not told of, and wants no more of it; resets it
    /// with `failing` where that can't be.
    pub(super) fn answer_internally(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        status: StatusCode,
        failing: Code,
    ) {
        let mut head = http::Response::new(());
        *head.status_mut() = status;
        match self.send_response(quic, id, &head, true) {
            Ok(()) => {
                self.events
                    .push_back(Event::Answered { stream: id, status });
                self.stop_reading(quic, id, Code::H3_NO_ERROR);
            }
            Err(_) => self.reset_stream(quic, id, failing),
        }
    }
}

fn body_of(content_length: Option<u64>) -> Body {
    content_length.map_or(Body::Any, Body::Exactly)
}
