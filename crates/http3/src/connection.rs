//! An HTTP/3 connection over a QUIC connection: turns the engine's events into the application's,
//! and the application's calls into stream writes.
//!
//! Exchanges are in `exchange`, their heads in `heads`, QPACK's streams in `tables`, the order of
//! responses in `priorities`, heads that come again in `head_cache`, slow peers in `progress`, content that a
//! server drops in `unwanted`; this file has the connection's own life: handshake, control stream, GOAWAY,
//! closing. It holds at most
//! [`Limits::max_concurrent_requests`](crate::Limits::max_concurrent_requests) exchanges and 8 unidirectional streams, as QUIC's stream
//! limits are set to these.

mod early;
mod exchange;
mod head_cache;
mod heads;
mod kept;
mod priorities;
mod progress;
mod send;
mod tables;
mod unwanted;

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use altway_fields::Priority;
use altway_quic::{self as quic, Direction, QuicConnection, Read};
use rustc_hash::FxHashMap;

use self::early::Early;
pub use self::early::EarlyData;
pub(crate) use self::early::ResumptionState;
use self::exchange::Exchange;
use self::head_cache::{LastRequest, LastResponse};
use crate::budget::Budget;
use crate::failure::Violation;
use crate::frame::{self, Frame, kind};
use crate::grease::Grease;
use crate::settings::Settings;
use crate::shared_config::SharedConfig;
use crate::unidirectional::{self, Incoming, Outcome, Outgoing, stream_type};
use crate::{Code, Event, Role, StreamId, qpack, varint};

/// Tokens that a request pays back for frames and instructions that lead nowhere.
const FLOODS_PER_REQUEST: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Handshake,
    /// The handshake is going on, and there may be requests already.
    Early,
    Open,
    /// All that is left is to tell the application.
    Closed,
}

/// The side whose limit keeps a request from having a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamLimiter {
    /// [`Limits::max_concurrent_requests`](crate::Limits::max_concurrent_requests): an exchange has to end.
    Us,
    /// The peer's limit on streams: it has to raise it.
    Peer,
}

/// An HTTP/3 connection over a QUIC connection, which it is lent at every call.
///
/// Memory is bounded by [`Limits`](crate::Limits), QUIC's windows and its stream limits; see those.
pub struct Connection {
    shared_config: Arc<SharedConfig>,
    phase: Phase,
    events: VecDeque<Event>,
    /// Streams to be told of that take bytes again, by falling rank.
    writable: BTreeSet<(Reverse<i32>, StreamId)>,
    exchanges: FxHashMap<StreamId, Exchange>,
    incoming: Incoming,
    control: Outgoing,
    encoder_stream: Outgoing,
    decoder_stream: Outgoing,
    encoder: qpack::Encoder,
    decoder: qpack::Decoder,
    last_request: LastRequest,
    last_response: LastResponse,
    /// Streams whose sections wait for so many insertions.
    waiting: Vec<(u64, StreamId)>,
    /// Server: the end of all that has ended is to be told of while something is in progress.
    watches_delivery: bool,
    /// Bytes that sections hold which are not complete or wait.
    kept: usize,
    /// The peer's; unlimited until they come (RFC 9114 section 7.2.4.2).
    peer_settings: Settings,
    /// Server: the ID of the client's next request.
    next_request: u64,
    /// Server: PRIORITY_UPDATE of streams that are not open yet.
    pending_priorities: FxHashMap<u64, Priority>,
    /// Server: the ID in the client's last MAX_PUSH_ID.
    max_push_id: Option<u64>,
    /// The ID in the GOAWAY that was sent, or is to be sent after the handshake.
    go_away_sent: Option<u64>,
    go_away_received: Option<u64>,
    early: Early,
    /// Client: what it keeps for connections to come.
    resumption: Option<ResumptionState>,
    /// The side that can permit a stream, after a request was refused for want of one.
    wants_stream: Option<StreamLimiter>,
    floods: Budget,
    resets: Budget,
    /// Time to look after slow exchanges, or to let go of what only saves time.
    sweep: Option<Instant>,
    now: Instant,
    grease: Grease,
}

