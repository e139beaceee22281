//! Reasons why a run can't be reported, or compared with another.

use altway_record::Protocol;

/// Reason why a run can't be reported, or compared with another.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A sample of a cell that the plan does not have: manifest and samples are of different runs.
    #[error("sample {ordinal} is of cell {cell}, but the plan has {cells} cells")]
    UnknownCell {
        /// [`altway_record::Sample::ordinal`].
        ordinal: u64,
        /// The cell found.
        cell: u32,
        /// Number of cells that there are.
        cells: usize,
    },
    /// A sample of a protocol that the plan does not name.
    #[error("sample {ordinal} is of {protocol}, which the plan does not measure")]
    UnknownProtocol {
        /// [`altway_record::Sample::ordinal`].
        ordinal: u64,
        /// The protocol found.
        protocol: Protocol,
    },
    /// Two runs that do not measure the same thing.
    #[error("one run measures `{first}`, the other `{second}`: their times are of different kinds")]
    Scenarios {
        /// Scenario of the first run.
        first: String,
        /// Scenario of the second run.
        second: String,
    },
    /// Two runs whose plans don't begin with the same protocol.
    #[error("one run holds other protocols against {}, the other against {}", first.name(), second.name())]
    Baselines {
        /// Baseline of the first run.
        first: Protocol,
        /// Baseline of the second run.
        second: Protocol,
    },
    /// Two runs that hold different protocols against the same one.
    #[error("the runs hold no protocol in common against {}", first.name())]
    Seconds {
        /// The plans' first protocol.
        first: Protocol,
    },
    /// Two runs, or parts of one, that can't be held against each other.
    #[error("they have no measured cell in common: {differ}")]
    NoCommonCell {
        /// The conditions that are different everywhere.
        differ: String,
    },
    /// A run that has one value only of what it is to be compared by.
    #[error("the run has one {axis} only, {value}: there is nothing to compare it with")]
    OneValue {
        /// The axis.
        axis: &'static str,
        /// The value.
        value: String,
    },
    /// A run in which no protocol has a pair with the first.
    #[error("no pair of two protocols has been measured yet")]
    NothingMeasured,
    /// The plotting library gave up; its own words.
    #[error("the picture `{name}` can't be drawn: {message}")]
    Drawing {
        /// Name of the picture.
        name: String,
        /// Message of the library.
        message: String,
    },
}
