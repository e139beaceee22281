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

#[test]
fn the_page_that_has_just_come_counts_where_few_are_counted() {
    let visit = |bytes| {
        let page = Page {
            rest: DataSize::from_bytes(bytes),
            start: Start::Cold,
            ..page(Transport::Tcp, 0.3).page.unwrap()
        };
        Observation {
            page: Some(page),
            ..Observation::new(Transport::Tcp)
        }
    };
    for (bytes, counted, offer) in [
        (10_000_000, 0, Offer::Http2),
        (100_000, 0, Offer::Http3),
        // Such a host is known for small pages.
        (10_000_000, 200, Offer::Http3),
    ] {
        let (selector, host) = (selector("learned"), host());
        for number in 1..=counted {
            selector.observe(&client("safari-ios", number), &host, &visit(100_000), NOW);
        }
        let client = client("firefox-linux", 1);
        let rate = seen(Transport::Tcp, 25, 500);
        selector.observe(&client, &host, &rate, NOW);
        let before = DecisionRequest {
            min_rtt: rate.min_rtt,
            ..over(Transport::Tcp, NOW)
        };
        let decision = selector.preview(&client, &host, &before);
        assert_eq!(decision.offer, Offer::Http3, "{bytes} {counted}");
        let after = DecisionRequest {
            page: visit(bytes).page,
            ..before
        };
        let decision = selector.decide(&client, &host, &after);
        assert_eq!(decision.offer, offer, "{bytes} {counted}");
    }
}
