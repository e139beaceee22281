//! String literals (RFC 7541 section 5.2, RFC 9204 section 4.1.2), written: a Huffman bit, a length with a prefix, and
//! bytes.

use crate::{huffman, integer};

/// Appends a string whose length has a prefix of `bits` (1 … 7), coded if that is shorter; `first` holds what stands
/// before the Huffman bit.
pub fn encode(text: &[u8], bits: u32, first: u8, out: &mut Vec<u8>) {
    let coded = huffman::encoded_len(text);
    if coded < text.len() {
        integer::encode(coded as u64, bits, first | 1 << bits, out);
        huffman::encode(text, out);
    } else {
        integer::encode(text.len() as u64, bits, first, out);
        out.extend_from_slice(text);
    }
}
