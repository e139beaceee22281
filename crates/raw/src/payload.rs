//! The bytes of a transfer: the same block again and again, so that they cost nothing to make, and
//! yet each position has its value, so that a lost, doubled or moved piece shows. Pure.

use bytes::Bytes;

/// Bytes of the block, and so the most that is offered to a transport at once. What a processor's
/// second-level cache holds: reading the block costs little, as it would with data just made.
const BLOCK_BYTES: usize = 256 << 10;

/// The block. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    block: Bytes,
}

impl Payload {
    pub(crate) fn new() -> Self {
        // A linear congruential generator (Knuth's MMIX constants): its high bytes have no period
        // shorter than the block, so no two positions of it look alike for long.
        let mut state = 0_u64;
        let block = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        });
        Self {
            block: block.take(BLOCK_BYTES).collect(),
        }
    }

    /// Returns what stands at `position`, `left` bytes at most; empty only when `left` is 0.
    pub(crate) fn at(&self, position: u64, left: u64) -> Bytes {
        let begin = offset(position);
        let rest = BLOCK_BYTES - begin;
        let length = usize::try_from(left).map_or(rest, |left| left.min(rest));
        self.block.slice(begin..begin + length)
    }

    /// The block itself.
    pub(crate) fn block(&self) -> &[u8] {
        &self.block
    }

    /// Offset at which in the block `bytes` stand, if they are a piece of it and not just like one.
    pub(crate) fn place_of(&self, bytes: &[u8]) -> Option<usize> {
        let place = bytes
            .as_ptr()
            .addr()
            .checked_sub(self.block.as_ptr().addr())?;
        (place + bytes.len() <= self.block.len()).then_some(place)
    }

    /// The first position from `position` on whose byte in `bytes` is wrong.
    pub(crate) fn first_difference(&self, position: u64, bytes: &[u8]) -> Option<u64> {
        let mut at = position;
        let mut rest = bytes;
        while !rest.is_empty() {
            let expected = self.at(at, rest.len() as u64);
            let (part, others) = rest.split_at(expected.len());
            if part != expected {
                let same = part.iter().zip(&expected).take_while(|(a, b)| a == b);
                return Some(at + same.count() as u64);
            }
            at += part.len() as u64;
            rest = others;
        }
        None
    }
}

fn offset(position: u64) -> usize {
    usize::try_from(position % BLOCK_BYTES as u64).expect("below the block's length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_length_exactly() {
        let payload = Payload::new();
        let length = 3_000_001;
        let mut position = 0;
        while position < length {
            let piece = payload.at(position, length - position);
            assert!(!piece.is_empty() && payload.first_difference(position, &piece).is_none());
            position += piece.len() as u64;
        }
        assert_eq!(position, length);
        assert!(payload.at(position, 0).is_empty());
    }

    #[test]
    fn a_piece_knows_its_place_and_other_bytes_have_none() {
        let payload = Payload::new();
        let piece = payload.at(100, 10);
        assert_eq!(payload.place_of(&piece), Some(100));
        assert_eq!(payload.place_of(&[0; 10]), None);
    }

    #[test]
    fn a_moved_byte_is_found_where_it_stands() {
        let payload = Payload::new();
        let begin = BLOCK_BYTES as u64 - 10;
        let mut bytes = [payload.at(begin, 10), payload.at(begin + 10, 20)].concat();
        assert_eq!(payload.first_difference(begin, &bytes), None);
        bytes[17] ^= 1;
        assert_eq!(payload.first_difference(begin, &bytes), Some(begin + 17));
        let shifted = payload.at(1, 100);
        assert!(payload.first_difference(0, &shifted).unwrap() < 10);
    }
}
