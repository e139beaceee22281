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
