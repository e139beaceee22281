//! Why a run can't be reported.

use altway_record::Protocol;

/// Why a run can't be reported.
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
        /// How many there are.
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
    /// The plotting library gave up; its own words.
    #[error("the picture `{name}` can't be drawn: {message}")]
    Drawing {
        /// Name of the picture.
        name: String,
        /// What the library said.
        message: String,
    },
}
