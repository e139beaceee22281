//! Plans and results of the lab: a versioned schema in TOML, CSV and JSON.
//!
//! The one place that knows how a plan file, a sample row or a manifest is spelt, so that the lab,
//! the report and a reader's own scripts agree. Pure: text and values in, text and values out.
//! Left to others: running a plan (`lab`), computing statistics (`stats`), drawing (`report`).
#![warn(clippy::disallowed_methods)]

mod protocol;
mod request;

pub use protocol::{Protocol, UnknownProtocol};
pub use request::RequestRecord;
