//! HTTP/2 (RFC 9113), for servers and clients, sans-IO.
//!
//! So far: HPACK (RFC 7541) and [`FieldBlock`], a list of fields made once and sent often.
//!
//! ```
//! use altway_http2::{FieldBlock, Indexing};
//! use http::HeaderMap;
//!
//! let mut fields = HeaderMap::new();
//! fields.insert("content-type", "text/html".parse()?);
//! let block = FieldBlock::from_headers(&fields, Indexing::Incremental);
//! assert_eq!(block.list_size(), 12 + 9 + 32);
//! # Ok::<(), http::header::InvalidHeaderValue>(())
//! ```
#![warn(clippy::disallowed_methods)]

#[cfg_attr(not(test), expect(dead_code, reason = "the engine follows"))]
mod field;
mod field_block;
#[cfg_attr(
    not(test),
    expect(dead_code, unused_imports, reason = "the engine follows")
)]
mod hpack;

pub use field_block::{FieldBlock, Indexing};
