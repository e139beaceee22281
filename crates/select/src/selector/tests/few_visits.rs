//! A selector with few visits: what counts of the little that it has seen.

use super::*;

#[test]
fn nothing_learnt_counts_before_a_thousand_visits() {
    let selector = with("learned", |config| config.learn_after = 1_000);
    let client = client("chromium-linux", 1);
    selector.observe(&client, &host(), &seen(Transport::Tcp, 40, 50), NOW);
    for _ in 0..20 {
        selector.observe(&client, &host(), &page(Transport::Quic, 60.0), NOW);
    }
    let decide = || selector.preview(&client, &host(), &over(Transport::Quic, NOW));
    for visit in 0..1_000 {
        assert_eq!(decide().offer, Offer::Http3, "{visit}");
        selector.connected(
            &client,
            &host(),
            Transport::Quic,
            NOW + Duration::from_secs(40 * visit),
        );
    }
    assert_eq!(decide().offer, Offer::Http2);
}

/// A visit that loads 500 KB at `mbit`, on a path of 100 ms.
fn half_a_megabyte(transport: Transport, mbit: u64) -> Observation {
    Observation {
        min_rtt: Some(Duration::from_millis(100)),
        packets_sent: 400,
        bulk: Some(Bulk {
            size: DataSize::from_bytes(500_000),
            rate: Bandwidth::from_mbit(mbit).unwrap(),
            app_limited: false,
        }),
        ..Observation::new(transport)
    }
}

/// The decision for a client that came over TCP, which carried 28 Mbit/s at least, and `later` over QUIC, which carried `mbit`.
fn after_two_visits(mbit: u64, later: Duration) -> Decision {
    let selector = with("learned", |config| config.learn_after = 1_000);
    let (client, host) = (client("chromium-linux", 1), host());
    let visit = |observation: &Observation, now| {
        let transport = observation.transport;
        selector.connected(&client, &host, transport, now);
        selector.observe(&client, &host, observation, now);
        let moment = DecisionRequest {
            min_rtt: observation.min_rtt,
            ..over(transport, now)
        };
        selector.decide(&client, &host, &moment)
    };
    let first = visit(&half_a_megabyte(Transport::Tcp, 28), NOW);
    assert_eq!(first.offer, Offer::Http3, "{}", first.reason);
    visit(&half_a_megabyte(Transport::Quic, mbit), NOW + later)
}

#[test]
fn a_client_whose_udp_is_throttled_goes_back_after_its_first_visit_over_quic() {
    let minute = Duration::from_secs(60);
    let decision = after_two_visits(5, minute);
    assert_eq!(decision.offer, Offer::Http2, "{}", decision.reason);
    let [rate2, rate3] = decision.prediction.unwrap().rates;
    assert!(rate2 > 26e6 && rate3 < 8e6, "{rate2} {rate3}");
    for (mbit, later) in [(20, minute), (5, 11 * minute)] {
        let decision = after_two_visits(mbit, later);
        assert_eq!(decision.offer, Offer::Http3, "{}", decision.reason);
    }
}
