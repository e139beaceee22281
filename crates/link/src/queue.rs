//! Queue in front of the rate: how much may wait in it, and what is dropped when more comes.

use crate::Rate;
use altway_units::{Bandwidth, DataSize};
use std::time::Duration;

/// The default queue holds this much time of the rate …
const DEFAULT_QUEUE_TIME: Duration = Duration::from_millis(100);
/// … but at least this much, so that the initial window of a TCP or QUIC connection (10 packets,
/// RFC 6928 §2 and RFC 9002 §7.2) and the bursts of slow start fit at low rates too.
const DEFAULT_QUEUE_FLOOR: DataSize = DataSize::from_bytes(64 * 1024);

/// Amount that may wait for or be in serialisation; a packet that does not fit is dropped
/// (drop-tail).
///
/// Whatever the limit, a packet that finds the link idle is taken: a limit below the size of a packet
/// is a queue of one packet, not a black hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Queue {
    /// Room for at most so many IP bytes.
    Bytes(DataSize),
    /// Room for at most so many packets, whatever their size.
    Packets(u32),
    /// Room for as many bytes as the rate passes in that time; of a trace, its
    /// [mean rate](crate::Trace::mean).
    Time(Duration),
    /// No limit; [`Direction::MAX_PACKETS`](crate::Direction::MAX_PACKETS) still holds.
    #[default]
    Unlimited,
}

/// Rule by which packets of the queue are dropped. The limit of [`Queue`] holds beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discipline {
    /// Drops only those that don't fit in.
    #[default]
    DropTail,
    /// Drops those too that CoDel takes from the front while packets have waited for more than 5
    /// ms over 100 ms (RFC 8289).
    CoDel,
}

impl Queue {
    /// The queue to use when nothing else was said: 100 ms of the rate, but at least 64 KiB.
    ///
    /// 100 ms is one round trip of the longer paths of the Internet: enough for one Cubic
    /// connection to keep the link busy on paths up to that round-trip time, yet far from the
    /// seconds of a bloated buffer.
    ///
    /// | rate | queue | in time |
    /// |---|---|---|
    /// | 1 Mbit/s | 65,536 B | 524 ms |
    /// | 5 Mbit/s | 65,536 B | 105 ms |
    /// | 20 Mbit/s | 250,000 B | 100 ms |
    /// | 1 Gbit/s | 12,500,000 B | 100 ms |
    /// | a trace | as its mean rate | |
    /// | no rate | unlimited: nothing ever waits | 0 ms |
    #[must_use]
    pub fn default_for(rate: &Rate) -> Self {
        rate.mean().map_or(Self::Unlimited, |rate| {
            Self::Bytes(Self::default_bytes(rate))
        })
    }

    /// The size of the default queue of a rate.
    pub(crate) fn default_bytes(rate: Bandwidth) -> DataSize {
        rate.data_in(DEFAULT_QUEUE_TIME).max(DEFAULT_QUEUE_FLOOR)
    }

    /// Returns whether a packet of `size` fits behind the `bytes` and `packets` that are there.
    pub(crate) fn has_room(
        self,
        rate: &Rate,
        bytes: DataSize,
        packets: usize,
        size: DataSize,
    ) -> bool {
        packets == 0
            || match self {
                Self::Unlimited => true,
                Self::Bytes(limit) => bytes + size <= limit,
                Self::Packets(limit) => packets < limit as usize,
                Self::Time(limit) => rate
                    .mean()
                    .is_none_or(|rate| bytes + size <= rate.data_in(limit)),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_queue_is_100_ms_or_64_kib() {
        let bytes = |mbit| Queue::default_for(&Bandwidth::from_mbit(mbit).into());
        assert_eq!(bytes(1), Queue::Bytes(DataSize::from_bytes(65_536)));
        assert_eq!(bytes(5), Queue::Bytes(DataSize::from_bytes(65_536)));
        assert_eq!(bytes(20), Queue::Bytes(DataSize::from_bytes(250_000)));
        assert_eq!(bytes(1_000), Queue::Bytes(DataSize::from_bytes(12_500_000)));
        assert_eq!(Queue::default_for(&Rate::Unlimited), Queue::Unlimited);
    }
}
