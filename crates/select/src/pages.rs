//! Pages from responses: what a client loaded at one go on one connection.

use crate::observation::{Page, Start};
use altway_units::{DataSize, Timestamp};
use std::time::Duration;

/// A time in which nothing is on its way, after which what comes is of another page.
const PAUSE: Duration = Duration::from_secs(1);

/// The largest part of a page's time of which it may not be known whether the path or somebody's pause took it: a quarter.
const LARGEST_UNCLEAR_PART: u64 = 4;

/// Gathers the responses of a connection into pages. Each request is reported to it, and then its end; a page is
/// complete when a pause has followed it.
///
/// A pause is that of a client which asks for nothing, or that of whoever makes the responses that are open: a stream of
/// events, say, or a response that is there when there is news. What goes on after it is of the next page.
#[derive(Debug, Clone)]
pub struct Pages {
    start: Start,
    /// Beginning of the time for which something has been under way.
    since: Timestamp,
    /// Latest end of a response.
    ended: Timestamp,
    under_way: u32,
    /// Requests of them whose responses wait for the application: for their beginning, or for more.
    waiting: u32,
    /// Responses of these that have begun.
    begun: u32,
    all_wait: Option<Wait>,
    /// The time since the page began, but for that since `since`.
    busy: PageTime,
    /// The page's time up to the latest end of a response.
    loaded: PageTime,
    first: Option<DataSize>,
    rest: DataSize,
    responses: u32,
    /// Responses of them that say that the server has failed.
    failed: u32,
    invalid: bool,
}

/// A time in which all that is under way waits.
#[derive(Debug, Clone, Copy)]
struct Wait {
    since: Timestamp,
    /// Time from which the client has all that was handed over; `None`: not known.
    delivered: Option<Timestamp>,
}

/// A time with its parts, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct PageTime {
    /// Time in which something was under way.
    all: u64,
    /// Part of it in which all under way waited, and the client had everything.
    waited: u64,
    /// Part of it in which something may have been on its way, or not.
    unclear: u64,
}

impl PageTime {
    const ZERO: Self = Self {
        all: 0,
        waited: 0,
        unclear: 0,
    };

    /// The part that the path took is known well enough.
    const fn is_clear(&self) -> bool {
        let path = self.all.saturating_sub(self.waited);
        self.unclear <= path / LARGEST_UNCLEAR_PART
    }
}

impl Pages {
    /// A connection whose first packet was sent at `opened`: over TCP a round trip before it was accepted.
    #[must_use]
    pub const fn new(opened: Timestamp, start: Start) -> Self {
        Self {
            start,
            since: opened,
            ended: opened,
            under_way: 0,
            waiting: 0,
            begun: 0,
            all_wait: None,
            busy: PageTime::ZERO,
            loaded: PageTime::ZERO,
            first: None,
            rest: DataSize::ZERO,
            responses: 0,
            failed: 0,
            invalid: false,
        }
    }

    /// Notes that a request has arrived. Returns the page before it, if one is complete.
    pub fn request(&mut self, at: Timestamp) -> Option<Page> {
        let page = self.complete(at);
        if self.is_between(at) {
            self.busy = PageTime::ZERO;
            self.leave_out_wait(at);
            self.since = at;
        } else if self.is_silent(at) {
            self.leave_out_wait(at);
        }
        // The first page of a connection began with the connection.
        if self.under_way == 0 && self.responses > 0 {
            self.since = at;
        }
        self.under_way = self.under_way.saturating_add(1);
        self.look(at, None);
        page
    }

    /// Returns true if a request at `at` begins a page, of which nothing was handed over before.
    #[must_use]
    pub fn is_beginning(&self, at: Timestamp) -> bool {
        self.is_over(at) || self.is_between(at)
    }

    /// Notes that the response to a request which is under way waits for the application to begin it. `delivered`: time from
    /// which the client has all that was handed over; `None`: not known. Returns true if all that is under way waits now.
    pub fn waits(&mut self, at: Timestamp, delivered: Option<Timestamp>) -> bool {
        self.waiting = self.waiting.saturating_add(1).min(self.under_way);
        self.look(at, delivered);
        self.all_wait.is_some()
    }

    /// Notes that a response which [waited](Self::waits) begins. Returns the page before it, if one is complete.
    pub fn begins(&mut self, at: Timestamp) -> Option<Page> {
        let page = self.complete(at);
        self.waiting = self.waiting.saturating_sub(1);
        self.look(at, None);
        page
    }

    /// The same as [`waits`](Self::waits) for a response that has begun and waits for more.
    pub fn waits_for_more(&mut self, at: Timestamp, delivered: Option<Timestamp>) -> bool {
        self.begun = self.begun.saturating_add(1).min(self.under_way);
        self.waits(at, delivered)
    }

    /// Notes that a response which [waited for more](Self::waits_for_more) goes on. Returns the page before it, if one is
    /// complete.
    pub fn goes_on(&mut self, at: Timestamp) -> Option<Page> {
        let page = self.complete(at);
        if self.is_silent(at) {
            self.leave_out_wait(at);
        }
        self.begun = self.begun.saturating_sub(1);
        self.waiting = self.waiting.saturating_sub(1);
        self.look(at, None);
        page
    }

    /// Notes that a response which waited was given up. Its page counts for what was complete of it, if the client had
    /// everything. Returns the page before it, if one is complete.
    pub fn given_up(&mut self, at: Timestamp) -> Option<Page> {
        let page = self.complete(at);
        let is_of_a_page = self.first.is_some() || self.start == Start::Warm;
        self.invalid |= !is_of_a_page || !self.is_delivered(at);
        let delivered = self.all_wait.and_then(|wait| wait.delivered);
        self.waiting = self.waiting.saturating_sub(1);
        self.end(at, delivered);
        page
    }

