//! A connection: its life from handshake to close, and what can be done with its streams.
//!
//! The connection wraps the engine's. It adds little: the application hears of a connection's end
//! exactly once, and calls on streams that are over, or of the other direction, do no harm.

mod sending;
mod windows;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{ConnectionError, ReadError, StreamEvent, VarInt, WriteError};

use crate::budget::{Budget, is_one_handshake_packet};
use crate::engine::crypto::{self, KeySettings};
use crate::engine::meter;
use crate::engine::paths::Paths;
use crate::engine::pins::Pins;
use crate::engine::transport::MIN_MTU;
use crate::windows::Windows;
use crate::{
    CloseReason, Datagram, Direction, Error, Event, PathStatistics, PeerIdentity, QuicConnection,
    Read, Role, StreamId, Version,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Handshake,
    /// The handshake is going on, and the application uses streams already.
    Early,
    Open,
    /// The connection is gone for the application; the engine may still have packets to send or to
    /// absorb.
    Closed,
}

/// Application code with which the engine itself closes a connection: RFC 9114 section 8.1 has HTTP/3 treat a
/// code that it does not know as H3_NO_ERROR.
const ENGINES_CODE: u64 = 0;

/// A connection of an [`Endpoint`](crate::Endpoint).
pub struct Connection {
    engine: quinn_proto::Connection,
    version: Version,
    phase: Phase,
    /// The reason to tell the application when it has heard of everything else.
    ending: Option<CloseReason>,
    /// The peer has opened streams of this direction; all are to be told before anything else.
    opened: Option<Direction>,
    /// The handshake is done, which is to be told next.
    connected: bool,
    /// The code and reason to tell the peer with the next transmission.
    closing: Option<(u64, Bytes)>,
    /// The peer has closed it, or knows it no more: nothing is sent (RFC 9000 section 10.2.2).
    draining: bool,
    began: Instant,
    /// Time at which a handshake that isn't done is given up.
    give_up: Instant,
    /// Anti-amplification limit of the handshake.
    budget: Budget,
    /// Addresses to which the connection sends after the handshake.
    paths: Paths,
    keys: KeySettings,
    /// `None`: they are whole.
    windows: Option<Windows>,
    /// Datagrams that wait to be read.
    pins: Pins,
    /// STREAM frames that have come.
    stream_frames: u64,
    /// Streams that don't count as busy.
    lasting: usize,
    last_received: Instant,
    handshake: Option<Duration>,
    /// True if the connection ended because its time was over.
    timed_out: bool,
}

/// Result of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    Failed,
    TimedOut,
}

impl Connection {
    pub(crate) fn new(
        engine: quinn_proto::Connection,
        version: Version,
        now: Instant,
        give_up: Instant,
        budget: Budget,
        windows: Option<Windows>,
    ) -> Self {
        let paths = Paths::new(engine.remote_address());
        let keys = crypto::key_settings(&engine);
        Self {
            engine,
            version,
            phase: Phase::Handshake,
            ending: None,
            opened: None,
            connected: false,
            closing: None,
            draining: false,
            began: now,
            give_up,
            budget,
            paths,
            keys,
            windows,
            pins: Pins::default(),
            stream_frames: 0,
            lasting: 0,
            last_received: now,
            handshake: None,
            timed_out: false,
        }
    }

    /// The engine's connection, for what passes between it and the engine's endpoint.
    pub(crate) fn engine(&mut self) -> &mut quinn_proto::Connection {
        &mut self.engine
    }

