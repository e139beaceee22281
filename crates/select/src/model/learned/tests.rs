//! Decisions are those of the plain formulas, to the last bit.

use super::*;
use crate::surface::reference;
use crate::{
    Bulk, Client, Config, Decision, DecisionRequest, Host, ModelKind, Observation, Page, Secret,
    Selector, Start, UnixTime,
};
use altway_units::{Bandwidth, DataSize};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::time::Duration;

/// A Monday.
const NOW: UnixTime = UnixTime::from_secs(1_795_392_000);
const SECRET: Secret = Secret::new([5; 16]);

/// The model with each exchange's times worked out on their own.
#[derive(Debug)]
struct Plain(SurfaceModel);

impl Model for Plain {
    fn judge(&self, context: &Context<'_>) -> Judgement {
        let learns = self.0.learns && context.learning;
        let limit = match learns {
            true => context.limit,
            false => crate::classes::prior(&self.0.surface, context.class).0,
        };
        let own_rates = learns || self.0.learns && has_both_rates(context);
        let path = path(context, &self.0.surface, limit, own_rates);
        let path_properties = path_properties(context, &path);
        let (ln2, ln3, slope) = context
            .mix
            .times(|exchange| reference::times(&self.0.surface, &path_properties, exchange));
        let known = context.known.filter(|_| learns);
        let effect = known.map_or(0.0, |known| {
            let [h2, h3] = [Transport::Tcp, Transport::Quic].map(|it| known.residuals(it));
            residuals::effect(h2, h3)
        });
        let correction = if learns { context.correction } else { 0.0 };
        let difference = ln3 - ln2 + effect + correction;
        let margin = self.0.margin(context.load);
        let edge = if context.http3 {
            HYSTERESIS
        } else {
            -HYSTERESIS
        };
        let is_measured = matches!(context.congestion, [tcp, quic] if tcp == quic);
        let deviation = path.deviation * slope;
        Judgement {
            http3: difference < -margin + edge,
            reason: Reason::Predicted { difference, margin },
            prediction: Some(Prediction {
                h2: ln2.exp(),
                h3: ln3.exp(),
                difference,
                deviation: if is_measured {
                    deviation
                } else {
                    deviation.hypot(UNMEASURED_NOISE)
                },
                effect,
                margin,
                rates: [path.rate2, path.rate3],
                rtt: path_properties.rtt,
                loss: path_properties.loss,
                congestion: context.congestion,
                is_measured,
            }),
            offer_mode: OfferMode::Long,
        }
    }

    fn learns(&self) -> bool {
        self.0.learns
    }
}

/// Something that happens to a selector.
#[derive(Debug, Clone)]
struct Event {
    client: u8,
    class: &'static str,
    host: usize,
    transport: Transport,
    later: u64,
    observation: Observation,
    load: f64,
    rtt_us: Option<u64>,
}

fn transport() -> impl Strategy<Value = Transport> {
    prop_oneof![Just(Transport::Tcp), Just(Transport::Quic)]
}

fn page() -> impl Strategy<Value = Page> {
    let start = prop_oneof![Just(Start::Warm), Just(Start::Cold), Just(Start::Early)];
    (
        0_u64..30_000_000,
        0_u64..30_000_000,
        1_u32..40,
        start,
        1_u64..20_000_000,
    )
        .prop_map(|(first, rest, responses, start, us)| Page {
            first: DataSize::from_bytes(first),
            rest: DataSize::from_bytes(rest),
            responses,
            start,
            time: Duration::from_micros(us),
            waited: Some(Duration::ZERO),
        })
}

fn bulk() -> impl Strategy<Value = Bulk> {
    (
        100_000_u64..80_000_000,
        100_000_u64..3_000_000_000,
        any::<bool>(),
    )
        .prop_map(|(size, bps, app_limited)| Bulk {
            size: DataSize::from_bytes(size),
            rate: Bandwidth::from_bps(bps).unwrap(),
            app_limited,
        })
}

fn event() -> impl Strategy<Value = Event> {
    const CLASSES: [&str; 5] = [
        "chromium-linux",
        "firefox-windows",
        "safari-ios",
        "curl-other",
        "other-other",
    ];
    let whom = (
        0_u8..6,
        prop::sample::select(&CLASSES[..]),
        0_usize..2,
        transport(),
    );
    let seen = (
        prop::option::of(1_u64..400_000),
        0_u64..40_000,
        0_u64..900,
        prop::option::of(bulk()),
        prop::option::of(page()),
    );
    (whom, seen, 0_u64..400_000, 0.0..1.0_f64).prop_map(
        |((client, class, host, transport), (rtt_us, sent, lost, bulk, page), later, load)| Event {
            client,
            class,
            host,
            transport,
            later,
            observation: Observation {
                min_rtt: rtt_us.map(Duration::from_micros),
                packets_sent: sent,
                packets_lost: lost,
                bulk,
                page,
                ..Observation::new(transport)
            },
            load,
            rtt_us,
        },
    )
}

