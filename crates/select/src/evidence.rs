//! The evidence of a decision about a client, as plain numbers that a log can carry and a policy be asked again with.

use crate::client_state::ClientState;
use crate::decision::Offer;
use crate::mix::Mix;
use crate::model::{Context, Model, OfferMode, path, path_properties};
use crate::observation::{Rate, Transport};
use crate::residuals::Residuals;
use crate::surface::{Congestion, PathProperties, Surface};
use crate::{Client, ClientClass, DecisionRequest, Host, Neighbours, Selector};
use serde::{Deserialize, Serialize};

/// The knowledge of a client and its path, from which every model decides. What is unknown is left out of the text.
///
/// A log may contain any numbers; all that is computed from them is finite.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// Seconds of a round trip: of the connection, of others from this address, or of its network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<f64>,
    /// Measured rate over TCP, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_bps: Option<f64>,
    /// Measured rate over QUIC, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quic_bps: Option<f64>,
    /// Measurements that the rate over QUIC is the mean of, 7 at most.
    #[serde(skip_serializing_if = "is_zero")]
    pub quic_rates: f64,
    /// Lower bound of the path's rate, bit/s.
    #[serde(skip_serializing_if = "is_zero")]
    pub least_bps: f64,
    /// Packets sent, older ones less.
    #[serde(skip_serializing_if = "is_zero")]
    pub sent: f64,
    /// Packets lost, older ones less.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: f64,
    /// Weight of the pages over TCP: recent ones count 1, older ones less.
    #[serde(skip_serializing_if = "is_zero")]
    pub tcp_pages: f64,
    /// Sum of ln of these pages' times over the predicted ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub tcp_residual: f64,
    /// Weight of the pages over QUIC.
    #[serde(skip_serializing_if = "is_zero")]
    pub quic_pages: f64,
    /// Sum of ln of these pages' times over the predicted ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub quic_residual: f64,
    /// Rate that addresses of the same network have, bit/s; where the client's own is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near_bps: Option<f64>,
    /// Share of packets that addresses of the same network lose; where the client's own rate is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near_loss: Option<f64>,
    /// True if HTTP/3 was offered to this client and never used.
    #[serde(skip_serializing_if = "is_false")]
    pub udp_blocked: bool,
    /// Highest rate at which the class receives over QUIC, bit/s.
    pub limit_bps: f64,
    /// ln by which the hold-out says that the class is slower over HTTP/3 than predicted.
    #[serde(skip_serializing_if = "is_zero")]
    pub correction: f64,
    /// True if what was learnt counts.
    #[serde(skip_serializing_if = "is_false")]
    pub learning: bool,
    /// Busy share of the worker's processor time, 0 to 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub load: f64,
    /// TCP's congestion control goes by the rate (BBR).
    #[serde(skip_serializing_if = "is_false")]
    pub tcp_bbr: bool,
    /// QUIC's congestion control goes by the rate (BBR).
    #[serde(skip_serializing_if = "is_false")]
    pub quic_bbr: bool,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Selector {
    /// Returns what a decision for `client` at this moment is based on.
    #[must_use]
    pub fn evidence(&self, client: &Client, host: &Host, moment: &DecisionRequest) -> Evidence {
        let found = self.known(client, moment);
        let known = found.unwrap_or_default();
        let rate = |transport| known.rate(transport).map(|(ln, _)| ln.exp());
        let mix = Mix::default();
        let context = self.context(client, &mix, moment, found.as_ref());
        let near = context.neighbours;
        let [tcp, quic] = [Transport::Tcp, Transport::Quic].map(|it| known.residuals(it));
        let (sent, lost) = known.packets();
        Evidence {
            rtt: context.rtt().map(|it| rounded(it, 1e6)),
            tcp_bps: rate(Transport::Tcp).map(f64::round),
            quic_bps: rate(Transport::Quic).map(f64::round),
            quic_rates: known.rate(Transport::Quic).map_or(0.0, |(_, count)| count),
            least_bps: known.floor().round(),
            sent,
            lost,
            tcp_pages: tcp.pages,
            tcp_residual: tcp.sum,
            quic_pages: quic.pages,
            quic_residual: quic.sum,
            near_bps: near.and_then(|it| it.rate).map(|ln| ln.exp().round()),
            near_loss: near.map(|it| rounded(it.loss, 1e6)),
            udp_blocked: known.is_udp_blocked()
                || near.is_some_and(|it| it.udp_blocked) && !known.has_arrived(),
            limit_bps: context.limit.round(),
            correction: rounded(context.correction, 1e6),
            learning: self.model(host).learns() && context.learning,
            load: rounded(moment.load, 1e3),
            tcp_bbr: context.congestion[0] == Congestion::RateBased,
            quic_bbr: context.congestion[1] == Congestion::RateBased,
        }
    }
}

