//! Explanations of decisions, for `altway explain`.

use crate::decision::{Decision, Offer};
use crate::observation::Transport;
use crate::{Client, ClientClass, Congestion, DecisionRequest, Host, Selector, TimingBias};
use std::fmt;

/// A decision with everything that it is based on. Displays as several lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The client's class.
    pub class: ClientClass,
    /// The decision.
    pub decision: Decision,
    /// Something is known of the address and class.
    pub is_known: bool,
    /// Rates over TCP and over QUIC that were measured with this client, in bit/s.
    pub measured: [Option<f64>; 2],
    /// Round-trip times over TCP and over QUIC, in seconds. A much shorter one over TCP indicates a proxy of TCP on
    /// the path.
    pub rtts: [Option<f64>; 2],
    /// Packets sent and lost, older ones less.
    pub packets: (f64, f64),
    /// Pages over TCP and over QUIC that count, and the mean of their residuals (ln).
    pub pages: [(f64, f64); 2],
    /// bit/s that the class takes over QUIC.
    pub limit: f64,
    /// True if HTTP/3 was offered and never used.
    pub udp_blocked: bool,
    /// Bias of the server's timing of the class against browsers' own, over HTTP/2 and over HTTP/3. It decides nothing.
    pub timing: [TimingBias; 2],
}

impl Selector {
    /// Explains what `client` would be told by `host`. Nothing is noted.
    #[must_use]
    pub fn explain(&self, client: &Client, host: &Host, moment: &DecisionRequest) -> Explanation {
        let decision = self.preview(client, host, moment);
        let found = self.known(client, moment);
        let known = found.unwrap_or_default();
        let both = [Transport::Tcp, Transport::Quic];
        Explanation {
            class: client.class(),
            decision,
            is_known: found.is_some(),
            measured: both.map(|it| known.rate(it).map(|(ln, _)| ln.exp())),
            rtts: both.map(|it| known.rtt(it)),
            packets: known.packets(),
            pages: both.map(|it| {
                let residuals = known.residuals(it);
                (residuals.pages, residuals.mean())
            }),
            limit: self.limit(client.class()),
            udp_blocked: known.is_udp_blocked(),
            timing: self.timing_of(client.class()),
        }
    }

    /// The classes that are known at the address of `client`, each explained.
    #[must_use]
    pub fn explain_address(
        &self,
        client: &Client,
        host: &Host,
        moment: &DecisionRequest,
    ) -> Vec<Explanation> {
        ClientClass::all()
            .map(|class| client.with_class(class))
            .filter(|client| self.known(client, moment).is_some())
            .map(|client| self.explain(&client, host, moment))
            .collect()
    }
}

/// A summary of what is known of the clients of one class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassSummary {
    /// The class.
    pub class: ClientClass,
    /// Addresses that are known.
    pub clients: usize,
    /// Addresses among them whose rate is known, over TCP and over QUIC.
    pub rated: [usize; 2],
    /// Addresses among them that were offered HTTP/3 and never used it.
    pub udp_blocked: usize,
    /// bit/s that the class takes over QUIC, as learnt.
    pub limit: f64,
}

impl Selector {
    /// Summarises each class of which an address is known, the largest first.
    #[must_use]
    pub fn summary(&self) -> Vec<ClassSummary> {
        let mut classes: Vec<_> = ClientClass::all()
            .map(|class| ClassSummary {
                class,
                clients: 0,
                rated: [0; 2],
                udp_blocked: 0,
                limit: self.limit(class),
            })
            .collect();
        self.store.each_client(|_, class, known| {
            let known = known.under(self.congestion);
            let Some(summary) = classes.iter_mut().find(|it| it.class == class) else {
                return;
            };
            summary.clients += 1;
            for (place, transport) in [(0, Transport::Tcp), (1, Transport::Quic)] {
                summary.rated[place] += usize::from(known.rate(transport).is_some());
            }
            summary.udp_blocked += usize::from(known.is_udp_blocked());
        });
        classes.retain(|it| it.clients > 0);
        classes.sort_by_key(|it| std::cmp::Reverse(it.clients));
        classes
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Decision {
            offer,
            reason,
            propensity,
            prediction,
            ..
        } = &self.decision;
        writeln!(f, "{}: {offer}, {reason}", self.class)?;
        if let Some(it) = prediction {
            let percent = |ln: f64| 100.0 * ln.exp_m1();
            writeln!(
                f,
                "  predicted {:.0} ms over HTTP/2 and {:.0} ms over HTTP/3; with this client's pages \
                 {:+.1} % ± {:.1} (their part {:+.1} %), wanted below -{:.1} %",
                1e3 * it.h2,
                1e3 * it.h3,
                percent(it.difference),
                100.0 * it.deviation,
                percent(it.effect),
                100.0 * it.margin,
            )?;
            let [rate2, rate3] = it.rates.map(|rate| rate / 1e6);
            let (rtt, loss) = (1e3 * it.rtt, 100.0 * it.loss);
            writeln!(
                f,
                "  taken for {rate2:.0} and {rate3:.0} Mbit/s before loss, {rtt:.1} ms, loss {loss:.2} %"
            )?;
            let [tcp, quic] = it.congestion;
            writeln!(f, "  {}", under(tcp, quic, it.is_measured))?;
        }
        for (protocol, it) in ["HTTP/2", "HTTP/3"].iter().zip(&self.timing) {
            if it.reports > 0.0 {
                let (percent, error) = (100.0 * it.mean.exp_m1(), 100.0 * it.error);
                let (reports, networks) = (it.reports, it.networks);
                writeln!(
                    f,
                    "  by {reports:.0} browsers' reports from {networks} networks, the server sees {percent:+.1} % ± {error:.1} \
                     of the class's own times over {protocol}"
                )?;
            }
        }
        if !self.is_known {
            return writeln!(f, "  nothing is known of this address and class");
        }
        let [tcp, quic] = [0, 1].map(|at| measured(self.measured[at], self.rtts[at]));
        writeln!(f, "  measured {tcp} over TCP, {quic} over QUIC")?;
        let ((sent, lost), limit) = (self.packets, self.limit / 1e6);
        writeln!(
            f,
            "  {lost:.1} of {sent:.0} packets lost; the class takes {limit:.0} Mbit/s over QUIC"
        )?;
        if self.udp_blocked && *offer == Offer::Http2 {
            writeln!(f, "  HTTP/3 was offered and never came")?;
        }
        writeln!(f, "  chosen with probability {propensity:.3}")
    }
}

