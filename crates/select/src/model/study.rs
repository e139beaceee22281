//! The line of the study of 2020: HTTP/3 above it in the plane of delay and loss.

use super::threshold::share;
use super::{Context, Judgement, Model, OfferMode};
use crate::decision::Reason;
use altway_units::Ratio;
use std::time::Duration;

/// HTTP/3 where the delay is above a line that falls with the loss. The line belongs to the rate at which it was
/// measured: at another rate it is another one, which is given by its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Study {
    /// One-way delay at which both are equal without loss. Default 20 ms.
    pub delay: Duration,
    /// Loss at which both are equal without delay. Default 3.5 %.
    pub loss: Ratio,
}

impl Default for Study {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(20),
            loss: Ratio::from_parts_per_billion(35_000_000).unwrap_or(Ratio::ONE),
        }
    }
}

impl Study {
    /// The line's delay at `loss`; 0 beyond its end.
    fn at(&self, loss: Ratio) -> Duration {
        let part = Ratio::of(
            loss.as_parts_per_billion().into(),
            self.loss.as_parts_per_billion().into(),
        );
        self.delay
            .mul_f64(1.0 - part.unwrap_or(Ratio::ONE).as_f64())
    }
}

impl Model for Study {
    fn judge(&self, context: &Context<'_>) -> Judgement {
        let (sent, lost) = context.packets();
        let loss = share(lost, sent);
        let known = context.rtt().map(|rtt| Duration::from_secs_f64(rtt / 2.0));
        let (http3, reason) = known.map_or((true, Reason::UnknownPath), |delay| {
            let line = self.at(loss);
            (
                delay > line || loss >= self.loss,
                Reason::Line { delay, loss, line },
            )
        });
        Judgement {
            http3,
            reason,
            prediction: None,
            offer_mode: OfferMode::Session,
        }
    }
}
