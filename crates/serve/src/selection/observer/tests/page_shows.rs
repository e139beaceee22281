//! Offers that are told once the connection idles, by what its first page has shown.

use super::*;

impl Scene<'_> {
    /// Ends the page with a download of so many megabytes, each of which takes `time`, and lets the connection idle for as long as
    /// an offer waits.
    fn end_page(&mut self, megabytes: u64, time: Duration) {
        self.complete();
        self.download(megabytes, time);
        self.observer
            .arrived(self.now, || Some(self.counters.get()));
        self.now += 300 * MS;
    }

    fn change_counters(&mut self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}

/// A connection whose first response was decided for HTTP/3, with an offer that waits.
fn waiting(selection: &Selection, rtt: Duration) -> Scene<'_> {
    let mut scene = Scene::new(selection, Transport::Tcp, rtt);
    scene.request(1);
    let decision = scene.decide(Some(600));
    assert_eq!(
        (decision.offer, decision.alt_svc),
        (Offer::Http3, AltSvc::Omit)
    );
    scene
}

#[test]
fn a_page_that_shows_a_fast_path_takes_the_offer_with_it() {
    let selection = learned();
    let mut scene = waiting(&selection, 40 * MS);
    // The first round trip was a bad guess: 1 ms, and 900 Mbit/s.
    scene.change_counters(|counters| counters.min_rtt = Some(MS));
    scene.end_page(50, 8_889 * MS / 1_000);
    let told = scene.idle();
    assert!(told.is_none_or(|it| it.offer == Offer::Http2), "{told:?}");
}

#[test]
fn the_page_that_ends_with_the_pause_counts_for_the_offer_after_it() {
    let told = |megabytes| {
        let selection = learned();
        let mut scene = waiting(&selection, 25 * MS);
        // 480 Mbit/s.
        scene.end_page(megabytes, 16_667 * MS / 1_000);
        scene.idle().unwrap().offer
    };
    // For a usual site HTTP/3 is faster, also at this rate; not for who loads this much.
    assert_eq!(told(1), Offer::Http3);
    assert_eq!(told(10), Offer::Http2);
}

/// Returns what a client is told after a page of a megabyte over a short path that loses so many packets in a hundred.
fn told_after(policy: &str, lost_percent: u64) -> Option<AltSvc> {
    let selection = Selection::of(&policy.parse().unwrap());
    let mut scene = Scene::new(&selection, Transport::Tcp, MS);
    scene.request(1);
    assert_eq!(scene.decide(Some(600)).offer, Offer::Http2, "{policy}");
    scene.end_page(1, 200 * MS);
    scene.change_counters(|counters| {
        counters.packets_lost = counters.packets_sent * lost_percent / 100;
    });
    let told = scene.idle().map(|it| it.alt_svc);
    assert_eq!(scene.idle(), None, "once");
    told
}

#[test]
fn a_page_that_shows_loss_is_followed_by_an_offer() {
    for policy in ["learned", "threshold:rtt=50ms,loss=1%"] {
        for (lost_percent, is_offered) in [(5, true), (0, false)] {
            let told = told_after(policy, lost_percent);
            let offered = matches!(told, Some(AltSvc::Advertise { .. }));
            assert_eq!(offered, is_offered, "{policy} {lost_percent}: {told:?}");
        }
    }
}

#[test]
fn nothing_is_told_after_a_page_where_the_operator_decides() {
    assert_eq!(told_after("h2", 5), None);
}
