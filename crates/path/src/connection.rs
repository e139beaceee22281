//! What one connection tells of its path, whichever transport it uses.
//!
//! The transports count differently, and no two tell the same: here their counters have one name,
//! one unit and one meaning each, and what a transport can't know is `None`. Reading the transports
//! is left to others (`serve`); this only says what came since the last look.

use crate::{PathStatistics, Sample, Transport};
use altway_units::{Bandwidth, DataSize, Ratio};
use std::time::Duration;

/// One connection's counters since its beginning, and its path as it is now.
///
/// Bytes are the transport's own: with TCP the payload of its segments, with QUIC that of UDP
/// datagrams. Rate and MTU count IP packets, as the rate of a link does, so that they compare with
/// each other over both transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionStatistics {
    /// Who measured.
    pub transport: Transport,
    /// Smallest round-trip time: with TCP of the last minutes, with QUIC of this path. `None` before
    /// the first sample.
    pub min_rtt: Option<Duration>,
    /// Smoothed round-trip time (RFC 6298 and RFC 9002 section 5.3). `None` before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// How far round-trip times stray from the smoothed one: the mean deviation, smoothed (the
    /// `rttvar` of both RFCs). `None` before the first sample.
    pub rtt_variation: Option<Duration>,
    /// Packets sent, retransmissions included; with TCP those that carried data, with QUIC all.
    pub packets_sent: u64,
    /// Bytes in them. `None` with TCP before Linux 4.19.
    pub bytes_sent: Option<DataSize>,
    /// Packets that the peer acknowledged; with QUIC, those on this path that ask for an
    /// acknowledgement. `None` with TCP before Linux 4.18.
    pub packets_acked: Option<u64>,
    /// Bytes in them; with TCP each byte counts once, however often it was sent.
    pub bytes_acked: DataSize,
    /// Packets lost: with TCP those sent again, with QUIC those that RFC 9002 section 6 declares lost.
    pub packets_lost: u64,
    /// Bytes in them. `None` with TCP before Linux 4.19.
    pub bytes_lost: Option<DataSize>,
    /// Of the packets that count as lost, those that had arrived after all: with TCP what the peer
    /// reports to have had twice (RFC 2883). `None` with TCP before Linux 4.19 and with QUIC, whose
    /// engine forgets a packet once it is declared lost.
    pub packets_spurious: Option<u64>,
    /// How fast the path delivered lately. `None` before the first sample.
    pub delivery_rate: Option<DeliveryRate>,
    /// How much may be under way unacknowledged (RFC 5681, RFC 9002 section 7).
    pub congestion_window: DataSize,
    /// The largest IP packet that the path is known to carry.
    pub mtu: DataSize,
    /// From the first packet to both sides' keys; over TCP from the accepted connection to the end of
    /// TLS's hand-shake. `None` before that, and without TLS.
    pub handshake: Option<Duration>,
    /// How many exchanges were timed: with QUIC all whose responses arrived, with TCP samples.
    pub exchanges: u64,
    /// The latest of them.
    pub exchange: Option<Exchange>,
}

/// How long a client waited for a whole response, as the server can know it: until the last byte was
/// acknowledged, and not until it was written, which a large socket buffer makes meaningless.
///
/// What is longer than the transfer itself: the time that the application took, half a round trip (the
/// acknowledgement's way back), and how long the client waits with an acknowledgement, 40 ms at most
/// with Linux' TCP and 25 ms with QUIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// From the request's head to the acknowledgement of the response's last byte. With QUIC exact.
    /// With TCP late by up to a tick of the kernel (1 to 10 ms); where the client had sent something
    /// else by the time of looking, by up to a quarter.
    pub time: Duration,
    /// Of the response. With QUIC without frame headers; with HTTP/2 with them; with HTTP/1.1 the
    /// body alone.
    pub response: DataSize,
}

/// How fast data reached the peer during about one round trip: the latest sample of the delivery-rate
/// estimation of `draft-cheng-iccrg-delivery-rate-estimation`, which the kernel follows as well.
///
/// An application-limited sample counts only if it is not below the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryRate {
    /// In bits of IP packets, all of them taken for full ones: the rate of the bottleneck if this
    /// connection alone keeps it busy.
    pub rate: Bandwidth,
    /// The application had nothing more to send: the path may carry more than that.
    pub app_limited: bool,
}