impl Evidence {
    /// Asks what `model` would offer, to a client that it told `before`, if it told it anything, by a host whose visitors
    /// load `mix`. Its changes are not damped, and nobody is held out.
    pub(crate) fn offer(
        &self,
        model: &dyn Model,
        class: ClientClass,
        before: Option<Offer>,
        mix: &Mix,
    ) -> Offer {
        let known = self.known();
        let http3 = before == Some(Offer::Http3);
        let judgement = model.judge(&self.context(class, http3, mix, &known));
        let forced = judgement.offer_mode == OfferMode::Forced;
        let may = class.falls_back() && !self.udp_blocked;
        Offer::of(judgement.http3 && (forced || may))
    }

    /// Properties of a surface, with what the class takes over QUIC and without what this client does: by its own rate, a
    /// path that throttles QUIC would explain itself away.
    pub(crate) fn path_properties(&self, surface: &Surface, class: ClientClass) -> PathProperties {
        let (known, mix) = (self.known(), Mix::default());
        let context = self.context(class, false, &mix, &known);
        let limit = if self.limit_bps >= 1.0 {
            self.limit_bps
        } else {
            crate::classes::prior(surface, class).0
        };
        path_properties(&context, &path(&context, surface, limit, false))
    }

    fn context<'a>(
        &self,
        class: ClientClass,
        http3: bool,
        mix: &'a Mix,
        known: &'a ClientState,
    ) -> Context<'a> {
        let congestion = |bbr| match bbr {
            true => Congestion::RateBased,
            false => Congestion::LossBased,
        };
        Context {
            class,
            limit: positive(self.limit_bps).unwrap_or(1e9),
            correction: finite(self.correction, -2.0, 2.0),
            mix,
            load: finite(self.load, 0.0, 1.0),
            http3,
            congestion: [congestion(self.tcp_bbr), congestion(self.quic_bbr)],
            learning: self.learning,
            rtt: self.rtt.and_then(positive),
            known: Some(known),
            neighbours: self.near_loss.map(|loss| Neighbours {
                rate: self.near_bps.and_then(positive).map(f64::ln),
                rtt: self.rtt.and_then(positive).unwrap_or(0.03),
                loss: finite(loss, 0.0, 1.0),
                udp_blocked: self.udp_blocked,
            }),
        }
    }

    /// The state of a client of which this is known.
    fn known(&self) -> ClientState {
        let mut known = ClientState::default();
        known.set_packets(finite(self.sent, 0.0, 6e4), finite(self.lost, 0.0, 4e3));
        if let Some(rate) = self.tcp_bps.and_then(positive) {
            known.add_rate(Transport::Tcp, Rate::Known(rate));
        }
        if let Some(rate) = self.quic_bps.and_then(positive) {
            for _ in 0..finite(self.quic_rates, 1.0, 8.0) as u8 {
                known.add_rate(Transport::Quic, Rate::Known(rate));
            }
        }
        if let Some(rate) = positive(self.least_bps) {
            // It is a step of the state's, which rounds down.
            known.add_rate(Transport::Tcp, Rate::AtLeast(rate * 1.001));
        }
        for (transport, pages, sum) in [
            (Transport::Tcp, self.tcp_pages, self.tcp_residual),
            (Transport::Quic, self.quic_pages, self.quic_residual),
        ] {
            let (pages, sum) = (finite(pages, 0.0, 20.0), finite(sum, -24.0, 24.0));
            known.set_residuals(transport, Residuals { pages, sum });
        }
        known
    }
}

/// The nearest multiple of one of so many parts, for lines that are read by people as well.
fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

fn finite(value: f64, low: f64, high: f64) -> f64 {
    if value.is_nan() {
        low
    } else {
        value.clamp(low, high)
    }
}

