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
struct Counted {
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
        self.held.fetch_add(bytes.len(), Ordering::Relaxed);
        Bytes::from_owner(Counted {
            bytes,
            memory: Arc::clone(self),
        })
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bytes = self.bytes.len();
        self.memory.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
