//! Pages from responses: what a client loaded at one go on one connection.

use crate::observation::{Page, Start};
use altway_units::{DataSize, Timestamp};
use std::time::Duration;

/// A request that comes this long after everything was answered begins another page.
const PAUSE: Duration = Duration::from_secs(1);

/// The largest part of a page's time of which it may not be known whether the path or somebody's pause took it: a quarter.
const LARGEST_UNCLEAR_PART: u32 = 4;

/// Gathers the responses of a connection into pages. Each request is reported to it, and then its end; a page is
/// complete when a pause has followed it.
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
    /// Beginning of the time in which all under way wait, and whether the client had everything by then.
    all_wait: Option<(Timestamp, bool)>,
    busy: Duration,
    /// Part of `busy` in which all under way waited, and the client had everything.
    waited: Duration,
    /// Part of `busy` in which something may have been on its way, or not.
    unclear: Duration,
    first: Option<DataSize>,
    rest: DataSize,
    responses: u32,
    /// Responses of them that say that the server has failed.
    failed: u32,
    invalid: bool,
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
            all_wait: None,
            busy: Duration::ZERO,
            waited: Duration::ZERO,
            unclear: Duration::ZERO,
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
        // The first page of a connection began with the connection.
        if self.under_way == 0 && (self.responses > 0 || self.start == Start::Warm) {
            self.since = at;
        }
        self.under_way = self.under_way.saturating_add(1);
        self.look(at, false);
        page
    }

    /// Notes that the response to a request which is under way waits for the application, for its beginning or for more.
    /// `has_everything`: nothing that was handed over is on its way to the client. Returns true if all that is under way
    /// waits now.
    pub fn waits(&mut self, at: Timestamp, has_everything: bool) -> bool {
        self.waiting = self.waiting.saturating_add(1).min(self.under_way);
        self.look(at, has_everything);
        self.all_wait.is_some()
    }

    /// Notes that a response which waited goes on.
    pub fn goes_on(&mut self, at: Timestamp) {
        self.waiting = self.waiting.saturating_sub(1);
        self.look(at, false);
    }

    /// Notes that the client took nothing for so long of what there was for it.
    pub fn paused(&mut self, time: Duration) {
        self.unclear = self.unclear.saturating_add(time);
    }

    /// Notes that the last byte of a response of `size` was acknowledged.
    pub fn response(&mut self, at: Timestamp, size: DataSize) {
        if self.first.is_none() {
            self.first = Some(size);
        } else {
            self.rest = self.rest + size;
        }
        self.responses = self.responses.saturating_add(1);
        self.end(at);
    }

    /// Notes that a response which is under way says that the server has failed: a page of such responses alone is none.
    pub const fn failed(&mut self) {
        self.failed = self.failed.saturating_add(1);
    }

    /// Notes that a request ended without a complete response: its page does not count.
    pub fn cancelled(&mut self, at: Timestamp) {
        self.invalid = true;
        self.end(at);
    }

    /// Leaves out the page that is in progress, because it does not count.
    pub const fn invalidate(&mut self) {
        self.invalid = true;
    }

    /// The latest page, if a pause has followed it by now. Call it when a connection ends or is idle.
    pub fn complete(&mut self, now: Timestamp) -> Option<Page> {
        if self.under_way > 0 || now - self.ended < PAUSE {
            return None;
        }
        let first = self.first.take();
        let is_page = !self.invalid && self.failed < self.responses;
        let page = first.filter(|_| is_page).map(|first| Page {
            first,
            rest: self.rest,
            responses: self.responses,
            start: self.start,
            time: self.busy,
            waited: self.is_clear().then_some(self.waited),
        });
        if first.is_some() || self.invalid {
            *self = Self::new(self.ended, Start::Warm);
        }
        page
    }

    /// Number of requests whose end was not reported yet.
    #[must_use]
    pub const fn under_way(&self) -> u32 {
        self.under_way
    }

    /// The part of the page's time that the path took is known well enough.
    fn is_clear(&self) -> bool {
        let path = self.busy.saturating_sub(self.waited);
        self.unclear <= path / LARGEST_UNCLEAR_PART
    }

    /// Looks whether all that is under way waits from now on, or does no more.
    fn look(&mut self, at: Timestamp, has_everything: bool) {
        if self.under_way > 0 && self.waiting >= self.under_way {
            self.all_wait.get_or_insert((at, has_everything));
        } else if let Some((since, had_everything)) = self.all_wait.take() {
            let part = match had_everything {
                true => &mut self.waited,
                false => &mut self.unclear,
            };
            *part = part.saturating_add(at - since);
        }
    }

    fn end(&mut self, at: Timestamp) {
        self.under_way = self.under_way.saturating_sub(1);
        self.waiting = self.waiting.min(self.under_way);
        self.look(at, false);
        self.ended = self.ended.max(at);
        if self.under_way == 0 {
            self.busy = self.busy.saturating_add(at - self.since);
            self.since = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(at: u64) -> Timestamp {
        Timestamp::from_nanos(at * 1_000_000)
    }

    const fn kb(size: u64) -> DataSize {
        DataSize::from_bytes(size * 1_000)
    }

    #[test]
    fn a_page_is_its_document_and_what_follows_without_a_pause() {
        let mut pages = Pages::new(ms(0), Start::Cold);
        assert_eq!(pages.request(ms(40)), None);
        pages.response(ms(60), kb(20));
        for at in [70, 75] {
            assert_eq!(pages.request(ms(at)), None);
        }
        pages.response(ms(90), kb(5));
        pages.response(ms(100), kb(7));
        assert_eq!(pages.complete(ms(1_099)), None);
        let page = Page {
            first: kb(20),
            rest: kb(12),
            responses: 3,
            start: Start::Cold,
            // From the first packet to 60 ms, and from 70 to 100 ms.
            time: Duration::from_millis(90),
            waited: Some(Duration::ZERO),
        };
        assert_eq!(pages.complete(ms(1_100)), Some(page));
        assert_eq!(pages.complete(ms(1_200)), None);
    }

    #[test]
    fn the_next_page_is_warm_and_does_not_count_the_pause() {
        let mut pages = Pages::new(ms(0), Start::Early);
        pages.request(ms(5));
        pages.response(ms(10), kb(1));
        assert_eq!(pages.request(ms(5_000)).unwrap().start, Start::Early);
        pages.response(ms(5_020), kb(2));
        let page = pages.complete(ms(9_000)).unwrap();
        assert_eq!(
            (page.start, page.time),
            (Start::Warm, Duration::from_millis(20))
        );
        assert_eq!((page.first, page.responses), (kb(2), 1));
    }

    #[test]
    fn a_page_with_a_cancelled_request_counts_for_nothing() {
        let mut pages = Pages::new(ms(0), Start::Cold);
        pages.request(ms(0));
        pages.request(ms(0));
        pages.response(ms(10), kb(1));
        pages.cancelled(ms(20));
        assert_eq!(pages.complete(ms(9_000)), None);
        pages.request(ms(9_000));
        pages.response(ms(9_010), kb(1));
        assert_eq!(pages.complete(ms(20_000)).unwrap().start, Start::Warm);
    }

    #[test]
    fn the_path_does_not_take_the_time_in_which_an_application_begins_no_response() {
        let mut pages = Pages::new(ms(0), Start::Cold);
        pages.request(ms(40));
        pages.waits(ms(40), true);
        pages.goes_on(ms(540));
        pages.response(ms(560), kb(20));
        // Two at once: the first is answered while the other waits.
        for _ in 0..2 {
            pages.request(ms(570));
            pages.waits(ms(570), true);
        }
        pages.goes_on(ms(870));
        pages.response(ms(870), kb(1));
        pages.goes_on(ms(880));
        pages.response(ms(900), kb(1));
        let page = pages.complete(ms(9_000)).unwrap();
        assert_eq!(page.time, Duration::from_millis(560 + 330));
        assert_eq!(page.waited, Some(Duration::from_millis(500 + 300)));
        assert_eq!(page.path_time(), Some(Duration::from_millis(90)));
    }

    #[test]
    fn a_page_with_pauses_while_bytes_may_be_on_their_way_shows_nothing_of_the_path() {
        let page = |pause: u64| {
            let mut pages = Pages::new(ms(0), Start::Cold);
            pages.request(ms(40));
            pages.waits(ms(60), false);
            pages.goes_on(ms(60 + pause));
            pages.response(ms(100 + pause), kb(50));
            pages.complete(ms(9_000)).unwrap()
        };
        assert_eq!(page(33).waited, Some(Duration::ZERO));
        assert_eq!((page(34).waited, page(34).path_time()), (None, None));
        let mut pages = Pages::new(ms(0), Start::Cold);
        pages.request(ms(0));
        pages.paused(Duration::from_secs(5));
        pages.response(ms(10_000), kb(50));
        assert_eq!(pages.complete(ms(20_000)).unwrap().waited, None);
    }

    #[test]
    fn nothing_waits_any_more_after_a_request_that_was_given_up() {
        let mut pages = Pages::new(ms(0), Start::Cold);
        pages.request(ms(0));
        pages.waits(ms(0), true);
        pages.cancelled(ms(5_000));
        pages.request(ms(9_000));
        pages.response(ms(9_010), kb(1));
        let page = pages.complete(ms(20_000)).unwrap();
        assert_eq!(page.waited, Some(Duration::ZERO));
    }

    #[test]
    fn a_page_of_failures_alone_is_none() {
        let mut pages = Pages::new(ms(0), Start::Cold);
        for begin in [0, 9_000] {
            for at in [begin, begin + 10] {
                pages.request(ms(at));
                pages.failed();
                pages.response(ms(at + 5), kb(1));
            }
        }
        assert_eq!(pages.complete(ms(11_000)), None);
        pages.request(ms(20_000));
        pages.failed();
        pages.response(ms(20_010), kb(1));
        pages.request(ms(20_010));
        pages.response(ms(20_020), kb(1));
        assert_eq!(pages.complete(ms(30_000)).unwrap().responses, 2);
    }

    #[test]
    fn ends_without_a_beginning_and_time_that_runs_backwards_do_no_harm() {
        let mut pages = Pages::new(ms(100), Start::Cold);
        pages.cancelled(ms(0));
        pages.response(ms(50), kb(1));
        assert_eq!(pages.complete(ms(5_000)), None);
        pages.request(ms(6_000));
        assert_eq!(pages.complete(ms(99_000)), None);
    }
}