    /// Takes in what the engine's endpoint has made of a datagram for this connection.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        datagram: &Datagram<'_>,
        event: quinn_proto::ConnectionEvent,
    ) {
        self.last_received = now;
        if self.is_validated() {
            return self.handle_established(now, datagram, event);
        }
        if datagram.remote != self.engine.remote_address() {
            // Nobody moves during a hand-shake (RFC 9000 section 9), and others' bytes buy nothing.
            return;
        }
        let frames = self.handshake_frames();
        self.engine.handle_event(event);
        self.budget.on_received(datagram.payload.len());
        let some_came = self.handshake_frames() > frames;
        if some_came && is_one_handshake_packet(datagram.payload) {
            self.budget.set_unlimited();
        }
    }

    /// Takes in a datagram after the handshake, when the peer may move.
    fn handle_established(
        &mut self,
        now: Instant,
        datagram: &Datagram<'_>,
        event: quinn_proto::ConnectionEvent,
    ) {
        let remote = datagram.remote;
        if !self.paths.takes(remote, now, self.engine.rtt()) {
            tracing::debug!(%remote, "the client's address changes too often");
            return;
        }
        let before = self.engine.remote_address();
        self.engine.handle_event(event);
        let current = self.engine.remote_address();
        if current != before && self.engine.current_mtu() > MIN_MTU {
            // A new path begins with what every path carries, and a packet can be made no shorter than by
            // that. quinn-proto keeps the MTU found before if the peer's port alone is another.
            self.engine.path_changed(now);
        }
        let bytes = datagram.payload.len();
        self.paths.on_received(now, current, remote, bytes);
    }

    /// Returns the time to call [`handle_timeout`](Self::handle_timeout).
    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        let give_up = self.is_in_handshake().then_some(self.give_up);
        let timers = [self.engine.poll_timeout(), give_up];
        timers.into_iter().flatten().min()
    }

    /// Runs what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.engine.handle_timeout(now);
        // quinn-proto goes back to the address before when the validation of another one fails.
        self.paths.follow(self.engine.remote_address());
        if self.is_in_handshake() && self.give_up <= now {
            let reason = Bytes::from_static(b"the handshake took too long");
            self.closing = Some((ENGINES_CODE, reason));
            self.enter_closed(CloseReason::TimedOut);
        }
    }

    /// Returns true if the peer is known to receive at its address.
    pub(crate) fn is_validated(&self) -> bool {
        !self.budget.is_limited()
    }

    /// Returns true if nothing is left to deliver or to acknowledge.
    pub(crate) fn is_idle(&self) -> bool {
        match self.phase {
            Phase::Handshake => self.role() == Role::Server,
            Phase::Early | Phase::Open => !self.engine.has_pending_retransmits(),
            Phase::Closed => self.closing.is_none(),
        }
    }

    /// Returns what came of the handshake; `None` while it goes on.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match self.phase {
            _ if self.handshake.is_some() => Some(Outcome::Completed),
            Phase::Closed if self.timed_out => Some(Outcome::TimedOut),
            Phase::Closed => Some(Outcome::Failed),
            Phase::Handshake | Phase::Early | Phase::Open => None,
        }
    }

    /// Returns true if the handshake isn't done, and neither side has given it up.
    fn is_in_handshake(&self) -> bool {
        self.is_handshaking() && self.engine.is_handshaking()
    }

    /// Frames received of the kinds that Handshake packets have (RFC 9000 section 12.4).
    fn handshake_frames(&self) -> u64 {
        let frames = self.engine.stats().frame_rx;
        frames.acks + frames.crypto + frames.ping + frames.connection_close
    }

    fn accept(&mut self) -> Option<StreamId> {
        let direction = self.opened?;
        let stream = self.engine.streams().accept(direction.into());
        if stream.is_none() {
            self.opened = None;
        }
        stream.map(StreamId::from)
    }

    fn on_engine_event(&mut self, event: quinn_proto::Event) -> Option<Event> {
        use quinn_proto::Event as Engine;
        match event {
            Engine::Connected => {
                self.budget.set_unlimited();
                self.handshake = Some(self.last_received.saturating_duration_since(self.began));
                self.connected = true;
                self.was_refused().then_some(Event::EarlyDataRefused)
            }
            Engine::ConnectionLost { reason } => {
                // The engine would answer a close with a close, as it may. Few peers are still there to
                // take it: a program that is done closes its socket.
                self.draining = is_peers(&reason);
                self.enter_closed(close_reason(reason));
                None
            }
            Engine::Stream(event) => self.on_stream_event(&event),
            Engine::HandshakeDataReady | Engine::DatagramReceived | Engine::DatagramsUnblocked => {
                None
            }
        }
    }

    /// Returns true if the handshake leaves time for early data. Data that comes with the end of the
    /// handshake is not early: by then the peer is known to be there.
    fn can_be_early(&self) -> bool {
        self.phase == Phase::Handshake && self.engine.has_0rtt() && self.engine.is_handshaking()
    }

    /// Returns true if the server has refused what this client sent early, though the application may
    /// not have heard of it.
    fn was_refused(&self) -> bool {
        self.phase == Phase::Early
            && self.role() == Role::Client
            && !self.engine.is_handshaking()
            && !self.engine.accepted_0rtt()
    }

    fn on_stream_event(&mut self, event: &StreamEvent) -> Option<Event> {
        Some(match *event {
            StreamEvent::Opened { dir } => {
                self.opened = Some(dir.into());
                return None;
            }
            StreamEvent::Readable { id } => Event::Readable { stream: id.into() },
            StreamEvent::Writable { id } => Event::Writable { stream: id.into() },
            StreamEvent::Finished { id } => Event::Finished { stream: id.into() },
            StreamEvent::Stopped { id, error_code } => Event::Stopped {
                stream: id.into(),
                code: error_code.into_inner(),
            },
            StreamEvent::Available { dir } => Event::StreamsAvailable {
                direction: dir.into(),
            },
        })
    }

    fn enter_closed(&mut self, reason: CloseReason) {
        self.timed_out = reason == CloseReason::TimedOut;
        // A server's application has not heard of a connection that fails in its hand-shake.
        if self.phase != Phase::Handshake || self.role() == Role::Client {
            self.ending = Some(reason);
        }
        self.phase = Phase::Closed;
    }

    fn can_send(&self, stream: StreamId) -> bool {
        stream.direction() == Direction::Bidirectional || stream.opener() == self.role()
    }

    fn can_receive(&self, stream: StreamId) -> bool {
        stream.direction() == Direction::Bidirectional || stream.opener() != self.role()
    }
}

