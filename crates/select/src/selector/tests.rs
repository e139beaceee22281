//! A selector in virtual time: who is offered what, how it is said, and what nobody can make it do.

use super::*;
use crate::{Bulk, Page, Start};
use altway_units::{Bandwidth, DataSize};
use proptest::prelude::*;
use std::net::Ipv4Addr;

mod blocked_udp;
mod changed_path;
mod curl;
mod few_visits;
mod hosts;
mod loss_by_control;
mod lossy_rates;
mod told_later;

/// A Monday.
const NOW: UnixTime = UnixTime::from_secs(1_795_392_000);
const DAY: Duration = Duration::from_secs(86_400);
const SECRET: Secret = Secret::new([9; 16]);

fn with(model: &str, change: impl FnOnce(&mut Config)) -> Selector {
    let mut config = Config::new(SECRET, &model.parse().unwrap());
    config.max_clients = 4_096;
    config.learn_after = 0;
    change(&mut config);
    Selector::new(config)
}

fn selector(model: &str) -> Selector {
    with(model, |_| {})
}

fn client(class: &str, host: u8) -> Client {
    Client::new(
        &SECRET,
        Ipv4Addr::new(192, 0, 2, host).into(),
        class.parse().unwrap(),
    )
}

fn host() -> Host {
    Host::new("example.org")
}

fn seen(transport: Transport, rtt_ms: u64, mbit: u64) -> Observation {
    Observation {
        min_rtt: Some(Duration::from_millis(rtt_ms)),
        packets_sent: 30_000,
        bulk: Some(Bulk {
            size: DataSize::from_bytes(50_000_000),
            rate: Bandwidth::from_mbit(mbit).unwrap(),
            app_limited: false,
        }),
        ..Observation::new(transport)
    }
}

fn page(transport: Transport, seconds: f64) -> Observation {
    let page = Page {
        first: DataSize::from_bytes(20_000),
        rest: DataSize::from_bytes(400_000),
        responses: 21,
        start: Start::Warm,
        time: Duration::from_secs_f64(seconds),
        waited: Some(Duration::ZERO),
    };
    Observation {
        page: Some(page),
        ..Observation::new(transport)
    }
}

fn advertised(decision: &Decision) -> Option<u64> {
    match decision.alt_svc {
        AltSvc::Advertise { max_age } => Some(max_age.as_secs()),
        _ => None,
    }
}

fn over(transport: Transport, now: UnixTime) -> DecisionRequest {
    DecisionRequest::new(now, transport)
}

/// A client whose path is short and fast, of which browsers take little over QUIC.
fn fast(selector: &Selector, class: &str) -> Client {
    let client = client(class, 1);
    selector.observe(&client, &host(), &seen(Transport::Tcp, 1, 900), NOW);
    client
}

#[test]
fn an_operators_h2_clears_and_h3_lives_long_over_both_transports() {
    for transport in [Transport::Tcp, Transport::Quic] {
        let decide = |model| {
            selector(model).decide(&client("safari-ios", 1), &host(), &over(transport, NOW))
        };
        assert_eq!(
            (decide("h2").offer, decide("h2").alt_svc),
            (Offer::Http2, AltSvc::Clear)
        );
        assert_eq!(advertised(&decide("h3")), Some(2_592_000));
    }
}

/// A visit of 1 MB over TCP that lost `lost` of its 700 packets, on a path without delay.
fn megabyte(mbit: u64, lost: u64) -> Observation {
    let size = DataSize::from_bytes(1_000_000);
    let page = Page {
        first: DataSize::from_bytes(125),
        rest: size,
        responses: 2,
        start: Start::Cold,
        time: Duration::from_millis(8_000 / mbit + 400),
        waited: Some(Duration::ZERO),
    };
    Observation {
        min_rtt: Some(Duration::from_micros(300)),
        packets_sent: 700,
        packets_lost: lost,
        bulk: Some(Bulk {
            size,
            rate: Bandwidth::from_mbit(mbit).unwrap(),
            app_limited: false,
        }),
        page: Some(page),
        ..Observation::new(Transport::Tcp)
    }
}

