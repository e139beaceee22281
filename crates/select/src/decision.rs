//! Decisions and their reasons.

use crate::{AltSvc, Congestion};
use altway_units::{Ratio, duration};
use std::fmt;
use std::time::Duration;

/// The protocol that a client should use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Offer {
    /// HTTP/2 over TCP (or HTTP/1.1, for clients without).
    Http2,
    /// HTTP/3 over QUIC.
    Http3,
}

impl Offer {
    pub(crate) const fn of(http3: bool) -> Self {
        if http3 { Self::Http3 } else { Self::Http2 }
    }
}

/// `h2`, `h3`.
impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Http2 => "h2",
            Self::Http3 => "h3",
        })
    }
}

/// A decision: the offer that a client is told, and its reason.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// The protocol that the client should use.
    pub offer: Offer,
    /// The response's `Alt-Svc` field.
    pub alt_svc: AltSvc,
    /// Reason for the decision.
    pub reason: Reason,
    /// Probability with which this offer was chosen, for estimates from logs: below 1 where a hold-out could
    /// have chosen otherwise.
    pub propensity: f64,
    /// The client is in this week's hold-out.
    pub held: bool,
    /// The times on which the decision is based, if the model predicts any.
    pub prediction: Option<Prediction>,
}

/// Predicted times, and what they were adjusted by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Seconds over HTTP/2: geometric mean over what the host's visitors load.
    pub h2: f64,
    /// The same over HTTP/3, by the surface.
    pub h3: f64,
    /// ln(T3 / T2), adjusted by everything that is known of client and class: below 0, HTTP/3 is faster.
    pub difference: f64,
    /// Standard deviation of `difference`, from what is unknown of the client and what was not measured of the
    /// congestion control.
    pub deviation: f64,
    /// Part of `difference` that comes from the client's own pages.
    pub effect: f64,
    /// Gain that HTTP/3 must have, the price of the worker's load included.
    pub margin: f64,
    /// Bit/s that the path is taken to carry over TCP and over QUIC, before what its loss permits of that.
    pub rates: [f64; 2],
    /// Seconds.
    pub rtt: f64,
    /// Share of packets.
    pub loss: f64,
    /// Congestion control of TCP and of QUIC.
    pub congestion: [Congestion; 2],
    /// True if the surface was fitted to or tested on cells under these; else the times are from its formulas alone.
    pub is_measured: bool,
}

/// Reason for which a decision was taken, with the numbers it rests on. Displays as one clause.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The operator decides for everybody.
    Fixed,
    /// Nothing is known of the client's path.
    UnknownPath,
    /// The first response, or the first page, measures the path, and the decision follows.
    Waiting,
    /// The round-trip time alone decides for HTTP/3.
    LongRtt {
        /// The path's.
        min_rtt: Duration,
        /// The model's.
        threshold: Duration,
    },
    /// The loss alone decides for HTTP/3.
    Lossy {
        /// The path's.
        loss: Ratio,
        /// The model's.
        threshold: Ratio,
    },
    /// Neither round-trip time nor loss reaches its threshold.
    ShortAndClean {
        /// The path's.
        min_rtt: Duration,
        /// The path's.
        loss: Ratio,
    },
    /// The round-trip time is below its threshold and too few packets tell the loss: what was decided stays.
    UnknownLoss {
        /// The path's.
        min_rtt: Duration,
        /// Packets sent.
        packets: u64,
    },
    /// One side of the study's line.
    Line {
        /// Delay one way.
        delay: Duration,
        /// The path's.
        loss: Ratio,
        /// The line's delay at that loss.
        line: Duration,
    },
    /// The predicted difference, against the margin.
    Predicted {
        /// ln(T3 / T2).
        difference: f64,
        /// Gain that HTTP/3 must have.
        margin: f64,
    },
    /// A coin decided for this client and week, so that both protocols are measured.
    HoldOut,
    /// HTTP/3 was offered, and the client never used it.
    UdpBlocked,
    /// HTTP/3 was taken back recently.
    TakenBack,
    /// The client would not come over TCP if UDP were blocked ([`ClientClass::falls_back`](crate::ClientClass::falls_back)).
    NoFallback,
}

