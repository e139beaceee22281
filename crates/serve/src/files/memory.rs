//! Memory that several readers share, counted until the last of them has let go of it.

use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of files that a worker's cache has read for more than one response, whoever holds them:
/// the cache, a response that waits, or a transport that has not been told that they arrived.
#[derive(Debug)]
pub(super) struct SharedMemory {
    held: AtomicUsize,
    max: usize,
}

/// A buffer that is counted until it is dropped.
#[derive(Debug)]
pub(super) struct CountedBuffer {
    bytes: BytesMut,
    memory: Arc<SharedMemory>,
}

impl SharedMemory {
    /// Room for `max` bytes.
    pub(super) fn new(max: usize) -> Self {
        Self {
            held: AtomicUsize::new(0),
            max,
        }
    }

    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.held.load(Ordering::Relaxed) + bytes <= self.max
    }

    /// Counts `bytes` as long as they, or any part of them, are held.
    pub(super) fn share(self: &Arc<Self>, bytes: BytesMut) -> Bytes {
        Bytes::from_owner(self.count(bytes))
    }

    /// Counts `bytes` as long as they are held.
    pub(super) fn count(self: &Arc<Self>, bytes: BytesMut) -> CountedBuffer {
        self.held.fetch_add(bytes.len(), Ordering::Relaxed);
        CountedBuffer {
            bytes,
            memory: Arc::clone(self),
        }
    }
}

/// A counted buffer of which its owner can tell whether somebody else holds it.
#[derive(Debug, Clone)]
pub(super) struct SharedBuffer(Arc<CountedBuffer>);

impl SharedBuffer {
    pub(super) fn new(buffer: CountedBuffer) -> Self {
        Self(Arc::new(buffer))
    }

    /// The bytes, for somebody else.
    pub(super) fn bytes(&self) -> Bytes {
        Bytes::from_owner(self.clone())
    }

    /// Returns true if nobody else holds any of the bytes.
    pub(super) fn is_free(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl AsRef<[u8]> for SharedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl AsRef<[u8]> for CountedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for CountedBuffer {
    fn drop(&mut self) {
        let bytes = self.bytes.len();
        self.memory.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_free_when_no_part_of_it_is_held() {
        let memory = Arc::new(SharedMemory::new(100));
        let lent = SharedBuffer::new(memory.count(BytesMut::zeroed(90)));
        assert!(lent.is_free());
        let part = lent.bytes().slice(1..2);
        assert!(!lent.is_free());
        drop(part);
        assert!(lent.is_free() && !memory.has_room(11));
        drop(lent);
        assert!(memory.has_room(100));
    }

    #[test]
    fn bytes_count_until_no_part_of_them_is_held() {
        let memory = Arc::new(SharedMemory::new(100));
        let all = memory.share(BytesMut::zeroed(90));
        assert!(memory.has_room(10) && !memory.has_room(11));
        let part = all.slice(80..81);
        drop(all);
        assert!(!memory.has_room(11), "a byte holds all of them");
        drop(part);
        assert!(memory.has_room(100));
    }
}