#[test]
fn a_lossy_path_without_delay_is_told_http3_after_one_visit_and_a_clean_one_is_not() {
    for mbit in [20, 50, 100, 600] {
        for (lost, offer) in [(17, Offer::Http3), (1, Offer::Http2), (0, Offer::Http2)] {
            let (selector, host) = (selector("learned"), host());
            // Of a class that takes over QUIC all that such a path carries.
            let client = client("altway-linux", 1);
            selector.connected(&client, &host, Transport::Tcp, NOW);
            selector.observe(&client, &host, &megabyte(mbit, lost), NOW);
            let moment = DecisionRequest {
                min_rtt: Some(Duration::from_micros(300)),
                ..over(Transport::Tcp, NOW + Duration::from_secs(10))
            };
            let decision = selector.preview(&client, &host, &moment);
            assert_eq!(
                decision.offer, offer,
                "{mbit} Mbit/s, {lost} lost: {decision:?}"
            );
        }
    }
}

#[test]
fn an_offer_lives_a_month_whether_a_rate_is_known_or_not() {
    let selector = selector("learned");
    let client = client("chromium-linux", 1);
    let moment = DecisionRequest {
        min_rtt: Some(Duration::from_millis(60)),
        ..over(Transport::Tcp, NOW)
    };
    assert_eq!(
        advertised(&selector.decide(&client, &host(), &moment)),
        Some(2_592_000)
    );
    selector.observe(&client, &host(), &seen(Transport::Tcp, 60, 50), NOW);
    assert_eq!(
        advertised(&selector.decide(&client, &host(), &moment)),
        Some(2_592_000)
    );
}

#[test]
fn over_http3_an_offer_is_taken_back_by_ten_minutes_and_over_tcp_by_clear_once() {
    let selector = selector("learned");
    let client = fast(&selector, "chromium-linux");
    selector.connected(&client, &host(), Transport::Quic, NOW);
    let decide = |transport| selector.decide(&client, &host(), &over(transport, NOW));
    for _ in 0..3 {
        let decision = decide(Transport::Quic);
        assert_eq!(
            (decision.offer, advertised(&decision)),
            (Offer::Http2, Some(600))
        );
    }
    assert_eq!(decide(Transport::Tcp).alt_svc, AltSvc::Clear);
    assert_eq!(
        decide(Transport::Tcp).alt_svc,
        AltSvc::Omit,
        "its entry is known to be gone"
    );
}

#[test]
fn firefox_is_taken_back_by_clear_over_http3_too_for_it_keeps_the_connection() {
    let selector = selector("learned");
    let client = fast(&selector, "firefox-linux");
    selector.connected(&client, &host(), Transport::Quic, NOW);
    let decide = |transport| selector.decide(&client, &host(), &over(transport, NOW));
    for transport in [Transport::Quic, Transport::Quic, Transport::Tcp] {
        let decision = decide(transport);
        assert_eq!(
            (decision.offer, decision.alt_svc),
            (Offer::Http2, AltSvc::Clear)
        );
    }
    assert_eq!(decide(Transport::Tcp).alt_svc, AltSvc::Omit);
}

#[test]
fn a_visit_is_broken_off_only_where_the_rest_of_it_gains_more_than_a_new_connection_costs() {
    let selector = selector("learned");
    let client = fast(&selector, "chromium-linux");
    selector.observe(&client, &host(), &seen(Transport::Quic, 1, 300), NOW);
    let decide = |bytes_after_the_first_page: u64| {
        let host = Host::new("example.org");
        let mut mix = host.mix.lock().unwrap();
        for _ in 0..200 {
            mix.add(1_000_000, 1, true);
            mix.add(bytes_after_the_first_page, 1, false);
        }
        drop(mix);
        selector.preview(&client, &host, &over(Transport::Quic, NOW))
    };
    // A round trip of 1 ms costs 6 ms in all; a megabyte gains about 9 ms of the 18 that it takes more.
    assert!(decide(500_000).prediction.unwrap().difference > END_SESSION_DIFFERENCE);
    assert_eq!(advertised(&decide(500_000)), Some(600));
    assert_eq!(decide(2_000_000).alt_svc, AltSvc::Clear);
}

#[test]
fn a_large_first_response_measures_an_unknown_path_before_anything_is_said() {
    let selector = selector("learned");
    let client = client("chromium-linux", 1);
    let decide = |bytes| {
        let first_response = Some(DataSize::from_bytes(bytes));
        selector.decide(
            &client,
            &host(),
            &DecisionRequest {
                first_response,
                ..over(Transport::Tcp, NOW)
            },
        )
    };
    assert_eq!(
        (decide(1_000_001).alt_svc, decide(1_000_001).reason),
        (AltSvc::Omit, Reason::Waiting)
    );
    assert!(advertised(&decide(1_000_000)).is_some());
    selector.observe(&client, &host(), &seen(Transport::Tcp, 60, 50), NOW);
    assert!(advertised(&decide(1_000_001)).is_some());
}