impl Connection {
    /// The side of a QUIC connection that has begun. A server's may wait for
    /// [`quic::Event::EarlyData`] or [`quic::Event::Connected`], whichever comes first: nothing comes before.
    ///
    /// `seed` chooses the identifiers without meaning.
    #[must_use]
    pub fn new(shared_config: &Arc<SharedConfig>, seed: u64, now: Instant) -> Self {
        let limits = &shared_config.limits;
        Self {
            shared_config: Arc::clone(shared_config),
            phase: Phase::Handshake,
            events: VecDeque::new(),
            writable: BTreeSet::new(),
            exchanges: FxHashMap::default(),
            incoming: Incoming::new(shared_config.role),
            control: Outgoing::new(stream_type::CONTROL),
            encoder_stream: Outgoing::new(stream_type::QPACK_ENCODER),
            decoder_stream: Outgoing::new(stream_type::QPACK_DECODER),
            encoder: qpack::Encoder::new(),
            decoder: qpack::Decoder::new(limits.qpack_table_capacity as usize),
            last_request: LastRequest::default(),
            last_response: LastResponse::default(),
            waiting: Vec::new(),
            watches_delivery: false,
            kept: 0,
            peer_settings: Settings::default(),
            next_request: 0,
            pending_priorities: FxHashMap::default(),
            max_push_id: None,
            go_away_sent: None,
            go_away_received: None,
            early: Early::default(),
            resumption: None,
            wants_stream: None,
            floods: Budget::new(limits.floods, now, "too many frames that lead nowhere"),
            resets: Budget::new(limits.resets, now, "too many requests given up"),
            sweep: None,
            now,
            grease: Grease::new(seed),
        }
    }

    /// Client: acts on what is remembered of the server, and remembers it.
    pub(crate) fn remember(&mut self, resumption: Option<ResumptionState>) {
        self.resumption = resumption;
    }

    /// The next event. To be asked for after each of QUIC's, and after calls for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next stream that takes bytes again. To be asked for when there are no events, of QUIC's either, so that
    /// the streams of highest rank can use up what became free.
    pub fn poll_writable(&mut self) -> Option<Event> {
        loop {
            let (_, stream) = self.writable.pop_first()?;
            if self.exchanges.contains_key(&stream) {
                return Some(Event::Writable { stream });
            }
        }
    }

    /// Takes in what happened to the QUIC connection, as often as that has an event.
    pub fn on_quic_event(
        &mut self,
        quic: &mut impl QuicConnection,
        event: quic::Event,
        now: Instant,
    ) {
        self.now = now;
        if let quic::Event::Closed { reason } = event {
            self.forget();
            let reason = reason.into();
            return self.events.push_back(Event::Closed { reason });
        }
        if self.phase == Phase::Closed {
            return;
        }
        self.floods.set_now(now);
        self.resets.set_now(now);
        let taken = self.try_on_quic_event(quic, &event);
        if let Err(violation) = taken.and_then(|()| self.check_decoder_stream()) {
            self.fail(quic, violation);
        }
    }

    /// Begins a graceful shutdown: GOAWAY, and no new requests from either side; those in progress go on. Once
    /// it [has none](Self::is_idle), [`close`](Self::close) it. A server refuses those from the next stream on;
    /// the ID in a client's GOAWAY is a push ID, of which there are none.
    pub fn shutdown(&mut self, quic: &mut impl QuicConnection) {
        if self.go_away_sent.is_some() || self.phase == Phase::Closed {
            return;
        }
        let id = self.next_request;
        self.go_away_sent = Some(id);
        if self.phase != Phase::Handshake {
            self.send_go_away(quic, id);
        }
    }

    /// Client: whether the server takes extended CONNECT (RFC 9220). False before its settings
    /// came.
    pub fn peer_takes_extended_connect(&self) -> bool {
        self.peer_settings.extended_connect
    }

    /// Closes the connection at once; [`Event::Closed`] follows, once QUIC's own has been taken in.
    pub fn close(&mut self, quic: &mut impl QuicConnection, code: Code, reason: &[u8]) {
        quic.close(code.get(), reason);
        self.forget();
    }

