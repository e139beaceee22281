//! Properties and exchanges from what a person says of them: for maps, tables and fits.

use super::predictor::loss_limited;
use super::{Congestion, Exchange, PathProperties, Surface};
use crate::ClientClass;
use crate::classes::prior;
use crate::limit::limited_rate;

/// Factor by which the rate of a path is taken to exceed a measured one, at most, where loss hides it.
const LARGEST_FACTOR: f64 = 6.0;

/// Bytes of a page's document.
const DOCUMENT: f64 = 20e3;

/// Objects beside a document above which one lost packet over TCP holds up several.
const FEW_OBJECTS: u32 = 3;

impl Surface {
    /// Bit/s that clients of a class are expected to take over QUIC: as measured, else the median of the measured
    /// ones for a browser, else the least of browsers.
    #[must_use]
    pub fn expected_limit(&self, class: ClientClass) -> f64 {
        prior(self, class).0
    }

    /// Bit/s that loss permits a sender that takes it for congestion, over a round trip of `rtt` seconds.
    pub(crate) fn rate_by_loss(&self, loss: f64, rtt: f64) -> f64 {
        loss_limited(self.loss.numerator, loss, rtt)
    }

    /// Bit/s of a path over which such a sender got `rate`, where loss permits it `permitted`: it gets the smaller of the path's
    /// rate and of that. Where it got all that loss permits, the path's is not known, and six times `rate` is assumed.
    pub(crate) fn rate_without_loss(&self, rate: f64, permitted: f64) -> f64 {
        let exponent = self.loss.softness;
        let share = (1.0 - (rate / permitted).powf(exponent)).max(0.0);
        (rate / share.powf(exponent.recip())).min(LARGEST_FACTOR * rate)
    }

    /// Properties of a path that carries `rate` bit/s to a client of `class`, with a round trip of `rtt` seconds and a
    /// share `loss` of packets lost; congestion control of TCP and of QUIC.
    #[must_use]
    pub fn path_properties(
        &self,
        class: ClientClass,
        rate: f64,
        rtt: f64,
        loss: f64,
        [congestion2, congestion3]: [Congestion; 2],
    ) -> PathProperties {
        PathProperties {
            rate2: rate,
            rate3: limited_rate(rate, self.expected_limit(class)),
            rtt,
            loss,
            congestion2,
            congestion3,
        }
    }
}

impl Exchange {
    /// One object, on a new connection (TCP and TLS 1.3, QUIC without early data) or on an open one.
    #[must_use]
    pub fn object(bytes: f64, cold: bool) -> Self {
        let (setup2, setup3) = if cold { (2.0, 1.0) } else { (0.0, 0.0) };
        Self {
            document: bytes,
            objects: 0.0,
            many: false,
            setup2,
            setup3,
        }
    }

    /// A load of `responses`, the first of which had `first` bytes and the others `rest` bytes, after so many round trips
    /// over TCP and over QUIC.
    pub(crate) fn of_responses(
        first: u64,
        rest: u64,
        responses: u32,
        (setup2, setup3): (f64, f64),
    ) -> Self {
        Self {
            document: first as f64,
            objects: rest as f64,
            many: Self::has_many(responses),
            setup2,
            setup3,
        }
    }

    /// True if one lost packet over TCP holds up several of the objects among `responses`, the first of which is a document.
    pub(crate) const fn has_many(responses: u32) -> bool {
        responses > FEW_OBJECTS + 1
    }

    /// A document of 20 KB that names many objects, `bytes` in all.
    #[must_use]
    pub fn page(bytes: f64, cold: bool) -> Self {
        let document = bytes.min(DOCUMENT);
        Self {
            document,
            objects: bytes - document,
            many: bytes > document,
            ..Self::object(bytes, cold)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_nobody_measured_has_the_median_or_the_least() {
        let limit = |class: &str| Surface::embedded().expected_limit(class.parse().unwrap());
        assert_eq!(limit("firefox-linux"), 420e6);
        assert_eq!(limit("safari-ios"), 469e6);
        assert_eq!(limit("other-other"), 420e6);
    }

    #[test]
    fn a_page_is_its_document_and_the_rest() {
        let page = Exchange::page(420e3, true);
        assert_eq!(
            (page.document, page.objects, page.many),
            (20e3, 400e3, true)
        );
        let small = Exchange::page(5e3, false);
        assert_eq!(
            (small.document, small.objects, small.many),
            (5e3, 0.0, false)
        );
        assert_eq!((small.setup2, small.setup3), (0.0, 0.0));
    }

    #[test]
    fn the_limit_is_in_the_rate_over_quic_alone() {
        let class = "chromium-linux".parse().unwrap();
        let both = [Congestion::LossBased; 2];
        let path_properties = Surface::embedded().path_properties(class, 1e9, 0.01, 0.0, both);
        assert_eq!(path_properties.rate2, 1e9);
        assert!(
            (400e6..469e6).contains(&path_properties.rate3),
            "{}",
            path_properties.rate3
        );
    }
}
