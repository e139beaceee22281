//! One HTTP/3 connection over one QUIC connection: turns the engine's events into the
//! application's, and the application's calls into stream writes.
//!
//! Exchanges are in `exchange`; this file has the connection's own life: hand-shake, control
//! stream, GOAWAY, closing. It holds at most [`Limits::max_concurrent_requests`] exchanges and 16
//! unidirectional streams, as QUIC's stream limits are set to these.

mod exchange;

use std::collections::VecDeque;

use altway_quic::{self as quic, Direction, Read};
use rustc_hash::FxHashMap;

use self::exchange::Exchange;
use crate::failure::Violation;
use crate::frame::Frame;
use crate::settings::Settings;
use crate::unidirectional::{self, Outcome};
use crate::{Code, Event, Limits, Role, StreamId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Handshake,
    Open,
    /// All that is left is to tell the application.
    Closed,
}

/// Who limits the number of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Giver {
    /// [`Limits::max_concurrent_requests`]: an exchange has to end.
    Us,
    /// The peer's limit on streams: it has to raise it.
    Peer,
}

/// One connection.
pub(crate) struct Connection {
    role: Role,
    limits: Limits,
    phase: Phase,
    events: VecDeque<Event>,
    exchanges: FxHashMap<StreamId, Exchange>,
    incoming: unidirectional::Incoming,
    control: unidirectional::Outgoing,
    /// The peer's; unlimited until they come (RFC 9114 section 7.2.4.2).
    peer_settings: Settings,
    /// Server: the ID of the client's next request.
    next_request: u64,
    /// The ID in the GOAWAY that was sent, or is to be sent after the hand-shake.
    go_away_sent: Option<u64>,
    go_away_received: Option<u64>,
    /// A request was refused for want of a stream, and who can give one.
    wants_stream: Option<Giver>,
}

impl Connection {
    pub(crate) fn new(role: Role, limits: Limits) -> Self {
        Self {
            role,
            limits,
            phase: Phase::Handshake,
            events: VecDeque::new(),
            exchanges: FxHashMap::default(),
            incoming: unidirectional::Incoming::new(role),
            control: unidirectional::Outgoing::default(),
            peer_settings: Settings::default(),
            next_request: 0,
            go_away_sent: None,
            go_away_received: None,
            wants_stream: None,
        }
    }

    /// The next event for the application.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes in what happened to the QUIC connection, its end excepted.
    pub(crate) fn on_quic_event(&mut self, quic: &mut quic::Connection, event: &quic::Event) {
        if self.phase == Phase::Closed {
            return;
        }
        if let Err(violation) = self.try_on_quic_event(quic, event) {
            self.fail(quic, violation);
        }
    }

    /// The QUIC connection has ended; this is the last event.
    pub(crate) fn on_closed(&mut self, reason: quic::CloseReason) {
        self.forget();
        let reason = reason.into();
        self.events.push_back(Event::Closed { reason });
    }

    /// Refuses all requests, for an endpoint that shut down during the hand-shake.
    pub(crate) fn refuse_requests(&mut self) {
        self.go_away_sent = Some(0);
    }

    /// Begins a graceful shutdown: no new requests from either side. A server refuses those from
    /// the next stream on; the ID in a client's GOAWAY is a push ID, of which there are none.
    pub(crate) fn shutdown(&mut self, quic: &mut quic::Connection) {
        if self.go_away_sent.is_some() || self.phase == Phase::Closed {
            return;
        }
        let id = self.next_request;
        self.go_away_sent = Some(id);
        if self.phase == Phase::Open {
            self.control.go_away(id);
            self.control.flush(quic);
        }
    }

    /// Closes the connection at once; QUIC's event tells the application.
    pub(crate) fn close(&mut self, quic: &mut quic::Connection, code: Code, reason: &[u8]) {
        quic.close(code.get(), reason);
        self.forget();
    }

