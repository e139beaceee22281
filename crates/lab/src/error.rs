//! Why a run can't start, go on or be resumed.

use altway_record::{ManifestError, SampleError};
use std::io;
use std::path::PathBuf;

/// What hinders a run. Whatever was measured before is in the run folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder of the run can't be read or written.
    #[error("cannot {action} {}", path.display())]
    Folder {
        /// The attempted call, as a verb.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder holds no run.
    #[error("{} is not a run folder: it has no manifest.json", .0.display())]
    NoRun(PathBuf),
    /// Another altway is writing to the folder.
    #[error("{} is in use by another altway", .0.display())]
    InUse(PathBuf),
    /// The run's description can't be used.
    #[error("cannot use {}", path.display())]
    Manifest {
        /// Where.
        path: PathBuf,
        /// Why.
        source: ManifestError,
    },
    /// The run's rows can't be used.
    #[error("cannot use {}", path.display())]
    Samples {
        /// Where.
        path: PathBuf,
        /// Why.
        source: SampleError,
    },
    /// The run was begun by another build, whose transfers can't be compared with this one's.
    #[error("the run was begun by altway {begun}, this is altway {this}")]
    OtherBuild {
        /// Version and commit that began the run.
        begun: String,
        /// Version and commit of this program.
        this: String,
    },
    /// Namespaces or link can't be made.
    #[error("cannot set up the emulated network")]
    Network(#[from] altway_emulate::Error),
    /// The binary's own `serve`, `load` or `certs` can't be started or failed.
    #[error("`{command}` failed: {reason}")]
    Process {
        /// What was started.
        command: String,
        /// What it said or how it ended.
        reason: String,
    },
    /// Too many transfers in a row did not count.
    #[error("{attempts} transfers in a row did not count; the last one: {fault}")]
    Hopeless {
        /// How many.
        attempts: u32,
        /// Why the last one did not count.
        fault: String,
    },
}

impl Error {
    /// Whether the disk was full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Folder { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }
}
