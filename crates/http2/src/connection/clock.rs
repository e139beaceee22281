//! Time: what the connection waits for and how long, the round trip, and the graceful end.

use std::time::{Duration, Instant};

use super::{Connection, Turn};
use crate::Code;
use crate::config::{Role, Timeouts};
use crate::event::{CloseReason, Event, StreamId};
use crate::frame::{flag, kind};
use crate::stream::{Progress, Stream};

/// Payloads of our PINGs: to measure the round trip, or to end a shutdown's first step.
const RTT_PING: [u8; 8] = *b"altwayrt";
const GOAWAY_PING: [u8; 8] = *b"altwaygo";

/// The round trip is measured again when the last measurement is so old.
const RTT_AGE: Duration = Duration::from_secs(5);

/// "An endpoint [...] SHOULD send [...] GOAWAY [...] with the last stream identifier set to 2^31-1"
/// (section 6.8).
const LAST_STREAM: u32 = (1 << 31) - 1;

/// A connection's deadlines and round trip.
#[derive(Debug)]
pub(super) struct Clock {
    /// Deadline of the peer's preface and SETTINGS.
    pub(super) preface: Option<Instant>,
    /// Time at which our SETTINGS were sent that are not acknowledged.
    pub(super) settings: Option<Instant>,
    /// Time at which a frame or field block began that is not complete.
    pub(super) frame: Option<Instant>,
    /// Time at which the last bytes came, or the last stream ended.
    pub(super) active: Instant,
    /// Time to look for stalled streams next.
    sweep: Instant,
    /// Time at which the first request that outlives its response is ended.
    linger: Option<Instant>,
    /// Time until which the second GOAWAY waits.
    goaway: Option<Instant>,
    /// Time at which our PING was sent.
    ping: Option<Instant>,
    rtt: Option<(Duration, Instant)>,
}

impl Clock {
    pub(super) fn new(timeouts: &Timeouts, now: Instant) -> Self {
        Self {
            preface: Some(now + timeouts.preface),
            settings: None,
            frame: None,
            active: now,
            sweep: now + timeouts.stall / 4,
            linger: None,
            goaway: None,
            ping: None,
            rtt: None,
        }
    }

    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt.map(|(rtt, _)| rtt)
    }

    /// A request outlives its response, until then.
    pub(super) fn linger(&mut self, until: Instant) {
        self.linger.get_or_insert(until);
    }

    /// False if there was nothing to acknowledge.
    pub(super) fn settings_acknowledged(&mut self, now: Instant) -> bool {
        let Some(sent) = self.settings.take() else {
            return false;
        };
        self.rtt = Some((now.saturating_duration_since(sent), now));
        true
    }
}

impl Connection {
    /// Returns the time at which to take a turn with [`Turn::handle_timeout`] at the latest; `None` when closed.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.state.closed {
            return None;
        }
        let (clock, timeouts) = (&self.clock, &self.config.timeouts);
        let waits = if self.streams.is_empty() {
            clock.active + timeouts.idle
        } else {
            clock.sweep
        };
        let others = [
            clock.preface,
            clock.settings.map(|sent| sent + timeouts.settings),
            clock.frame.map(|began| began + timeouts.frame),
            clock.goaway,
            clock.linger,
        ];
        others.into_iter().flatten().chain([waits]).min()
    }

    /// The stream of a request whose head has begun to come and is not there, if it could be answered.
    fn late_request(&self) -> Option<u32> {
        let assembled = self.assembly.as_ref().map(|it| it.stream);
        let id = assembled.or_else(|| self.reading.unfinished_headers())?;
        let is_new = id > self.last_stream && !id.is_multiple_of(2);
        let is_welcome =
            self.state.last_processed.is_none() && self.streams.len() < self.max_streams();
        (self.role == Role::Server && is_new && is_welcome).then_some(id)
    }

    /// Called when all input is read.
    pub(super) fn note_unfinished_frame(&mut self, now: Instant) {
        if self.reading.is_within_frame() || self.assembly.is_some() {
            self.clock.frame.get_or_insert(now);
        } else {
            self.clock.frame = None;
        }
    }
}

