//! Clients and networks whose UDP is blocked, and those for which it only looks so.

use super::*;

#[test]
fn a_client_whose_udp_is_blocked_is_not_offered_http3_but_in_one_week_of_fifty() {
    let selector = with("learned", |config| config.learn_after = u64::MAX);
    let client = client("chromium-linux", 1);
    let moment = |now| DecisionRequest {
        min_rtt: Some(Duration::from_millis(60)),
        ..over(Transport::Tcp, now)
    };
    let offers = (0..200).filter(|day| {
        let now = NOW + DAY * *day;
        selector.connected(&client, &host(), Transport::Tcp, now);
        selector.decide(&client, &host(), &moment(now)).offer == Offer::Http3
    });
    assert!((3..30).contains(&offers.count()));
    let decision = selector.decide(&client, &host(), &moment(NOW + DAY * 200));
    assert_eq!(decision.reason, Reason::UdpBlocked);
    selector.connected(&client, &host(), Transport::Quic, NOW + DAY * 200);
    let decision = selector.decide(&client, &host(), &moment(NOW + DAY * 200));
    assert_ne!(decision.reason, Reason::UdpBlocked);
}

#[test]
fn visits_to_one_host_after_the_other_do_not_say_that_udp_is_blocked() {
    let selector = selector("learned");
    let client = client("chromium-linux", 1);
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut hosts: Vec<Host> = names.iter().map(|name| Host::new(name)).collect();
    hosts.dedup_by_key(|host| host.slot);
    assert!(hosts.len() > 4);
    let mut now = NOW;
    for host in &hosts {
        now = now + Duration::from_secs(600);
        selector.connected(&client, host, Transport::Tcp, now);
        let moment = DecisionRequest {
            min_rtt: Some(Duration::from_millis(60)),
            ..over(Transport::Tcp, now)
        };
        let decision = selector.decide(&client, host, &moment);
        assert_eq!(
            decision.offer,
            Offer::Http3,
            "{}: {decision:?}",
            host.name()
        );
    }
}

#[test]
fn programs_that_never_come_over_http3_do_not_say_that_their_network_blocks_udp() {
    let told = |class| {
        let selector = selector("learned");
        let moment = |now| DecisionRequest {
            min_rtt: Some(Duration::from_millis(60)),
            ..over(Transport::Tcp, now)
        };
        for number in 1..=12 {
            let client = client(class, number);
            for visit in 0..6 {
                let now = NOW + Duration::from_secs(600 * visit);
                selector.connected(&client, &host(), Transport::Tcp, now);
                let _ = selector.decide(&client, &host(), &moment(now));
            }
        }
        let now = NOW + Duration::from_secs(6_000);
        let visitor = client("chromium-windows", 99);
        selector.connected(&visitor, &host(), Transport::Tcp, now);
        selector.decide(&visitor, &host(), &moment(now)).reason
    };
    assert_eq!(told("chromium-linux"), Reason::UdpBlocked);
    for class in ["other-other", "curl-other", "altway-other"] {
        assert_ne!(told(class), Reason::UdpBlocked, "{class}");
    }
}
