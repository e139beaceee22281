//! The quantities that altway computes with: [`Bandwidth`], [`DataSize`], [`Ratio`], [`RequestRate`], [`LeastRate`] and
//! [`Timestamp`], and the text form of [`Duration`](core::time::Duration); and parts of the Internet, a [`Network`] and the
//! [`PrefixLengths`] of addresses that count as one client.
//!
//! A number without a unit is the commonest mistake in network tools (is it bits or bytes, one way
//! or round trip?), so public signatures carry these types, and plain numbers appear only at the
//! JSON and CSV edge with the unit in the field's name. Every type parses what it prints.
//!
//! Left to others: statistics over many values (`stats`), and what a delay or a rate does to a
//! packet (`link`).
//!
//! ```
//! use altway_units::{Bandwidth, DataSize};
//! use std::time::Duration;
//!
//! let rate: Bandwidth = "20mbit".parse()?;
//! let page: DataSize = "1MB".parse()?;
//! assert_eq!(page / rate, Duration::from_millis(400));
//! # Ok::<(), altway_units::ParseError>(())
//! ```
#![warn(clippy::disallowed_methods)]

mod bandwidth;
mod data_size;
pub mod duration;
mod error;
mod least_rate;
mod network;
mod prefix_lengths;
mod ratio;
mod request_rate;
mod text;
mod timestamp;

pub use bandwidth::Bandwidth;
pub use data_size::DataSize;
pub use error::ParseError;
pub use least_rate::LeastRate;
pub use network::{BadNetwork, Network};
pub use prefix_lengths::{BadPrefixLengths, PrefixLengths};
pub use ratio::Ratio;
pub use request_rate::{RequestLimit, RequestRate};
pub use timestamp::Timestamp;
