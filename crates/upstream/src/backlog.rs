//! Bytes that have come over a connection which requests share, and that nobody has read: all of them take of one window, so that the
//! responses to clients that do not read would hold up those to all others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that responses of a connection may wait for their readers with when it is given another request: half of the
/// connection's window. The rest is for the others.
pub(crate) const MAX_BACKLOG: usize = 2 << 20;

/// Bytes with which the responses of a connection may wait for their readers, all together. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backlog(Arc<AtomicUsize>);

/// The part of one response, until it is dropped.
#[derive(Debug)]
pub(crate) struct UnreadBytes {
    backlog: Backlog,
    bytes: usize,
}

impl Backlog {
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A response of which nothing waits yet.
    pub(crate) fn begin(&self) -> UnreadBytes {
        UnreadBytes {
            backlog: self.clone(),
            bytes: 0,
        }
    }
}

impl UnreadBytes {
    /// Sets the most bytes of it that may wait for the reader.
    pub(crate) fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if before != bytes {
            let Backlog(all) = &self.backlog;
            all.fetch_add(bytes, Ordering::Relaxed);
            all.fetch_sub(before, Ordering::Relaxed);
        }
    }
}

impl Drop for UnreadBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_counts_until_it_is_read_or_given_up() {
        let backlog = Backlog::default();
        let [mut first, mut second] = [(); 2].map(|()| backlog.begin());
        first.set(100);
        second.set(50);
        assert_eq!(backlog.bytes(), 150);
        first.set(30);
        assert_eq!(backlog.bytes(), 80);
        drop(second);
        first.set(0);
        assert_eq!(backlog.bytes(), 0);
    }
}