impl ConnectionStatistics {
    /// What came since `before`, an earlier look at the same connection (`None`: since its
    /// beginning), as of the time `at` since the server's start. `None` before the first round trip,
    /// and when nothing was sent, lost or found faster since. Counters that run backwards (a QUIC path
    /// that migrated) add nothing.
    #[must_use]
    pub fn since(&self, before: Option<&Self>, at: Duration) -> Option<Sample> {
        let known = |it: &Self| (it.min_rtt, it.packets_sent, it.packets_lost);
        if before.is_some_and(|before| known(before) == known(self)) {
            return None;
        }
        let (_, sent, lost) = before.map_or((None, 0, 0), known);
        Some(Sample {
            transport: self.transport,
            at,
            min_rtt: self.min_rtt?,
            packets_sent: self.packets_sent.saturating_sub(sent),
            packets_lost: self.packets_lost.saturating_sub(lost),
        })
    }

    /// The path as this connection alone knows it at the time `at` since the server's start; `None`
    /// before the first round trip.
    #[must_use]
    pub fn path(&self, at: Duration) -> Option<PathStatistics> {
        Some(PathStatistics {
            min_rtt: self.min_rtt?,
            loss: Ratio::of(self.packets_lost, self.packets_sent).unwrap_or(Ratio::ZERO),
            packets: self.packets_sent,
            updated: at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::from_secs(5);

    fn seen(min_rtt_ms: u64, sent: u64, lost: u64) -> ConnectionStatistics {
        let min_rtt = (min_rtt_ms > 0).then(|| Duration::from_millis(min_rtt_ms));
        ConnectionStatistics {
            transport: Transport::Quic,
            min_rtt,
            smoothed_rtt: min_rtt,
            rtt_variation: None,
            packets_sent: sent,
            bytes_sent: None,
            packets_acked: None,
            bytes_acked: DataSize::ZERO,
            packets_lost: lost,
            bytes_lost: None,
            packets_spurious: None,
            delivery_rate: None,
            congestion_window: DataSize::ZERO,
            mtu: DataSize::from_bytes(1_500),
            handshake: None,
            exchanges: 0,
            exchange: None,
        }
    }

    /// The packets sent and lost between two looks.
    fn between(before: &ConnectionStatistics, now: &ConnectionStatistics) -> Option<(u64, u64)> {
        let sample = now.since(Some(before), AT)?;
        assert_eq!((sample.at, sample.transport), (AT, Transport::Quic));
        Some((sample.packets_sent, sample.packets_lost))
    }

    #[test]
    fn the_first_look_counts_everything() {
        let sample = seen(3, 100, 1).since(None, AT).unwrap();
        assert_eq!((sample.packets_sent, sample.packets_lost), (100, 1));
        assert_eq!(sample.min_rtt, Duration::from_millis(3));
    }

    #[test]
    fn a_later_look_counts_what_is_new() {
        assert_eq!(between(&seen(3, 100, 1), &seen(3, 200, 4)), Some((100, 3)));
        assert_eq!(between(&seen(3, 100, 1), &seen(3, 100, 2)), Some((0, 1)));
        assert_eq!(between(&seen(3, 100, 1), &seen(2, 100, 1)), Some((0, 0)));
    }

    #[test]
    fn a_look_that_finds_nothing_new_says_nothing() {
        let faster = DeliveryRate {
            rate: "5mbit".parse().unwrap(),
            app_limited: true,
        };
        let mut now = seen(3, 100, 1);
        now.delivery_rate = Some(faster);
        assert_eq!(between(&seen(3, 100, 1), &now), None);
    }

    #[test]
    fn a_connection_knows_its_own_path() {
        let path = seen(3, 200, 1).path(AT).unwrap();
        assert_eq!(path.min_rtt, Duration::from_millis(3));
        assert_eq!(
            (path.loss.to_string().as_str(), path.packets),
            ("0.5%", 200)
        );
        assert_eq!(path.updated, AT);
        assert_eq!(seen(0, 200, 1).path(AT), None);
    }

    #[test]
    fn nothing_is_said_before_the_first_round_trip() {
        assert_eq!(seen(0, 2, 0).since(None, AT), None);
    }

    #[test]
    fn counters_that_start_anew_add_nothing() {
        assert_eq!(between(&seen(3, 100, 5), &seen(3, 10, 0)), Some((0, 0)));
    }
}
