//! Parts that HTTP/2 and HTTP/3 share: of their fields the Huffman code, strings and integers with a prefix, and the
//! choice of what enters a dynamic table (HPACK, RFC 7541; QPACK, RFC 9204), and the Priority field (RFC 9218); the
//! token bucket by which both tell a flood of what leads nowhere ([`Budget`]); the type of their error codes
//! ([`error_codes`]).
//!
//! The codes are pure functions from bytes to bytes that append to a buffer of the caller's. Left to
//! `altway-http2` and `altway-http3`: the tables of fields, the instructions, and what fields mean.
//!
//! A string literal (RFC 7541 section 5.2) is a bit that says whether it is coded, its length with
//! a prefix of 7 bits, and its bytes:
//!
//! ```
//! use altway_fields::{huffman, integer, string};
//!
//! let mut literal = Vec::new();
//! string::encode(b"www.example.com", 7, 0, &mut literal);
//! assert_eq!(literal.len(), 1 + 12);
//!
//! let input = &mut &literal[..];
//! assert_eq!(integer::decode(input, 7), Some(12));
//! let mut value = Vec::new();
//! huffman::decode(input, 100, &mut value)?;
//! assert_eq!(value, b"www.example.com");
//! # Ok::<(), huffman::Error>(())
//! ```
#![warn(clippy::disallowed_methods)]

mod budget;
mod codes;
pub mod huffman;
pub mod indexing;
pub mod integer;
mod priority;
pub mod string;

pub use budget::{Budget, Exhausted, Rate};
pub use priority::Priority;
