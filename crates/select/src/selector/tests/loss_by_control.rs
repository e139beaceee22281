//! Servers whose TCP goes by the rate while their QUIC takes loss for congestion: loss slows HTTP/3 alone.

use super::*;

const BBR: Congestion = Congestion::RateBased;
const CUBIC: Congestion = Congestion::LossBased;

fn under(congestion: [Congestion; 2]) -> Selector {
    with("learned", |config| {
        (config.congestion, config.learn_after) = (congestion, 1_000);
    })
}

fn request() -> DecisionRequest {
    DecisionRequest {
        min_rtt: Some(Duration::from_millis(20)),
        ..over(Transport::Tcp, NOW)
    }
}

/// A megabyte at 42 Mbit/s, in which `lost` of 717 packets are lost and BBR keeps a queue of 15 ms.
fn first_page(lost: u64) -> Observation {
    let size = DataSize::from_bytes(1_000_000);
    Observation {
        min_rtt: Some(Duration::from_millis(20)),
        smoothed_rtt: Some(Duration::from_millis(35)),
        packets_sent: 717,
        packets_lost: lost,
        bulk: Some(Bulk {
            size,
            rate: Bandwidth::from_mbit(42).unwrap(),
            app_limited: false,
        }),
        page: Some(Page {
            first: DataSize::from_bytes(125),
            rest: size,
            responses: 2,
            start: Start::Cold,
            time: Duration::from_millis(300),
            waited: Some(Duration::ZERO),
        }),
        ..Observation::new(Transport::Tcp)
    }
}

/// The offers of the first response and of those after a page that lost `lost` packets.
fn said(congestion: [Congestion; 2], lost: u64) -> [(Offer, AltSvc); 2] {
    let (selector, host) = (under(congestion), host());
    let client = client("chromium-linux", 1);
    selector.connected(&client, &host, Transport::Tcp, NOW);
    let decide = || {
        let decision = selector.decide(&client, &host, &request());
        (decision.offer, decision.alt_svc)
    };
    let first = decide();
    selector.observe(&client, &host, &first_page(lost), NOW);
    [first, decide()]
}

const LONG: AltSvc = AltSvc::Advertise {
    max_age: alt_svc::LONG,
};

#[test]
fn where_loss_slows_http3_alone_the_first_page_decides() {
    let [first, lossy] = said([BBR, CUBIC], 15);
    assert_eq!(first, (Offer::Http3, AltSvc::Omit));
    assert_eq!(lossy, (Offer::Http2, AltSvc::Clear));
    let [_, clean] = said([BBR, CUBIC], 0);
    assert_eq!(clean, (Offer::Http3, LONG));
}

#[test]
fn where_loss_slows_both_or_neither_nothing_waits_for_it() {
    for congestion in [[BBR; 2], [CUBIC; 2], [CUBIC, BBR]] {
        let (offer, said) = said(congestion, 15)[0];
        assert_eq!((offer, said), (Offer::Http3, LONG), "{congestion:?}");
    }
}

#[test]
fn a_client_that_comes_over_http3_is_told_at_once() {
    let (selector, host) = (under([BBR, CUBIC]), host());
    let moment = DecisionRequest {
        transport: Transport::Quic,
        ..request()
    };
    let decision = selector.decide(&client("chromium-linux", 1), &host, &moment);
    assert_eq!(decision.alt_svc, LONG);
}
