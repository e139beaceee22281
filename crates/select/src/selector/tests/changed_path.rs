//! Paths that are other ones than they were.

use super::*;

/// A path of 50 ms that carries `mbit` and loses some of a thousand packets.
fn seen_at(transport: Transport, mbit: u64, lost: u64) -> Observation {
    Observation {
        packets_sent: 1_000,
        packets_lost: lost,
        ..seen(transport, 50, mbit)
    }
}

/// The rate of a page that ended in slow start.
fn at_least(mbit: u64) -> Observation {
    let mut seen = seen_at(Transport::Tcp, mbit, 0);
    seen.bulk.as_mut().unwrap().app_limited = true;
    seen
}

/// Makes visits some time apart on a server with few others, and returns what each is told.
fn offers(visits: &[(u64, Observation)]) -> Vec<Offer> {
    let selector = with("learned", |config| config.learn_after = 1_000);
    let (client, host, mut now) = (client("chromium-linux", 1), host(), NOW);
    let visit = |(later, observation): &(u64, Observation)| {
        now = now + Duration::from_secs(*later);
        selector.connected(&client, &host, observation.transport, now);
        selector.observe(&client, &host, observation, now);
        let moment = DecisionRequest {
            min_rtt: observation.min_rtt,
            ..over(observation.transport, now)
        };
        selector.decide(&client, &host, &moment).offer
    };
    visits.iter().map(visit).collect()
}

#[test]
fn a_path_that_has_become_slow_is_taken_for_throttled_udp_until_tcp_is_slow_as_well() {
    let train = [
        (0, at_least(20)),
        (10, seen_at(Transport::Quic, 3, 20)),
        (600, seen_at(Transport::Tcp, 3, 20)),
    ];
    assert_eq!(offers(&train), [Offer::Http3, Offer::Http2, Offer::Http3]);
}

#[test]
fn throttled_udp_stays_what_it_is_while_tcp_is_fast() {
    let visits = |tcp| {
        let throttled = [
            (0, at_least(20)),
            (10, seen_at(Transport::Quic, 3, 20)),
            (600, tcp),
            (86_400, tcp),
        ];
        offers(&throttled)
    };
    for tcp in [at_least(18), seen_at(Transport::Tcp, 18, 0)] {
        assert_eq!(visits(tcp)[1..], [Offer::Http2; 3]);
    }
}

#[test]
fn clients_with_lossy_paths_have_no_say_in_what_their_class_takes_over_quic() {
    let limit = |lost| {
        let selector = selector("learned");
        for network in 0..60 {
            let address = Ipv4Addr::new(198, 51, network, 1).into();
            let class = "safari-macos".parse().unwrap();
            let client = Client::new(&SECRET, address, class);
            let tcp = seen_at(Transport::Tcp, 300, 0);
            selector.observe(&client, &host(), &tcp, NOW);
            // Another evening, at the edge of the Wi-Fi.
            let quic = seen_at(Transport::Quic, 5, lost);
            selector.observe(&client, &host(), &quic, NOW + DAY);
        }
        selector.limit("safari-macos".parse().unwrap())
    };
    let before = selector("learned").limit("safari-macos".parse().unwrap());
    assert_eq!(limit(40), before);
    assert!(limit(0) < 0.5 * before, "{}", limit(0));
}
