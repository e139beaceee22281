//! Counters of a direction.

/// Counts of what happened so far. Sizes are IP bytes.
///
/// Conservation holds at every moment: `packets_in` and `packets_duplicated` together are the sum of
/// `packets_udp_dropped`, `packets_lost`, `packets_queue_dropped`, `packets_codel_dropped`,
/// `packets_over_limit`, `packets_out` and `packets_queued`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets offered to the link.
    pub packets_in: u64,
    /// Bytes offered to the link.
    pub bytes_in: u64,
    /// Copies that [`Config::duplication`](crate::Config::duplication) made.
    pub packets_duplicated: u64,
    /// Packets dropped for [`DropReason::Udp`](crate::DropReason::Udp).
    pub packets_udp_dropped: u64,
    /// Packets dropped for [`DropReason::Loss`](crate::DropReason::Loss).
    pub packets_lost: u64,
    /// Packets dropped for [`DropReason::QueueFull`](crate::DropReason::QueueFull).
    pub packets_queue_dropped: u64,
    /// Packets dropped for [`DropReason::CoDel`](crate::DropReason::CoDel).
    pub packets_codel_dropped: u64,
    /// Packets dropped for [`DropReason::TooManyPackets`](crate::DropReason::TooManyPackets).
    pub packets_over_limit: u64,
    /// Packets that came out.
    pub packets_out: u64,
    /// Bytes that came out.
    pub bytes_out: u64,
    /// Packets that came out with a flipped bit.
    pub packets_corrupted: u64,
    /// Packets that [`Config::reordering`](crate::Config::reordering) sent out of their order.
    pub packets_reordered: u64,
    /// Packets inside: waiting, in serialisation or on their way.
    pub packets_queued: u64,
    /// The most bytes that ever waited for or were in serialisation at once.
    pub bytes_backlog_max: u64,
}
