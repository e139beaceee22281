//! Connections that end because they idle, long before the idle time-out.
//!
//! A client that is to come back over TCP, and that goes on over a connection over HTTP/3 as long as it lives, is sent a
//! GOAWAY (RFC 9114 section 5.2) once it has had everything for a while, and the connection is closed a while later: a request that
//! crosses the GOAWAY is refused, and may be sent again elsewhere.

use super::responses::Endpoint;
use altway_http3::{Code, ConnectionHandle};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time without a request until the GOAWAY, and from there to the close: what loads a page asks again sooner.
const PAUSE: Duration = Duration::from_millis(1_500);

/// State of a connection.
#[derive(Debug, Default)]
pub(super) struct IdleClose {
    /// The latest time at which the client had everything; `None` as long as the connection need not end.
    since: Option<Instant>,
    is_queued: bool,
    has_goaway: bool,
}

/// The next step with a connection that was due.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// No step: the connection was in use, or has not idled for long enough.
    None,
    /// Sending a GOAWAY.
    GoAway,
    /// Closing the connection.
    Close,
}

/// The connections that idle, about in the order of time. A connection is in it once at most.
#[derive(Debug, Default)]
pub(super) struct IdleCloses(VecDeque<(Instant, ConnectionHandle)>);

impl IdleCloses {
    /// The connection idles from `now` on, and is to end if it goes on to.
    pub(super) fn add(&mut self, handle: ConnectionHandle, state: &mut IdleClose, now: Instant) {
        state.since = Some(now);
        self.queue(handle, state, now + PAUSE);
    }

    fn queue(&mut self, handle: ConnectionHandle, state: &mut IdleClose, due: Instant) {
        if !std::mem::replace(&mut state.is_queued, true) {
            self.0.push_back((due, handle));
        }
    }

    /// The time at which the next step is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.front().map(|(due, _)| *due)
    }

    /// Tells connections to go, or closes them, that have idled for long enough.
    pub(super) fn close(&mut self, now: Instant, endpoint: &mut Endpoint) {
        while let Some((_, handle)) = self.0.pop_front_if(|(due, _)| *due <= now) {
            let Some((http3, quic, connection)) = endpoint.connection(handle) else {
                continue;
            };
            let Some(state) = connection.idle_close() else {
                continue;
            };
            let is_idle = http3.is_idle();
            match self.step(handle, state, is_idle, now) {
                Step::None => {}
                Step::GoAway => http3.shutdown(quic),
                Step::Close => http3.close(quic, Code::H3_NO_ERROR, b""),
            }
        }
    }

    /// The step of a connection that was due.
    fn step(
        &mut self,
        handle: ConnectionHandle,
        state: &mut IdleClose,
        is_idle: bool,
        now: Instant,
    ) -> Step {
        // A handle that went and came again was not queued. With a request in progress it is queued again after that.
        let was_queued = std::mem::take(&mut state.is_queued);
        let Some(since) = state.since.filter(|_| was_queued && is_idle) else {
            return Step::None;
        };
        if since + PAUSE > now {
            self.queue(handle, state, since + PAUSE);
            Step::None
        } else if std::mem::replace(&mut state.has_goaway, true) {
            Step::Close
        } else {
            self.queue(handle, state, now + PAUSE);
            Step::GoAway
        }
    }
}
