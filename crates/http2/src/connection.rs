//! A connection: what it holds between turns, and the turn itself.
//!
//! The rest of [`Turn`] stands in `receive` (frames in), `heads` (field blocks in), `send` (what the
//! application says), and `clock` (time-outs and shutdown); what a connection that idles gives back, in `rest`.

mod clock;
mod control;
mod heads;
mod receive;
mod rest;
mod send;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use altway_fields::Budget;

use crate::config::{Config, Role};
use crate::event::{CloseReason, Event, StreamId};
use crate::fault::Fault;
use crate::frame::{self, PREFACE, flag, kind};
use crate::hpack::{Decoder, Encoder};
use crate::output::Output;
use crate::priority::Scheduler;
use crate::settings::{self, PeerSettings};
use crate::stream::{Progress, Stream, Streams};
use crate::window::{DEFAULT_WINDOW, Growth, ReceiveWindow, SendWindow};
use crate::{Code, Priority};

use heads::{Assembly, LatestHead};
use receive::Reading;

/// PRIORITY_UPDATE may come before its request (RFC 9218 section 7.1); so many are kept.
const EARLY_PRIORITIES: usize = 16;

/// An HTTP/2 connection of either role: bytes, calls and the time in; events, bytes and the next
/// time-out out.
///
/// All work is done in a [`Turn`]. The contract of one: [`turn`](Connection::turn);
/// [`receive`](Turn::receive) until it gives nothing more, answering each event; give bodies to
/// [`next_sendable`](Turn::next_sendable) streams; send the output; arm a timer for
/// [`poll_timeout`](Connection::poll_timeout), and when it fires, take a turn with
/// [`handle_timeout`](Turn::handle_timeout).
#[derive(Debug)]
pub struct Connection {
    role: Role,
    config: Arc<Config>,
    /// Events that are not made from what is being read.
    events: VecDeque<Event<'static>>,
    state: State,
    peer: PeerSettings,
    decoder: Decoder,
    encoder: Encoder,
    head: LatestHead,
    reading: Reading,
    assembly: Option<Assembly>,
    streams: Streams,
    scheduler: Scheduler,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    /// SETTINGS_INITIAL_WINDOW_SIZE as the peer knows it.
    acknowledged_window: u32,
    /// Highest stream that the peer opened (server) or we opened (client).
    last_stream: u32,
    early_priorities: VecDeque<(u32, Priority)>,
    /// A request was refused to the application for want of a stream.
    wants_stream: bool,
    resets: Budget,
    control: Budget,
    clock: clock::Clock,
}

/// The state of a connection from its beginning to its end.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// True once this side's SETTINGS are written.
    sent_preface: bool,
    /// The last stream we process, once a GOAWAY has said so.
    last_processed: Option<u32>,
    /// The first GOAWAY of a shutdown is sent.
    going_away: bool,
    /// The peer sent GOAWAY.
    peer_going_away: bool,
    closed: bool,
}

impl Connection {
    /// A server's end of a connection that a client opened at `now`.
    #[must_use]
    pub fn server(config: Arc<Config>, now: Instant) -> Self {
        Self::new(Role::Server, config, now)
    }

    /// A client's end.
    #[must_use]
    pub fn client(config: Arc<Config>, now: Instant) -> Self {
        Self::new(Role::Client, config, now)
    }

    fn new(role: Role, config: Arc<Config>, now: Instant) -> Self {
        Self {
            role,
            events: VecDeque::new(),
            state: State::default(),
            peer: PeerSettings::default(),
            decoder: Decoder::new(usize::try_from(config.header_table_size).unwrap_or(usize::MAX)),
            encoder: Encoder::new(),
            head: LatestHead::default(),
            reading: Reading::new(role),
            assembly: None,
            streams: Streams::default(),
            scheduler: Scheduler::default(),
            send_window: SendWindow::new(DEFAULT_WINDOW),
            receive_window: ReceiveWindow::new(
                DEFAULT_WINDOW,
                config.connection_window.max(DEFAULT_WINDOW),
            ),
            acknowledged_window: DEFAULT_WINDOW,
            last_stream: 0,
            early_priorities: VecDeque::new(),
            wants_stream: false,
            resets: Budget::new(config.floods.resets, now),
            control: Budget::new(config.floods.control, now),
            clock: clock::Clock::new(&config.timeouts, now),
            config,
        }
    }

