//! Sending for the application: requests, responses, bodies and trailers.

use altway_quic::{Direction, QuicConnection};
use bytes::Bytes;
use http::HeaderMap;

use super::exchange::Exchange;
use super::{Connection, FLOODS_PER_REQUEST, StreamLimiter};
use crate::message::{self, Protocol};
use crate::send::Kind;
use crate::{Code, Error, Role, StreamId, qpack};

impl Connection {
    /// Client: opens a stream and sends a request's head, whose URI must be absolute. `end`: there
    /// is no body.
    ///
    /// # Errors
    /// [`Error::StreamsExhausted`]: wait for [`Event::StreamsAvailable`](crate::Event::StreamsAvailable); this is also
    /// the answer before [`Event::Connected`](crate::Event::Connected), but for requests that
    /// [`Event::EarlyData`](crate::Event::EarlyData) allows. [`Error::UnknownConnection`] also when the connection has
    /// ended, though [`Event::Closed`](crate::Event::Closed) is still to come. [`Error::GoingAway`] after GOAWAY from
    /// either side.
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
    /// left, wait for [`Event::Writable`](crate::Event::Writable) and call again with at least these bytes. `end`
    /// counts once `data` is empty.
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