impl QuicConnection for Connection {
    fn poll_event(&mut self) -> Option<Event> {
        if self.can_be_early() {
            self.phase = Phase::Early;
            return Some(Event::EarlyData);
        }
        while self.phase != Phase::Closed {
            if std::mem::take(&mut self.connected) {
                self.phase = Phase::Open;
                return Some(Event::Connected);
            }
            if let Some(stream) = self.accept() {
                return Some(Event::Opened { stream });
            }
            let event = self.engine.poll()?;
            if let Some(event) = self.on_engine_event(event) {
                return Some(event);
            }
        }
        let reason = self.ending.take()?;
        Some(Event::Closed { reason })
    }

    fn open(&mut self, direction: Direction) -> Option<StreamId> {
        if self.was_refused() {
            return None;
        }
        self.engine
            .streams()
            .open(direction.into())
            .map(StreamId::from)
    }

    fn read(&mut self, stream: StreamId) -> Read {
        if !self.can_receive(stream) {
            return Read::Pending;
        }
        let mut stream = self.engine.recv_stream(stream.to_engine());
        // A stream that is over, or was stopped, has nothing to give.
        let Ok(mut chunks) = stream.read(true) else {
            return Read::Pending;
        };
        let read = match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => Read::Data(chunk.bytes),
            Ok(None) => Read::End,
            Err(ReadError::Blocked) => Read::Pending,
            Err(ReadError::Reset(code)) => Read::Reset(code.into_inner()),
        };
        // Whether a frame is due does not matter: every touched connection is asked to transmit.
        let _ = chunks.finalize();
        if let Read::Data(bytes) = &read {
            self.pins.on_read(bytes.len());
            self.widen_receiving(bytes.len());
        }
        read
    }

    fn received_reset(&mut self, stream: StreamId) -> Option<u64> {
        if !self.can_receive(stream) {
            return None;
        }
        let mut stream = self.engine.recv_stream(stream.to_engine());
        stream.received_reset().ok()?.map(VarInt::into_inner)
    }

    fn write(&mut self, stream: StreamId, mut chunks: &mut [Bytes]) -> Result<bool, Error> {
        if !self.can_send(stream) {
            return Err(Error::UnknownStream);
        }
        self.widen_sending(chunks.iter().map(Bytes::len).sum());
        let mut stream = self.engine.send_stream(stream.to_engine());
        // Until all is written or the stream blocks: only then the engine tells when there is room.
        while let Some(first) = chunks.iter().position(|chunk| !chunk.is_empty()) {
            chunks = &mut chunks[first..];
            match stream.write_chunks(chunks) {
                Ok(written) => {
                    if let Some(windows) = &mut self.windows {
                        windows.on_written(written.bytes as u64);
                    }
                }
                Err(WriteError::Blocked) => return Ok(false),
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    return Err(Error::UnknownStream);
                }
            }
        }
        Ok(true)
    }

    fn write_copy(&mut self, stream: StreamId, bytes: &[u8]) -> Result<usize, Error> {
        if !self.can_send(stream) {
            return Err(Error::UnknownStream);
        }
        self.widen_sending(bytes.len());
        let mut stream = self.engine.send_stream(stream.to_engine());
        let mut written = 0;
        while written < bytes.len() {
            match stream.write(&bytes[written..]) {
                Ok(more) => written += more,
                Err(WriteError::Blocked) => break,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    return Err(Error::UnknownStream);
                }
            }
        }
        if let Some(windows) = &mut self.windows {
            windows.on_written(written as u64);
        }
        Ok(written)
    }

    fn finish(&mut self, stream: StreamId) -> Result<(), Error> {
        if !self.can_send(stream) {
            return Err(Error::UnknownStream);
        }
        let mut stream = self.engine.send_stream(stream.to_engine());
        stream.finish().map_err(|_| Error::UnknownStream)
    }

    fn reset(&mut self, stream: StreamId, code: u64) {
        if self.can_send(stream) {
            let mut stream = self.engine.send_stream(stream.to_engine());
            // Fails only if the stream is over, which is what is wanted.
            let _ = stream.reset(in_varint(code));
        }
    }

    fn stop(&mut self, stream: StreamId, code: u64) {
        if self.can_receive(stream) {
            let mut stream = self.engine.recv_stream(stream.to_engine());
            // Fails only if the stream is over, which is what is wanted.
            let _ = stream.stop(in_varint(code));
        }
    }

    fn set_priority(&mut self, stream: StreamId, priority: i32) {
        if self.can_send(stream) {
            let mut stream = self.engine.send_stream(stream.to_engine());
            // Fails only if the stream is over.
            let _ = stream.set_priority(priority);
        }
    }

    fn set_lasting(&mut self, streams: usize) {
        self.lasting = streams;
    }

    fn close(&mut self, code: u64, reason: &[u8]) {
        if self.phase != Phase::Closed {
            let code = in_varint(code).into_inner();
            self.closing = Some((code, Bytes::copy_from_slice(reason)));
            let reason = String::from_utf8_lossy(reason).into_owned();
            self.enter_closed(CloseReason::Local { code, reason });
        }
    }

    fn update_keys(&mut self) {
        // Where the engine has changed keys already, and that is put off, this is all.
        self.keys.deferral.end();
        self.engine.force_key_update();
    }

    fn role(&self) -> Role {
        self.engine.side().into()
    }

    fn version(&self) -> Version {
        self.version
    }

    fn is_handshaking(&self) -> bool {
        matches!(self.phase, Phase::Handshake | Phase::Early)
    }

    fn is_ending(&self) -> bool {
        self.phase == Phase::Closed || self.engine.is_closed()
    }

    fn remote_address(&self) -> SocketAddr {
        self.engine.remote_address()
    }

    fn is_remote_validated(&self) -> bool {
        self.is_validated() && self.paths.is_validated()
    }

    fn local_ip(&self) -> Option<IpAddr> {
        self.engine.local_ip()
    }

    fn peer_identity(&self) -> PeerIdentity {
        crypto::peer_identity(&self.engine)
    }

    fn keep(&mut self, bytes: u64) -> bool {
        let windows = self.windows.as_mut();
        windows.is_none_or(|windows| windows.keep(bytes))
    }

    fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    fn path_statistics(&self) -> Option<PathStatistics> {
        let acked = meter::acked(self.engine.congestion_state());
        if acked.bytes == 0 {
            return None;
        }
        let statistics = self.engine.stats();
        let path = statistics.path;
        Some(PathStatistics {
            remote: self.engine.remote_address(),
            min_rtt: path.min_rtt,
            smoothed_rtt: path.rtt,
            congestion_window: self.engine.congestion_state().metrics().congestion_window,
            mtu: path.current_mtu,
            packets_sent: path.sent_packets,
            packets_lost: path.lost_packets,
            bytes_sent: statistics.udp_tx.bytes,
            bytes_received: statistics.udp_rx.bytes,
            bytes_acked: acked.bytes,
            progress: acked.progress(),
            congestion_events: path.congestion_events,
            handshake: self.handshake,
        })
    }
}

/// Integers have 62 bits, as codes do; larger ones become the largest.
fn in_varint(number: u64) -> VarInt {
    VarInt::from_u64(number).unwrap_or(VarInt::MAX)
}

/// Returns true if the peer has ended the connection, and knows that.
fn is_peers(error: &ConnectionError) -> bool {
    use ConnectionError::{ApplicationClosed, ConnectionClosed, Reset};
    matches!(error, ApplicationClosed(_) | ConnectionClosed(_) | Reset)
}

fn close_reason(error: ConnectionError) -> CloseReason {
    match error {
        ConnectionError::ApplicationClosed(close) => CloseReason::Peer {
            code: close.error_code.into_inner(),
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
