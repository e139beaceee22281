//! One HTTP/3 connection over one QUIC connection: turns the engine's events into the
//! application's, and the application's calls into stream writes.
//!
//! Exchanges are in `exchange`; this file has the connection's own life: hand-shake, control
//! stream, GOAWAY, closing. It holds at most [`Limits::max_concurrent_requests`] exchanges and 16
//! unidirectional streams, as QUIC's stream limits are set to these.

mod exchange;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{ConnectionError, Dir, ReadError, StreamEvent, StreamId};
use rustc_hash::FxHashMap;

use self::exchange::Exchange;
use crate::failure::Violation;
use crate::frame::Frame;
use crate::meter::Reading;
use crate::receive::Chunk;
use crate::settings::Settings;
use crate::transport::Role;
use crate::unidirectional::{self, Outcome};
use crate::{CloseReason, Code, Event, Limits, PathStatistics};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Handshake,
    Open,
    /// For the application it is gone; the engine may still have packets to send or to absorb.
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
    quic: quinn_proto::Connection,
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
    /// To be told to the peer with the next transmission.
    closing: Option<(Code, Bytes)>,
    began: Instant,
    last_heard: Instant,
    handshake: Option<Duration>,
}

impl Connection {
    pub(crate) fn new(
        quic: quinn_proto::Connection,
        role: Role,
        limits: Limits,
        now: Instant,
    ) -> Self {
        Self {
            quic,
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
            closing: None,
            began: now,
            last_heard: now,
            handshake: None,
        }
    }

    /// The QUIC connection, for what passes between it and the QUIC endpoint.
    pub(crate) fn quic(&mut self) -> &mut quinn_proto::Connection {
        &mut self.quic
    }

    /// Takes in what the QUIC endpoint has for this connection.
    pub(crate) fn handle(&mut self, now: Instant, event: quinn_proto::ConnectionEvent) {
        self.last_heard = now;
        self.quic.handle_event(event);
    }

