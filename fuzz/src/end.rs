//! An engine under test, with the checks of the frames that it sends and receives.

use std::sync::Arc;
use std::time::Instant;

use altway_http2::{CloseReason, Config, Connection, Event, Output, StreamId, Turn};

use crate::speech::{Received, Role, Speech};
use crate::wire::{PREFACE, Scanner};

/// Number of time-outs that end a connection on which nothing else happens.
const LAST_TIMEOUTS: usize = 20;

/// An engine, the frames that it received, and those that it sent.
pub(crate) struct End {
    pub(crate) connection: Connection,
    pub(crate) speech: Speech,
    /// Reason of its end, once it has one.
    pub(crate) closed: Option<CloseReason>,
    output: Output,
    /// Bytes of the client's preface that are still to be heard.
    preface: usize,
    hearing: Scanner,
    received: Received,
    config: Arc<Config>,
}

impl End {
    pub(crate) fn new(role: Role, config: Config, now: Instant) -> Self {
        let config = Arc::new(config);
        let (connection, preface) = match role {
            Role::Client => (Connection::client(Arc::clone(&config), now), 0),
            Role::Server => (Connection::server(Arc::clone(&config), now), PREFACE.len()),
        };
        Self {
            connection,
            speech: Speech::new(role),
            closed: None,
            output: Output::new(),
            preface,
            hearing: Scanner::default(),
            received: Received::default(),
            config,
        }
    }

    pub(crate) fn turn(&mut self, now: Instant) -> Turn<'_> {
        self.connection.turn(now, &mut self.output)
    }

    /// Takes bytes in and gives the events to `each`, which says how many bytes of which body it
    /// releases at once.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        bytes: &[u8],
        mut each: impl FnMut(&Event<'_>) -> Option<(StreamId, usize)>,
    ) {
        self.hear(bytes);
        let mut turn = self.connection.turn(now, &mut self.output);
        let mut input = bytes;
        while let Some(event) = turn.receive(&mut input) {
            assert_eq!(self.closed, None, "an event after the last: {event:?}");
            if let Event::Closed { reason } = &event {
                self.closed = Some(reason.clone());
            }
            if let Some((stream, n)) = each(&event) {
                turn.release(stream, n);
            }
        }
        assert!(input.is_empty(), "all input is read");
    }

    /// Returns what was sent since the last call, found to be allowed.
    pub(crate) fn said(&mut self) -> Vec<u8> {
        let bytes = self.output.slices().collect::<Vec<_>>().concat();
        assert_eq!(bytes.len(), self.output.len());
        self.output.clear();
        self.speech.say(&bytes);
        bytes
    }

    /// Asserts what holds between any two turns; the application holds `held` bytes of bodies.
    pub(crate) fn check(&self, held: usize) {
        let closed = self.connection.is_closed();
        assert_eq!(self.connection.poll_timeout().is_none(), closed);
        assert_eq!(self.closed.is_some(), closed);
        let limit = usize::try_from(self.config.max_concurrent_streams).expect("small");
        let open = self.connection.open_streams();
        assert!(open <= limit, "{open} streams, {limit} allowed");
        // Of a frame that is not complete, the application may hold some and it is not counted yet.
        if !closed && self.hearing.is_between_frames() {
            let bound = self.config.max_connection_window;
            let bound = bound.max(self.config.connection_window);
            self.received.check(&self.speech, held, bound);
        }
    }

    /// Lets time pass without a word from the peer until the connection ends, which it must once the
    /// application has given up its streams.
    pub(crate) fn wind_down(&mut self, mut now: Instant) {
        self.receive(now, &[], |_| None);
        self.said();
        for _ in 0..LAST_TIMEOUTS {
            let Some(due) = self.connection.poll_timeout() else {
                return self.check(0);
            };
            now = now.max(due);
            self.turn(now).handle_timeout();
            self.receive(now, &[], |_| None);
            self.said();
            let next = self.connection.poll_timeout();
            assert!(
                next.is_none_or(|next| next > now),
                "the same time-out again"
            );
        }
        panic!("the connection never ends: {:?}", self.connection);
    }

    fn hear(&mut self, bytes: &[u8]) {
        let greeting = self.preface.min(bytes.len());
        self.preface -= greeting;
        let (speech, received) = (&mut self.speech, &mut self.received);
        self.hearing.feed(&bytes[greeting..], |frame| {
            speech.hear(frame);
            received.hear(frame);
        });
    }
}
