//! A list of fields made once and sent often.
//!
//! The fields of a response seldom change from one to the next. A [`FieldBlock`] is made of them
//! once, on any thread, and each connection's encoder remembers what the block became there.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use altway_fields::indexing::hash;
use altway_message::FieldKind;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::hpack::{FIELD_OVERHEAD, append_literal};

/// Indexing of a field in the compression table of the connection (RFC 7541 section 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// The field enters the table: for fields that come back on the connection, such as `server`.
    /// The first sending spells it out, the next ones take 1 or 2 bytes.
    Incremental,
    /// The field does not enter the table: for fields that seldom come back, such as the `etag` of
    /// one of many files. Every sending spells it out.
    Without,
    /// The field does not enter the table, and no intermediary may put it into one either (RFC 7541
    /// section 7.1.3): for secrets.
    Never,
}

/// A list of fields, encoded once, to be sent in any number of messages on any connection.
///
/// Sending a block with [`Indexing::Without`] or [`Indexing::Never`] is a copy of its encoding. One
/// with [`Indexing::Incremental`] enters the connection's compression table when it is first sent;
/// later on it is a copy of a few bytes. Clones count as the same block.
#[derive(Clone)]
pub struct FieldBlock {
    id: u64,
    list_size: usize,
    content: Content,
}

/// Content of a block.
#[derive(Clone)]
pub(crate) enum Content {
    /// Bytes that mean the same on every connection.
    Encoded(Box<[u8]>),
    /// Fields for the connection's table.
    Fields(Box<[Field]>),
}

/// A field of a block.
#[derive(Clone)]
pub(crate) struct Field {
    name: HeaderName,
    /// The value, without spaces around it.
    pub(crate) value: Box<[u8]>,
    /// The hash by which the connection's table finds the field; `None`: it may not enter any.
    pub(crate) hash: Option<u64>,
}

impl FieldBlock {
    /// Makes a block of the fields, in their order.
    ///
    /// Connection-specific fields are left out, and so is `te` unless it says "trailers" (RFC 9113
    /// section 8.2.2); spaces around values too (section 8.2.1). A value that is marked as sensitive
    /// goes out as [`Indexing::Never`] says, whatever `indexing`.
    pub fn new<'a>(
        fields: impl IntoIterator<Item = (&'a HeaderName, &'a HeaderValue)>,
        indexing: Indexing,
    ) -> Self {
        let fields = fields
            .into_iter()
            .filter(|field| is_allowed(field.0, field.1));
        let (list_size, content) = match indexing {
            Indexing::Incremental => keep(fields),
            Indexing::Without | Indexing::Never => encode(fields, indexing),
        };
        Self {
            id: next_id(),
            list_size,
            content,
        }
    }

    /// Makes a block of all fields of a map.
    pub fn from_headers(fields: &HeaderMap, indexing: Indexing) -> Self {
        Self::new(fields, indexing)
    }

    /// Returns the size that the block counts towards SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113
    /// section 6.5.2), bytes: each field's name and value uncompressed, and 32.
    pub fn list_size(&self) -> usize {
        self.list_size
    }

    /// A number that no other block of this process has but its clones; never 0.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }
}

/// Prints no values, which may be secrets.
impl fmt::Debug for FieldBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldBlock")
            .field("id", &self.id)
            .field("list_size", &self.list_size)
            .finish_non_exhaustive()
    }
}

impl Field {
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_str().as_bytes()
    }
}

pub(crate) fn is_allowed(name: &HeaderName, value: &HeaderValue) -> bool {
    FieldKind::may_be_sent(name.as_str().as_bytes(), trimmed(value))
}

fn keep<'a>(fields: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>) -> (usize, Content) {
    let mut list_size = 0;
    let fields = fields.map(|(name, value)| {
        let (text, bytes) = (name.as_str().as_bytes(), trimmed(value));
        list_size += text.len() + bytes.len() + FIELD_OVERHEAD;
        Field {
            name: name.clone(),
            value: bytes.into(),
            hash: (!value.is_sensitive()).then(|| hash(text, bytes)),
        }
    });
    let content = Content::Fields(fields.collect());
    (list_size, content)
}

fn encode<'a>(
    fields: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>,
    indexing: Indexing,
) -> (usize, Content) {
    let (mut list_size, mut out) = (0, Vec::new());
    for (name, value) in fields {
        let (text, bytes) = (name.as_str().as_bytes(), trimmed(value));
        list_size += text.len() + bytes.len() + FIELD_OVERHEAD;
        let indexing = if value.is_sensitive() {
            Indexing::Never
        } else {
            indexing
        };
        append_literal(text, bytes, indexing, &mut out);
    }
    (list_size, Content::Encoded(out.into()))
}