/// The decisions of a selector with `model`, to which these events happen.
fn decisions(
    model: Box<dyn Model>,
    congestion: [Congestion; 2],
    events: &[Event],
) -> Vec<Decision> {
    let mut config = Config::new(SECRET, &ModelKind::Learned(None));
    (config.model, config.congestion) = (model, congestion);
    (config.max_clients, config.learn_after) = (1_024, 10);
    let selector = Selector::new(config);
    let hosts = [Host::new("a.test"), Host::new("b.test")];
    // One host whose own mix counts.
    for size in 0..250_u64 {
        let page = Page {
            first: DataSize::from_bytes(size * size * 40),
            rest: DataSize::from_bytes(size % 7 * 100_000),
            responses: 1 + size as u32 % 9,
            start: if size % 3 == 0 {
                Start::Cold
            } else {
                Start::Warm
            },
            time: Duration::from_millis(80),
            waited: Some(Duration::ZERO),
        };
        let seen = Observation {
            page: Some(page),
            ..Observation::new(Transport::Tcp)
        };
        let class = "chromium-other".parse().unwrap();
        let somebody = Client::new(&SECRET, Ipv4Addr::new(198, 51, 100, 1).into(), class);
        selector.observe(&somebody, &hosts[0], &seen, NOW);
    }
    let mut now = NOW;
    let decide = |event: &Event| {
        now = now + Duration::from_secs(event.later);
        let address = Ipv4Addr::new(192, 0, 2, event.client).into();
        let client = Client::new(&SECRET, address, event.class.parse().unwrap());
        let host = &hosts[event.host];
        selector.connected(&client, host, event.transport, now);
        let moment = DecisionRequest {
            min_rtt: event.rtt_us.map(Duration::from_micros),
            load: event.load,
            ..DecisionRequest::new(now, event.transport)
        };
        let before = selector.decide(&client, host, &moment);
        selector.observe(&client, host, &event.observation, now);
        [before, selector.decide(&client, host, &moment)]
    };
    events.iter().flat_map(decide).collect()
}

proptest! {
    #[test]
    fn decisions_are_those_of_the_plain_formulas(
        events in prop::collection::vec(event(), 1..40), learns: bool, by_rate in any::<[bool; 2]>(),
    ) {
        let congestion = by_rate.map(|by_rate| match by_rate {
            true => Congestion::RateBased,
            false => Congestion::LossBased,
        });
        let surface = Surface::embedded().clone();
        let model = || match learns {
            true => SurfaceModel::learned(surface.clone()),
            false => SurfaceModel::surface(surface.clone(), true),
        };
        let found = decisions(Box::new(model()), congestion, &events);
        let plain = decisions(Box::new(Plain(model())), congestion, &events);
        // Each number is shown with all its digits.
        prop_assert_eq!(format!("{found:?}"), format!("{plain:?}"));
    }
}

/// 50 Mbit/s with 50 ms and 2.5 % loss, of which a megabyte over HTTP/3 shows 2 Mbit/s: real transfers have HTTP/3 ahead.
#[test]
fn a_rate_that_loss_explains_is_not_taken_for_the_path_s() {
    let predict = |lost: u64| {
        let selector = Selector::new(Config::new(SECRET, &ModelKind::Learned(None)));
        let (host, rtt) = (Host::default(), Some(Duration::from_millis(50)));
        let class = "altway-other".parse().unwrap();
        let client = Client::new(&SECRET, Ipv4Addr::new(192, 0, 2, 1).into(), class);
        let seen = Observation {
            min_rtt: rtt,
            packets_sent: 700,
            packets_lost: lost,
            bulk: Some(Bulk {
                size: DataSize::from_bytes(1_000_000),
                rate: Bandwidth::from_mbit(2).unwrap(),
                app_limited: false,
            }),
            ..Observation::new(Transport::Quic)
        };
        selector.observe(&client, &host, &seen, NOW);
        let moment = DecisionRequest {
            min_rtt: rtt,
            ..DecisionRequest::new(NOW, Transport::Quic)
        };
        let decision = selector.preview(&client, &host, &moment);
        (decision.offer, decision.prediction.unwrap().rates)
    };
    let (offer, rates) = predict(18);
    assert_eq!(offer, Offer::Http3);
    assert!(rates.iter().all(|it| (8e6..13e6).contains(it)), "{rates:?}");
    let (_, rates) = predict(0);
    assert!(
        rates.iter().all(|it| (1.9e6..2.1e6).contains(it)),
        "{rates:?}"
    );
}