impl Reason {
    /// The kinds of reasons by their names, as counters tell them apart: without the numbers.
    pub const KINDS: [&'static str; 13] = [
        "fixed",
        "unknown-path",
        "waiting",
        "long-rtt",
        "lossy",
        "short-and-clean",
        "unknown-loss",
        "line",
        "predicted",
        "hold-out",
        "udp-blocked",
        "taken-back",
        "no-fallback",
    ];

    /// Returns the place of its kind in [`KINDS`](Self::KINDS).
    #[must_use]
    pub const fn kind_index(&self) -> usize {
        match self {
            Self::Fixed => 0,
            Self::UnknownPath => 1,
            Self::Waiting => 2,
            Self::LongRtt { .. } => 3,
            Self::Lossy { .. } => 4,
            Self::ShortAndClean { .. } => 5,
            Self::UnknownLoss { .. } => 6,
            Self::Line { .. } => 7,
            Self::Predicted { .. } => 8,
            Self::HoldOut => 9,
            Self::UdpBlocked => 10,
            Self::TakenBack => 11,
            Self::NoFallback => 12,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed => f.write_str("fixed by the operator"),
            Self::UnknownPath => f.write_str("path unknown, to be measured over HTTP/3"),
            Self::Waiting => f.write_str("path unknown, measured by this page"),
            Self::LongRtt { min_rtt, threshold } => {
                let threshold = duration::format(*threshold);
                write!(f, "min RTT {} reaches {threshold}", shown(*min_rtt))
            }
            Self::Lossy { loss, threshold } => {
                write!(f, "loss {:.2}% reaches {threshold}", percent(*loss))
            }
            Self::ShortAndClean { min_rtt, loss } => {
                let (min_rtt, loss) = (shown(*min_rtt), percent(*loss));
                write!(
                    f,
                    "min RTT {min_rtt} and loss {loss:.2}% below the thresholds"
                )
            }
            Self::UnknownLoss { min_rtt, packets } => {
                let min_rtt = shown(*min_rtt);
                write!(
                    f,
                    "min RTT {min_rtt} below the threshold, loss unknown after {packets} packets"
                )
            }
            Self::Line { delay, loss, line } => {
                let (delay, line, loss) = (shown(*delay), shown(*line), percent(*loss));
                write!(
                    f,
                    "delay {delay} against {line} of the line at loss {loss:.2}%"
                )
            }
            Self::Predicted { difference, margin } => {
                let (percent, margin) = (100.0 * difference.exp_m1(), 100.0 * margin);
                write!(
                    f,
                    "HTTP/3 predicted {percent:+.1}% in time, wanted below -{margin:.1}%"
                )
            }
            Self::HoldOut => f.write_str("chosen by chance for a week, to measure both protocols"),
            Self::UdpBlocked => f.write_str("HTTP/3 was offered and never came"),
            Self::TakenBack => f.write_str("HTTP/3 was taken back lately"),
            Self::NoFallback => f.write_str("the client does not fall back where UDP is blocked"),
        }
    }
}

/// A measured time for readers: nanoseconds say nothing.
fn shown(time: Duration) -> String {
    format!("{:.2}ms", time.as_secs_f64() * 1000.0)
}

fn percent(ratio: Ratio) -> f64 {
    ratio.as_f64() * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_kind_has_the_last_name() {
        assert_eq!(Reason::NoFallback.kind_index(), Reason::KINDS.len() - 1);
        assert_eq!(Reason::KINDS[Reason::HoldOut.kind_index()], "hold-out");
    }

    #[test]
    fn reasons_are_clauses_with_their_numbers() {
        let reason = Reason::LongRtt {
            min_rtt: Duration::from_micros(61_250),
            threshold: Duration::from_millis(50),
        };
        assert_eq!(reason.to_string(), "min RTT 61.25ms reaches 50ms");
        let reason = Reason::Lossy {
            loss: "1.234567%".parse().unwrap(),
            threshold: "1%".parse().unwrap(),
        };
        assert_eq!(reason.to_string(), "loss 1.23% reaches 1%");
        let reason = Reason::Predicted {
            difference: -0.08,
            margin: 0.03,
        };
        assert_eq!(
            reason.to_string(),
            "HTTP/3 predicted -7.7% in time, wanted below -3.0%"
        );
    }
}
