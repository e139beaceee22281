//! Memory that waits for clients, counted for all connections of a worker together, and for those of each
//! client.
//!
//! Counted are responses that clients don't take, as far as they are in memory, requests that services
//! don't read, and over TCP heads that have not arrived whole. QUIC counts by itself what is sent and not acknowledged
//! ([`Limits::max_quic_held_bytes`](crate::Limits::max_quic_held_bytes)); files that several responses
//! share count in the worker's cache.

use std::cell::Cell;
use std::rc::Rc;

/// Bytes of a request head that has not arrived whole and that a connection over TCP may hold, though as much
/// is held as may be. They are of the 32 KiB that it may then read and say.
pub(crate) const UNFINISHED_HEAD: usize = 16 << 10;

/// A worker's counter, or a client's within it.
#[derive(Debug, Clone)]
pub(crate) struct HeldBytes(Rc<Counter>);

#[derive(Debug)]
struct Counter {
    bytes: Cell<usize>,
    max: usize,
    /// True if the limit was reached since `take_was_full` was last called.
    was_full: Cell<bool>,
    /// The counter of a whole that counts these bytes as well.
    whole: Option<HeldBytes>,
}

/// The bytes of one holder, which are given back when it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryReservation {
    counter: HeldBytes,
    bytes: usize,
}

impl HeldBytes {
    /// `max`: see [`Limits::max_held_bytes`](crate::Limits::max_held_bytes).
    pub(crate) fn new(max: usize) -> Self {
        Self::within(None, max)
    }

    /// The counter of one client, which may hold `max` of these.
    pub(crate) fn share(&self, max: usize) -> Self {
        Self::within(Some(self.clone()), max)
    }

    fn within(whole: Option<Self>, max: usize) -> Self {
        Self(Rc::new(Counter {
            bytes: Cell::new(0),
            max,
            was_full: Cell::new(false),
            whole,
        }))
    }

    /// Returns true if as much is held as may be, by the client or by all. The bytes held may be a few more.
    pub(crate) fn is_full(&self) -> bool {
        let whole = self.0.whole.as_ref();
        self.0.bytes.get() >= self.0.max || whole.is_some_and(Self::is_full)
    }

    /// Returns true if the client held as much as it may at some time since this was last called.
    pub(crate) fn take_was_full(&self) -> bool {
        self.0.was_full.take()
    }

    /// A holder that holds nothing yet.
    pub(crate) fn holder(&self) -> MemoryReservation {
        MemoryReservation {
            counter: self.clone(),
            bytes: 0,
        }
    }

    fn replace(&self, before: usize, after: usize) {
        let bytes = self.0.bytes.get() - before + after;
        self.0.bytes.set(bytes);
        if after > before && bytes >= self.0.max {
            self.0.was_full.set(true);
        }
        if let Some(whole) = &self.0.whole {
            whole.replace(before, after);
        }
    }

    /// The bytes that are held now.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes.get()
    }
}

impl MemoryReservation {
    /// Says how many bytes are held now.
    pub(crate) fn set(&mut self, bytes: usize) {
        self.counter.replace(self.bytes, bytes);
        self.bytes = bytes;
    }

    /// Returns true if as much is held as may be, by the client or by all.
    pub(crate) fn is_scarce(&self) -> bool {
        self.counter.is_full()
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_counts_until_it_is_dropped() {
        let held = HeldBytes::new(100);
        let [mut a, mut b] = [held.holder(), held.holder()];
        a.set(60);
        b.set(39);
        assert!(!held.is_full());
        b.set(40);
        assert!(held.is_full());
        a.set(10);
        assert_eq!(held.bytes(), 50);
        drop((a, b));
        assert_eq!(held.bytes(), 0);
    }

    #[test]
    fn a_client_s_share_is_full_for_itself_and_counts_for_all() {
        let worker = HeldBytes::new(100);
        let (one, other) = (worker.share(50), worker.share(50));
        let mut held = [one.holder(), one.holder()];
        held[0].set(30);
        held[1].set(20);
        assert!(one.is_full() && !other.is_full());
        held[1].set(19);
        assert!(one.take_was_full() && !one.take_was_full() && !one.is_full());
        let mut more = other.holder();
        more.set(60);
        assert!(one.is_full(), "all is held that there is");
        drop((held, more));
        assert_eq!((one.bytes(), worker.bytes()), (0, 0));
    }
}