#[test]
fn hosts_of_one_client_are_decided_by_what_they_send() {
    let selector = selector("learned");
    let client = client("chromium-linux", 1);
    selector.observe(&client, &host(), &seen(Transport::Tcp, 12, 300), NOW);
    let downloads = Host::new("downloads.example.org");
    for _ in 0..300 {
        downloads.mix.lock().unwrap().add(500_000_000, 1, false);
    }
    let decide = |host: &Host| {
        selector
            .decide(&client, host, &over(Transport::Tcp, NOW))
            .offer
    };
    assert_eq!(
        (decide(&host()), decide(&downloads)),
        (Offer::Http3, Offer::Http2)
    );
}

/// Measured on such paths, ten megabytes take a browser 10 to 20 % longer over HTTP/3, and a page of some hundred kilobytes less.
#[test]
fn on_fast_paths_a_browser_is_told_http2_by_a_host_of_downloads_and_http3_by_a_site() {
    // One page tells that it is a host of downloads.
    for (mbit, pages) in [(600, 1), (600, 300), (900, 1), (900, 300)] {
        let selector = selector("learned");
        let client = client("chromium-linux", 1);
        selector.observe(&client, &host(), &seen(Transport::Tcp, 25, mbit), NOW);
        let downloads = Host::new("downloads.example.org");
        for page in 0..pages {
            let mut mix = downloads.mix.lock().unwrap();
            mix.add(10_000_000, 2, page % 2 == 0);
        }
        let decide = |host: &Host| {
            let request = over(Transport::Tcp, NOW);
            selector.decide(&client, host, &request).offer
        };
        assert_eq!(
            (decide(&downloads), decide(&host())),
            (Offer::Http2, Offer::Http3),
            "{mbit} {pages}"
        );
    }
}

#[test]
fn a_client_whose_http3_pages_take_three_times_as_long_is_moved_within_four_pages() {
    let selector = selector("learned");
    let client = client("chromium-linux", 1);
    selector.observe(&client, &host(), &seen(Transport::Tcp, 40, 50), NOW);
    let moment = over(Transport::Quic, NOW);
    let decide = || selector.decide(&client, &host(), &moment);
    assert_eq!(decide().offer, Offer::Http3);
    let h3 = decide().prediction.unwrap().h3;
    let moved = (1..=4).find(|_| {
        selector.observe(&client, &host(), &page(Transport::Quic, 3.0 * h3), NOW);
        decide().offer == Offer::Http2
    });
    assert!(moved.is_some());
}

#[test]
fn load_raises_the_margin() {
    let selector = selector("learned");
    let client = client("chromium-linux", 1);
    let margin = |load| {
        let moment = DecisionRequest {
            load,
            ..over(Transport::Tcp, NOW)
        };
        selector
            .preview(&client, &host(), &moment)
            .prediction
            .unwrap()
            .margin
    };
    for (load, expected) in [
        (0.0, 0.03),
        (0.7, 0.03),
        (0.825, 0.08),
        (0.95, 0.13),
        (9.0, 0.13),
    ] {
        assert!((margin(load) - expected).abs() < 1e-9, "{load}");
    }
    assert_eq!(margin(f64::NAN), 0.03);
}

#[test]
fn neighbours_are_a_first_guess_for_who_is_new_and_nothing_for_who_is_known() {
    let selector = selector("learned");
    for number in 1..=3 {
        let neighbour = client("firefox-linux", number);
        selector.observe(&neighbour, &host(), &seen(Transport::Tcp, 1, 900), NOW);
    }
    let new = client("firefox-linux", 77);
    let decide = || selector.preview(&new, &host(), &over(Transport::Tcp, NOW));
    assert!((decide().prediction.unwrap().rates[0] / 900e6 - 1.0).abs() < 0.01);
    assert_eq!(decide().offer, Offer::Http2);
    selector.observe(&new, &host(), &seen(Transport::Tcp, 60, 50), NOW);
    assert!((decide().prediction.unwrap().rates[0] / 50e6 - 1.0).abs() < 0.01);
    assert_eq!(decide().offer, Offer::Http3);
}

