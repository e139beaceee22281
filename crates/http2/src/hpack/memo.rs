//! Encodings that field blocks last had, valid as long as the dynamic table stays as it is.
//!
//! A server sends the same few blocks in every response of a connection. Under an unchanged table
//! they become the same bytes, and looking those up by the block's number spares looking up every
//! field.

/// Remembers up to 8 blocks of up to 32 bytes; the oldest goes first.
#[derive(Debug)]
pub(crate) struct Memo {
    /// The table's generation under which all of them are right.
    generation: u64,
    /// The blocks' numbers; 0 where there is none.
    ids: [u64; SLOTS],
    encoded: [Encoded; SLOTS],
    next: usize,
}

const SLOTS: usize = 8;
const MAX_LEN: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Encoded {
    len: usize,
    bytes: [u8; MAX_LEN],
}

impl Memo {
    pub(crate) fn new() -> Self {
        let empty = Encoded {
            len: 0,
            bytes: [0; MAX_LEN],
        };
        Self {
            generation: 0,
            ids: [0; SLOTS],
            encoded: [empty; SLOTS],
            next: 0,
        }
    }

    /// Appends what block `id` becomes under `generation`, if that is known.
    #[inline]
    pub(crate) fn append(&self, id: u64, generation: u64, out: &mut Vec<u8>) -> bool {
        if self.generation != generation {
            return false;
        }
        let Some(slot) = self.ids.iter().position(|known| *known == id) else {
            return false;
        };
        let encoded = &self.encoded[slot];
        // A copy of a fixed length is two instructions; one of the true length is a call.
        let end = out.len() + encoded.len;
        out.extend_from_slice(&encoded.bytes);
        out.truncate(end);
        true
    }

    /// Remembers what block `id`, which is not 0, became under `generation`; forgets what belongs
    /// to another one.
    pub(crate) fn keep(&mut self, id: u64, generation: u64, encoded: &[u8]) {
        let mut bytes = [0; MAX_LEN];
        let Some(place) = bytes.get_mut(..encoded.len()) else {
            return;
        };
        place.copy_from_slice(encoded);
        if self.generation != generation {
            self.generation = generation;
            self.ids = [0; SLOTS];
        }
        self.ids[self.next] = id;
        self.encoded[self.next] = Encoded {
            len: encoded.len(),
            bytes,
        };
        self.next = (self.next + 1) % SLOTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appended(memo: &Memo, id: u64, generation: u64) -> Option<Vec<u8>> {
        let mut out = b"before ".to_vec();
        let known = memo.append(id, generation, &mut out);
        known.then(|| out.strip_prefix(b"before ").unwrap().to_vec())
    }

    #[test]
    fn what_was_kept_comes_back_under_its_generation_alone() {
        let mut memo = Memo::new();
        assert_eq!(appended(&memo, 1, 0), None);
        memo.keep(1, 5, b"one");
        memo.keep(2, 5, &[7; 32]);
        assert_eq!(appended(&memo, 1, 5), Some(b"one".to_vec()));
        assert_eq!(appended(&memo, 2, 5), Some(vec![7; 32]));
        assert_eq!(appended(&memo, 1, 4), None);
        assert_eq!(appended(&memo, 1, 6), None);
        memo.keep(2, 6, b"two");
        assert_eq!(appended(&memo, 1, 6), None);
        assert_eq!(appended(&memo, 2, 6), Some(b"two".to_vec()));
    }

    #[test]
    fn the_oldest_goes_first_and_what_is_too_long_never_comes() {
        let mut memo = Memo::new();
        for id in 1..=9 {
            memo.keep(id, 1, b"x");
        }
        memo.keep(10, 1, &[0; 33]);
        let known: Vec<u64> = (1..=10)
            .filter(|id| appended(&memo, *id, 1).is_some())
            .collect();
        assert_eq!(known, [2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
