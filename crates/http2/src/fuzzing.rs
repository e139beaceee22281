//! Field compression without a connection around it: what fuzz targets need beside the interface.
//!
//! Under the feature `fuzzing` alone, and no promise to anyone.

use altway_message::FieldKind;

use crate::hpack::{Decoder, Encoder, Visitor};
use crate::{FieldBlock, Indexing};

/// The sender of field blocks on one connection.
#[derive(Debug)]
pub struct FieldEncoder(Encoder);

/// The receiver of field blocks on one connection.
#[derive(Debug)]
pub struct FieldDecoder(Decoder);

/// A block that can't be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecodable;

impl FieldEncoder {
    /// Makes an encoder that knows nothing of its peer yet.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a connection's beginning is no default"
    )]
    pub fn new() -> Self {
        Self(Encoder::new())
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE.
    pub fn set_peer_table_size(&mut self, size: u32) {
        self.0.set_peer_table_size(size);
    }

    /// Begins a block.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        self.0.begin(out);
    }

    /// Appends `:status`.
    pub fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        self.0.status(status, out);
    }

    /// Appends a field.
    pub fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        self.0.field(name, value, indexing, out);
    }

    /// Appends the fields of a block.
    pub fn block(&mut self, block: &FieldBlock, out: &mut Vec<u8>) {
        self.0.block(block, out);
    }
}

impl FieldDecoder {
    /// Makes a decoder whose connection announces a dynamic table of so many bytes.
    #[must_use]
    pub fn new(max_table_size: usize) -> Self {
        Self(Decoder::new(max_table_size))
    }

    /// The peer has acknowledged our SETTINGS.
    pub fn settings_acknowledged(&mut self) {
        self.0.on_settings_acknowledged();
    }

    /// Changes whenever the dynamic table does.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.generation()
    }

    /// Decodes a block, and gives its names and values to `each`.
    ///
    /// # Errors
    /// [`Undecodable`]; the decoder can't be used any longer.
    ///
    /// # Panics
    /// A field has another kind than its name and value alone would give it.
    pub fn decode(
        &mut self,
        block: &[u8],
        each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Undecodable> {
        let decoded = self.0.decode(block, &mut Checked(each));
        decoded.map_err(|_| Undecodable)
    }
}

struct Checked<F>(F);

impl<F: FnMut(&[u8], &[u8])> Visitor for Checked<F> {
    fn field(&mut self, kind: FieldKind, name: &[u8], value: &[u8]) {
        let own = FieldKind::of(name).with_value(value);
        assert_eq!(kind, own, "the kind kept in a table");
        (self.0)(name, value);
    }
}
