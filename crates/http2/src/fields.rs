//! Lists of fields that can be sent: header maps, and blocks prepared once.

use altway_fields::indexing::comes_once;
use http::HeaderMap;

use crate::FieldBlock;
use crate::field_block::{Indexing, is_allowed, trimmed};
use crate::hpack::{Encoder, FIELD_OVERHEAD};

/// Fields to send after a status or request line. Made by `into()` from what an application has.
/// Fields that HTTP/2 has no place for (RFC 9113 section 8.2.2) are left out.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Fields<'a> {
    /// A map of any fields.
    Map(&'a HeaderMap),
    /// Blocks that are sent often, one after the other.
    Blocks(&'a [&'a FieldBlock]),
}

impl<'a> From<&'a HeaderMap> for Fields<'a> {
    fn from(map: &'a HeaderMap) -> Self {
        Fields::Map(map)
    }
}

impl<'a> From<&'a [&'a FieldBlock]> for Fields<'a> {
    fn from(blocks: &'a [&'a FieldBlock]) -> Self {
        Fields::Blocks(blocks)
    }
}

impl<'a, const N: usize> From<&'a [&'a FieldBlock; N]> for Fields<'a> {
    fn from(blocks: &'a [&'a FieldBlock; N]) -> Self {
        Fields::Blocks(blocks)
    }
}

impl Fields<'_> {
    /// Counts the size as RFC 9113 section 6.5.2 does: name + value + 32 bytes each.
    #[must_use]
    pub fn list_size(self) -> usize {
        match self {
            Fields::Map(map) => map
                .iter()
                .map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD)
                .sum(),
            Fields::Blocks(blocks) => blocks.iter().map(|block| block.list_size()).sum(),
        }
    }

    #[inline]
    pub(crate) fn encode(self, encoder: &mut Encoder, out: &mut Vec<u8>) {
        match self {
            Fields::Map(map) => encode_map(map, encoder, out),
            Fields::Blocks(blocks) => {
                for block in blocks {
                    encoder.block(block, out);
                }
            }
        }
    }
}

fn encode_map(map: &HeaderMap, encoder: &mut Encoder, out: &mut Vec<u8>) {
    for (name, value) in map {
        if !is_allowed(name, value) {
            continue;
        }
        let indexing = match value.is_sensitive() {
            true => Indexing::Never,
            false if comes_once(name.as_str()) => Indexing::Without,
            false => Indexing::Incremental,
        };
        encoder.field(name.as_str().as_bytes(), trimmed(value), indexing, out);
    }
}
