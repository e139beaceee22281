//! Representations of fields in a block (RFC 7541 section 6), written.

use altway_fields::{integer, string};

use super::static_table::{self, Match};
use crate::field_block::Indexing;

/// A name in a literal representation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Name<'a> {
    /// Name of the entry at this index.
    Index(usize),
    /// Itself.
    Text(&'a [u8]),
}

impl<'a> Name<'a> {
    /// The name as the static table has it, or itself.
    pub(crate) fn from_static_table(found: Option<Match>, name: &'a [u8]) -> Self {
        match found {
            Some(Match::Field(index) | Match::Name(index)) => Name::Index(usize::from(index)),
            None => Name::Text(name),
        }
    }
}

/// Section 6.1: the field at `index`.
#[inline]
pub(crate) fn append_indexed(index: usize, out: &mut Vec<u8>) {
    integer::encode(index as u64, 7, 0x80, out);
}

/// Section 6.2: a literal field.
pub(crate) fn append_field(name: Name<'_>, value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
    let (first, bits) = match indexing {
        Indexing::Incremental => (0x40, 6),
        Indexing::Without => (0x00, 4),
        Indexing::Never => (0x10, 4),
    };
    match name {
        Name::Index(index) => integer::encode(index as u64, bits, first, out),
        Name::Text(name) => {
            out.push(first);
            string::encode(name, 7, 0, out);
        }
    }
    string::encode(value, 7, 0, out);
}

/// A field that needs no dynamic table and changes none: `indexing` is not incremental. A value in
/// the static table goes out as its index, unless it is sensitive.
pub(crate) fn append_literal(name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
    debug_assert_ne!(indexing, Indexing::Incremental, "this changes the table");
    let found = static_table::find(name, value);
    match found {
        Some(Match::Field(index)) if indexing == Indexing::Without => {
            append_indexed(usize::from(index), out);
        }
        _ => append_field(Name::from_static_table(found, name), value, indexing, out),
    }
}

/// Section 6.3: the table's new maximum size, bytes.
pub(crate) fn append_size_update(size: usize, out: &mut Vec<u8>) {
    integer::encode(size as u64, 5, 0x20, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_take_the_shortest_form_that_keeps_the_table() {
        let literal = |name: &str, value: &str, indexing| {
            let mut out = Vec::new();
            append_literal(name.as_bytes(), value.as_bytes(), indexing, &mut out);
            out
        };
        assert_eq!(literal(":path", "/", Indexing::Without), [0x84]);
        assert_eq!(literal(":path", "*", Indexing::Without), [0x04, 1, b'*']);
        assert_eq!(
            literal("cookie", "*", Indexing::Without),
            [0x0f, 17, 1, b'*']
        );
        assert_eq!(
            literal("~", "aaa", Indexing::Without)[..4],
            [0, 1, b'~', 0x82]
        );
    }

    #[test]
    fn a_sensitive_field_is_never_an_index() {
        let mut out = Vec::new();
        append_literal(b":path", b"/", Indexing::Never, &mut out);
        append_literal(b"~", b"/", Indexing::Never, &mut out);
        assert_eq!(out, [0x14, 1, b'/', 0x10, 1, b'~', 1, b'/']);
    }
}
