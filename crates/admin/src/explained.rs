//! An explanation of what a client is told, in a form that leaves the process.

use altway_select::{AltSvc, Congestion, Explanation};
use serde::{Deserialize, Serialize};

/// A decision for a client with what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Explained {
    /// The client's class, such as `chromium-windows`.
    pub class: String,
    /// The protocol that it shall use: `h2` or `h3`.
    pub offer: String,
    /// The reason, in a clause.
    pub reason: String,
    /// The Alt-Svc of a response over TCP, in words.
    pub alt_svc: String,
    /// True if something is known of the address and class.
    pub known: bool,
    /// Probability with which this offer was chosen.
    pub propensity: f64,
    /// True if the client is in the hold-out this week, for which a coin decides.
    pub hold_out: bool,
    /// Predicted seconds over HTTP/2.
    pub h2_s: Option<f64>,
    /// Predicted seconds over HTTP/3.
    pub h3_s: Option<f64>,
    /// ln(T3 / T2) with everything that is known: below 0, HTTP/3 is faster.
    pub difference_ln: Option<f64>,
    /// Standard deviation of the difference.
    pub deviation_ln: Option<f64>,
    /// Gain that HTTP/3 must have.
    pub margin_ln: Option<f64>,
    /// Congestion control of TCP and of QUIC under which it is predicted: `cubic` for what takes loss for congestion,
    /// `bbr` for what goes by the rate.
    #[serde(default)]
    pub congestion: Option<[Congestion; 2]>,
    /// True if the surface was measured under these.
    #[serde(default)]
    pub congestion_measured: Option<bool>,
    /// bit/s that were measured over TCP.
    pub tcp_bps: Option<f64>,
    /// bit/s that were measured over QUIC.
    pub quic_bps: Option<f64>,
    /// bit/s that the class takes over QUIC.
    pub class_limit_bps: f64,
    /// Packets sent, older ones less.
    pub packets_sent: f64,
    /// Packets lost, older ones less.
    pub packets_lost: f64,
    /// True if HTTP/3 was offered and the client never came over it.
    pub udp_blocked: bool,
    /// The same in some lines, for reading.
    pub text: String,
}

impl Explained {
    /// Returns the form of an explanation that leaves the process.
    #[must_use]
    pub fn of(it: &Explanation) -> Self {
        let prediction = it.decision.prediction;
        Self {
            class: it.class.to_string(),
            offer: it.decision.offer.to_string(),
            reason: it.decision.reason.to_string(),
            alt_svc: alt_svc_text(it.decision.alt_svc),
            known: it.is_known,
            propensity: it.decision.propensity,
            hold_out: it.decision.held,
            h2_s: prediction.map(|it| it.h2),
            h3_s: prediction.map(|it| it.h3),
            difference_ln: prediction.map(|it| it.difference),
            deviation_ln: prediction.map(|it| it.deviation),
            margin_ln: prediction.map(|it| it.margin),
            congestion: prediction.map(|it| it.congestion),
            congestion_measured: prediction.map(|it| it.is_measured),
            tcp_bps: it.measured[0],
            quic_bps: it.measured[1],
            class_limit_bps: it.limit,
            packets_sent: it.packets.0,
            packets_lost: it.packets.1,
            udp_blocked: it.udp_blocked,
            text: it.to_string(),
        }
    }
}

/// The Alt-Svc of a response over TCP, in words.
fn alt_svc_text(alt_svc: AltSvc) -> String {
    match alt_svc {
        AltSvc::Advertise { max_age } => {
            format!("Alt-Svc with h3 for {} s", max_age.as_secs())
        }
        AltSvc::Clear => "Alt-Svc: clear".into(),
        AltSvc::Omit => "nothing of alternative services".into(),
    }
}