/// Checks that a number is in the range of rates and times that any path has.
fn positive(value: f64) -> Option<f64> {
    (value > 0.0 && value <= 1e15).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bulk, Config, ModelKind, Observation, Page, Secret, Start, UnixTime};
    use altway_units::DataSize;
    use proptest::prelude::*;
    use std::time::Duration;

    const NOW: UnixTime = UnixTime::from_secs(1_795_392_000);

    /// A visit of a client with a path of `rtt_ms` and `mbit`, a host, and a selector that was told of it.
    fn seen(rtt_ms: u64, mbit: u64, lost: u64) -> (Selector, Client, Host, DecisionRequest) {
        let secret = Secret::new([1; 16]);
        let mut config = Config::new(secret, &ModelKind::Learned(None));
        config.learn_after = 0;
        let (selector, host) = (Selector::new(config), Host::new("a"));
        let class = "chromium-linux".parse().unwrap();
        let client = Client::new(&secret, "192.0.2.1".parse().unwrap(), class);
        let rtt = Some(Duration::from_millis(rtt_ms));
        for transport in [Transport::Tcp, Transport::Quic, Transport::Quic] {
            selector.connected(&client, &host, transport, NOW);
            let seen = Observation {
                min_rtt: rtt,
                packets_sent: 10_000,
                packets_lost: lost,
                bulk: Some(Bulk {
                    size: DataSize::from_bytes(50_000_000),
                    rate: altway_units::Bandwidth::from_bps(mbit * 1_000_000).unwrap(),
                    app_limited: false,
                }),
                page: Some(Page {
                    first: DataSize::from_bytes(50_000_000),
                    rest: DataSize::ZERO,
                    responses: 1,
                    start: Start::Cold,
                    time: Duration::from_millis(400_000 / mbit + 3 * rtt_ms),
                    waited: Some(Duration::ZERO),
                }),
                ..Observation::new(transport)
            };
            selector.observe(&client, &host, &seen, NOW);
        }
        let moment = DecisionRequest {
            min_rtt: rtt,
            load: 0.1,
            ..DecisionRequest::new(NOW, Transport::Tcp)
        };
        (selector, client, host, moment)
    }

    proptest! {
        #[test]
        fn a_model_decides_by_the_evidence_as_it_does_by_the_state(
            rtt_ms in 1_u64..200, mbit in 1_u64..2_000, lost in 0_u64..300,
        ) {
            let (selector, client, host, moment) = seen(rtt_ms, mbit, lost);
            let evidence = selector.evidence(&client, &host, &moment);
            let by_state = selector.preview(&client, &host, &moment);
            let prediction = by_state.prediction.unwrap();
            // What rounding could turn is left out, and what a coin has decided.
            let edge = (prediction.difference + prediction.margin + 0.01).abs() < 1e-3;
            if !edge && by_state.propensity > 0.5 && !by_state.held {
                let model = ModelKind::Learned(None).build(Surface::embedded());
                let mix = host.mix.into_inner().unwrap();
                let offer = evidence.offer(&*model, client.class(), None, &mix);
                prop_assert_eq!(offer, by_state.offer, "{:?} {:?}", evidence, by_state);
            }
        }

        #[test]
        fn any_numbers_give_finite_times(numbers in prop::array::uniform10(any::<f64>()), flags: bool) {
            let [rtt, tcp, quic, count, least, sent, lost, pages, near, limit] = numbers;
            let evidence = Evidence {
                rtt: Some(rtt),
                tcp_bps: Some(tcp),
                quic_bps: Some(quic),
                quic_rates: count,
                least_bps: least,
                sent,
                lost,
                quic_pages: pages,
                quic_residual: near,
                near_bps: Some(near),
                near_loss: flags.then_some(lost),
                limit_bps: limit,
                correction: pages,
                load: near,
                learning: flags,
                ..Evidence::default()
            };
            let surface = Surface::embedded();
            let path_properties = evidence.path_properties(surface, ClientClass::OTHER);
            let exchange = crate::Exchange {
                document: 1e4, objects: 1e5, many: true, setup2: 2.0, setup3: 1.0,
            };
            let times = surface.times(&path_properties, &exchange);
            prop_assert!(times.h2.is_finite() && times.h3.is_finite() && times.h2 > 0.0);
            for kind in ["learned", "surface", "threshold", "study"] {
                let model = kind.parse::<ModelKind>().unwrap().build(surface);
                evidence.offer(&*model, ClientClass::OTHER, None, &Mix::default());
            }
        }
    }

    #[test]
    fn where_udp_is_blocked_nothing_but_an_operators_word_offers_http3() {
        let evidence = Evidence {
            rtt: Some(0.2),
            udp_blocked: true,
            limit_bps: 1e9,
            ..Evidence::default()
        };
        for (kind, offer) in [
            ("learned", Offer::Http2),
            ("threshold", Offer::Http2),
            ("h3", Offer::Http3),
        ] {
            let model = kind
                .parse::<ModelKind>()
                .unwrap()
                .build(Surface::embedded());
            let found = evidence.offer(&*model, ClientClass::OTHER, None, &Mix::default());
            assert_eq!(found, offer, "{kind}");
        }
    }
}
