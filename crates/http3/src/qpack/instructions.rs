//! Instructions as they come on the peer's QPACK streams (RFC 9204 sections 4.3 and 4.4): cut
//! anywhere, put together here.

use altway_fields::integer;

use super::text::{Text, Undecodable};

/// An instruction that can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Longest encoding of an integer: a prefix, and 62 bits by seven.
const MAX_INTEGER: usize = 10;

/// An instruction of the encoder stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EncoderInstruction<'a> {
    /// "Set Dynamic Table Capacity", bytes.
    SetCapacity(u64),
    /// "Insert with Name Reference": an index of the static table, or a relative one.
    InsertWithReference {
        static_table: bool,
        index: u64,
        value: Text<'a>,
    },
    /// "Insert with Literal Name".
    Insert { name: Text<'a>, value: Text<'a> },
    /// "Duplicate", a relative index.
    Duplicate(u64),
}

impl<'a> EncoderInstruction<'a> {
    /// Takes one from the front of `input`; `None`: it is not whole. No string in it may be longer
    /// than `capacity` bytes once decoded, as it could not become an entry.
    pub(super) fn take(input: &mut &'a [u8], capacity: usize) -> Result<Option<Self>, Malformed> {
        let mut rest = *input;
        let Some(first) = rest.first().copied() else {
            return Ok(None);
        };
        let taken = if first & 0x80 != 0 {
            let index = integer(&mut rest, 6)?;
            let value = text(&mut rest, index.is_some(), 7, capacity)?;
            index
                .zip(value)
                .map(|(index, value)| Self::InsertWithReference {
                    static_table: first & 0x40 != 0,
                    index,
                    value,
                })
        } else if first & 0x40 != 0 {
            let name = text(&mut rest, true, 5, capacity)?;
            let value = text(&mut rest, name.is_some(), 7, capacity)?;
            name.zip(value)
                .map(|(name, value)| Self::Insert { name, value })
        } else if first & 0x20 != 0 {
            integer(&mut rest, 5)?.map(Self::SetCapacity)
        } else {
            integer(&mut rest, 5)?.map(Self::Duplicate)
        };
        if taken.is_some() {
            *input = rest;
        }
        Ok(taken)
    }
}

/// An instruction of the decoder stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecoderInstruction {
    /// "Section Acknowledgment" of a stream.
    Acknowledge(u64),
    /// "Stream Cancellation".
    Cancel(u64),
    /// "Insert Count Increment".
    Increment(u64),
}

impl DecoderInstruction {
    /// Takes one from the front of `input`; `None`: it is not whole.
    pub(super) fn take(input: &mut &[u8]) -> Result<Option<Self>, Malformed> {
        let Some(first) = input.first().copied() else {
            return Ok(None);
        };
        Ok(match first >> 6 {
            0b10 | 0b11 => integer(input, 7)?.map(Self::Acknowledge),
            0b01 => integer(input, 6)?.map(Self::Cancel),
            _ => integer(input, 6)?.map(Self::Increment),
        })
    }

    /// Appends it.
    pub(super) fn put(self, out: &mut Vec<u8>) {
        match self {
            Self::Acknowledge(stream) => integer::encode(stream, 7, 0x80, out),
            Self::Cancel(stream) => integer::encode(stream, 6, 0x40, out),
            Self::Increment(count) => integer::encode(count, 6, 0x00, out),
        }
    }
}

/// The beginning of an instruction whose rest is still to come. It is as long as the longest
/// instruction at most.
#[derive(Debug, Default)]
pub(super) struct Partial(Vec<u8>);

impl Partial {
    /// Bytes held.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Gives what there is to `take` as often as that takes something (and answers true); keeps what
    /// it leaves. How often it took something.
    pub(super) fn feed<E>(
        &mut self,
        piece: &[u8],
        mut take: impl FnMut(&mut &[u8]) -> Result<bool, E>,
    ) -> Result<u32, E> {
        let mut held = std::mem::take(&mut self.0);
        let mut input = piece;
        if !held.is_empty() {
            held.extend_from_slice(piece);
            input = &held;
        }
        let mut taken = 0;
        while take(&mut input)? {
            taken += 1;
        }
        self.0 = input.to_vec();
        Ok(taken)
    }
}

/// An integer with a prefix of `bits`; `None`: bytes are missing.
fn integer(input: &mut &[u8], bits: u32) -> Result<Option<u64>, Malformed> {
    let mut rest = *input;
    match integer::decode(&mut rest, bits) {
        Some(value) => {
            *input = rest;
            Ok(Some(value))
        }
        None if input.len() >= MAX_INTEGER => Err(Malformed),
        None => Ok(None),
    }
}

/// A string, if what stands before it is whole (`ready`). One that can't be decoded to `capacity`
/// bytes or fewer is refused by its length alone: a byte holds 30 bits of code at most.
fn text<'a>(
    input: &mut &'a [u8],
    ready: bool,
    bits: u32,
    capacity: usize,
) -> Result<Option<Text<'a>>, Malformed> {
    if !ready || input.is_empty() {
        return Ok(None);
    }
    let coded = input[0] >> bits & 1 == 1;
    let longest = if coded {
        capacity.saturating_mul(30).div_ceil(8)
    } else {
        capacity
    };
    let Some(len) = integer(&mut { *input }, bits)? else {
        return Ok(None);
    };
    if len > longest as u64 {
        return Err(Malformed);
    }
    Ok(Text::take(input, bits))
}

impl From<Undecodable> for Malformed {
    fn from(_: Undecodable) -> Self {
        Malformed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoder_instruction_cut_anywhere_is_not_whole() {
        for whole in [
            &[0x3f, 0xbd, 0x01][..],
            &[0xc0, 0x03, b'a', b'b', b'c'],
            &[
                0x4a, b'a', b'b', b'c', b'd', b'e', b'f', b'g', b'h', b'i', b'j', 1, b'x',
            ],
            &[0x1f, 0x00],
        ] {
            for cut in 0..whole.len() {
                let mut input = &whole[..cut];
                assert_eq!(EncoderInstruction::take(&mut input, 100), Ok(None));
                assert_eq!(input.len(), cut, "nothing is taken");
            }
            let mut input = whole;
            assert!(EncoderInstruction::take(&mut input, 100).unwrap().is_some());
            assert!(input.is_empty());
        }
    }

    #[test]
    fn a_string_that_cannot_fit_is_refused_before_it_comes() {
        for (len, refused) in [(8, false), (9, true), (0x80 | 30, false), (0x80 | 31, true)] {
            let bytes = [0xc0, len];
            let taken = EncoderInstruction::take(&mut &bytes[..], 8);
            assert_eq!(taken, if refused { Err(Malformed) } else { Ok(None) });
        }
    }

    #[test]
    fn an_integer_that_never_ends_is_refused() {
        let mut input = &[0xff; 10][..];
        assert_eq!(DecoderInstruction::take(&mut input), Err(Malformed));
        let mut input = &[0xff; 9][..];
        assert_eq!(DecoderInstruction::take(&mut input), Ok(None));
    }

    #[test]
    fn decoder_instructions_come_back() {
        for instruction in [
            DecoderInstruction::Acknowledge(4),
            DecoderInstruction::Cancel((1 << 62) - 1),
            DecoderInstruction::Increment(64),
        ] {
            let mut out = Vec::new();
            instruction.put(&mut out);
            let taken = DecoderInstruction::take(&mut &out[..]);
            assert_eq!(taken, Ok(Some(instruction)));
        }
    }
}
