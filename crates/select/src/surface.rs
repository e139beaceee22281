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
mod predictor;
mod provenance;

pub(crate) use coefficients::Coefficients;
pub use file::SurfaceError;
pub(crate) use predictor::Predictor;
pub use provenance::{Source, Sources};

/// The reaction of a transport's sender to loss. In surface files and in output each kind has the name of its
/// best-known member: `cubic`, `bbr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Congestion {
    /// Takes loss for congestion: CUBIC (RFC 9438), Reno (RFC 5681).
    #[default]
    #[serde(rename = "cubic")]
    LossBased,
    /// Model-based, by the delivery rate: BBR (draft-ietf-ccwg-bbr). Loss below a few per cent costs only what is
    /// sent again.
    #[serde(rename = "bbr")]
    RateBased,
}

impl Congestion {
    /// Finds the kind of the congestion control that the kernel, or a configuration, knows by `name`. Whatever is not
    /// known takes loss for congestion, as most do.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        match name {
            "bbr" | "bbr2" | "bbr3" => Self::RateBased,
            _ => Self::LossBased,
        }
    }
}

/// `cubic`, `bbr`.
impl std::fmt::Display for Congestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::LossBased => "cubic",
            Self::RateBased => "bbr",
        })
    }
}

/// The properties of a client's path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathProperties {
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

/// A page load: a document, then the objects that it names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exchange {
    /// Bytes of the first response.
    pub document: f64,
    /// Bytes of the responses after it, together.
    pub objects: f64,
    /// True if there are more than a few objects, so that one lost packet over TCP holds up several.
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
    /// Share of the time over HTTP/3 in which bytes are transferred at the path's rate.
    pub waiting: f64,
}

impl Times {
    /// ln(T3 / T2): below 0, HTTP/3 is faster.
    #[must_use]
    pub fn difference(&self) -> f64 {
        (self.h3 / self.h2).ln()
    }
}

/// A surface: coefficients of the times, and the limits of classes of clients over QUIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Surface {
    version: u32,
    /// Runs and cells that the surface was made from.
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
    /// The share that many objects add.
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
    /// The surface that ships with altway.
    #[must_use]
    pub fn embedded() -> &'static Self {
        &EMBEDDED
    }

    /// Returns what the surface was made from.
    #[must_use]
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Highest rate in bit/s at which clients of a class receive over QUIC, if that was measured.
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

    /// The least of the limits of browsers, for unknown clients.
    #[must_use]
    pub fn least_browser_limit(&self) -> Option<f64> {
        let browsers = self.limits.iter().filter(|(class, _)| {
            class
                .parse::<ClientClass>()
                .is_ok_and(ClientClass::is_browser)
        });
        browsers.map(|(_, limit)| *limit).min_by(f64::total_cmp)
    }

    /// True if cells with this congestion control, TCP's and QUIC's, were among those that the surface was fitted to
    /// or tested on. Times under others are from the formulas alone.
    #[must_use]
    pub fn is_measured(&self, congestion: [Congestion; 2]) -> bool {
        self.sources.congestion.contains(&congestion)
    }

    /// Predicts how long an exchange takes. The times are finite and above 0 for all terms: a value that is out of
    /// range, or not a number, counts as the nearest one within.
    #[must_use]
    pub fn times(&self, path_properties: &PathProperties, exchange: &Exchange) -> Times {
        Predictor::new(self, path_properties).times(exchange)
    }
}

#[cfg(test)]
pub(crate) mod reference;
#[cfg(test)]
mod tests;