    /// Begins a turn at `now`, whose bytes are appended to `output`.
    pub fn turn<'a>(&'a mut self, now: Instant, output: &'a mut Output) -> Turn<'a> {
        Turn {
            connection: self,
            now,
            output,
        }
    }

    /// Returns true if the connection has ended: nothing is received or sent any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.closed
    }

    /// Number of open streams.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Bytes of memory that a field block takes which goes on in CONTINUATION frames to come.
    #[must_use]
    pub fn unfinished_block(&self) -> usize {
        let assembly = self.assembly.as_ref();
        assembly.map_or(0, |assembly| assembly.block.capacity())
    }

    /// Returns true if either side has announced the end: the application can't send new requests.
    #[must_use]
    pub fn is_going_away(&self) -> bool {
        self.state.closed || self.state.going_away || self.state.peer_going_away
    }

    /// Time from our last SETTINGS or PING to its acknowledgement: the path's round trip plus what
    /// either end waited. `None` before the first.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.clock.rtt()
    }

    /// Client: whether the server takes extended CONNECT (RFC 8441). Unknown, hence false, before
    /// its SETTINGS came.
    #[must_use]
    pub fn peer_takes_extended_connect(&self) -> bool {
        self.peer.connect_protocol
    }

    fn max_streams(&self) -> usize {
        let own = self.config.max_concurrent_streams;
        let limit = match self.role {
            Role::Server => own,
            Role::Client => own.min(self.peer.max_concurrent_streams),
        };
        usize::try_from(limit).unwrap_or(usize::MAX)
    }
}

/// A connection at one point in time, with a place to write to.
#[derive(Debug)]
pub struct Turn<'a> {
    connection: &'a mut Connection,
    now: Instant,
    output: &'a mut Output,
}

