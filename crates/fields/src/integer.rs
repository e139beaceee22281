//! Integers with a prefix (RFC 7541 section 5.1, used by RFC 9204 section 4.1.1).
//!
//! An integer begins in the low bits of a byte whose high bits mean something else. What fits there
//! takes no more; else the prefix is all ones and the rest follows, 7 bits a byte, lowest first.
//! What the high bits mean, and which values make sense, is left to the caller.

/// Largest value accepted: RFC 9204 section 4.1.1 asks to "be able to decode integers up to and
/// including 62 bits long".
const MAX: u64 = (1 << 62) - 1;

/// Takes an integer with a prefix of `bits` (1 … 8) from the front of `input`.
///
/// The bits before the prefix are ignored. `None`: bytes are missing, or the value needs more than
/// 62 bits or more bytes than such a value can; what `input` is then is not defined.
#[inline]
pub fn decode(input: &mut &[u8], bits: u32) -> Option<u64> {
    let mask = (1u64 << bits) - 1;
    let value = u64::from(take(input)?) & mask;
    if value < mask {
        return Some(value);
    }
    decode_rest(input, value)
}

/// Decodes the bytes after a full prefix.
fn decode_rest(input: &mut &[u8], mut value: u64) -> Option<u64> {
    for shift in (0..).step_by(7) {
        let byte = take(input)?;
        let part = u64::from(byte & 0x7f);
        if shift > 56 || part > (MAX >> shift) {
            return None;
        }
        value = value
            .checked_add(part << shift)
            .filter(|value| *value <= MAX)?;
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(value)
}

/// Appends an integer with a prefix of `bits` (1 … 8); `first` holds the bits before the prefix, its
/// prefix bits are zero.
#[inline]
pub fn encode(value: u64, bits: u32, first: u8, out: &mut Vec<u8>) {
    let mask = (1u64 << bits) - 1;
    if value < mask {
        out.push(first | low_byte(value));
        return;
    }
    out.push(first | low_byte(mask));
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(low_byte(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low_byte(rest));
}

fn take(input: &mut &[u8]) -> Option<u8> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    Some(*first)
}

fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decodes_the_examples_of_rfc_7541_appendix_c_1() {
        for (bytes, bits, value) in [
            (&[0x0a][..], 5, 10),
            (&[0x1f, 0x9a, 0x0a], 5, 1337),
            (&[0x2a], 8, 42),
        ] {
            assert_eq!(decode(&mut &bytes[..], bits), Some(value));
            let mut out = Vec::new();
            encode(value, bits, 0, &mut out);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn rejects_what_overflows_and_what_never_ends() {
        assert_eq!(decode(&mut &[0xff; 20][..], 8), None);
        assert_eq!(
            decode(
                &mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f][..],
                8
            ),
            None
        );
        assert_eq!(decode(&mut &[0x1f, 0x80][..], 5), None);
        assert_eq!(decode(&mut &[][..], 5), None);
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes(value in 0..=MAX, shift in 0..62u32, bits in 1..=8u32) {
            let value = value >> shift;
            let mut out = Vec::new();
            encode(value, bits, 0, &mut out);
            let mut input = &out[..];
            prop_assert_eq!(decode(&mut input, bits), Some(value));
            prop_assert!(input.is_empty());
        }
    }
}