pub(crate) fn trimmed(value: &HeaderValue) -> &[u8] {
    value.as_bytes().trim_ascii()
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::Encoder;

    fn sent(encoder: &mut Encoder, block: &FieldBlock) -> Vec<u8> {
        let mut out = Vec::new();
        encoder.block(block, &mut out);
        out
    }

    fn block(fields: &[(&'static str, &'static str)], indexing: Indexing) -> FieldBlock {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, HeaderValue::from_static(value));
        }
        FieldBlock::from_headers(&map, indexing)
    }

    #[test]
    fn an_incremental_block_is_short_from_the_second_time_on_each_connection() {
        let block = block(&[("~", "1"), ("server", "2")], Indexing::Incremental);
        for _ in 0..2 {
            let mut encoder = Encoder::new();
            let first = [0x40, 1, b'~', 1, b'1', 0x76, 1, b'2'];
            assert_eq!(sent(&mut encoder, &block), first);
            for _ in 0..3 {
                assert_eq!(sent(&mut encoder, &block), [0xbf, 0xbe]);
            }
            // What enters the table moves the indices.
            encoder.field(b"!", b"", Indexing::Incremental, &mut Vec::new());
            for _ in 0..3 {
                assert_eq!(sent(&mut encoder, &block.clone()), [0xc0, 0xbf]);
            }
        }
    }

    #[test]
    fn a_block_outlives_its_eviction() {
        let block = block(&[("~", "1")], Indexing::Incremental);
        let mut encoder = Encoder::new();
        let first = sent(&mut encoder, &block);
        assert_eq!(sent(&mut encoder, &block), [0xbe]);
        assert_eq!(sent(&mut encoder, &block), [0xbe]);
        encoder.set_peer_table_size(0);
        encoder.set_peer_table_size(4096);
        encoder.begin(&mut Vec::new());
        assert_eq!(sent(&mut encoder, &block), first);
    }

    #[test]
    fn a_block_larger_than_the_table_is_right_each_time() {
        let fields = [("!", "1"), ("#", "2"), ("$", "3")];
        let block = block(&fields, Indexing::Incremental);
        let mut encoder = Encoder::new();
        encoder.set_peer_table_size(2 * 34);
        encoder.begin(&mut Vec::new());
        let first = sent(&mut encoder, &block);
        // Each insertion evicts what the next field would need.
        assert_eq!(sent(&mut encoder, &block), first);
    }

    #[test]
    fn the_other_blocks_mean_the_same_on_every_connection() {
        let fields = [("~", "1"), ("accept-encoding", "gzip, deflate")];
        let without = block(&fields, Indexing::Without);
        let never = block(&fields, Indexing::Never);
        let mut encoder = Encoder::new();
        for _ in 0..2 {
            assert_eq!(sent(&mut encoder, &without), [0, 1, b'~', 1, b'1', 0x90]);
            let expected = [0x10, 1, b'~', 1, b'1', 0x1f, 16 - 15, 0x8a];
            assert_eq!(sent(&mut encoder, &never)[..8], expected);
        }
    }

    #[test]
    fn a_sensitive_value_is_never_indexed_whatever_the_block() {
        let mut value = HeaderValue::from_static("1");
        value.set_sensitive(true);
        let name = HeaderName::from_static("~");
        for indexing in [Indexing::Incremental, Indexing::Without, Indexing::Never] {
            let block = FieldBlock::new([(&name, &value)], indexing);
            let mut encoder = Encoder::new();
            for _ in 0..3 {
                assert_eq!(sent(&mut encoder, &block), [0x10, 1, b'~', 1, b'1']);
            }
        }
    }

    #[test]
    fn what_may_not_be_sent_is_left_out() {
        let fields = [
            ("connection", "close"),
            ("keep-alive", "1"),
            ("proxy-connection", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
        ];
        for indexing in [Indexing::Incremental, Indexing::Without] {
            let block = block(&fields, indexing);
            assert_eq!(block.list_size(), 0);
            assert_eq!(sent(&mut Encoder::new(), &block), []);
        }
        let te = block(&[("te", "trailers")], Indexing::Without);
        assert_eq!(te.list_size(), 2 + 8 + 32);
    }

    #[test]
    fn spaces_around_a_value_are_left_out() {
        let padded = HeaderValue::from_bytes(b" \t1 ").unwrap();
        let name = HeaderName::from_static("~");
        let block = FieldBlock::new([(&name, &padded)], Indexing::Without);
        assert_eq!(sent(&mut Encoder::new(), &block), [0, 1, b'~', 1, b'1']);
        assert_eq!(block.list_size(), 34);
    }

    #[test]
    fn debug_output_shows_no_values() {
        let block = block(&[("cookie", "secret")], Indexing::Incremental);
        assert!(!format!("{block:?}").contains("secret"));
    }
}
