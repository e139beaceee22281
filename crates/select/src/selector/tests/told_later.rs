//! Offers that are told when the page has come.

use super::*;

#[test]
fn firefox_is_told_after_the_page_where_that_can_be_and_has_no_offer_yet() {
    let model = "threshold:rtt=0ms,loss=1%";
    let moment = DecisionRequest {
        min_rtt: Some(Duration::from_millis(20)),
        can_tell_later: true,
        ..over(Transport::Tcp, NOW)
    };
    for (class, model, told) in [
        ("firefox-linux", model, None),
        ("firefox-android", model, None),
        ("chromium-linux", model, Some(2_592_000)),
        ("firefox-linux", "h3", Some(2_592_000)),
        ("firefox-linux", "study:delay=0ms", Some(60)),
    ] {
        let decision = selector(model).decide(&client(class, 1), &host(), &moment);
        assert_eq!(decision.offer, Offer::Http3, "{class} {model}");
        assert_eq!(advertised(&decision), told, "{class} {model}");
    }
    let (selector, client) = (selector(model), client("firefox-linux", 1));
    let decide = |moment| advertised(&selector.decide(&client, &host(), &moment));
    let connected = || selector.connected(&client, &host(), Transport::Tcp, NOW);
    assert_eq!(decide(moment), None);
    assert!(!connected(), "what was not said is no offer");
    let at_the_end = DecisionRequest {
        can_tell_later: false,
        ..moment
    };
    assert_eq!(decide(at_the_end), Some(2_592_000));
    assert!(connected());
    assert_eq!(decide(moment), Some(2_592_000), "it has one: it is renewed");
}

/// A first page of a client of `class` whose path nobody knows, on a connection of that round trip.
fn first_page(rtt_ms: u64) -> DecisionRequest {
    DecisionRequest {
        min_rtt: Some(Duration::from_millis(rtt_ms)),
        can_tell_later: true,
        ..over(Transport::Tcp, NOW)
    }
}

/// A page of `bytes` over TCP, of which the rate is `mbit` where it has one.
fn loaded(bytes: u64, mbit: Option<u64>) -> Observation {
    let bulk = mbit.map(|mbit| Bulk {
        size: DataSize::from_bytes(bytes),
        rate: Bandwidth::from_mbit(mbit).unwrap(),
        app_limited: false,
    });
    let page = Page {
        rest: DataSize::from_bytes(bytes),
        start: Start::Cold,
        ..page(Transport::Tcp, 0.3).page.unwrap()
    };
    Observation {
        min_rtt: Some(Duration::from_millis(25)),
        packets_sent: bytes / 1_400,
        bulk,
        page: Some(page),
        ..Observation::new(Transport::Tcp)
    }
}

#[test]
fn a_browser_with_a_limit_is_told_after_the_page_that_shows_a_rate() {
    let told_at_once = Some(2_592_000);
    for (class, model, rtt_ms, told) in [
        ("chromium-linux", "learned", 25, None),
        ("chromium-android", "surface", 25, None),
        // So long a round trip decides whatever the rate.
        ("chromium-linux", "learned", 200, told_at_once),
        // It does not know the frame, or nobody has seen that it does.
        ("safari-ios", "learned", 25, told_at_once),
        // It takes a gigabit over QUIC as well.
        ("altway-other", "learned", 25, told_at_once),
    ] {
        let decision = selector(model).decide(&client(class, 1), &host(), &first_page(rtt_ms));
        assert_eq!(decision.offer, Offer::Http3, "{class} {model} {rtt_ms}");
        assert_eq!(advertised(&decision), told, "{class} {model} {rtt_ms}");
    }
}

#[test]
fn what_the_first_page_of_an_unknown_host_shows_decides_at_its_end() {
    let told_at_once = Some(2_592_000);
    for (bytes, mbit, is_counted, told) in [
        (10_000_000, Some(500), true, None),
        // The page may still go on, as far as the server knows.
        (10_000_000, Some(500), false, None),
        (1_000_000, Some(50), true, told_at_once),
        (1_000_000, Some(50), false, told_at_once),
        (100_000, None, true, told_at_once),
    ] {
        let (selector, host) = (selector("learned"), host());
        let client = client("chromium-linux", 1);
        let moment = first_page(25);
        assert_eq!(advertised(&selector.decide(&client, &host, &moment)), None);
        let mut seen = loaded(bytes, mbit);
        let page = seen.page.take_if(|_| !is_counted);
        selector.observe(&client, &host, &seen, NOW);
        let idle = DecisionRequest {
            can_tell_later: false,
            page,
            ..moment
        };
        let decision = selector.decide(&client, &host, &idle);
        assert_eq!(
            advertised(&decision),
            told,
            "{bytes} {mbit:?}: {}",
            decision.reason
        );
    }
}

#[test]
fn a_rate_that_is_known_in_the_midst_of_the_first_page_does_not_end_the_waiting() {
    for (mbit, told) in [(550, None), (50, Some(2_592_000))] {
        let (selector, host) = (selector("learned"), host());
        let client = client("chromium-linux", 1);
        let seen = Observation {
            page: None,
            ..loaded(10_000_000, Some(mbit))
        };
        selector.observe(&client, &host, &seen, NOW);
        let decision = selector.decide(&client, &host, &first_page(25));
        assert_eq!(decision.offer, Offer::Http3);
        assert_eq!(advertised(&decision), told, "{mbit}");
    }
}

#[test]
fn visitors_of_a_known_host_and_neighbours_of_known_clients_are_told_at_once() {
    let selector = selector("learned");
    let decide = |host: &Host, number| {
        let client = client("chromium-linux", number);
        advertised(&selector.decide(&client, host, &first_page(25)))
    };
    let site = host();
    assert_eq!(decide(&site, 1), None);
    // Elsewhere, so that nothing is known near them.
    for number in 0..200_u32 {
        let address = Ipv4Addr::from(0x0a00_0000 + number * 0x1_0000).into();
        let visitor = Client::new(&SECRET, address, "chromium-linux".parse().unwrap());
        selector.observe(&visitor, &site, &loaded(100_000, None), NOW);
    }
    assert_eq!(decide(&site, 1), Some(2_592_000));

    let other = Host::new("other.example.org");
    assert_eq!(decide(&other, 4), None);
    for number in 1..=3 {
        let neighbour = client("chromium-linux", number);
        selector.observe(&neighbour, &other, &loaded(1_000_000, Some(50)), NOW);
    }
    assert_eq!(decide(&other, 4), Some(2_592_000), "a network of 50 Mbit/s");
}
