//! Pages whose clients close the connection, or leave them, in virtual time.

use super::*;

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
