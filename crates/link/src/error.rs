//! Errors in the parameters of a link.

use altway_units::{ParseError, Ratio};

/// Parameters that make no link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is not the parameter that it should be.
    #[error("`{text}` is not {what}: expected {expected}")]
    Text {
        /// The text that was found.
        text: String,
        /// The parameter that was expected, as a noun.
        what: &'static str,
        /// Forms that would have been right.
        expected: &'static str,
    },
    /// A number with its unit is none.
    #[error(transparent)]
    Quantity(ParseError),
    /// No link loses so much in bursts of that length.
    #[error(
        "{mean} of the packets can't be lost in bursts of {packets}: at least one packet lies \
         between two bursts"
    )]
    Bursts {
        /// The share to lose.
        mean: Ratio,
        /// The length of the bursts.
        packets: u32,
    },
    /// A line of a trace is wrong.
    #[error("line {line} of the trace: `{found}` is not {expected}")]
    TraceLine {
        /// Number of the line, counted from 1.
        line: usize,
        /// The text that stands there, or its beginning.
        found: String,
        /// The content that should stand there.
        expected: &'static str,
    },
    /// The text of a trace is too long.
    #[error("the trace has more than {most} bytes")]
    LongTraceText {
        /// [`Trace::MAX_TEXT`](crate::Trace::MAX_TEXT).
        most: usize,
    },
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
        /// Number of the entry, counted from 1.
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
