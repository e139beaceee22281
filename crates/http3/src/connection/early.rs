//! Early data (0-RTT): requests before the handshake is done (RFC 9001 section 4.6, RFC 8470).
//!
//! Whoever sees early data on its way can send it again. So a client sends only requests in it that
//! are safe and have no body; and a server hands only such to its application, marked
//! ([`EarlyData`]), before the handshake is done. A method that is not safe is answered with status
//! 425 (Too Early), for the client to ask again after the handshake. A safe request of which more is to
//! come waits for that: RFC 8470 section 3 allows a server to "delay processing of early data until the
//! handshake completes".

use std::sync::Arc;

use altway_quic::{Direction, QuicConnection};
use http::{Method, Request, StatusCode};
use rustls::pki_types::ServerName;

use super::tables::BlockedSection;
use super::{Connection, Phase, StreamLimiter};
use crate::failure::Violation;
use crate::receive::Follow;
use crate::settings::Settings;
use crate::unidirectional::{Incoming, Outgoing, stream_type};
use crate::{Code, Error, Event, Sessions, StreamId, qpack};

/// A mark in the extensions of a request that came before the handshake was done (0-RTT): it may be a
/// copy that somebody else sent, and the client's address may be borrowed.
///
/// Such a request is GET, HEAD or OPTIONS without a body. If answering it is not safe all the same,
/// answer with status 425 (Too Early, RFC 8470 section 5.2), and the client sends it again after the
/// handshake. Whoever passes it on to another server adds the field `Early-Data: 1` (section 5.1), and
/// passes that server's 425 back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EarlyData;

/// State that is needed while the handshake goes on.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Client: what was sent, to be sent again if the server refuses; `None`: given up since. At most
    /// [`Limits::max_concurrent_requests`](crate::Limits::max_concurrent_requests).
    sent: Vec<(StreamId, Option<Request<()>>)>,
    /// Server: streams whose requests, safe ones, wait for the end of the handshake.
    held: Vec<StreamId>,
    /// Client: the server's settings that it acted on.
    remembered: Option<Settings>,
}

/// Client: what it knows of the server, and where that is kept.
#[derive(Debug)]
pub(crate) struct ResumptionState {
    pub(crate) sessions: Sessions,
    pub(crate) server: ServerName<'static>,
}

impl Connection {
    /// Streams can be used already.
    pub(super) fn on_early_data(&mut self, quic: &mut impl QuicConnection) {
        self.phase = Phase::Early;
        if let Some(resumption) = &self.resumption {
            self.early.remembered = resumption.sessions.settings(&resumption.server);
            // Section 7.2.4.2: a client "MUST comply with stored settings -- or default values if no
            // values are stored". Of QPACK's table no use is made before the server's settings come.
            self.peer_settings = self.early.remembered.unwrap_or_default();
        }
        self.open_streams(quic);
        self.events.push_back(Event::EarlyData);
    }

    /// Client: the server took nothing; what was sent is forgotten, but for the requests.
    pub(super) fn on_early_data_refused(&mut self) {
        for (id, head) in &mut self.early.sent {
            if !self.exchanges.contains_key(id) {
                *head = None;
            }
        }
        self.phase = Phase::Handshake;
        self.early.remembered = None;
        self.peer_settings = Settings::default();
        self.exchanges.clear();
        self.waiting.clear();
        self.writable.clear();
        self.incoming = Incoming::new(self.shared_config.role);
        self.control = Outgoing::new(stream_type::CONTROL);
        self.encoder_stream = Outgoing::new(stream_type::QPACK_ENCODER);
        self.decoder_stream = Outgoing::new(stream_type::QPACK_DECODER);
        self.encoder = qpack::Encoder::new();
        let capacity = self.shared_config.limits.qpack_table_capacity;
        self.decoder = qpack::Decoder::new(capacity as usize);
        self.events.push_back(Event::EarlyDataRefused);
    }