impl Turn<'_> {
    /// Bytes that the output holds now, those of earlier turns included.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.output.len()
    }

    /// Number of open streams.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.connection.open_streams()
    }

    /// Returns the bytes, as [`Connection::unfinished_block`] does.
    #[must_use]
    pub fn unfinished_block(&self) -> usize {
        self.connection.unfinished_block()
    }

    /// Ends the connection at once: GOAWAY with `code`, no more events but
    /// [`Event::Closed`]. For a graceful end see [`shutdown`](Turn::shutdown).
    pub fn close(&mut self, code: Code) {
        self.end(code, "by the application");
    }

    /// Sends this side's preface and SETTINGS, once.
    #[inline]
    fn send_preface(&mut self) {
        if !self.connection.state.sent_preface {
            self.put_preface();
        }
    }

    #[cold]
    fn put_preface(&mut self) {
        let connection = &mut *self.connection;
        connection.state.sent_preface = true;
        let out = self.output.buffer();
        if connection.role == Role::Client {
            out.extend_from_slice(PREFACE);
        }
        settings::put(&connection.config, connection.role, out);
        connection.clock.settings = Some(self.now);
        if let Some(increment) = connection.receive_window.open() {
            self.window_update(0, increment);
        }
    }

    /// Carries a fault of the peer to where it belongs.
    fn fail(&mut self, fault: Fault) {
        match fault {
            Fault::Connection(code, reason) => self.end(code, reason),
            Fault::Stream(stream, code) => {
                self.drop_stream(stream, code);
                if self.connection.resets.spend(1, self.now).is_err() {
                    self.end(Code::ENHANCE_YOUR_CALM, "too many streams had to be reset");
                }
            }
        }
    }

    /// GOAWAY, then nothing more.
    fn end(&mut self, code: Code, reason: &'static str) {
        if self.connection.state.closed {
            return;
        }
        self.send_preface();
        let last = self.connection.last_processed();
        self.goaway(last, code);
        self.finish(CloseReason::Local { code, reason });
    }

    fn finish(&mut self, reason: CloseReason) {
        let connection = &mut *self.connection;
        connection.state.closed = true;
        connection.streams = Streams::default();
        connection.scheduler = Scheduler::default();
        connection.events.push_back(Event::Closed { reason });
    }

    /// Resets a stream and tells the application, if it knows the stream.
    fn drop_stream(&mut self, id: u32, code: Code) {
        self.put_reset(id, code);
        self.lose(id, code);
    }

    /// Takes a stream out that ended badly, and tells the application. Whether it was there.
    ///
    /// The event goes first: the connection may end with its last stream.
    fn lose(&mut self, id: u32, code: Code) -> bool {
        let there = self.connection.streams.get_mut(id).is_some();
        if there {
            self.connection.events.push_back(Event::StreamReset {
                stream: StreamId(id),
                code,
            });
            self.forget(id);
        }
        there
    }

    /// RST_STREAM; frames that are on their way to this stream are ignored from here on.
    fn put_reset(&mut self, id: u32, code: Code) {
        self.put(kind::RST_STREAM, flag::NONE, id, &code.get().to_be_bytes());
        let max = usize::try_from(self.connection.config.max_concurrent_streams);
        self.connection
            .streams
            .note_reset(id, max.unwrap_or(usize::MAX));
    }

    /// Takes a stream out of everything. Whether it was there.
    fn forget(&mut self, id: u32) -> bool {
        let connection = &mut *self.connection;
        let Some(stream) = connection.streams.remove(id) else {
            return false;
        };
        if stream.queued {
            connection.scheduler.remove(id, stream.priority);
        }
        connection.reading.forget(id);
        self.stream_ended();
        true
    }

    /// Adapts the connection to one stream less: idle time, a free stream, the end of a shutdown.
    fn stream_ended(&mut self) {
        let connection = &mut *self.connection;
        if connection.streams.is_empty() {
            connection.clock.active = self.now;
        }
        self.report_free_stream();
        self.end_if_finished();
    }

    /// The client's application waits for a stream, and there is one.
    fn report_free_stream(&mut self) {
        let connection = &mut *self.connection;
        if connection.wants_stream && connection.streams.len() < connection.max_streams() {
            connection.wants_stream = false;
            connection.events.push_back(Event::StreamsAvailable);
        }
    }

    fn end_if_finished(&mut self) {
        let connection = &*self.connection;
        let ended = match connection.role {
            Role::Server => connection.state.last_processed.is_some(),
            Role::Client => connection.is_going_away(),
        };
        if ended && connection.streams.is_empty() && !connection.state.closed {
            self.finish(CloseReason::Finished);
        }
    }

    /// Forgets the stream if both directions are done.
    fn settle(&mut self, id: u32) {
        let Some(stream) = self.connection.streams.get_mut(id) else {
            return;
        };
        if stream.is_done() {
            self.connection.resets.earn(1);
            self.forget(id);
        } else if self.connection.role == Role::Server && stream.sending == Progress::Done {
            stream.answered.get_or_insert(self.now);
            let until = self.now + self.connection.config.timeouts.linger;
            self.connection.clock.linger(until);
        }
    }

    fn goaway(&mut self, last: u32, code: Code) {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last.to_be_bytes());
        payload[4..].copy_from_slice(&code.get().to_be_bytes());
        self.put(kind::GOAWAY, flag::NONE, 0, &payload);
    }

    fn window_update(&mut self, stream: u32, increment: u32) {
        let increment = increment.to_be_bytes();
        self.put(kind::WINDOW_UPDATE, flag::NONE, stream, &increment);
    }

    /// Appends a frame whose payload is there already.
    fn put(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        frame::put(self.output.buffer(), kind, flags, stream, payload);
    }

    fn growth(&self, max: u32) -> Growth {
        Growth {
            now: self.now,
            rtt: self.connection.clock.rtt(),
            max,
        }
    }

    /// A stream in its first state; the caller says what is different.
    fn new_stream(&self, id: u32) -> Stream {
        let connection = &*self.connection;
        Stream {
            id,
            sending: Progress::Head,
            receiving: Progress::Head,
            send_window: SendWindow::new(connection.peer.initial_window),
            receive_window: ReceiveWindow::new(
                connection.acknowledged_window,
                connection.config.stream_window,
            ),
            content_left: None,
            priority: Priority::default(),
            wants: false,
            queued: false,
            bodiless: false,
            wanted: true,
            tunnel: false,
            progressed: self.now,
            bytes_since: 0,
            answered: None,
        }
    }
}

impl Connection {
    /// Returns the last stream ID for GOAWAY, of streams that the peer opened. A client takes none.
    fn last_processed(&self) -> u32 {
        match self.role {
            Role::Server => self.state.last_processed.unwrap_or(self.last_stream),
            Role::Client => 0,
        }
    }
}
