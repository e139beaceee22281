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
//!
//! let plan = plans::text(plans::DEFAULT).expect("it ships").parse()?;
//! assert_eq!(schedule(&plan).len(), 30);
//! # Ok::<(), altway_record::PlanError>(())
//! ```

mod campaign;
mod ends;
mod error;
mod folder;
mod host;
pub mod plans;
mod progress;
mod schedule;

pub use campaign::{Campaign, Context, End};
pub use error::Error;
pub use folder::{RunFolder, read_run, write_whole};
pub use progress::{Estimate, Pace, Progress};
pub use schedule::{Transfer, schedule};
