//! Reasons why a run can't start, go on or be resumed.

use crate::BadLink;
use altway_record::{Client, ManifestError, Protocol, ReconstructError, SampleError, Shard};
use std::io;
use std::path::PathBuf;

/// Error that hinders a run. Whatever was measured before is in the run folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder of the run can't be read or written.
    #[error("cannot {action} {}", path.display())]
    Folder {
        /// The attempted call, as a verb.
        action: &'static str,
        /// The place.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The folder holds no run.
    #[error("{} is not a run folder: it has no manifest.json", .0.display())]
    NoRun(PathBuf),
    /// Files of the folder are not what they were when its report was written.
    #[error("{} is not what SHA256SUMS says: {}", run.display(), files.join(", "))]
    Changed {
        /// The run folder.
        run: PathBuf,
        /// The files that changed or are gone.
        files: Vec<String>,
    },
    /// The rows make no run by themselves.
    #[error("cannot use {}", path.display())]
    Alone {
        /// The file with the rows.
        path: PathBuf,
        /// The cause.
        source: ReconstructError,
    },
    /// A cell that was chosen by its number is none of the plan's.
    #[error("there is no cell {number} in this plan")]
    NoCell {
        /// The number.
        number: u32,
    },
    /// The transfers chosen to be traced are too many.
    #[error(
        "{count} transfers are too many to trace: at most {}",
        crate::MAX_TRACED
    )]
    ManyTraces {
        /// Number of them.
        count: usize,
    },
    /// The folder is in use by another altway that writes to it.
    #[error("{} is in use by another altway", .0.display())]
    InUse(PathBuf),
    /// The run's description can't be used.
    #[error("cannot use {}", path.display())]
    Manifest {
        /// The place.
        path: PathBuf,
        /// The cause.
        source: ManifestError,
    },
    /// The run's rows can't be used.
    #[error("cannot use {}", path.display())]
    Samples {
        /// The place.
        path: PathBuf,
        /// The cause.
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
    /// The run is of an older schema, which can be read and drawn but not gone on with.
    #[error("the run has schema version {found}: it can be read, but not gone on with")]
    OldSchema {
        /// The version found.
        found: u32,
    },
    /// A server of the plan is not there.
    #[error("the server `{name}` is not installed")]
    NoServer {
        /// The name in the plan.
        name: String,
    },
    /// A congestion control of the plan is none of the kernel's.
    #[error("this kernel has no congestion control `{name}`: it has {available}")]
    NoCongestion {
        /// The kernel's name of it.
        name: &'static str,
        /// The algorithms that it has, separated by blanks.
        available: String,
    },
    /// A client of the plan is not there.
    #[error("the client `{client}` is not installed")]
    NoClient {
        /// The client.
        client: Client,
    },
    /// A browser did not do what it was told.
    #[error("{browser} could not load the page")]
    Browser {
        /// The browser.
        browser: Client,
        /// Message of the browser, or the manner of its end.
        source: io::Error,
    },
    /// A program does not speak what the plan measures.
    #[error("{program} speaks no {}", protocol.name())]
    UnsupportedProtocol {
        /// Version that the program prints.
        program: String,
        /// Protocol that it should speak.
        protocol: Protocol,
    },
    /// A client of a plan of policies can't hear what it is offered.
    #[error("{program} was built without alt-svc: it can't hear what a server offers")]
    NoAltSvc {
        /// Version that the program prints.
        program: String,
    },
    /// A server runs but does not answer.
    #[error("the server `{server}` does not answer over {}", protocol.name())]
    Silent {
        /// The name in the plan.
        server: String,
        /// Protocol over which it was asked.
        protocol: Protocol,
    },
    /// A part of the plan has no cells.
    #[error("shard {shard} of the plan has nothing to measure")]
    EmptyShard {
        /// The part.
        shard: Shard,
    },
    /// Runs that don't belong together.
    #[error("{} can't be merged with {}: {reason}", second.display(), first.display())]
    DifferentRuns {
        /// The first of the runs.
        first: PathBuf,
        /// The one that does not fit.
        second: PathBuf,
        /// The difference.
        reason: String,
    },
    /// A link of the plan can't be.
    #[error(transparent)]
    Link(#[from] BadLink),
    /// Processors of the plan can't be read.
    #[error(transparent)]
    Processors(#[from] altway_emulate::ProcessorsError),
    /// Namespaces or link can't be made.
    #[error("cannot set up the emulated network")]
    Network(#[from] altway_emulate::Error),
    /// The binary's own `serve`, `load` or `certs` can't be started or failed.
    #[error("`{command}` failed: {reason}")]
    Process {
        /// Command that was started.
        command: String,
        /// Message of the process, or the manner of its end.
        reason: String,
    },
    /// Too many transfers in a row did not count.
    #[error("{attempts} transfers in a row did not count; the last one: {fault}")]
    TooManyFailures {
        /// Number of them.
        attempts: u32,
        /// Reason why the last one did not count.
        fault: String,
    },
}

impl Error {
    /// Returns whether the disk was full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Folder { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }
}
