//! Offers to curl, which can't be taken back.

use super::*;

fn curl() -> Client {
    client("curl-other", 1)
}

/// The life in seconds of what a client far away is offered over TCP.
fn life(selector: &Selector) -> Option<u64> {
    let moment = DecisionRequest {
        min_rtt: Some(Duration::from_millis(60)),
        ..over(Transport::Tcp, NOW)
    };
    advertised(&selector.decide(&curl(), &host(), &moment))
}

#[test]
fn the_first_offer_lives_for_a_day() {
    for model in ["learned", "h3", "threshold"] {
        assert_eq!(life(&selector(model)), Some(86_400), "{model}");
    }
}

#[test]
fn an_offer_after_a_page_over_http3_lives_long() {
    let selector = selector("learned");
    selector.observe(&curl(), &host(), &page(Transport::Tcp, 0.3), NOW);
    assert_eq!(life(&selector), Some(86_400));
    selector.observe(&curl(), &host(), &page(Transport::Quic, 0.2), NOW);
    assert_eq!(life(&selector), Some(2_592_000));
}
