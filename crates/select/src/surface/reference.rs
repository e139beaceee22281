//! The times of an exchange by the plain formulas, step by step: what the predictor must give to the last bit.

use super::predictor::{INITIAL_WINDOW, MIN_RTO, ROUND, SEGMENT};
use super::{Congestion, Exchange, PathProperties, Surface, Times};

/// The times that [`Surface::times`] gives.
pub(crate) fn times(
    surface: &Surface,
    path_properties: &PathProperties,
    exchange: &Exchange,
) -> Times {
    let path_properties = PathProperties {
        rate2: within(path_properties.rate2, 1e4, 1e11),
        rate3: within(path_properties.rate3, 1e4, 1e11),
        rtt: within(path_properties.rtt, 1e-5, 10.0),
        loss: within(path_properties.loss, 0.0, 0.4),
        ..*path_properties
    };
    let exchange = Exchange {
        document: within(exchange.document, 1.0, 1e13),
        objects: within(exchange.objects, 0.0, 1e13),
        many: exchange.many,
        setup2: within(exchange.setup2, 0.0, 10.0),
        setup3: within(exchange.setup3, 0.0, 10.0),
    };
    let (lead, quic) = (&surface.lead, &surface.quic);
    let clean = undisturbed(
        path_properties.rate2,
        path_properties.rtt,
        &exchange,
        exchange.setup2,
    );
    let disturbed = disturbed(surface, &path_properties, &exchange, clean);
    let slowdown = disturbed / clean;
    let many = if exchange.many { lead.objects } else { 0.0 };
    let lead = (lead.base + lead.growth * path_properties.loss.min(0.06))
        * (1.0 - (-lead.pace * slowdown.ln()).exp())
        * (1.0 + many);
    let resent = 1.0 / (1.0 - path_properties.loss);
    let h2 = match path_properties.congestion2 {
        Congestion::LossBased => disturbed,
        Congestion::RateBased => clean * resent,
    };
    let opening = if exchange.setup2 > 0.0 || exchange.setup3 > 0.0 {
        quic.handshake_bytes * 8.0 / path_properties.rate2 + quic.handshake_seconds
    } else {
        quic.request_seconds
    };
    let clean3 = undisturbed(
        path_properties.rate3,
        path_properties.rtt,
        &exchange,
        exchange.setup3,
    ) + opening;
    let h3 = match path_properties.congestion3 {
        Congestion::LossBased => clean3 * slowdown * (-lead).exp(),
        Congestion::RateBased => clean3 * resent,
    };
    let waiting = (exchange.document + exchange.objects) * 8.0 / path_properties.rate3 / clean3;
    Times { h2, h3, waiting }
}

fn within(value: f64, low: f64, high: f64) -> f64 {
    if value.is_nan() {
        low
    } else {
        value.clamp(low, high)
    }
}

fn disturbed(
    surface: &Surface,
    path_properties: &PathProperties,
    exchange: &Exchange,
    clean: f64,
) -> f64 {
    let packets = (exchange.document + exchange.objects) / SEGMENT;
    let seen = 1.0 - (-packets * path_properties.loss).exp();
    let permitted = permitted(surface, path_properties);
    let softness = surface.loss.softness;
    let low = path_properties.rate2.min(permitted);
    let high = path_properties.rate2.max(permitted);
    let limited = low * (1.0 + (low / high).powf(softness)).powf(-1.0 / softness);
    let slow = undisturbed(limited, path_properties.rtt, exchange, exchange.setup2);
    (clean * (1.0 - seen) + slow * seen).max(clean)
}

fn permitted(surface: &Surface, path_properties: &PathProperties) -> f64 {
    let loss = path_properties.loss.max(1e-7);
    let rtt = path_properties.rtt + 0.0004;
    let recovered = rtt * (2.0 * loss / 3.0).sqrt() / surface.loss.numerator;
    let timed_out = (2.0 * rtt).max(MIN_RTO)
        * (3.0 * (3.0 * loss / 8.0).sqrt()).min(1.0)
        * loss
        * (1.0 + 32.0 * loss * loss);
    SEGMENT * 8.0 / (recovered + timed_out)
}

fn undisturbed(rate: f64, rtt: f64, exchange: &Exchange, setup: f64) -> f64 {
    let document = exchange.document;
    let first = 0.001 + (setup + 1.0) * rtt + slow_start(document, rate, rtt, INITIAL_WINDOW);
    if exchange.objects <= 0.0 {
        return first;
    }
    let grown = (INITIAL_WINDOW + document).min(rate * rtt / 8.0 + SEGMENT);
    first + rtt + slow_start(exchange.objects, rate, rtt, grown.max(INITIAL_WINDOW))
}

fn slow_start(size: f64, rate: f64, rtt: f64, window: f64) -> f64 {
    let rounds = ((size / window + 1.0).log2() - 1e-9).ceil() - 1.0;
    let small = rtt * rounds.max(0.0) + size.min(window) * 8.0 / rate;
    let time = if size + window < rate * rtt / 8.0 {
        small
    } else {
        let best = 8.0 * (size + window) * std::f64::consts::LN_2 / (ROUND * rtt);
        let rate = rate.min(best.max(8.0 * window / rtt));
        let rounds = (rate * rtt / 8.0 / window).max(1.0).log2();
        let grown = window * (rounds.exp2() - 1.0);
        let large = rounds * rtt * ROUND + (size - grown) * 8.0 / rate;
        if rounds > 0.0 {
            large.max(small)
        } else {
            large
        }
    };
    time.max(size * 8.0 / rate)
}
