//! The surface: the time of an exchange over either protocol, by what is known of path and client.
//!
//! A structural model: round trips of the connection's set-up, slow start from ten packets (RFC 6928, RFC
//! 9002 section 7.2), and the smaller of the path's rate and the rate that loss permits; over QUIC the client's
//! own limit is part of the rate. The coefficients are a versioned file, one of which is embedded.

use crate::class::ClientClass;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;

mod coefficients;
mod file;
mod path;
mod provenance;

pub(crate) use coefficients::Coefficients;
pub use file::SurfaceError;
pub use provenance::{Source, Sources};

/// Bytes of payload in a full packet.
const SEGMENT: f64 = 1460.0;

/// Bytes of the initial congestion window.
const INITIAL_WINDOW: f64 = 10.0 * SEGMENT;

/// Seconds; the least retransmission time-out of Linux.
const MIN_RTO: f64 = 0.2;

/// Bit/s; the slowest and fastest path that is told apart.
const RATES: (f64, f64) = (1e4, 1e11);

/// Seconds; the longest and shortest round trip that is told apart.
const RTTS: (f64, f64) = (1e-5, 10.0);

/// The reaction of a transport's sender to loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Congestion {
    /// Takes loss for congestion: CUBIC (RFC 9438), Reno (RFC 5681).
    #[default]
    LossBased,
    /// Goes by the delivery rate: BBR (draft-ietf-ccwg-bbr). Loss below some percent slows it by what is sent
    /// again only.
    RateBased,
}

/// The properties of a client's path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Delivery rate over TCP, bit/s.
    pub rate2: f64,
    /// Delivery rate over QUIC, bit/s: the client's own limit is in it.
    pub rate3: f64,
    /// Round-trip time, seconds.
    pub rtt: f64,
    /// Share of packets that the path loses, without drops of a queue that the sender fills itself.
    pub loss: f64,
    /// Congestion control of TCP.
    pub congestion2: Congestion,
    /// Congestion control of QUIC.
    pub congestion3: Congestion,
}

/// A load: a document, then the objects that it names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exchange {
    /// Bytes of the first response.
    pub document: f64,
    /// Bytes of the responses after it, together.
    pub objects: f64,
    /// They are more than a few, so that one lost packet over TCP holds up several.
    pub many: bool,
    /// Round trips before the first request over TCP: 2 with TLS 1.3 on a new connection, else 0.
    pub setup2: f64,
    /// Round trips before the first request over QUIC: 1 on a new connection, less with early data, else 0.
    pub setup3: f64,
}

/// Seconds that an exchange is predicted to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// Over HTTP/2.
    pub h2: f64,
    /// Over HTTP/3.
    pub h3: f64,
    /// Share of the time over HTTP/3 for which bytes are under way at the path's rate.
    pub waiting: f64,
}

impl Times {
    /// ln(T3 / T2): below 0, HTTP/3 is faster.
    #[must_use]
    pub fn difference(&self) -> f64 {
        (self.h3 / self.h2).ln()
    }
}

/// Coefficients of the times, and what classes of clients take over QUIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Surface {
    version: u32,
    /// Returns what the surface was made from.
    #[serde(default)]
    sources: Sources,
    loss: Loss,
    lead: Lead,
    quic: Quic,
    limits: BTreeMap<String, f64>,
}

/// The rate that loss permits, in the form of Padhye et al., "Modeling TCP Throughput" (SIGCOMM 1998).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Loss {
    numerator: f64,
    /// Exponent of the soft minimum with the path's rate.
    softness: f64,
}

/// Lead of HTTP/3 where loss slows: streams wait for their own lost packets only.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Lead {
    base: f64,
    growth: f64,
    pace: f64,
    /// What many objects add, as a share.
    objects: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Quic {
    /// Bytes of a handshake beyond those of TLS over TCP.
    handshake_bytes: f64,
    /// Seconds of processor time of a handshake beyond those of TLS over TCP.
    handshake_seconds: f64,
    /// The same of a request on an open connection.
    request_seconds: f64,
}

static EMBEDDED: LazyLock<Surface> = LazyLock::new(|| {
    let text = include_str!("../assets/surface.toml");
    Surface::parse(text).expect("the embedded surface is one, which a test shows")
});

