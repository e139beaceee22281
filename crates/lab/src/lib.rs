//! The lab: a plan becomes cells, random interleaved blocks, transfers over an emulated link, and a
//! run folder.
//!
//! The lab drives the binary's own `serve` and `load` in the namespaces that `emulate` makes, so
//! that people and experiments share one path. A transfer is kept before the next begins: a run
//! can be stopped, killed or run out of disk, and be resumed.
//!
//! Left to others: what a plan and a row look like (`record`), the link (`emulate`), statistics
//! (`stats`), tables and pictures (`report`).
//!
//! ```
//! use altway_lab::{plans, schedule};
//! use altway_record::Shard;
//!
//! let plan = plans::read(plans::DEFAULT)?;
//! assert_eq!(schedule(&plan, Shard::WHOLE).len(), 45);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod browser;
mod checksums;
mod client;
mod coordinator;
mod environment;
mod error;
mod experiment;
mod export;
mod folder;
mod follow;
mod host;
mod image;
mod link_profile;
mod merge;
pub mod plans;
mod presets;
mod process;
mod processor_time;
mod progress;
mod rows;
mod schedule;
mod scheduler;
mod server;
mod side_by_side;
mod status;
mod stopping_rule;
mod table;
mod tar;
mod traces;
mod workers;
mod workspace;

pub use checksums::{changed_files, write_checksums};
pub use error::Error;
pub use experiment::{Context, End, Experiment};
pub use export::{Deposit, export};
pub use folder::{
    RunFolder, newest_run, read_run, read_run_or_samples, write_missing_plan, write_whole,
};
pub use follow::Follower;
pub use link_profile::BadLink;
pub use merge::merge;
pub use progress::{DurationEstimate, Estimate, Progress};
pub use schedule::{Transfer, schedule};
pub use scheduler::{RemainingTransfers, Scheduler};
pub use side_by_side::worker_count;
pub use status::{CellStatus, Status};
pub use traces::{MAX_TRACED, TRACES, TraceKinds, trace, traced, traced_transfers};