#[test]
fn no_24_moves_the_limit_of_a_class_by_more_than_six_votes_a_day() {
    let limit = |rounds| {
        let selector = selector("learned");
        for round in 0..rounds {
            let client = client("safari-macos", (round % 200) as u8);
            selector.observe(&client, &host(), &seen(Transport::Tcp, 5, 900), NOW);
            selector.observe(&client, &host(), &seen(Transport::Quic, 5, 60), NOW);
        }
        selector.limit("safari-macos".parse().unwrap())
    };
    assert_eq!(limit(6), limit(1_000));
    assert!(limit(5) > 469e6 / 1.51);
}

#[test]
fn the_held_get_what_their_coin_says_and_the_others_have_nearly_certain_offers() {
    let selector = selector("learned");
    let mut held = [0; 2];
    for number in 0..4_000_u16 {
        let [high, low] = number.to_be_bytes();
        let class = "chromium-linux".parse().unwrap();
        let client = Client::new(&SECRET, Ipv4Addr::new(10, high, low, 1).into(), class);
        let moment = DecisionRequest {
            min_rtt: Some(Duration::from_millis(9)),
            ..over(Transport::Tcp, NOW)
        };
        let decision = selector.decide(&client, &host(), &moment);
        if decision.held {
            held[usize::from(decision.offer == Offer::Http3)] += 1;
            assert_eq!(decision.reason, Reason::HoldOut);
        }
        let difference = decision.prediction.unwrap().difference;
        let other = holdout::share(None, difference) / 2.0;
        let expected = if decision.held && decision.offer == Offer::Http2 {
            other
        } else {
            1.0 - other
        };
        let sure = difference.abs() > holdout::MOST_HARM;
        assert_eq!(decision.propensity, if sure { 1.0 } else { expected });
    }
    assert!(
        held.iter().all(|count| (25..80).contains(count)),
        "{held:?}"
    );
}

mod models {
    use super::*;

    fn decide(model: &str, rtt: Duration, sent: u64, lost: u64) -> Decision {
        let selector = selector(model);
        let client = client("chromium-linux", 1);
        let seen = Observation {
            min_rtt: Some(rtt),
            packets_sent: sent,
            packets_lost: lost,
            ..Observation::new(Transport::Tcp)
        };
        selector.observe(&client, &host(), &seen, NOW);
        let moment = DecisionRequest {
            min_rtt: Some(rtt),
            ..over(Transport::Tcp, NOW)
        };
        selector.decide(&client, &host(), &moment)
    }

    const TICK: Duration = Duration::from_nanos(1);

    #[test]
    fn threshold_offers_http3_from_its_rtt_on() {
        let rtt = Duration::from_millis(50);
        let offer = |rtt| decide("threshold", rtt, 1_000, 0).offer;
        assert_eq!(
            (offer(rtt - TICK * 2), offer(rtt), offer(rtt + TICK)),
            (Offer::Http2, Offer::Http3, Offer::Http3)
        );
    }

    #[test]
    fn threshold_offers_http3_from_its_loss_on_and_stays_where_it_is_while_that_is_unknown() {
        let rtt = Duration::from_millis(1);
        let offer = |sent, lost| decide("threshold", rtt, sent, lost).offer;
        assert_eq!(
            (offer(1_000, 9), offer(1_000, 10), offer(1_000, 11)),
            (Offer::Http2, Offer::Http3, Offer::Http3)
        );
        assert_eq!(
            (offer(99, 50), offer(100, 50), offer(101, 50)),
            (Offer::Http2, Offer::Http3, Offer::Http3)
        );
    }

    #[test]
    fn threshold_does_not_leave_http3_while_the_loss_is_unknown() {
        let selector = selector("threshold");
        let client = client("chromium-linux", 1);
        let first = selector.decide(&client, &host(), &over(Transport::Tcp, NOW));
        assert_eq!(
            (first.offer, first.reason),
            (Offer::Http3, Reason::UnknownPath)
        );
        let moment = DecisionRequest {
            min_rtt: Some(Duration::from_millis(1)),
            ..over(Transport::Tcp, NOW)
        };
        assert_eq!(
            selector.decide(&client, &host(), &moment).offer,
            Offer::Http3
        );
    }

    #[test]
    fn the_studys_line_falls_with_loss_and_its_offers_are_short() {
        // 10 ms one way on the line of 20 ms and 3.5 %: at half of the loss.
        let rtt = Duration::from_millis(20);
        let offer = |lost| decide("study", rtt, 40_000, lost).offer;
        assert_eq!((offer(699), offer(701)), (Offer::Http2, Offer::Http3));
        assert_eq!(decide("study", rtt, 40_000, 0).alt_svc, AltSvc::Omit);
        assert_eq!(advertised(&decide("study", rtt * 3, 40_000, 0)), Some(60));
    }

