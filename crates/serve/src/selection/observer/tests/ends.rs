//! Pages whose clients close the connection, or leave them, in virtual time.

use super::*;

#[test]
fn a_client_that_closes_its_connection_as_soon_as_it_has_everything_shows_its_page() {
    for bytes in [600, 100_000] {
        let selection = learned();
        let mut scene = Scene::new(&selection, Transport::Tcp, 40 * MS);
        scene.request(1);
        scene.sent(bytes);
        scene.acknowledged(bytes);
        scene.complete();
        // The kernel says more exactly when that was than the clock that was read before it was asked.
        scene.now += 39 * MS;
        let mut counters = scene.counters.get();
        counters.arrived = Some((scene.now + MS, bytes));
        scene.counters.set(counters);
        let read = || Some(scene.counters.get());
        let (now, observer) = (scene.now, &mut scene.observer);
        observer.end(&selection, now, UNIX, read);
        assert!(observer.take_finished().is_some(), "{bytes}");
    }
}

#[test]
fn the_page_after_one_that_was_given_up_counts() {
    let selection = learned();
    let mut scene = Scene::new(&selection, Transport::Quic, 10 * MS);
    scene.request(1);
    scene.sent(50_000);
    scene.now += MS;
    scene.observer.cancelled(scene.now);
    scene.now += 60_000 * MS;
    scene.request(1);
    scene.sent(20_000);
    scene.now += 10 * MS;
    scene.acknowledged(20_000);
    let page = scene.finish_page();
    assert_eq!((page.first.as_bytes(), page.start), (20_000, Start::Warm));
    assert_eq!(page.time, 10 * MS);
}
