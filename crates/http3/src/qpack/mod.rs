//! QPACK (RFC 9204), the header compression of HTTP/3, with the static table and Huffman coding
//! (`altway-fields`, as HTTP/2 has the same code).
//!
//! The dynamic table is not used: this side announces a capacity of 0, so that a field section
//! decodes on its own, in any order of arrival. What the fields mean is left to `message`.

mod decode;
mod encode;
mod instructions;
mod static_table;

pub(crate) use decode::{Error, decode};
pub(crate) use encode::Encoder;
pub(crate) use instructions::{DecoderStream, check_encoder_stream};
