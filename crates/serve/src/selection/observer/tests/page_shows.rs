//! What a page has shown, in the offer that is told once the connection idles.

use super::*;

/// A page of a megabyte over a short path, of whose packets so many in a hundred are lost: what it is told after it.
fn told_after(policy: &str, lost_percent: u64) -> Option<AltSvc> {
    let selection = Selection::of(&policy.parse().unwrap());
    let mut scene = Scene::new(&selection, Transport::Tcp, MS);
    scene.request(1);
    assert_eq!(scene.decide(Some(600)).offer, Offer::Http2, "{policy}");
    scene.complete();
    scene.download(1, 200 * MS);
    let mut counters = scene.counters.get();
    counters.packets_lost = counters.packets_sent * lost_percent / 100;
    scene.counters.set(counters);
    scene
        .observer
        .arrived(scene.now, || Some(scene.counters.get()));
    scene.now += 300 * MS;
    let told = scene.idle().map(|it| it.alt_svc);
    assert_eq!(scene.idle(), None, "once");
    told
}

#[test]
fn a_page_that_shows_loss_is_followed_by_an_offer() {
    for policy in ["learned", "threshold:rtt=50ms,loss=1%"] {
        let told = told_after(policy, 5);
        assert!(
            matches!(told, Some(AltSvc::Advertise { .. })),
            "{policy}: {told:?}"
        );
        let told = told_after(policy, 0);
        assert!(
            !matches!(told, Some(AltSvc::Advertise { .. })),
            "{policy}: {told:?}"
        );
    }
}

#[test]
fn nothing_is_told_after_a_page_where_the_operator_decides() {
    assert_eq!(told_after("h2", 5), None);
}
