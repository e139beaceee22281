//! Observations of a client's path: only numbers that decide something.

use crate::Congestion;
use altway_units::{Bandwidth, DataSize};
use std::time::Duration;

/// A response below this says nothing of the path's rate.
const LEAST_BULK: u64 = 256 * 1024;

/// A response that is not this many times what the path holds did not leave slow start long enough.
const LEAST_PATHS: f64 = 4.0;

/// Losses of a sender that takes loss for congestion, while round trips take longer than this beyond the least one, are
/// drops of the queue that it fills itself: a quarter of it, and 5 ms.
const QUEUE_SHARE: u32 = 4;
const QUEUE_TIME: Duration = Duration::from_millis(5);

/// The transport of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// HTTP/1.1 and HTTP/2.
    Tcp,
    /// HTTP/3.
    Quic,
}

/// The news of one connection since it was last observed. All fields may be left at their defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The connection's transport.
    pub transport: Transport,
    /// The congestion control of the connection's sender, the server. `None`: as configured in the selector.
    pub congestion: Option<Congestion>,
    /// The connection's least round-trip time.
    pub min_rtt: Option<Duration>,
    /// The connection's smoothed round-trip time (RFC 6298, RFC 9002 section 5.3).
    pub smoothed_rtt: Option<Duration>,
    /// Packets sent since it was last observed.
    pub packets_sent: u64,
    /// Packets among these that count as lost: over TCP those sent again.
    pub packets_lost: u64,
    /// Packets among the lost ones that had arrived after all (RFC 2883).
    pub packets_spurious: u64,
    /// A large response that is complete.
    pub bulk: Option<Bulk>,
    /// A page that is complete.
    pub page: Option<Page>,
}

/// The rate at which a response arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bulk {
    /// The size of the whole response.
    pub size: DataSize,
    /// Rate at which its second half, or more of it, was delivered.
    pub rate: Bandwidth,
    /// True if the server had nothing to send for a while in this part: the path may carry more.
    pub app_limited: bool,
}

/// A page: responses with pauses of less than a second between them. A page of which the client cancelled a part must
/// be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Bytes of the first response.
    pub first: DataSize,
    /// Bytes of all other responses.
    pub rest: DataSize,
    /// Number of responses.
    pub responses: u32,
    /// The state of the connection before the first request.
    pub start: Start,
    /// Time during which at least one response was in progress, up to the acknowledgement of its last byte. On a new
    /// connection it begins with the first packet; over TCP that is a round trip before the server accepts it.
    pub time: Duration,
    /// Part of `time` in which the path had nothing to do, because the application had begun none of the responses in
    /// progress. `None`: it paused, or the client did, while bytes may have been on their way, so that nobody knows which part
    /// the path took. Then the page shows what visitors load, and nothing of the path.
    pub waited: Option<Duration>,
}

impl Page {
    /// The time that the path took; `None` if it is not known.
    #[must_use]
    pub fn path_time(&self) -> Option<Duration> {
        Some(self.time.saturating_sub(self.waited?))
    }
}

/// The state of the connection when a page began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Start {
    /// The connection was open.
    Warm,
    /// The connection was new.
    Cold,
    /// The connection was new, and the request came in early data (RFC 8446 section 2.3).
    Early,
}

impl Observation {
    /// Nothing new on a connection of `transport`.
    #[must_use]
    pub const fn new(transport: Transport) -> Self {
        Self {
            transport,
            congestion: None,
            min_rtt: None,
            smoothed_rtt: None,
            packets_sent: 0,
            packets_lost: 0,
            packets_spurious: 0,
            bulk: None,
            page: None,
        }
    }

