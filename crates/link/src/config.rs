//! What one direction of a link is like.

use altway_units::{Bandwidth, DataSize, Ratio};
use std::time::Duration;

/// The default queue holds this much time of the rate …
const DEFAULT_QUEUE_TIME: Duration = Duration::from_millis(100);
/// … but at least this much, so that the initial window of a TCP or QUIC connection (10 packets,
/// RFC 6928 §2 and RFC 9002 §7.2) and the bursts of slow start fit at low rates too.
const DEFAULT_QUEUE_FLOOR: DataSize = DataSize::from_bytes(64 * 1024);

/// The parameters of one direction.
///
/// The default is a link that changes nothing: no rate limit, no delay, no loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Config {
    /// The rate in IP bits per second; `None` for no limit, and then there is no queue either.
    pub rate: Option<Bandwidth>,
    /// The one-way delay that follows serialisation. A round trip over two such directions takes
    /// twice that.
    pub delay: Duration,
    /// The probability that a packet is lost, each independently of the others.
    pub loss: Ratio,
    /// The queue in front of the rate; without effect when there is no rate.
    pub queue: Queue,
}

/// How many IP bytes may wait for or be in serialisation; what does not fit is dropped (drop-tail).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Queue {
    /// At most that many bytes. A packet that finds the link idle is always taken, so a limit below
    /// the size of a packet is a queue of one packet, not a black hole.
    Bytes(DataSize),
    /// No limit in bytes; [`Direction::MAX_PACKETS`](crate::Direction::MAX_PACKETS) still holds.
    #[default]
    Unlimited,
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
    /// | no rate | unlimited: nothing ever waits | 0 ms |
    #[must_use]
    pub fn default_for(rate: Option<Bandwidth>) -> Self {
        rate.map_or(Self::Unlimited, |rate| {
            Self::Bytes(rate.data_in(DEFAULT_QUEUE_TIME).max(DEFAULT_QUEUE_FLOOR))
        })
    }

    /// Whether `size` more bytes fit behind the `backlog` that is there.
    pub(crate) fn has_room(self, backlog: DataSize, size: DataSize) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Bytes(limit) => backlog == DataSize::ZERO || backlog + size <= limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_queue_is_100_ms_or_64_kib() {
        let bytes = |mbit| Queue::default_for(Bandwidth::from_mbit(mbit));
        assert_eq!(bytes(1), Queue::Bytes(DataSize::from_bytes(65_536)));
        assert_eq!(bytes(5), Queue::Bytes(DataSize::from_bytes(65_536)));
        assert_eq!(bytes(20), Queue::Bytes(DataSize::from_bytes(250_000)));
        assert_eq!(bytes(1_000), Queue::Bytes(DataSize::from_bytes(12_500_000)));
        assert_eq!(Queue::default_for(None), Queue::Unlimited);
    }
}