    /// The next event for the application, after working through all that the engine has.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        while self.phase != Phase::Closed {
            let Some(event) = self.quic.poll() else { break };
            if let Err(violation) = self.on_quic_event(event) {
                self.fail(violation);
            }
        }
        self.events.pop_front()
    }

    /// The next batch of datagrams.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<quinn_proto::Transmit> {
        if let Some((code, reason)) = self.closing.take() {
            self.quic.close(now, code.to_varint(), reason);
        }
        self.quic.poll_transmit(now, max_segments, buf)
    }

    /// Begins a graceful shutdown: no new requests from either side. A server refuses those from
    /// the next stream on; the ID in a client's GOAWAY is a push ID, of which there are none.
    pub(crate) fn shutdown(&mut self) {
        if self.go_away_sent.is_some() || self.phase == Phase::Closed {
            return;
        }
        let id = self.next_request;
        self.go_away_sent = Some(id);
        if self.phase == Phase::Open {
            self.control.go_away(id);
            self.control.flush(&mut self.quic);
        }
    }

    /// Closes the connection at once. The peer hears of it with the next transmission.
    pub(crate) fn close(&mut self, code: Code, reason: &[u8]) {
        if self.phase != Phase::Closed {
            self.closing = Some((code, Bytes::copy_from_slice(reason)));
            let reason = String::from_utf8_lossy(reason).into_owned();
            self.enter_closed(CloseReason::Local { code, reason });
        }
    }

    /// Whether the application may no longer use it.
    pub(crate) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Whether nothing is left to deliver or to acknowledge.
    pub(crate) fn is_idle(&self) -> bool {
        match self.phase {
            Phase::Handshake => self.role == Role::Server,
            Phase::Open => self.exchanges.is_empty() && !self.quic.has_pending_retransmits(),
            Phase::Closed => self.closing.is_none(),
        }
    }

    /// What is known of the path; `None` before the first round-trip sample.
    pub(crate) fn path_statistics(&self) -> Option<PathStatistics> {
        let reading = Reading::of(self.quic.congestion_state());
        let latest_rtt = reading.latest_rtt?;
        let statistics = self.quic.stats();
        let path = statistics.path;
        Some(PathStatistics {
            remote: self.quic.remote_address(),
            min_rtt: path.min_rtt,
            smoothed_rtt: path.rtt,
            latest_rtt,
            congestion_window: path.cwnd,
            mtu: path.current_mtu,
            packets_sent: path.sent_packets,
            packets_lost: path.lost_packets,
            bytes_sent: statistics.udp_tx.bytes,
            bytes_received: statistics.udp_rx.bytes,
            bytes_acked: reading.bytes_acked,
            congestion_events: path.congestion_events,
            handshake: self.handshake,
        })
    }

    fn on_quic_event(&mut self, event: quinn_proto::Event) -> Result<(), Violation> {
        use quinn_proto::Event as Quic;
        match event {
            Quic::Connected => self.on_connected(),
            Quic::ConnectionLost { reason } => self.enter_closed(close_reason(reason)),
            Quic::Stream(event) => return self.on_stream_event(&event),
            Quic::HandshakeDataReady | Quic::DatagramReceived | Quic::DatagramsUnblocked => {}
        }
        Ok(())
    }

    fn on_connected(&mut self) {
        self.phase = Phase::Open;
        self.handshake = Some(self.last_heard.saturating_duration_since(self.began));
        let max_field_section_size = self.limits.max_field_section_size;
        self.control.begin(&Settings {
            max_field_section_size,
        });
        if let Some(id) = self.go_away_sent {
            self.control.go_away(id);
        }
        self.control.flush(&mut self.quic);
        self.events.push_back(Event::Connected);
        self.offer_streams(Giver::Peer);
    }

    fn on_stream_event(&mut self, event: &StreamEvent) -> Result<(), Violation> {
        match *event {
            StreamEvent::Opened { dir: Dir::Bi } => self.accept_requests()?,
            StreamEvent::Opened { dir: Dir::Uni } => {
                while let Some(id) = self.quic.streams().accept(Dir::Uni) {
                    self.incoming.open(id);
                    self.read_unidirectional(id)?;
                }
            }
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.read_unidirectional(id)?,
            StreamEvent::Readable { id } => self.on_readable(id),
            StreamEvent::Writable { id } if self.control.is(id) => {
                self.control.flush(&mut self.quic);
            }
            StreamEvent::Writable { id } => self.on_writable(id),
            StreamEvent::Finished { id } => self.on_finished(id),
            StreamEvent::Stopped { id, .. } if self.control.is(id) => {
                return Err(unidirectional::closed_critical_stream());
            }
            StreamEvent::Stopped { id, error_code } => self.on_stopped(id, error_code.into()),
            StreamEvent::Available { dir: Dir::Uni } => self.control.flush(&mut self.quic),
            StreamEvent::Available { dir: Dir::Bi } => self.offer_streams(Giver::Peer),
        }
        Ok(())
    }

    fn read_unidirectional(&mut self, id: StreamId) -> Result<(), Violation> {
        loop {
            let mut piece = match next_chunk(&mut self.quic, id) {
                Chunk::Data(piece) => piece,
                Chunk::Pending => return Ok(()),
                Chunk::End | Chunk::Reset(_) => return self.incoming.close(id),
            };
            loop {
                match self.incoming.receive(id, &mut piece)? {
                    Outcome::Consumed => break,
                    Outcome::Frame(frame) => self.on_control_frame(frame)?,
                    Outcome::Unwanted => {
                        let code = Code::H3_STREAM_CREATION_ERROR.to_varint();
                        // Fails only if the stream is over already.
                        let _ = self.quic.recv_stream(id).stop(code);
                        return Ok(());
                    }
                }
            }
        }
    }

    fn on_control_frame(&mut self, frame: Frame) -> Result<(), Violation> {
        match frame {
            Frame::Settings(payload) => {
                self.peer_settings = Settings::decode(&payload)?;
                Ok(())
            }
            Frame::GoAway(id) => self.on_go_away(id),
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
    fn on_go_away(&mut self, id: u64) -> Result<(), Violation> {
        let raised = self.go_away_received.is_some_and(|earlier| id > earlier);
        if raised || (self.role == Role::Client && !id.is_multiple_of(4)) {
            return Err(Violation::new(Code::H3_ID_ERROR, "wrong ID in GOAWAY"));
        }
        if self.go_away_received.replace(id).is_none() {
            self.events.push_back(Event::GoAway);
        }
        if self.role == Role::Client {
            self.reject_from(id);
        }
        Ok(())
    }

    /// The peer broke the protocol.
    fn fail(&mut self, violation: Violation) {
        tracing::debug!(code = %violation.code, reason = violation.reason, "closing connection");
        self.close(violation.code, violation.reason.as_bytes());
    }

    fn enter_closed(&mut self, reason: CloseReason) {
        // A server's application has not heard of a connection that fails in its hand-shake.
        if self.phase == Phase::Open || self.role == Role::Client {
            self.events.push_back(Event::Closed { reason });
        }
        self.phase = Phase::Closed;
        self.exchanges = FxHashMap::default();
        self.incoming = unidirectional::Incoming::new(self.role);
    }
}

/// Reads the next piece of a stream, whose credit goes back to the peer with it.
fn next_chunk(quic: &mut quinn_proto::Connection, id: StreamId) -> Chunk {
    let mut stream = quic.recv_stream(id);
    // A stream that is over, or was stopped, has nothing to give.
    let Ok(mut chunks) = stream.read(true) else {
        return Chunk::Pending;
    };
    let chunk = match chunks.next(usize::MAX) {
        Ok(Some(chunk)) => Chunk::Data(chunk.bytes),
        Ok(None) => Chunk::End,
        Err(ReadError::Blocked) => Chunk::Pending,
        Err(ReadError::Reset(code)) => Chunk::Reset(code.into()),
    };
    // Whether a frame is due does not matter: every touched connection is asked to transmit.
    let _ = chunks.finalize();
    chunk
}

fn close_reason(error: ConnectionError) -> CloseReason {
    match error {
        ConnectionError::ApplicationClosed(close) => CloseReason::Peer {
            code: close.error_code.into(),
            reason: String::from_utf8_lossy(&close.reason).into_owned(),
        },
        ConnectionError::TimedOut => CloseReason::TimedOut,
        ConnectionError::Reset => CloseReason::Reset,
        ConnectionError::VersionMismatch => CloseReason::VersionMismatch,
        ConnectionError::TransportError(_)
        | ConnectionError::ConnectionClosed(_)
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted => CloseReason::Transport {
            reason: error.to_string(),
        },
    }
}