impl Turn<'_> {
    /// Ends what has waited for too long: streams that stalled, or the connection. Call it when
    /// [`poll_timeout`](Connection::poll_timeout) is due; the events of it come from the next
    /// [`receive`](Turn::receive).
    pub fn handle_timeout(&mut self) {
        if self.connection.state.closed {
            return;
        }
        let now = self.now;
        let timeouts = self.connection.config.timeouts;
        let clock = &self.connection.clock;
        let past = |since: Option<Instant>, limit: Duration| {
            since.is_some_and(|since| now >= since + limit)
        };
        if past(clock.settings, timeouts.settings) {
            return self.end(Code::SETTINGS_TIMEOUT, "SETTINGS were not acknowledged");
        }
        if past(clock.preface, Duration::ZERO) {
            return self.end(Code::PROTOCOL_ERROR, "no preface in time");
        }
        if past(clock.frame, timeouts.frame) {
            self.end_late();
            if self.connection.state.closed {
                return;
            }
        }
        if past(self.connection.clock.goaway, Duration::ZERO) {
            self.say_last_stream();
            if self.connection.state.closed {
                return;
            }
        }
        if past(self.connection.clock.linger, Duration::ZERO) {
            self.end_answered();
            if self.connection.state.closed {
                return;
            }
        }
        let idle = past(Some(self.connection.clock.active), timeouts.idle);
        if self.connection.streams.is_empty() && idle {
            return self.end_idle();
        }
        self.sweep();
    }

    /// A frame, or a field block, took too long. Where it is a request's head the application may answer before the end.
    fn end_late(&mut self) {
        let Some(id) = self.connection.late_request() else {
            return self.end(Code::ENHANCE_YOUR_CALM, "a frame took too long");
        };
        self.connection.clock.frame = None;
        self.connection.last_stream = id;
        let mut stream = self.new_stream(id);
        stream.receiving = Progress::Done;
        stream.wanted = false;
        self.connection.streams.insert(stream);
        let event = Event::RequestLate {
            stream: StreamId(id),
        };
        self.connection.events.push_back(event);
    }

    /// Ends the connection gracefully. A server announces GOAWAY for streams to come, goes on with
    /// those that are on their way, and after a round trip says which one was the last (RFC 9113
    /// section 6.8). A client opens no more. [`Event::Closed`](crate::Event::Closed) comes when the
    /// open streams have ended.
    pub fn shutdown(&mut self) {
        let connection = &mut *self.connection;
        if connection.state.closed || std::mem::replace(&mut connection.state.going_away, true) {
            return;
        }
        self.send_preface();
        if self.connection.role == Role::Client {
            self.goaway(0, Code::NO_ERROR);
            return self.end_if_finished();
        }
        self.goaway(LAST_STREAM, Code::NO_ERROR);
        self.connection.clock.goaway = Some(self.now + self.connection.config.timeouts.goaway);
        self.put_ping(GOAWAY_PING);
    }

    pub(super) fn ping_acknowledged(&mut self, opaque: [u8; 8]) {
        let clock = &mut self.connection.clock;
        match opaque {
            RTT_PING => {
                if let Some(sent) = clock.ping.take() {
                    let rtt = self.now.saturating_duration_since(sent);
                    clock.rtt = Some((rtt, self.now));
                }
            }
            GOAWAY_PING if clock.goaway.is_some() => self.say_last_stream(),
            // An acknowledgement of nothing does no harm.
            _ => {}
        }
    }

    /// Sends a PING while data comes in, so that windows grow by the path as it is.
    pub(super) fn measure_rtt(&mut self) {
        let clock = &mut self.connection.clock;
        let aged = clock
            .rtt
            .is_none_or(|(_, measured)| self.now.saturating_duration_since(measured) >= RTT_AGE);
        if aged && clock.ping.is_none() && clock.settings.is_none() {
            clock.ping = Some(self.now);
            self.put_ping(RTT_PING);
        }
    }

    fn put_ping(&mut self, opaque: [u8; 8]) {
        self.put(kind::PING, flag::NONE, 0, &opaque);
    }

    /// The second GOAWAY.
    fn say_last_stream(&mut self) {
        let connection = &mut *self.connection;
        connection.clock.goaway = None;
        let last = connection.last_stream;
        connection.state.last_processed = Some(last);
        self.goaway(last, Code::NO_ERROR);
        self.end_if_finished();
    }

    fn end_idle(&mut self) {
        self.send_preface();
        let last = self.connection.last_processed();
        self.goaway(last, Code::NO_ERROR);
        self.finish(CloseReason::Idle);
    }

    /// Section 8.1: after a complete response, a server asks the client "to stop sending a request
    /// without error" by RST_STREAM with NO_ERROR. A body that is still moving is let go on.
    fn end_answered(&mut self) {
        let (now, linger) = (self.now, self.connection.config.timeouts.linger);
        let end = |stream: &Stream| Some(stream.answered?.max(stream.progressed) + linger);
        let mut over = Vec::new();
        let mut next = None;
        for stream in self.connection.streams.iter() {
            match end(stream) {
                Some(end) if end <= now => over.push(stream.id),
                Some(end) => next = Some(next.map_or(end, |next: Instant| next.min(end))),
                None => {}
            }
        }
        self.connection.clock.linger = next;
        over.sort_unstable();
        for id in over {
            self.drop_stream(id, Code::NO_ERROR);
        }
    }

    /// Takes note that the peer sends nothing more: it has closed its half of the TCP connection.
    /// Resets with CANCEL every stream on which nothing can be done any more: the request is not
    /// complete, the response has not begun, or a window holds it up that nobody will open. The
    /// others go on. Call it when all input is read, and again after more was sent.
    pub fn input_ended(&mut self) {
        let starved = self.connection.send_window.available() == 0;
        let stuck = |stream: &Stream| {
            let held_up = stream.wants && (starved || stream.send_window.available() == 0);
            stream.receiving != Progress::Done || stream.sending == Progress::Head || held_up
        };
        for id in self.connection.streams.ids(stuck) {
            self.drop_stream(id, Code::CANCEL);
        }
    }

    /// Resets the streams that have stalled.
    fn sweep(&mut self) {
        let now = self.now;
        let stall = self.connection.config.timeouts.stall;
        if now < self.connection.clock.sweep {
            return;
        }
        self.connection.clock.sweep = now + stall / 4;
        let starved = self.connection.send_window.available() == 0;
        let may_send = self.connection.receive_window.has_room();
        let stalled = |stream: &Stream| {
            let waits = stream.waits_for_peer(may_send) || (starved && stream.wants);
            waits && now.saturating_duration_since(stream.progressed) >= stall
        };
        for id in self.connection.streams.ids(stalled) {
            let stream = StreamId(id);
            self.connection.events.push_back(Event::Stalled { stream });
            self.drop_stream(id, Code::CANCEL);
        }
    }
}