    #[test]
    fn a_surface_fitted_elsewhere_has_no_margin_and_one_of_the_operator_has() {
        let margin = |model| {
            decide(model, TICK * 9_000_000, 100, 0)
                .prediction
                .unwrap()
                .margin
        };
        assert_eq!(
            (
                margin("surface"),
                margin("surface:a.toml"),
                margin("learned")
            ),
            (0.0, 0.03, 0.03)
        );
    }
}

/// An event that may happen to a client.
#[derive(Debug, Clone)]
enum Step {
    Later(u32),
    Connect(bool),
    Decide(bool),
    Bulk(bool, u32),
    Page(bool, f64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1_u32..100_000).prop_map(Step::Later),
        any::<bool>().prop_map(Step::Connect),
        any::<bool>().prop_map(Step::Decide),
        (any::<bool>(), 1_u32..3_000).prop_map(|(quic, mbit)| Step::Bulk(quic, mbit)),
        (any::<bool>(), 0.0..30.0).prop_map(|(quic, seconds)| Step::Page(quic, seconds)),
    ]
}

const fn transport(quic: bool) -> Transport {
    if quic {
        Transport::Quic
    } else {
        Transport::Tcp
    }
}

/// Runs steps; the decisions with their times.
fn run(selector: &Selector, steps: &[Step]) -> Vec<(UnixTime, Decision)> {
    let (client, host, mut now, mut made) = (client("safari-ios", 1), host(), NOW, Vec::new());
    for step in steps {
        match *step {
            Step::Later(seconds) => now = now + Duration::from_secs(seconds.into()),
            Step::Connect(quic) => {
                selector.connected(&client, &host, transport(quic), now);
            }
            Step::Decide(quic) => made.push((
                now,
                selector.decide(&client, &host, &over(transport(quic), now)),
            )),
            Step::Bulk(quic, mbit) => {
                selector.observe(&client, &host, &seen(transport(quic), 5, mbit.into()), now);
            }
            Step::Page(quic, seconds) => {
                selector.observe(&client, &host, &page(transport(quic), seconds), now);
            }
        }
    }
    made
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_offer_is_made_anew_once_a_week_at_most_and_every_difference_is_finite(
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let made = run(&selector("learned"), &steps);
        let mut weeks = BTreeMap::<u64, (u32, u32)>::new();
        for pair in made.windows(2) {
            let [(_, before), (now, after)] = pair else { unreachable!() };
            if before.offer != after.offer {
                let week = weeks.entry(now.week()).or_default();
                week.0 += 1;
                week.1 += u32::from(after.offer == Offer::Http3);
            }
        }
        prop_assert!(made.iter().all(|(_, it)| it.prediction.is_some_and(|it| it.difference.is_finite())));
        // What blocked UDP takes back, and gives back when HTTP/3 comes, is no choice.
        if made.iter().all(|(_, it)| it.reason != Reason::UdpBlocked) {
            prop_assert!(weeks.values().all(|(changes, again)| *changes <= 3 && *again <= 1), "{weeks:?}");
        }
    }

    #[test]
    fn the_same_log_leads_to_the_same_state(steps in prop::collection::vec(step(), 0..100)) {
        let (one, two) = (selector("learned"), selector("learned"));
        prop_assert_eq!(run(&one, &steps), run(&two, &steps));
        prop_assert_eq!(one.snapshot([], NOW), two.snapshot([], NOW));
    }

    #[test]
    fn a_client_that_takes_more_over_quic_is_never_predicted_slower_over_http3(
        // On longer paths the response is not four times what the path holds, and says what it carries at least.
        rate2 in 1_u64..3_000, rate3 in 1_u64..3_000, rtt in 1_u64..24,
    ) {
        let difference = |rate3: u64| {
            let selector = selector("learned");
            let client = client("safari-ios", 1);
            selector.observe(&client, &host(), &seen(Transport::Tcp, rtt, rate2), NOW);
            selector.observe(&client, &host(), &seen(Transport::Quic, rtt, rate3), NOW);
            selector.preview(&client, &host(), &over(Transport::Tcp, NOW)).prediction.unwrap().difference
        };
        prop_assert!(difference(rate3 + rate3 / 3 + 1) <= difference(rate3) + 1e-3);
    }
}