    /// Packets sent and lost by the path itself, under the sender's `congestion` control: lost ones that had arrived don't
    /// count. A sender that takes loss for congestion fills queues until they drop, so while one stands on its path nothing
    /// counts. One that goes by the rate keeps a queue without drops (BBR: up to twice what the path holds is under way), and
    /// would never show what its path loses.
    pub(crate) fn loss(&self, congestion: Congestion) -> (u64, u64) {
        let queue = match (self.min_rtt, self.smoothed_rtt) {
            (Some(least), Some(smoothed)) => smoothed > least + least / QUEUE_SHARE + QUEUE_TIME,
            _ => false,
        };
        if queue && congestion == Congestion::LossBased {
            return (0, 0);
        }
        let lost = self.packets_lost.saturating_sub(self.packets_spurious);
        (self.packets_sent, lost.min(self.packets_sent))
    }
}

/// The rate of a path as a response shows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rate {
    /// Bit/s.
    Known(f64),
    /// A rate of at least the given number of bit/s.
    AtLeast(f64),
}

impl Bulk {
    pub(crate) fn rate(&self, min_rtt: Option<Duration>) -> Rate {
        let (rate, bytes) = (self.rate.as_bps() as f64, self.size.as_bytes());
        let held = rate * min_rtt.unwrap_or_default().as_secs_f64() / 8.0;
        let large = bytes >= LEAST_BULK && bytes as f64 >= LEAST_PATHS * held;
        if large && !self.app_limited {
            Rate::Known(rate)
        } else {
            Rate::AtLeast(rate)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);
    const CUBIC: Congestion = Congestion::LossBased;

    fn seen(smoothed: Duration) -> Observation {
        Observation {
            min_rtt: Some(RTT),
            smoothed_rtt: Some(smoothed),
            packets_sent: 100,
            packets_lost: 5,
            packets_spurious: 2,
            ..Observation::new(Transport::Tcp)
        }
    }

    #[test]
    fn spurious_losses_are_none() {
        assert_eq!(seen(RTT).loss(CUBIC), (100, 3));
    }

    #[test]
    fn drops_of_a_standing_queue_are_not_the_paths_loss() {
        let limit = RTT + Duration::from_millis(15);
        let nanosecond = Duration::from_nanos(1);
        assert_eq!(seen(limit - nanosecond).loss(CUBIC), (100, 3));
        assert_eq!(seen(limit).loss(CUBIC), (100, 3));
        assert_eq!(seen(limit + nanosecond).loss(CUBIC), (0, 0));
    }

    #[test]
    fn losses_of_a_sender_that_goes_by_the_rate_are_the_paths_whatever_its_queue() {
        assert_eq!(seen(2 * RTT).loss(Congestion::RateBased), (100, 3));
    }

    #[test]
    fn more_losses_than_packets_are_all_of_them() {
        let mut seen = seen(RTT);
        seen.packets_lost = 1_000;
        assert_eq!(seen.loss(CUBIC), (100, 100));
        seen.packets_spurious = 2_000;
        assert_eq!(seen.loss(CUBIC), (100, 0));
    }

    fn bulk(bytes: u64, app_limited: bool) -> Rate {
        let size = DataSize::from_bytes(bytes);
        let rate = "80mbit".parse().unwrap();
        Bulk {
            size,
            rate,
            app_limited,
        }
        .rate(Some(RTT))
    }

    #[test]
    fn a_rate_is_known_from_four_times_what_the_path_holds() {
        // 80 Mbit/s and 40 ms hold 400,000 bytes.
        assert_eq!(bulk(1_599_999, false), Rate::AtLeast(8e7));
        assert_eq!(bulk(1_600_000, false), Rate::Known(8e7));
        assert_eq!(bulk(1_600_001, false), Rate::Known(8e7));
        assert_eq!(bulk(1_600_001, true), Rate::AtLeast(8e7));
    }

    #[test]
    fn a_rate_is_known_from_256_kib_on() {
        let known = |bytes| {
            let size = DataSize::from_bytes(bytes);
            let rate = "1mbit".parse().unwrap();
            let bulk = Bulk {
                size,
                rate,
                app_limited: false,
            };
            matches!(bulk.rate(None), Rate::Known(_))
        };
        assert!(!known(LEAST_BULK - 1) && known(LEAST_BULK) && known(LEAST_BULK + 1));
    }
}
