//! Offers to curl, which does not fall back to TCP where UDP is blocked, and from which they can't be taken back.

use super::*;

/// The decision for a client of `class` far away that is told over `transport`.
fn told(selector: &Selector, class: &str, transport: Transport) -> Decision {
    let moment = DecisionRequest {
        min_rtt: Some(Duration::from_millis(60)),
        ..over(transport, NOW)
    };
    selector.decide(&client(class, 1), &host(), &moment)
}

#[test]
fn no_model_offers_http3_to_a_client_that_does_not_fall_back() {
    for model in ["learned", "surface", "study", "threshold"] {
        let selector = selector(model);
        let browser = told(&selector, "chromium-linux", Transport::Tcp);
        assert_eq!(browser.offer, Offer::Http3, "{model}");
        for transport in [Transport::Tcp, Transport::Quic] {
            let curl = told(&selector, "curl-other", transport);
            assert_eq!(
                (curl.offer, curl.alt_svc, curl.reason, curl.propensity),
                (Offer::Http2, AltSvc::Omit, Reason::NoFallback, 1.0),
                "{model}"
            );
        }
    }
}

#[test]
fn an_offer_by_the_operators_word_lives_for_a_day() {
    let told = told(&selector("h3"), "curl-other", Transport::Tcp);
    assert_eq!(advertised(&told), Some(86_400));
}
