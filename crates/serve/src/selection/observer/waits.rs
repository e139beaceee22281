//! Responses that wait for whoever makes them: an application that takes its time, a stream of events, a proxied server.

use super::{Busy, ConnectionObserver};
use altway_select::{Page, Pages};
use altway_units::Timestamp;
use std::time::Instant;

impl ConnectionObserver {
    /// The response to a request waits for whoever makes it to begin it.
    pub(crate) fn waits(&mut self, now: Instant) {
        self.note_wait(now, Pages::waits);
    }

    /// A response that waited begins.
    pub(crate) fn begins(&mut self, now: Instant) {
        self.note_end_of_wait(now, Pages::begins);
    }

    /// A response that has begun waits for whoever makes it to give more.
    pub(crate) fn waits_for_more(&mut self, now: Instant) {
        self.note_wait(now, Pages::waits_for_more);
    }

    /// A response that waited for more goes on.
    pub(crate) fn goes_on(&mut self, now: Instant) {
        self.note_end_of_wait(now, Pages::goes_on);
    }

    /// A response that waited was given up.
    pub(crate) fn given_up(&mut self, now: Instant) {
        self.note_end_of_wait(now, Pages::given_up);
    }

    /// A stream of events that waits for more has given a little, and waits on. What the client has loaded beside it may be
    /// known as a page by now.
    pub(crate) fn trickles(&mut self, now: Instant) {
        let at = self.timestamp(now);
        if let Some(known) = &mut self.known
            && let Some(page) = known.pages.complete(at)
        {
            known.page = Some(page);
            known.response = 0;
        }
    }

    fn note_wait(
        &mut self,
        now: Instant,
        note: impl FnOnce(&mut Pages, Timestamp, Option<Timestamp>) -> bool,
    ) {
        let at = self.timestamp(now);
        let Some(known) = &mut self.known else {
            return;
        };
        let delivered = known.delivered(at);
        if note(&mut known.pages, at, delivered) {
            known.busy.mark_app_limited();
        }
    }

    fn note_end_of_wait(
        &mut self,
        now: Instant,
        note: impl FnOnce(&mut Pages, Timestamp) -> Option<Page>,
    ) {
        let at = self.timestamp(now);
        let Some(known) = &mut self.known else {
            return;
        };
        if known.pages.is_delivered(at) {
            known.busy = Busy::default();
        }
        if let Some(page) = note(&mut known.pages, at) {
            known.page = Some(page);
            known.response = 0;
        }
    }
}
