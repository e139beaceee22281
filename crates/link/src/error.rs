//! What can be wrong with the parameters of a link.

/// Parameters that make no link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A trace has no entry.
    #[error("the trace is empty")]
    EmptyTrace,
    /// A trace has too many entries.
    #[error("the trace has more than {most} entries")]
    LongTrace {
        /// [`Trace::MAX_ENTRIES`](crate::Trace::MAX_ENTRIES).
        most: usize,
    },
    /// An entry of a trace stands before the one in front of it.
    #[error("entry {entry} of the trace stands before the one in front of it")]
    TraceOrder {
        /// Which one, counted from 1.
        entry: usize,
    },
    /// The first step of a trace does not stand at time 0.
    #[error("the trace does not begin at time 0")]
    TraceStart,
    /// A trace that repeats lasts no time, or ends before its last step.
    #[error("the trace repeats before its last entry, or after no time")]
    TraceEnd,
    /// A trace passes nothing, ever.
    #[error("the trace passes nothing: every rate in it is 0")]
    TraceZero,
}