    /// Whether no exchange is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.exchanges.is_empty()
    }

    fn try_on_quic_event(
        &mut self,
        quic: &mut quic::Connection,
        event: &quic::Event,
    ) -> Result<(), Violation> {
        use quic::Event as Quic;
        match *event {
            Quic::Connected => self.on_connected(quic),
            Quic::Opened { stream } => return self.on_opened(quic, stream),
            Quic::Readable { stream } if is_request(stream) => self.on_readable(quic, stream),
            Quic::Readable { stream } => return self.read_unidirectional(quic, stream),
            Quic::Writable { stream } if self.control.is(stream) => self.control.flush(quic),
            Quic::Writable { stream } => self.on_writable(quic, stream),
            Quic::Finished { stream } => self.on_finished(quic, stream),
            Quic::Stopped { stream, .. } if self.control.is(stream) => {
                return Err(unidirectional::closed_critical_stream());
            }
            Quic::Stopped { stream, code } => self.on_stopped(quic, stream, Code::new(code)),
            Quic::StreamsAvailable {
                direction: Direction::Unidirectional,
            } => self.control.flush(quic),
            Quic::StreamsAvailable { .. } => self.offer_streams(Giver::Peer),
            // `Closed` goes another way, and there is nothing else yet.
            _ => {}
        }
        Ok(())
    }

    fn on_connected(&mut self, quic: &mut quic::Connection) {
        self.phase = Phase::Open;
        let max_field_section_size = self.limits.max_field_section_size;
        self.control.begin(&Settings {
            max_field_section_size,
        });
        if let Some(id) = self.go_away_sent {
            self.control.go_away(id);
        }
        self.control.flush(quic);
        self.events.push_back(Event::Connected);
        self.offer_streams(Giver::Peer);
    }

    fn on_opened(&mut self, quic: &mut quic::Connection, id: StreamId) -> Result<(), Violation> {
        if is_request(id) {
            return self.accept_request(quic, id);
        }
        self.incoming.open(id);
        self.read_unidirectional(quic, id)
    }

    fn read_unidirectional(
        &mut self,
        quic: &mut quic::Connection,
        id: StreamId,
    ) -> Result<(), Violation> {
        loop {
            let mut piece = match quic.read(id) {
                Read::Data(piece) => piece,
                Read::Pending => return Ok(()),
                Read::End | Read::Reset(_) => return self.incoming.close(id),
            };
            loop {
                match self.incoming.receive(id, &mut piece)? {
                    Outcome::Consumed => break,
                    Outcome::Frame(frame) => self.on_control_frame(quic, frame)?,
                    Outcome::Unwanted => {
                        quic.stop(id, Code::H3_STREAM_CREATION_ERROR.get());
                        return Ok(());
                    }
                }
            }
        }
    }

    fn on_control_frame(
        &mut self,
        quic: &mut quic::Connection,
        frame: Frame,
    ) -> Result<(), Violation> {
        match frame {
            Frame::Settings(payload) => {
                self.peer_settings = Settings::decode(&payload)?;
                Ok(())
            }
            Frame::GoAway(id) => self.on_go_away(quic, id),
            // Section 7.2.7: "A server MUST NOT send a MAX_PUSH_ID frame." The server here pushes
            // nothing, so the ID does not matter.
            Frame::MaxPushId(_) if self.role == Role::Server => Ok(()),
            Frame::MaxPushId(_) => Err(Violation::new(
                Code::H3_FRAME_UNEXPECTED,
                "MAX_PUSH_ID from a server",
            )),
            // Section 7.2.3: a push ID beyond the maximum, or one never promised, "MUST be treated
            // as a connection error of type H3_ID_ERROR".
            Frame::CancelPush => Err(Violation::new(Code::H3_ID_ERROR, "no push to cancel")),
            Frame::Data(_) | Frame::Headers(_) | Frame::OversizedHeaders | Frame::PushPromise => {
                unreachable!("the decoder of a control stream refuses request frames")
            }
        }
    }

    /// Section 5.2: the ID of a server's GOAWAY is a request stream's, and later ones "MUST NOT
    /// increase"; requests from it on were not and will not be processed.
    fn on_go_away(&mut self, quic: &mut quic::Connection, id: u64) -> Result<(), Violation> {
        let raised = self.go_away_received.is_some_and(|earlier| id > earlier);
        if raised || (self.role == Role::Client && !id.is_multiple_of(4)) {
            return Err(Violation::new(Code::H3_ID_ERROR, "wrong ID in GOAWAY"));
        }
        if self.go_away_received.replace(id).is_none() {
            self.events.push_back(Event::GoAway);
        }
        if self.role == Role::Client {
            self.reject_from(quic, id);
        }
        Ok(())
    }

    /// The peer broke the protocol.
    fn fail(&mut self, quic: &mut quic::Connection, violation: Violation) {
        tracing::debug!(code = %violation.code, reason = violation.reason, "closing connection");
        self.close(quic, violation.code, violation.reason.as_bytes());
    }

    /// Lets go of all that the end of the connection has made useless.
    fn forget(&mut self) {
        self.phase = Phase::Closed;
        self.exchanges = FxHashMap::default();
        self.incoming = unidirectional::Incoming::new(self.role);
    }
}

fn is_request(id: StreamId) -> bool {
    id.direction() == Direction::Bidirectional
}
