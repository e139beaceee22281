//! HPACK (RFC 7541), the header compression of HTTP/2, both ways.
//!
//! Built for what a server sees most: blocks that consist of indices. A field's kind stands beside
//! it in either table, so an indexed field costs a look-up; a list of fields that is sent often
//! ([`FieldBlock`](crate::FieldBlock)) costs a copy of the few bytes it last became. The codes for
//! strings and integers are `altway-fields`'; what fields mean together is the engine's.

mod decoder;
mod dynamic_table;
mod encoder;
mod memo;
mod representation;
mod static_table;

#[cfg(test)]
mod interop;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod rfc_examples;

pub(crate) use decoder::{Decoder, Visitor};
pub(crate) use encoder::Encoder;
pub(crate) use representation::append_literal;

/// RFC 9113 section 6.5.2: the initial value of SETTINGS_HEADER_TABLE_SIZE, bytes.
pub(crate) const DEFAULT_TABLE_SIZE: usize = 4096;

/// Bytes that a field counts beside its name and value (RFC 7541 section 4.1 for the table, RFC
/// 9113 section 6.5.2 for lists).
pub(crate) const FIELD_OVERHEAD: usize = 32;
