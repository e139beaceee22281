//! Field sections out (RFC 9204 section 4.5), with the static table and Huffman coding where that
//! is shorter.

use altway_fields::{huffman, integer};

use super::decode::FIELD_OVERHEAD;
use super::static_table::{Match, find};

/// Collects the fields of one section.
pub(crate) struct Encoder {
    section: Vec<u8>,
    size: u64,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        // Required Insert Count 0, base 0: no reference to a dynamic table.
        Self {
            section: vec![0, 0],
            size: 0,
        }
    }

    /// Appends a field. `sensitive`: no intermediary may put it into a compression table (the N
    /// bit, RFC 9204 section 7.1.3).
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8], sensitive: bool) {
        self.size += (name.len() + value.len()) as u64 + FIELD_OVERHEAD;
        let out = &mut self.section;
        match find(name, value) {
            Some(Match::Field(index)) => return integer::encode(index, 6, 0xc0, out),
            Some(Match::Name(index)) => {
                integer::encode(index, 4, if sensitive { 0x70 } else { 0x50 }, out);
            }
            None => text(name, 3, if sensitive { 0x30 } else { 0x20 }, out),
        }
        text(value, 7, 0, out);
    }

    /// The encoded section.
    pub(crate) fn section(&self) -> &[u8] {
        &self.section
    }

    /// Its size as RFC 9114 section 4.2.2 counts.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

/// Appends a string whose length has a prefix of `bits`; `first` holds what stands before it.
fn text(value: &[u8], bits: u32, first: u8, out: &mut Vec<u8>) {
    let coded = huffman::encoded_len(value);
    if coded < value.len() {
        integer::encode(coded as u64, bits, first | 1 << bits, out);
        huffman::encode(value, out);
    } else {
        integer::encode(value.len() as u64, bits, first, out);
        out.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(name: &str, value: &str, sensitive: bool) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.field(name.as_bytes(), value.as_bytes(), sensitive);
        encoder.section()[2..].to_vec()
    }

    #[test]
    fn picks_the_shortest_form() {
        assert_eq!(encoded(":method", "GET", false), [0xc0 | 17]);
        assert_eq!(
            encoded("x-frame-options", "sameorigin", false),
            [0xff, 98 - 63]
        );
        assert_eq!(encoded(":status", "302", false), [0xff, 66 - 63]);
        assert_eq!(encoded("etag", "\x01", false), [0x57, 1, 1]);
        assert_eq!(encoded(":path", "no-cache", false)[..2], [0x51, 0x80 | 6]);
        assert_eq!(encoded("~", "", false), [0x21, b'~', 0]);
    }

    #[test]
    fn a_sensitive_field_carries_the_never_index_bit() {
        assert_eq!(encoded("authorization", "x", true)[0], 0x7f);
        assert_eq!(encoded("~", "", true)[0], 0x31);
    }
}
