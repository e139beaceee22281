//! QPACK (RFC 9204), the header compression of HTTP/3, with Huffman code and integers of
//! `altway-fields`, as HTTP/2 has the same. What the fields mean is left to `message`, the streams
//! that carry the instructions to `connection`.
//!
//! Both dynamic tables are bounded. As a decoder this side takes sections that must wait for the
//! encoder stream, as many as it announced; as an encoder it makes no section wait: it refers to
//! entries only once they are acknowledged, so that a lost packet of the encoder stream holds
//! nothing up.

mod decoder;
mod dynamic_table;
mod encoder;
mod instructions;
#[cfg(test)]
mod interop;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod rfc_examples;
mod static_table;
mod text;

pub(crate) use decoder::{Basis, Decoder, Error};
pub(crate) use encoder::{Encoder, Indexing, Section};

/// Bytes that RFC 9114 section 4.2.2 adds to each field's name and value when it counts a section.
const FIELD_OVERHEAD: u64 = 32;

/// Entries that a table of this capacity can have (RFC 9204 section 4.5.1.1, "MaxEntries").
fn max_entries(max_capacity: u64) -> u64 {
    max_capacity / dynamic_table::ENTRY_OVERHEAD as u64
}
