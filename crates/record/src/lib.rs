//! Plans and results of the lab: a versioned schema in TOML, CSV and JSON.
//!
//! The one place that knows how a plan file, a sample row or a manifest is spelt, so that the lab,
//! the report and a reader's own scripts agree. Pure: text and values in, text and values out.
//! Left to others: running a plan (`lab`), computing statistics (`stats`), drawing (`report`).
//!
//! ```
//! use altway_record::{CSV_HEADER, read_samples};
//!
//! assert!(read_samples(CSV_HEADER)?.is_empty());
//! # Ok::<(), altway_record::SampleError>(())
//! ```
#![warn(clippy::disallowed_methods)]

mod axis;
mod manifest;
mod plan;
mod protocol;
mod rate;
mod request;
mod sample;
mod summary;

pub use axis::{AxisError, MAX_AXIS_VALUES};
pub use manifest::{Host, LinkSettings, Manifest, ManifestError, SCHEMA_VERSION};
pub use plan::{Cell, Congestion, MAX_PAIRS, MAX_TRANSFERS, Plan, PlanError};
pub use protocol::{Protocol, UnknownProtocol};
pub use rate::Rate;
pub use request::RequestRecord;
pub use sample::{CSV_HEADER, Sample, SampleError, csv_row, read_samples, whole_length};
pub use summary::SummaryRow;
