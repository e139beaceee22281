//! Memory that waits for clients, counted for all connections of a worker together.
//!
//! Counted are responses that clients don't take, as far as they are in memory, and requests that
//! services don't read. QUIC counts by itself what is sent and not acknowledged
//! ([`Limits::max_quic_held_bytes`](crate::Limits::max_quic_held_bytes)); files that several responses
//! share count in the worker's cache.

use std::cell::Cell;
use std::rc::Rc;

/// A worker's counter.
#[derive(Debug, Clone)]
pub(crate) struct HeldBytes(Rc<Counter>);

#[derive(Debug)]
struct Counter {
    bytes: Cell<usize>,
    max: usize,
}

/// One holder's part, which is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    counter: HeldBytes,
    bytes: usize,
}

impl HeldBytes {
    /// `max`: see [`Limits::max_held_bytes`](crate::Limits::max_held_bytes).
    pub(crate) fn new(max: usize) -> Self {
        Self(Rc::new(Counter {
            bytes: Cell::new(0),
            max,
        }))
    }

    /// Whether as much is held as may be. What is held may be a little more.
    pub(crate) fn is_full(&self) -> bool {
        self.0.bytes.get() >= self.0.max
    }

    /// A holder that holds nothing yet.
    pub(crate) fn holder(&self) -> Held {
        Held {
            counter: self.clone(),
            bytes: 0,
        }
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes.get()
    }
}

impl Held {
    /// Says how many bytes are held now.
    pub(crate) fn set(&mut self, bytes: usize) {
        let counter = &self.counter.0.bytes;
        counter.set(counter.get() - self.bytes + bytes);
        self.bytes = bytes;
    }
}

impl Drop for Held {
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
}
