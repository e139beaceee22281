//! The log of every packet at both ends of a link, as a pcapng file.
//!
//! The link thread must never wait for a disk. It puts the blocks of the file into chunks of memory;
//! a thread of its own takes the full ones, writes them, and hands them back empty:
//!
//! ```text
//!              full, or old enough
//! link thread ────────────────────▶ writer thread ──▶ FILE
//!             ◀────────────────────
//!                    empty
//! ```
//!
//! Packets that find no empty chunk are counted instead of logged: the log has a hole, and the
//! link is on time. Left to others: what is logged, and when (the link thread).

mod pcapng;
mod recorder;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use recorder::{Entry, PacketEvent, Recorder, Side};
pub(crate) use writer::PacketLog;

use serde::{Deserialize, Serialize};

/// Counters of a packet log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogReport {
    /// Packets in the log, counted at each end.
    pub packets_logged: u64,
    /// Packets that are not in the log, because the disk was too slow.
    pub packets_missed: u64,
    /// Reason why nothing is written any more; none while all is well.
    pub error: Option<String>,
}