    /// Returns true if no exchange is in progress, as far as this side knows.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.exchanges.is_empty()
    }

    fn try_on_quic_event(
        &mut self,
        quic: &mut impl QuicConnection,
        event: &quic::Event,
    ) -> Result<(), Violation> {
        use quic::Event as Quic;
        match *event {
            Quic::EarlyData => self.on_early_data(quic),
            Quic::EarlyDataRefused => self.on_early_data_refused(),
            Quic::Connected => self.on_connected(quic),
            Quic::Opened { stream } => return self.on_opened(quic, stream),
            Quic::Readable { stream } if is_request(stream) => self.on_readable(quic, stream),
            Quic::Readable { stream } => return self.read_unidirectional(quic, stream),
            Quic::Writable { stream } if is_request(stream) => self.on_writable(quic, stream),
            Quic::Finished { stream } => self.on_finished(quic, stream),
            Quic::Stopped { stream, .. } if self.outgoing().iter().any(|it| it.is(stream)) => {
                return Err(unidirectional::closed_critical_stream());
            }
            Quic::Stopped { stream, code } => self.on_stopped(quic, stream, Code::new(code)),
            Quic::StreamsAvailable {
                direction: Direction::Bidirectional,
            } => self.offer_streams(StreamLimiter::Peer),
            Quic::Writable { .. } | Quic::StreamsAvailable { .. } => {
                for stream in self.outgoing() {
                    stream.flush(quic);
                }
            }
            // The end was taken in before, and there is nothing else yet.
            _ => {}
        }
        Ok(())
    }

    fn on_connected(&mut self, quic: &mut impl QuicConnection) {
        let early = std::mem::replace(&mut self.phase, Phase::Open) == Phase::Early;
        if !early {
            self.open_streams(quic);
        }
        self.events.push_back(Event::Connected);
        self.end_early(quic, !early);
        self.offer_streams(StreamLimiter::Peer);
    }

    /// Opens this side's streams, and says what there is to say at first.
    fn open_streams(&mut self, quic: &mut impl QuicConnection) {
        let out = self.control.unsent();
        self.shared_config.settings.encode(&mut self.grease, out);
        // Section 7.2.8: reserved types "MAY be sent on any stream where frames are allowed".
        frame::encode_header(self.grease.identifier(), 0, out);
        for stream in self.outgoing() {
            stream.open(quic);
        }
        self.tell_lasting(quic);
        self.control.flush(quic);
        if let Some(id) = self.go_away_sent {
            self.send_go_away(quic, id);
        }
        self.send_grease_stream(quic);
    }

    /// Section 6.2.3: streams of reserved types "have no semantics and can be sent when
    /// application-layer padding is desired" or to exercise the requirement to ignore them.
    fn send_grease_stream(&mut self, quic: &mut impl QuicConnection) {
        let Some(id) = quic.open(Direction::Unidirectional) else {
            return;
        };
        let mut bytes = Vec::new();
        varint::encode(self.grease.identifier(), &mut bytes);
        // Its loss harms nothing, so that it does not matter whether this fits.
        let _ = quic.write(id, &mut [bytes.into()]);
        let _ = quic.finish(id);
    }

    fn send_go_away(&mut self, quic: &mut impl QuicConnection, id: u64) {
        let out = self.control.unsent();
        frame::encode_header(kind::GOAWAY, varint::len(id), out);
        varint::encode(id, out);
        self.control.flush(quic);
    }

    fn tell_lasting(&mut self, quic: &mut impl QuicConnection) {
        let own = self.outgoing();
        let open = own.iter().filter(|stream| stream.is_open()).count();
        quic.set_lasting(open + self.incoming.lasting());
    }

    fn outgoing(&mut self) -> [&mut Outgoing; 3] {
        [
            &mut self.control,
            &mut self.encoder_stream,
            &mut self.decoder_stream,
        ]
    }

    fn on_opened(&mut self, quic: &mut impl QuicConnection, id: StreamId) -> Result<(), Violation> {
        if is_request(id) {
            return self.accept_request(quic, id);
        }
        self.incoming.open(id);
        self.read_unidirectional(quic, id)
    }

    fn read_unidirectional(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
    ) -> Result<(), Violation> {
        loop {
            let mut piece = match quic.read(id) {
                Read::Data(piece) => piece,
                Read::Pending => {
                    self.tell_lasting(quic);
                    return Ok(());
                }
                Read::End | Read::Reset(_) => return self.incoming.close(id),
            };
            loop {
                match self.incoming.receive(id, &mut piece)? {
                    Outcome::Consumed => break,
                    Outcome::Frame(frame) => self.on_control_frame(quic, frame)?,
                    Outcome::Encoder(piece) => self.on_encoder_stream(quic, &piece)?,
                    Outcome::Decoder(piece) => self.on_decoder_stream(&piece)?,
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
        quic: &mut impl QuicConnection,
        frame: Frame,
    ) -> Result<(), Violation> {
        let role = self.shared_config.role;
        match frame {
            Frame::Settings(payload) => {
                return self.on_settings(Settings::decode(&payload)?);
            }
            Frame::Ignored(cost) => return self.floods.spend(cost),
            _ => self.floods.spend(1)?,
        }
        match frame {
            Frame::GoAway(id) => self.on_go_away(quic, id),
            Frame::MaxPushId(id) if role == Role::Server => self.on_max_push_id(id),
            Frame::PriorityUpdate(id, field) if role == Role::Server => {
                self.on_priority_update(quic, id, &field)
            }
            // Section 7.2.7: "A server MUST NOT send a MAX_PUSH_ID frame." RFC 9218 section 7.2 says
            // the same of PRIORITY_UPDATE.
            Frame::MaxPushId(_) | Frame::PriorityUpdate(..) | Frame::PushPriorityUpdate
                if role == Role::Client =>
            {
                let reason = "frame that servers don't send";
                Err(Violation::new(Code::H3_FRAME_UNEXPECTED, reason))
            }
            // Section 7.2.3: a push ID beyond the maximum, or one never promised, "MUST be treated
            // as a connection error of type H3_ID_ERROR"; RFC 9218 section 7.2 likewise.
            Frame::CancelPush | Frame::PushPriorityUpdate => {
                Err(Violation::new(Code::H3_ID_ERROR, "there are no pushes"))
            }
            _ => unreachable!("the decoder of a control stream refuses request frames"),
        }
    }

    /// Section 7.2.7: "A MAX_PUSH_ID frame cannot reduce the maximum push ID; receipt of [one] that
    /// contains a smaller value than previously received MUST be treated as a connection error of
    /// type H3_ID_ERROR."
    fn on_max_push_id(&mut self, id: u64) -> Result<(), Violation> {
        match self.max_push_id.replace(id) {
            Some(before) if id < before => {
                Err(Violation::new(Code::H3_ID_ERROR, "smaller MAX_PUSH_ID"))
            }
            _ => Ok(()),
        }
    }

    /// Section 5.2: the ID of a server's GOAWAY is a request stream's, and later ones "MUST NOT
    /// increase"; requests from it on were not and will not be processed.
    fn on_go_away(&mut self, quic: &mut impl QuicConnection, id: u64) -> Result<(), Violation> {
        let raised = self.go_away_received.is_some_and(|earlier| id > earlier);
        if raised || (self.shared_config.role == Role::Client && !id.is_multiple_of(4)) {
            return Err(Violation::new(Code::H3_ID_ERROR, "wrong ID in GOAWAY"));
        }
        if self.go_away_received.replace(id).is_none() {
            self.events.push_back(Event::GoAway);
        }
        if self.shared_config.role == Role::Client {
            self.reject_from(quic, id);
        }
        Ok(())
    }

    /// The peer broke the protocol.
    fn fail(&mut self, quic: &mut impl QuicConnection, violation: Violation) {
        tracing::debug!(code = %violation.code, reason = violation.reason, "closing connection");
        self.close(quic, violation.code, violation.reason.as_bytes());
    }

    /// Lets go of all that the end of the connection has made useless.
    fn forget(&mut self) {
        self.kept = 0;
        self.phase = Phase::Closed;
        self.exchanges = FxHashMap::default();
        self.writable = BTreeSet::new();
        self.waiting = Vec::new();
        self.incoming = Incoming::new(self.shared_config.role);
    }
}

fn is_request(id: StreamId) -> bool {
    id.direction() == Direction::Bidirectional
}