/// The rate (bit/s) and the round trip (seconds) that were measured over a transport, in words.
fn measured(rate: Option<f64>, rtt: Option<f64>) -> String {
    let rate = rate.map(|rate| format!("{:.1} Mbit/s", 1e-6 * rate));
    let rtt = rtt.map(|rtt| format!("{:.1} ms", 1e3 * rtt));
    match (rate, rtt) {
        (Some(rate), Some(rtt)) => format!("{rate} and {rtt}"),
        (None, Some(rtt)) => format!("{rtt} but no rate"),
        (Some(rate), None) => rate,
        (None, None) => "nothing".into(),
    }
}

/// A clause on the congestion control of a prediction.
fn under(tcp: Congestion, quic: Congestion, is_measured: bool) -> String {
    let origin = match is_measured {
        true => "with which the surface was measured",
        false => "with which the surface was not measured: by its formulas alone",
    };
    format!("congestion control like {tcp} over TCP and like {quic} over QUIC, {origin}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, ModelKind, Observation, Secret, UnixTime};
    use std::time::Duration;

    const NOW: UnixTime = UnixTime::from_secs(1_795_392_000);

    #[test]
    fn an_explanation_says_what_is_known_and_what_is_not() {
        let selector = Selector::new(Config::new(Secret::new([1; 16]), &ModelKind::Learned(None)));
        let (host, moment) = (Host::new("a"), DecisionRequest::new(NOW, Transport::Tcp));
        let class = "chromium-linux".parse().unwrap();
        let client = Client::new(&Secret::new([1; 16]), "192.0.2.1".parse().unwrap(), class);
        let text = selector.explain(&client, &host, &moment).to_string();
        assert!(
            text.starts_with("chromium-linux: h3, HTTP/3 predicted -"),
            "{text}"
        );
        assert!(
            text.ends_with("nothing is known of this address and class\n"),
            "{text}"
        );
        assert!(selector.explain_address(&client, &host, &moment).is_empty());
        let seen = Observation {
            min_rtt: Some(Duration::from_millis(7)),
            packets_sent: 100,
            packets_lost: 2,
            ..Observation::new(Transport::Tcp)
        };
        assert!(text.contains("like cubic over QUIC, with which the surface was measured"));
        selector.observe(&client, &host, &seen, NOW);
        let found = selector.explain_address(&client, &host, &moment);
        assert_eq!((found.len(), found[0].class), (1, class));
        let summary = selector.summary();
        assert_eq!((summary.len(), summary[0].class), (1, class));
        assert_eq!((summary[0].clients, summary[0].rated), (1, [0, 0]));
        let text = found[0].to_string();
        assert!(
            text.contains("measured 7.0 ms but no rate over TCP, nothing over QUIC\n"),
            "{text}"
        );
        assert!(
            text.contains("2.0 of 100 packets lost; the class takes 469 Mbit/s"),
            "{text}"
        );
    }

    #[test]
    fn an_explanation_says_under_which_congestion_control_it_predicts_and_how_sure_that_is() {
        let explained = |congestion| {
            let mut config = Config::new(Secret::new([1; 16]), &ModelKind::Learned(None));
            config.congestion = congestion;
            let class = "chromium-linux".parse().unwrap();
            let client = Client::new(&config.secret, "192.0.2.1".parse().unwrap(), class);
            let moment = DecisionRequest::new(NOW, Transport::Tcp);
            Selector::new(config).explain(&client, &Host::new("a"), &moment)
        };
        let (cubic, bbr) = (Congestion::LossBased, Congestion::RateBased);
        let (known, mixed) = (explained([cubic; 2]), explained([bbr, cubic]));
        let deviation = |it: &Explanation| it.decision.prediction.unwrap().deviation;
        assert!(deviation(&mixed) >= 0.1 && deviation(&mixed) > deviation(&known));
        let text = mixed.to_string();
        let line = "  congestion control like bbr over TCP and like cubic over QUIC, with which the surface was not measured";
        assert!(text.contains(line), "{text}");
    }
}
