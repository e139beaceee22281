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
mod cell;
mod certificate;
mod damage;
mod ends;
mod har;
mod initial_window;
mod link;
mod manifest;
mod parquet;
mod plan;
mod policy;
mod protocol;
mod queue;
mod rate;
mod reconstruct;
mod reference;
mod request;
mod sample;
mod scenario;
mod shard;
mod short_text;
mod side_by_side;
mod summary;
mod time_out;
mod traced;
mod visit;
mod words;

pub use altway_document::{File, Place, UnknownWord};
pub use axis::{AxisError, MAX_AXIS_VALUES};
pub use cell::Cell;
pub use certificate::{Certificate, Chain, ChainName, MAX_CHAIN_NAME, MadeCertificate};
pub use damage::Damage;
pub use ends::{
    BadServerName, Client, Congestion, Connection, MAX_SERVER_NAME, ServerCommand, ServerName,
    Topology,
};
pub use har::HarError;
pub use initial_window::{BadInitialWindow, InitialWindow};
pub use link::{
    BadLinkName, LinkChange, LinkName, LinkWords, MAX_LINK_NAME, MAX_LINK_TRACE, MAX_LINK_WORDS,
};
pub use manifest::{
    Build, ConcurrencyCheck, Host, LinkSettings, Manifest, ManifestError, Network, Part, Running,
    SCHEMA_VERSION, SCHEMA_VERSIONS_READ,
};
pub use parquet::{PARQUET_FROM_ROWS, parquet};
pub use plan::{
    Arm, DEFAULT_MTU, Files, KEYS as PLAN_KEYS, LEAST_MTU, MAX_ENVIRONMENTS, MAX_INCLUDES,
    MAX_PAIRS, MAX_TRANSFERS, MAX_WARM_UPS, Placement, Plan, PlanError, RUN_PLAN, Sampling,
    Stopping,
};
pub use policy::Policy;
pub use protocol::{Protocol, UnknownProtocol};
pub use queue::QueueLimit;
pub use rate::Rate;
pub use reconstruct::{ReconstructError, UNNAMED_PLAN};
pub use reference::{
    ReferenceError, ReferenceRow, STATED_CONDITIONS, StatedConditions, read_reference,
};
pub use request::RequestRecord;
pub use sample::{
    CSV_HEADER, Sample, SampleError, csv_row, csv_rows, read_samples, read_whole, transfers,
};
pub use scenario::{
    LEAST_IMAGE, MAX_OBJECTS, MAX_REPORTED_OBJECTS, MAX_VISITS, Mixed, OPENER_SIZE, Page, Repeat,
    Scenario, object_path,
};
pub use shard::{BadShard, Shard};
pub use side_by_side::{BadSideBySide, SideBySide};
pub use summary::SummaryRow;
pub use time_out::{BadTimeOut, TimeOut};
pub use traced::{Traced, trace_content};
pub use visit::{After, MAX_VISIT_REQUESTS, Sessions, Visit, VisitError, VisitRequest};

/// The version of the plan's schema (docs/data/plan.md).
pub const PLAN_SCHEMA_VERSION: u32 = 2;

/// The default of keys that files of earlier versions do not have.
fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_plan_is_documented() {
        let text = include_str!("../../../docs/data/plan.md");
        for key in PLAN_KEYS {
            assert!(text.contains(&format!("`{key}`")), "{key}");
        }
    }

    #[test]
    fn every_column_is_documented_and_has_its_version() {
        let text = include_str!("../../../docs/data/run-folder.md");
        for column in CSV_HEADER.trim_end().split(',') {
            assert!(text.contains(&format!("`{column}`")), "{column}");
        }
        let index = include_str!("../../../docs/data/README.md");
        assert!(index.contains(&format!(
            "`*.toml` | [plan.md](plan.md) | schema {PLAN_SCHEMA_VERSION} |"
        )));
        assert!(index.contains(&format!(
            "[run-folder.md](run-folder.md) | schema {SCHEMA_VERSION} |"
        )));
    }
}