impl Surface {
    /// The surface that altway ships.
    #[must_use]
    pub fn embedded() -> &'static Self {
        &EMBEDDED
    }

    /// Returns what the surface was made from.
    #[must_use]
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Bit/s that clients of a class take over QUIC, where that was measured.
    #[must_use]
    pub fn limit(&self, class: ClientClass) -> Option<f64> {
        let own = self.limits.get(&class.to_string());
        own.copied()
    }

    /// The median of the measured limits, the lower of two, for classes without; `None` where none is measured.
    #[must_use]
    pub fn median_limit(&self) -> Option<f64> {
        let mut limits: Vec<f64> = self.limits.values().copied().collect();
        limits.sort_by(f64::total_cmp);
        limits.get(limits.len().saturating_sub(1) / 2).copied()
    }

    /// The least of the limits of browsers, for clients that can't be told.
    #[must_use]
    pub fn least_browser_limit(&self) -> Option<f64> {
        let browsers = self.limits.iter().filter(|(class, _)| {
            class
                .parse::<ClientClass>()
                .is_ok_and(ClientClass::is_browser)
        });
        browsers.map(|(_, limit)| *limit).min_by(f64::total_cmp)
    }

    /// Predicts how long an exchange takes. Finite and above 0 for all terms: what is out of range, or no
    /// number, counts as the nearest that is within.
    #[must_use]
    pub fn times(&self, terms: &Terms, exchange: &Exchange) -> Times {
        let path = Known::of(terms);
        let exchange = exchange.tamed();
        let clean = undisturbed(path.rate2, path.rtt, &exchange, exchange.setup2);
        let disturbed = self.disturbed(&path, &exchange, clean);
        let slowdown = disturbed / clean;
        let many = if exchange.many {
            self.lead.objects
        } else {
            0.0
        };
        let lead = (self.lead.base + self.lead.growth * path.loss.min(0.06))
            * (1.0 - (-self.lead.pace * slowdown.ln()).exp())
            * (1.0 + many);
        let resent = 1.0 / (1.0 - path.loss);
        let h2 = match terms.congestion2 {
            Congestion::LossBased => disturbed,
            Congestion::RateBased => clean * resent,
        };
        let opening = if exchange.setup2 > 0.0 || exchange.setup3 > 0.0 {
            self.quic.handshake_bytes * 8.0 / path.rate2 + self.quic.handshake_seconds
        } else {
            self.quic.request_seconds
        };
        let clean3 = undisturbed(path.rate3, path.rtt, &exchange, exchange.setup3) + opening;
        let h3 = match terms.congestion3 {
            Congestion::LossBased => clean3 * slowdown * (-lead).exp(),
            Congestion::RateBased => clean3 * resent,
        };
        let waiting = (exchange.document + exchange.objects) * 8.0 / path.rate3 / clean3;
        Times { h2, h3, waiting }
    }

    /// Seconds with the path's loss, which costs nothing in an exchange that sees none.
    fn disturbed(&self, path: &Known, exchange: &Exchange, clean: f64) -> f64 {
        let packets = (exchange.document + exchange.objects) / SEGMENT;
        let seen = 1.0 - (-packets * path.loss).exp();
        let limited = soft_min(path.rate2, self.loss_limited(path), self.loss.softness);
        let slow = undisturbed(limited, path.rtt, exchange, exchange.setup2);
        (clean * (1.0 - seen) + slow * seen).max(clean)
    }

    /// Bit/s that a sender gets which takes loss for congestion.
    fn loss_limited(&self, path: &Known) -> f64 {
        let loss = path.loss.max(1e-7);
        let rtt = path.rtt + 0.0004;
        let recovered = rtt * (2.0 * loss / 3.0).sqrt() / self.loss.numerator;
        let timed_out = (2.0 * rtt).max(MIN_RTO)
            * (3.0 * (3.0 * loss / 8.0).sqrt()).min(1.0)
            * loss
            * (1.0 + 32.0 * loss * loss);
        SEGMENT * 8.0 / (recovered + timed_out)
    }
}

/// Terms within their ranges.
struct Known {
    rate2: f64,
    rate3: f64,
    rtt: f64,
    loss: f64,
}

impl Known {
    fn of(terms: &Terms) -> Self {
        Self {
            rate2: within(terms.rate2, RATES),
            rate3: within(terms.rate3, RATES),
            rtt: within(terms.rtt, RTTS),
            loss: within(terms.loss, (0.0, 0.4)),
        }
    }
}

impl Exchange {
    fn tamed(&self) -> Self {
        Self {
            document: within(self.document, (1.0, 1e13)),
            objects: within(self.objects, (0.0, 1e13)),
            many: self.many,
            setup2: within(self.setup2, (0.0, 10.0)),
            setup3: within(self.setup3, (0.0, 10.0)),
        }
    }
}

/// The nearest value in the range; what is no number is the least.
fn within(value: f64, (low, high): (f64, f64)) -> f64 {
    if value.is_nan() {
        low
    } else {
        value.clamp(low, high)
    }
}

/// The smaller of both, a little less where they are close.
fn soft_min(a: f64, b: f64, exponent: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    low * (1.0 + (low / high).powf(exponent)).powf(-1.0 / exponent)
}

/// Seconds over a path without loss.
fn undisturbed(rate: f64, rtt: f64, exchange: &Exchange, setup: f64) -> f64 {
    let document = exchange.document;
    let first = 0.001 + (setup + 1.0) * rtt + slow_start(document, rate, rtt, INITIAL_WINDOW);
    if exchange.objects <= 0.0 {
        return first;
    }
    let grown = (INITIAL_WINDOW + document).min(rate * rtt / 8.0 + SEGMENT);
    first + rtt + slow_start(exchange.objects, rate, rtt, grown.max(INITIAL_WINDOW))
}

/// Seconds from the first byte to the last, with a window that doubles each round trip until it fills the path.
///
/// A faster path never takes longer: what the doubling rounds would cost more than the faster rate saves, just
/// before the window fills the path, is left out.
fn slow_start(size: f64, rate: f64, rtt: f64, window: f64) -> f64 {
    /// Round trips that the pipe is not full for while the window doubles, each.
    const ROUND: f64 = 0.93;
    let rounds = ((size / window + 1.0).log2() - 1e-9).ceil() - 1.0;
    let small = rtt * rounds.max(0.0) + size.min(window) * 8.0 / rate;
    let time = if size + window < rate * rtt / 8.0 {
        small
    } else {
        // From this rate on the time would grow with the rate.
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

#[cfg(test)]
mod tests;