    /// The handshake is done: nothing is early any more. `refused`: what was sent early was.
    pub(super) fn end_early(&mut self, quic: &mut impl QuicConnection, refused: bool) {
        let sent = std::mem::take(&mut self.early.sent);
        if refused {
            self.send_again(quic, sent);
        }
        for id in std::mem::take(&mut self.early.held) {
            let exchange = self.exchanges.get_mut(&id);
            let Some(BlockedSection::Request(head, follow)) =
                exchange.and_then(|it| it.blocked_section.take())
            else {
                continue;
            };
            // The end of a stream is told once.
            let follow = match follow {
                Follow::Pending => self.poll_follow(quic, id),
                known => Some(known),
            };
            if let Some(follow) = follow {
                self.announce_request(quic, id, head, follow);
            }
        }
    }

    /// Client: whether a request may be sent now.
    pub(super) fn check_early(&mut self, head: &Request<()>, end: bool) -> Result<(), Error> {
        let may = match self.phase {
            Phase::Handshake => false,
            Phase::Early => end && is_safe(head.method()),
            Phase::Open | Phase::Closed => true,
        };
        if !may {
            self.wants_stream = Some(StreamLimiter::Peer);
            return Err(Error::StreamsExhausted);
        }
        Ok(())
    }

    /// Client: notes a request that may have to be sent again.
    pub(super) fn note_early(&mut self, id: StreamId, head: &Request<()>) {
        if self.phase == Phase::Early {
            self.early.sent.push((id, Some(head.clone())));
        }
    }

    /// Server: takes in a request that came before the handshake was done. It, with its mark, if the
    /// application may be told of it now.
    pub(super) fn admit_early(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        mut head: Arc<Request<()>>,
        follow: Follow,
    ) -> Option<Arc<Request<()>>> {
        if !is_safe(head.method()) {
            if follow == Follow::End
                && let Some(exchange) = self.exchanges.get_mut(&id)
            {
                exchange.receiver = None;
            }
            let failing = Code::H3_REQUEST_REJECTED;
            self.answer_internally(quic, id, StatusCode::TOO_EARLY, failing);
            return None;
        }
        if follow != Follow::End {
            self.hold(id, head, follow);
            return None;
        }
        Arc::make_mut(&mut head).extensions_mut().insert(EarlyData);
        Some(head)
    }

    /// Server: keeps a request until the end of the handshake.
    fn hold(&mut self, id: StreamId, head: Arc<Request<()>>, follow: Follow) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.blocked_section = Some(BlockedSection::Request(head, follow));
            self.early.held.push(id);
        }
    }

    /// The peer's settings came.
    pub(super) fn on_settings(&mut self, settings: Settings) -> Result<(), Violation> {
        let remembered = self.early.remembered.take();
        if remembered.is_some_and(|it| !settings.keeps_promises_of(&it)) {
            // Section 7.2.4.2: settings "that are not compatible with the previously specified
            // settings [...] MUST be treated as a connection error of type H3_SETTINGS_ERROR."
            let reason = "settings fall short of those that early data relied on";
            return Err(Violation::new(Code::H3_SETTINGS_ERROR, reason));
        }
        if let Some(resumption) = &self.resumption {
            resumption.sessions.remember(&resumption.server, settings);
        }
        self.peer_settings = settings;
        self.encoder
            .set_peer_capacity(settings.qpack_table_capacity);
        Ok(())
    }

    /// Client: sends anew what the server has refused. All numbers of streams are free again, so each
    /// request gets the one that the application knows it by.
    fn send_again(
        &mut self,
        quic: &mut impl QuicConnection,
        requests: Vec<(StreamId, Option<Request<()>>)>,
    ) {
        for (id, head) in requests {
            let Some(head) = head else {
                if let Some(unwanted) = quic.open(Direction::Bidirectional) {
                    quic.reset(unwanted, Code::H3_REQUEST_CANCELLED.get());
                    quic.stop(unwanted, Code::H3_REQUEST_CANCELLED.get());
                }
                continue;
            };
            let sent = self.send_request(quic, &head, true);
            if sent.is_err() {
                // The server allows fewer streams than before, or the application goes away.
                let code = Code::H3_REQUEST_REJECTED;
                self.events
                    .push_back(Event::StreamReset { stream: id, code });
            }
        }
    }
}

/// Returns true if an application may be given requests of this method in early data. RFC 9110 section
/// 9.2.1 calls TRACE safe as well, but nobody needs it fast.
fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}
