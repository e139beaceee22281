//! The coefficients of a surface in a row, for who fits them.

use super::{Lead, Loss, Quic, Surface};
use crate::ClientClass;

/// Values in the order of the file: loss, lead, quic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coefficients(pub(crate) [f64; Self::COUNT]);

impl Coefficients {
    pub(crate) const COUNT: usize = 9;
}

impl Surface {
    pub(crate) fn coefficients(&self) -> Coefficients {
        let (loss, lead, quic) = (self.loss, self.lead, self.quic);
        Coefficients([
            loss.numerator,
            loss.softness,
            lead.base,
            lead.growth,
            lead.pace,
            lead.objects,
            quic.handshake_bytes,
            quic.handshake_seconds,
            quic.request_seconds,
        ])
    }

    pub(crate) fn set_coefficients(&mut self, Coefficients(values): Coefficients) {
        let [
            numerator,
            softness,
            base,
            growth,
            pace,
            objects,
            bytes,
            seconds,
            request,
        ] = values;
        self.loss = Loss {
            numerator,
            softness,
        };
        self.lead = Lead {
            base,
            growth,
            pace,
            objects,
        };
        self.quic = Quic {
            handshake_bytes: bytes,
            handshake_seconds: seconds,
            request_seconds: request,
        };
    }

    pub(crate) fn set_limit(&mut self, class: ClientClass, limit: f64) {
        self.limits.insert(class.to_string(), limit);
    }

    /// The same surface, with another origin.
    #[must_use]
    pub fn with_sources(self, sources: super::Sources) -> Self {
        Self { sources, ..self }
    }
}
