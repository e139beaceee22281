//! HTTP/3 from a round-trip time or a loss on.

use super::{Context, Judgement, Model, OfferMode};
use crate::decision::Reason;
use altway_units::Ratio;
use std::time::Duration;

/// A single lost packet of fewer than this would already be more than 1 %.
const ENOUGH_PACKETS: f64 = 100.0;

/// Offers HTTP/3 to clients whose path is long or lossy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// HTTP/3 from this round-trip time on, whatever the loss. Default 50 ms.
    pub min_rtt: Duration,
    /// HTTP/3 from this loss on, whatever the round-trip time; judged from 100 packets on. Default 1 %.
    pub loss: Ratio,
}

impl Default for Threshold {
    fn default() -> Self {
        Self {
            min_rtt: Duration::from_millis(50),
            loss: Ratio::from_percent(1).unwrap_or(Ratio::ONE),
        }
    }
}

impl Model for Threshold {
    fn judge(&self, context: &Context<'_>) -> Judgement {
        let (http3, reason) = self.reason(context);
        Judgement {
            http3,
            reason,
            prediction: None,
            offer_mode: OfferMode::Long,
        }
    }
}

impl Threshold {
    fn reason(&self, context: &Context<'_>) -> (bool, Reason) {
        let Some(min_rtt) = context.rtt().map(Duration::from_secs_f64) else {
            return (true, Reason::UnknownPath);
        };
        if min_rtt >= self.min_rtt {
            return (
                true,
                Reason::LongRtt {
                    min_rtt,
                    threshold: self.min_rtt,
                },
            );
        }
        let (sent, lost) = context.packets();
        if sent < ENOUGH_PACKETS {
            // Unknown is neither high nor low: the client stays where it is.
            return (
                context.http3,
                Reason::UnknownLoss {
                    min_rtt,
                    packets: sent as u64,
                },
            );
        }
        let loss = share(lost, sent);
        if loss >= self.loss {
            return (
                true,
                Reason::Lossy {
                    loss,
                    threshold: self.loss,
                },
            );
        }
        (false, Reason::ShortAndClean { min_rtt, loss })
    }
}

/// Lost packets of those sent.
pub(super) fn share(lost: f64, sent: f64) -> Ratio {
    Ratio::of((lost * 16.0) as u64, (sent * 16.0) as u64).unwrap_or(Ratio::ZERO)
}
