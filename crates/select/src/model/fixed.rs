//! The same protocol for everybody.

use super::{Context, Judgement, Model, OfferMode};
use crate::decision::{Offer, Reason};

/// The same protocol for everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed(pub Offer);

impl Model for Fixed {
    fn judge(&self, _: &Context<'_>) -> Judgement {
        Judgement {
            http3: self.0 == Offer::Http3,
            reason: Reason::Fixed,
            prediction: None,
            offer_mode: OfferMode::Forced,
        }
    }
}
