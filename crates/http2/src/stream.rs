//! One stream's state (RFC 9113 section 5.1), and all of a connection's.

use std::collections::VecDeque;
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::Priority;
use crate::priority::Scheduler;
use crate::window::{ReceiveWindow, SendWindow};

/// Number of streams that we reset and that are remembered one by one, at least and at most: frames
/// that the peer sent before it knew are ignored then, instead of ending the connection. All that
/// can be open at once may be reset at once, but the list is searched from end to end.
const RESETS_REMEMBERED: (usize, usize) = (128, 1 << 14);

/// Progress of one direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// The head is to come.
    Head,
    /// The body is on its way.
    Body,
    /// The direction is complete.
    Done,
}

/// A stream that is open in at least one direction.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) sending: Progress,
    pub(crate) receiving: Progress,
    pub(crate) send_window: SendWindow,
    pub(crate) receive_window: ReceiveWindow,
    /// Bytes that Content-Length promised and that have not come.
    pub(crate) content_left: Option<u64>,
    pub(crate) priority: Priority,
    /// The application has more to send.
    pub(crate) wants: bool,
    /// True if the stream stands in the scheduler's queue.
    pub(crate) queued: bool,
    /// Client: the response has no body whatever its fields say (HEAD).
    pub(crate) bodiless: bool,
    /// The application takes the peer's body; else it is discarded.
    pub(crate) wanted: bool,
    /// A tunnel (CONNECT), whose peer may be silent for as long as it likes.
    pub(crate) tunnel: bool,
    /// Time at which the stream's bodies moved on last.
    pub(crate) progressed: Instant,
    /// Bytes that moved since.
    pub(crate) bytes_since: usize,
    /// Server: when the response was complete, while the request is not.
    pub(crate) answered: Option<Instant>,
}

impl Stream {
    /// Returns true if the peer could let the stream go on and doesn't. `may_send`: the
    /// connection's window is open to it.
    pub(crate) fn waits_for_peer(&self, may_send: bool) -> bool {
        let has_room = may_send && self.receive_window.has_room();
        let for_body = self.receiving == Progress::Body && has_room && !self.tunnel;
        let for_window = self.wants && self.send_window.available() == 0;
        for_body || for_window
    }

    /// `n` bytes of its bodies moved. Below `least` that is a drip and no progress.
    pub(crate) fn moved(&mut self, n: usize, least: usize, now: Instant) {
        self.bytes_since = self.bytes_since.saturating_add(n);
        if self.bytes_since >= least {
            self.bytes_since = 0;
            self.progressed = now;
        }
    }

    /// Queues the stream if it has more to send, may, and is not in the queue for it.
    pub(crate) fn queue_in(&mut self, scheduler: &mut Scheduler) {
        if self.wants && !self.queued && self.send_window.available() > 0 {
            self.queued = true;
            scheduler.push(self.id, self.priority);
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.sending == Progress::Done && self.receiving == Progress::Done
    }
}

/// The open streams of a connection, bounded by the limit of concurrent streams.
///
/// The newest one stands apart: a request that is answered at once never enters the map.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    newest: Option<Stream>,
    others: FxHashMap<u32, Stream>,
    reset: VecDeque<u32>,
    /// Highest stream of those that we reset and no longer remember, 0 if there is none.
    reset_before: u32,
}

impl Streams {
    pub(crate) fn insert(&mut self, stream: Stream) -> &mut Stream {
        if let Some(before) = self.newest.take() {
            self.others.insert(before.id, before);
        }
        self.newest.insert(stream)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Stream> {
        match &self.newest {
            Some(stream) if stream.id == id => Some(stream),
            _ => self.others.get(&id),
        }
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        match &mut self.newest {
            Some(stream) if stream.id == id => self.newest.as_mut(),
            _ => self.others.get_mut(&id),
        }
    }

    /// Takes a stream out.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) -> Option<Stream> {
        let newest = self.newest.take_if(|stream| stream.id == id);
        newest.or_else(|| self.others.remove(&id))
    }

    pub(crate) fn len(&self) -> usize {
        self.others.len() + usize::from(self.newest.is_some())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.newest.iter_mut().chain(self.others.values_mut())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.newest.iter().chain(self.others.values())
    }

    /// The numbers of some streams, in order.
    pub(crate) fn ids(&self, are: impl Fn(&Stream) -> bool) -> Vec<u32> {
        let streams = self.iter().filter(|stream| are(stream));
        let mut ids: Vec<_> = streams.map(|stream| stream.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Gives back the room for streams of a connection that has none.
    pub(crate) fn rest(&mut self) {
        debug_assert!(self.is_empty(), "a stream would be lost");
        self.others = FxHashMap::default();
        self.reset.shrink_to_fit();
    }

    /// Remembers that we reset one of at most `max` streams.
    pub(crate) fn note_reset(&mut self, id: u32, max: usize) {
        let (least, most) = RESETS_REMEMBERED;
        if self.reset.len() >= max.clamp(least, most)
            && let Some(oldest) = self.reset.pop_front()
        {
            self.reset_before = self.reset_before.max(oldest);
        }
        self.reset.push_back(id);
    }

    /// Returns true if we reset the stream, or did perhaps: a client that does not know our limit
    /// yet may open more streams at once than are remembered, and be refused all of them.
    pub(crate) fn was_reset(&self, id: u32) -> bool {
        id <= self.reset_before || self.reset.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::DEFAULT_WINDOW;

    fn stream(id: u32) -> Stream {
        Stream {
            id,
            sending: Progress::Head,
            receiving: Progress::Done,
            send_window: SendWindow::new(DEFAULT_WINDOW),
            receive_window: ReceiveWindow::new(DEFAULT_WINDOW, DEFAULT_WINDOW),
            content_left: None,
            priority: Priority::default(),
            wants: false,
            queued: false,
            bodiless: false,
            wanted: true,
            tunnel: false,
            progressed: Instant::now(),
            bytes_since: 0,
            answered: None,
        }
    }

    #[test]
    fn the_newest_is_found_like_the_others() {
        let mut streams = Streams::default();
        for id in [1, 3, 5] {
            streams.insert(stream(id));
        }
        assert_eq!(streams.len(), 3);
        for id in [1, 3, 5] {
            assert_eq!(streams.get_mut(id).unwrap().id, id);
        }
        assert!(streams.remove(5).is_some());
        assert!(streams.remove(5).is_none());
        assert!(streams.remove(1).is_some());
        assert_eq!(streams.iter().map(|stream| stream.id).max(), Some(3));
    }

    #[test]
    fn resets_are_remembered_one_by_one() {
        let mut streams = Streams::default();
        for id in (3..2 * 128).step_by(4) {
            streams.note_reset(id, 1);
        }
        assert!(streams.was_reset(3));
        assert!(!streams.was_reset(1));
        assert!(!streams.was_reset(5));
    }

    #[test]
    fn nothing_that_was_reset_is_forgotten() {
        let mut streams = Streams::default();
        let last = 4 * 128 + 1;
        for id in (1..=last).step_by(2) {
            streams.note_reset(id, 1);
        }
        assert!((1..=last).step_by(2).all(|id| streams.was_reset(id)));
        assert!(!streams.was_reset(last + 2));
        assert!(streams.reset.len() <= 128);
    }
}
