//! What is decided, and how it is said to the client.

use altway_units::{Ratio, duration};
use std::fmt;
use std::time::Duration;

/// Life of an offer that a measured path decides on: about a session, so that the choice
/// is made anew at the next one. Shorter would drop readers to TCP in the middle of a page's life;
/// longer would hold clients on HTTP/3 after their path has changed, for leaving the field out
/// never un-learns it.
pub const MAX_AGE: Duration = Duration::from_secs(60);

/// Life of an offer that is for everybody: 30 days, so that returning visitors begin over HTTP/3 and save the
/// switch. The policy for HTTP/2 takes it back by `clear`.
pub const FIXED_MAX_AGE: Duration = Duration::from_secs(2_592_000);

/// The protocol that a client shall use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Offer {
    /// HTTP/2 over TCP (or HTTP/1.1, for clients without).
    Http2,
    /// HTTP/3 over QUIC.
    Http3,
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

/// What a response says about alternative services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AltSvc {
    /// HTTP/3 is at the same port number, for this long.
    Advertise {
        /// Freshness lifetime; whole seconds, parts are cut off.
        max_age: Duration,
    },
    /// Forget every alternative at once. Costs Chromium a new connection in the middle of a page.
    Clear,
    /// Nothing: what the client knows runs out by itself.
    Omit,
}

impl AltSvc {
    /// The field's value (RFC 7838 section 3) for a server whose TCP and UDP port is `port`;
    /// `None` when the field is to be left out. Always the same port number: Chromium skips
    /// alternatives from 1024 up for origins below 1024.
    #[must_use]
    pub fn field_value(&self, port: u16) -> Option<String> {
        match self {
            Self::Advertise { max_age } => {
                Some(format!("h3=\":{port}\"; ma={}", max_age.as_secs()))
            }
            Self::Clear => Some("clear".into()),
            Self::Omit => None,
        }
    }
}

/// Why a decision was taken, with the numbers it rests on. Displays as one clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The policy is the same for everybody.
    Fixed,
    /// Nothing is known of the client's path (SEL-2).
    UnknownPath,
    /// The round-trip time alone decides for HTTP/3.
    LongRtt {
        /// The path's.
        min_rtt: Duration,
        /// The policy's.
        threshold: Duration,
    },
    /// The loss alone decides for HTTP/3.
    Lossy {
        /// The path's.
        loss: Ratio,
        /// The policy's.
        threshold: Ratio,
    },
    /// Neither round-trip time nor loss reaches its threshold.
    ShortAndClean {
        /// The path's.
        min_rtt: Duration,
        /// The path's.
        loss: Ratio,
    },
    /// The round-trip time is below its threshold, and too few packets were sent to know the loss.
    ShortAndFewPackets {
        /// The path's.
        min_rtt: Duration,
        /// How many were sent.
        packets: u64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed => f.write_str("fixed by the operator"),
            Self::UnknownPath => f.write_str("path unknown, to be measured over HTTP/3"),
            Self::LongRtt { min_rtt, threshold } => {
                let (min_rtt, threshold) = (shown(*min_rtt), duration::format(*threshold));
                write!(f, "min RTT {min_rtt} reaches {threshold}")
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
            Self::ShortAndFewPackets { min_rtt, packets } => {
                let min_rtt = shown(*min_rtt);
                write!(
                    f,
                    "min RTT {min_rtt} below the threshold, loss unknown after {packets} packets"
                )
            }
        }
    }
}

/// What to tell a client, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The protocol that suits the client.
    pub offer: Offer,
    /// How the response says so.
    pub alt_svc: AltSvc,
    /// Why.
    pub reason: Reason,
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
    fn the_field_names_port_and_seconds() {
        let offer = AltSvc::Advertise { max_age: MAX_AGE };
        assert_eq!(offer.field_value(443).unwrap(), r#"h3=":443"; ma=60"#);
        assert_eq!(AltSvc::Clear.field_value(443).unwrap(), "clear");
        assert_eq!(AltSvc::Omit.field_value(443), None);
    }

    #[test]
    fn parts_of_a_second_are_cut_off() {
        let max_age = Duration::from_millis(2999);
        let field = AltSvc::Advertise { max_age }.field_value(1).unwrap();
        assert_eq!(field, r#"h3=":1"; ma=2"#);
    }

    #[test]
    fn reasons_are_clauses_with_their_numbers() {
        let rtt = Duration::from_micros(61_250);
        let reason = Reason::LongRtt {
            min_rtt: rtt,
            threshold: Duration::from_millis(50),
        };
        assert_eq!(reason.to_string(), "min RTT 61.25ms reaches 50ms");
        let reason = Reason::Lossy {
            loss: "1.234567%".parse().unwrap(),
            threshold: "1%".parse().unwrap(),
        };
        assert_eq!(reason.to_string(), "loss 1.23% reaches 1%");
    }
}
