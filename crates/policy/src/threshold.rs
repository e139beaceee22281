//! HTTP/3 from a round-trip time or a loss on.

use crate::decision::{AltSvc, Decision, MAX_AGE, Offer, Reason};
use altway_path::PathStatistics;
use altway_units::Ratio;
use std::time::Duration;

/// One round trip saved in the hand-shake is worth more than QUIC's cost per packet from about here
/// on: the two environments of CRO-4 cross over at 45–50 ms.
const DEFAULT_MIN_RTT: Duration = Duration::from_millis(50);

/// Above this, lost packets that stall every stream of a TCP connection weigh more than the
/// processor's time: in SEL-6 HTTP/3 wins nearly everywhere from 1 % on.
const DEFAULT_LOSS_PERCENT: u32 = 1;

/// Below this many packets the loss is not judged: of fewer than 100 a single lost one would
/// already be more than 1 %.
const ENOUGH_PACKETS: u64 = 100;

/// Offers HTTP/3 to clients whose path is long or lossy (SEL-5 in its simplest form).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// HTTP/3 from this smallest round-trip time on, whatever the loss. Default 50 ms.
    pub min_rtt: Duration,
    /// HTTP/3 from this loss on, whatever the round-trip time; judged from 100 packets on.
    /// Default 1 %.
    pub loss: Ratio,
}

impl Default for Threshold {
    fn default() -> Self {
        Self {
            min_rtt: DEFAULT_MIN_RTT,
            loss: Ratio::from_percent(DEFAULT_LOSS_PERCENT).expect("1 is at most 100"),
        }
    }
}

impl Threshold {
    pub(crate) fn decide(&self, path: Option<&PathStatistics>) -> Decision {
        let reason = path.map_or(Reason::UnknownPath, |path| self.reason(path));
        match reason {
            // Left out, not `clear`: the short life of the earlier offer ends it (SEL-3), while
            // `clear` would cost Chromium a connection in the middle of a page.
            Reason::ShortAndClean { .. } | Reason::ShortAndFewPackets { .. } => Decision {
                offer: Offer::Http2,
                alt_svc: AltSvc::Omit,
                reason,
            },
            _ => Decision {
                offer: Offer::Http3,
                alt_svc: AltSvc::Advertise { max_age: MAX_AGE },
                reason,
            },
        }
    }

    fn reason(&self, path: &PathStatistics) -> Reason {
        let PathStatistics {
            min_rtt,
            loss,
            packets,
            ..
        } = *path;
        if min_rtt >= self.min_rtt {
            let threshold = self.min_rtt;
            return Reason::LongRtt { min_rtt, threshold };
        }
        if packets < ENOUGH_PACKETS {
            return Reason::ShortAndFewPackets { min_rtt, packets };
        }
        if loss >= self.loss {
            let threshold = self.loss;
            return Reason::Lossy { loss, threshold };
        }
        Reason::ShortAndClean { min_rtt, loss }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);
    const TICK: Duration = Duration::from_nanos(1);
    const LOSS: u32 = 10_000_000;

    fn path(min_rtt: Duration, loss_ppb: u32, packets: u64) -> PathStatistics {
        PathStatistics {
            min_rtt,
            loss: Ratio::from_parts_per_billion(loss_ppb).unwrap(),
            packets,
            updated: Duration::ZERO,
        }
    }

    fn check(path: &PathStatistics, offer: Offer, reason: Reason) {
        let decision = Threshold::default().decide(Some(path));
        assert_eq!((decision.offer, decision.reason), (offer, reason));
        let advertised = matches!(decision.alt_svc, AltSvc::Advertise { .. });
        assert_eq!(advertised, offer == Offer::Http3);
        assert_ne!(decision.alt_svc, AltSvc::Clear);
    }

    #[test]
    fn offers_http3_from_the_rtt_threshold_on() {
        let threshold = RTT;
        for min_rtt in [RTT, RTT + TICK] {
            let reason = Reason::LongRtt { min_rtt, threshold };
            check(&path(min_rtt, 0, 1000), Offer::Http3, reason);
        }
        let (min_rtt, loss) = (RTT - TICK, Ratio::ZERO);
        let reason = Reason::ShortAndClean { min_rtt, loss };
        check(&path(min_rtt, 0, 1000), Offer::Http2, reason);
    }

    #[test]
    fn offers_http3_from_the_loss_threshold_on() {
        let min_rtt = Duration::from_millis(1);
        let threshold = Threshold::default().loss;
        for parts in [LOSS, LOSS + 1] {
            let path = path(min_rtt, parts, 1000);
            let loss = path.loss;
            check(&path, Offer::Http3, Reason::Lossy { loss, threshold });
        }
        let path = path(min_rtt, LOSS - 1, 1000);
        let loss = path.loss;
        check(&path, Offer::Http2, Reason::ShortAndClean { min_rtt, loss });
    }

    #[test]
    fn judges_the_loss_only_from_enough_packets_on() {
        let min_rtt = Duration::from_millis(1);
        let packets = ENOUGH_PACKETS - 1;
        let reason = Reason::ShortAndFewPackets { min_rtt, packets };
        check(&path(min_rtt, 5 * LOSS, packets), Offer::Http2, reason);
        for packets in [ENOUGH_PACKETS, ENOUGH_PACKETS + 1] {
            let decision = Threshold::default().decide(Some(&path(min_rtt, 5 * LOSS, packets)));
            assert_eq!(decision.offer, Offer::Http3);
        }
    }

    #[test]
    fn a_long_path_gets_http3_however_few_packets_it_saw() {
        let decision = Threshold::default().decide(Some(&path(RTT, 0, 0)));
        assert_eq!(decision.offer, Offer::Http3);
    }

    #[test]
    fn an_unknown_path_gets_http3_so_that_it_is_measured() {
        let decision = Threshold::default().decide(None);
        assert_eq!(decision.offer, Offer::Http3);
        assert_eq!(decision.reason, Reason::UnknownPath);
        assert_eq!(decision.alt_svc, AltSvc::Advertise { max_age: MAX_AGE });
    }
}
