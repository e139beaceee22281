//! The congestion control of each transport of a server.

use crate::Error;
use crate::listen::{Request, congestion_of};
use crate::options::Congestion;

/// The congestion controls of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CongestionInUse {
    /// The kernel's name of TCP's.
    pub tcp: String,
    /// QUIC's; `None` without HTTP/3.
    pub quic: Option<Congestion>,
}

impl CongestionInUse {
    /// Finds the congestion control of the listeners of this request, and of QUIC: `quic`, or the same where it has that.
    ///
    /// # Errors
    /// The kernel lacks what was asked for.
    pub(crate) fn of(request: &Request, quic: Option<Congestion>) -> Result<Self, Error> {
        let name = congestion_of(request)?;
        let tcp = String::from_utf8_lossy(&name).into_owned();
        let quic = request
            .with_udp
            .then(|| quic.unwrap_or_else(|| of_quic(&tcp)));
        Ok(Self { tcp, quic })
    }
}

impl CongestionInUse {
    /// The congestion controls of TCP and of QUIC in the terms of the selector.
    pub(crate) fn of_selection(&self) -> [altway_select::Congestion; 2] {
        let quic = self.quic.map_or("", Congestion::kernel_name);
        [&self.tcp, quic].map(altway_select::Congestion::of_name)
    }
}

/// The system's, where QUIC has it.
fn of_quic(tcp: &str) -> Congestion {
    tcp.parse().unwrap_or_else(|_| {
        tracing::warn!(
            "QUIC has no congestion control `{tcp}`, which the system's TCP uses, and uses cubic"
        );
        Congestion::Cubic
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selector_is_told_the_kind_of_either() {
        use altway_select::Congestion::{LossBased, RateBased};
        for (tcp, quic, kinds) in [
            ("bbr", Some(Congestion::Bbr), [RateBased, RateBased]),
            ("bbr", Some(Congestion::Cubic), [RateBased, LossBased]),
            ("dctcp", None, [LossBased, LossBased]),
        ] {
            let tcp = tcp.into();
            assert_eq!(CongestionInUse { tcp, quic }.of_selection(), kinds);
        }
    }

    #[test]
    fn quic_has_what_tcp_has_or_cubic() {
        for (tcp, quic) in [
            ("bbr", Congestion::Bbr),
            ("cubic", Congestion::Cubic),
            ("reno", Congestion::NewReno),
            ("dctcp", Congestion::Cubic),
        ] {
            assert_eq!(of_quic(tcp), quic);
        }
    }
}