    /// Returns true if all that is under way waits, and the client has all that was handed over.
    #[must_use]
    pub fn is_delivered(&self, at: Timestamp) -> bool {
        let delivered = self.all_wait.and_then(|wait| wait.delivered);
        delivered.is_some_and(|delivered| delivered <= at)
    }

    /// Notes that the client took nothing for so long of what there was for it.
    pub fn paused(&mut self, time: Duration) {
        self.busy.unclear = self.busy.unclear.saturating_add(nanos(time));
    }

    /// Notes that the last byte of a response of `size` was acknowledged.
    pub fn response(&mut self, at: Timestamp, size: DataSize) {
        if self.first.is_none() {
            self.first = Some(size);
        } else {
            self.rest = self.rest + size;
        }
        self.responses = self.responses.saturating_add(1);
        self.ended = self.ended.max(at);
        self.loaded = PageTime {
            all: self.busy.all.saturating_add(nanos(at - self.since)),
            ..self.busy
        };
        self.end(at, Some(at));
    }

    /// Notes that a response which is under way says that the server has failed: a page of such responses alone is none.
    pub const fn failed(&mut self) {
        self.failed = self.failed.saturating_add(1);
    }

    /// Notes that a request ended without a complete response: its page does not count.
    pub fn cancelled(&mut self, at: Timestamp) {
        self.invalid = true;
        self.ended = self.ended.max(at);
        self.end(at, None);
    }

    /// Leaves out the page that is in progress, because it does not count.
    pub const fn invalidate(&mut self) {
        self.invalid = true;
    }

    /// The page in progress, as if it had ended with its latest response; `None` while no response has ended, and if it does not
    /// count.
    #[must_use]
    pub fn so_far(&self) -> Option<Page> {
        let is_page = !self.invalid && self.failed < self.responses;
        let waited = self.loaded.is_clear().then_some(self.loaded.waited);
        self.first.filter(|_| is_page).map(|first| Page {
            first,
            rest: self.rest,
            responses: self.responses,
            start: self.start,
            time: Duration::from_nanos(self.loaded.all),
            waited: waited.map(Duration::from_nanos),
        })
    }

    /// The latest page, if a pause has followed it by now. Call it when a connection idles.
    pub fn complete(&mut self, now: Timestamp) -> Option<Page> {
        if !self.is_over(now) {
            return None;
        }
        let page = self.so_far();
        if self.first.is_some() || self.invalid {
            *self = Self {
                since: now,
                under_way: self.under_way,
                waiting: self.waiting,
                begun: self.begun,
                all_wait: self.all_wait.map(|wait| Wait { since: now, ..wait }),
                ..Self::new(self.ended, Start::Warm)
            };
        }
        page
    }

    /// The latest page of a connection that ended at `now`: nothing follows it.
    pub fn conclude(&mut self, now: Timestamp) -> Option<Page> {
        let delivered = self.all_wait.and_then(|wait| wait.delivered);
        let latest = now.max(self.ended).max(delivered.unwrap_or(now));
        self.complete(latest + PAUSE)
    }

    /// Number of requests whose end was not reported yet.
    #[must_use]
    pub const fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Number of these whose responses don't wait for the application.
    #[must_use]
    pub const fn active(&self) -> u32 {
        self.under_way.saturating_sub(self.waiting)
    }

    /// A pause has followed by now.
    fn is_over(&self, now: Timestamp) -> bool {
        match self.under_way {
            0 => now - self.ended >= PAUSE,
            _ => self.is_silent(now) && (self.first.is_some() || self.invalid),
        }
    }

    /// All that is under way has paused by now.
    fn is_silent(&self, now: Timestamp) -> bool {
        let is_long = |wait: Wait| now - wait.since >= PAUSE;
        self.is_delivered(now) && self.all_wait.is_some_and(is_long)
    }

    /// A page is over, and of the next one nothing is there: what is under way are streams of which the client has everything,
    /// or about to have it.
    fn is_between(&self, at: Timestamp) -> bool {
        let is_of_streams = || {
            let is_small = |wait: Wait| wait.delivered.is_some();
            self.begun == self.under_way && self.all_wait.is_some_and(is_small)
        };
        let is_quiet = self.under_way == 0 || is_of_streams() || self.is_silent(at);
        self.start == Start::Warm && self.first.is_none() && is_quiet
    }

    /// The time in which all that is under way has waited is no part of the page.
    fn leave_out_wait(&mut self, at: Timestamp) {
        if let Some(wait) = &mut self.all_wait {
            self.since = self.since + (at - wait.since);
            wait.since = at;
        }
    }

    /// Looks whether all that is under way waits from now on, or does no more.
    fn look(&mut self, at: Timestamp, delivered: Option<Timestamp>) {
        if self.under_way > 0 && self.waiting >= self.under_way {
            let since = at;
            self.all_wait.get_or_insert(Wait { since, delivered });
        } else if let Some(wait) = self.all_wait.take() {
            let delivered = wait.delivered.map_or(at, |delivered| delivered.min(at));
            let waited = nanos(at - delivered.max(wait.since));
            let unclear = nanos(delivered - wait.since);
            self.busy.waited = self.busy.waited.saturating_add(waited);
            self.busy.unclear = self.busy.unclear.saturating_add(unclear);
        }
    }

    fn end(&mut self, at: Timestamp, delivered: Option<Timestamp>) {
        self.under_way = self.under_way.saturating_sub(1);
        self.waiting = self.waiting.min(self.under_way);
        self.begun = self.begun.min(self.waiting);
        self.look(at, delivered);
        if self.under_way == 0 {
            self.busy.all = self.busy.all.saturating_add(nanos(at - self.since));
            self.since = at;
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
