//! Datagrams that a connection holds because something in them waits: for the bytes before it, or for the
//! application to read.
//!
//! quinn-proto copies nothing out of a datagram, so that a byte of a stream holds all of one, with a chunk's
//! record of its own, and flow control counts the byte. It bounds that to 32 KiB a stream, by copying pieces
//! together beyond. Here it is counted, for the pool of [`windows`](crate::windows): an empty slice of each
//! datagram tells, by its reference count, whether somebody else holds it still.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Bytes that a datagram takes beside its payload: its reference count, its entry here, what the allocator adds.
const DATAGRAM_OVERHEAD: u64 = 128;

/// Bytes of the record of a chunk in quinn-proto's heap, which has room for up to twice as many as there are.
const CHUNK_RECORD_BYTES: u64 = 144;

/// Datagrams that are looked at every time. Beyond, a look has to be worth it.
const ALWAYS_SCANNED: usize = 16;

/// The datagrams of one connection that somebody holds, in the order in which they came. Flow control, and
/// quinn-proto's limit of chunks, bound their number; what they take is the pool's.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    held: VecDeque<Pin>,
    /// Bytes that they take.
    bytes: u64,
    /// Bytes read since the last look.
    read: u64,
    /// Chunks that were let go by nobody's reading: copied together by quinn-proto, as far as is known.
    copied: u64,
    /// Chunks read since the last look.
    chunks_read: u64,
    /// Number of datagrams at which the next look is due.
    due: usize,
}

#[derive(Debug)]
struct Pin {
    /// An empty slice of it.
    datagram: Bytes,
    size: u64,
    chunks: u64,
}

/// Shares a datagram with whoever it is given to, to see when it is let go.
pub(crate) fn share(datagram: &mut BytesMut) -> Bytes {
    datagram.split_off(datagram.len()).freeze()
}

impl Pins {
    /// Takes note of a datagram of `size` bytes that was taken in, of which `chunks` are of streams.
    pub(crate) fn add(&mut self, datagram: Bytes, size: usize, chunks: u64) {
        if !datagram.is_unique() {
            let size = size as u64 + DATAGRAM_OVERHEAD + chunks * CHUNK_RECORD_BYTES;
            self.bytes += size;
            self.held.push_back(Pin {
                datagram,
                size,
                chunks,
            });
        }
    }

    /// A chunk was read.
    pub(crate) fn on_read(&mut self, bytes: usize) {
        self.read += bytes as u64;
        self.chunks_read += 1;
    }

    /// Bytes that are held now, or were at the last look.
    pub(crate) fn bytes(&mut self) -> u64 {
        let is_due = self.held.len() >= self.due || self.read * 2 >= self.bytes;
        if !self.held.is_empty() && (self.held.len() <= ALWAYS_SCANNED || is_due) {
            self.look();
        }
        self.bytes + self.copied * CHUNK_RECORD_BYTES
    }

    /// Returns true if nothing waits, as far as is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.copied == 0
    }

    /// No stream is left of which much could wait.
    pub(crate) fn rest(&mut self) {
        self.look();
        self.copied = 0;
    }

    fn look(&mut self) {
        let (mut bytes, mut chunks) = (0, 0);
        self.held.retain(|pin| {
            let is_held = !pin.datagram.is_unique();
            if !is_held {
                bytes += pin.size;
                chunks += pin.chunks;
            }
            is_held
        });
        self.bytes -= bytes;
        self.copied = (self.copied + chunks).saturating_sub(self.chunks_read);
        (self.read, self.chunks_read) = (0, 0);
        self.due = self.held.len() * 2;
        if self.held.len() <= ALWAYS_SCANNED {
            self.held.shrink_to(ALWAYS_SCANNED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(bytes: usize) -> (BytesMut, Bytes) {
        let mut datagram = BytesMut::from(&vec![1; bytes][..]);
        let shared = share(&mut datagram);
        (datagram, shared)
    }

    #[test]
    fn a_datagram_counts_while_a_byte_of_it_is_held() {
        let mut pins = Pins::default();
        let (datagram, shared) = datagram(1000);
        let byte = datagram.freeze().slice(10..11);
        pins.add(shared, 1000, 1);
        assert_eq!(pins.bytes(), 1000 + DATAGRAM_OVERHEAD + CHUNK_RECORD_BYTES);
        pins.on_read(1);
        drop(byte);
        assert_eq!(pins.bytes(), 0);
    }

    #[test]
    fn one_that_nobody_holds_does_not_count() {
        let mut pins = Pins::default();
        let (whole, shared) = datagram(1000);
        drop(whole);
        pins.add(shared, 1000, 0);
        assert_eq!(pins.bytes(), 0);
    }

    #[test]
    fn chunks_that_are_copied_out_of_their_datagrams_count_until_as_many_are_read() {
        let mut pins = Pins::default();
        let (whole, shared) = datagram(1000);
        let held = whole.freeze();
        pins.add(shared, 1000, 200);
        drop(held);
        assert_eq!(pins.bytes(), 200 * CHUNK_RECORD_BYTES);
        let (whole, shared) = datagram(1000);
        pins.add(shared, 1000, 0);
        (0..150).for_each(|_| pins.on_read(1));
        drop(whole);
        assert_eq!(pins.bytes(), 50 * CHUNK_RECORD_BYTES);
        pins.rest();
        assert_eq!(pins.bytes(), 0);
    }

    #[test]
    fn many_are_looked_at_once_their_number_has_doubled_or_half_was_read() {
        let mut pins = Pins::default();
        let mut held = Vec::new();
        for _ in 0..40 {
            let (whole, shared) = datagram(100);
            held.push(whole.freeze());
            pins.add(shared, 100, 1);
            pins.bytes();
        }
        let each = 100 + DATAGRAM_OVERHEAD + CHUNK_RECORD_BYTES;
        held.clear();
        assert_eq!(pins.bytes(), 40 * each, "not worth a look");
        (0..40).for_each(|_| pins.on_read(200));
        assert_eq!(pins.bytes(), 0);
    }
}
