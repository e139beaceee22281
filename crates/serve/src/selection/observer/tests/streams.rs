//! Clients with an open stream of events, in virtual time.

use super::*;

/// Opens a stream of events, beside the other requests in progress.
fn open_stream(scene: &mut Scene<'_>, in_progress: usize) {
    scene.request(in_progress);
    scene.observer.waits(scene.now);
    scene.observer.begins(scene.now);
    scene.observer.waits_for_more(scene.now);
}

#[test]
fn a_client_with_an_open_stream_of_events_shows_pages_and_rates() {
    const SIZE: u64 = 10_000_000;
    let selection = learned();
    for transport in [Transport::Tcp, Transport::Quic] {
        let mut scene = Scene::new(&selection, transport, 10 * MS);
        open_stream(&mut scene, 1);
        for number in 0..4 {
            scene.request(2);
            let known = scene.observer.known.as_ref().unwrap();
            let page = known.latest_page;
            assert_eq!(page.is_some(), number > 0, "{transport:?}");
            if let Some(page) = page {
                assert_eq!((page.first.as_bytes(), page.responses), (SIZE, 1));
                assert!(
                    page.path_time().is_some_and(|it| it < 1_100 * MS),
                    "{page:?}"
                );
            }
            for _ in 0..1_000 {
                scene.sent(SIZE / 1_000);
                scene.now += MS;
                scene.acknowledged(SIZE / 1_000);
            }
            assert_eq!(scene.complete(), Complete::Watch);
            let read = || Some(scene.counters.get());
            scene.observer.arrived(scene.now, read);
            let known = scene.observer.known.as_ref().unwrap();
            let bulk = known.bulk.expect("a rate");
            assert!(
                (7e7..9e7).contains(&(bulk.rate.as_bps() as f64)),
                "{bulk:?}"
            );
            // Two events, in what the client takes for a pause.
            for _ in 0..2 {
                scene.now += 5_000 * MS;
                scene.observer.goes_on(scene.now);
                scene.sent(200);
                scene.observer.waits_for_more(scene.now);
            }
        }
        scene.end();
    }
}

/// The pages that a connection shows, each a response of a megabyte, while a little of the stream that is open comes every 200 ms.
fn pages_beside_events(selection: &Selection, transport: Transport) -> Vec<Page> {
    const SIZE: u64 = 1_000_000;
    let mut scene = Scene::new(selection, transport, 10 * MS);
    open_stream(&mut scene, 1);
    let mut shown = Vec::new();
    for _ in 0..4 {
        scene.request(2);
        shown.extend(scene.observer.known.as_ref().unwrap().latest_page);
        for step in 1..=1_000 {
            scene.sent(SIZE / 1_000);
            scene.now += MS;
            scene.acknowledged(SIZE / 1_000);
            if step % 200 == 0 {
                scene.observer.trickles(scene.now);
            }
        }
        assert_eq!(scene.complete(), Complete::Watch);
        let read = || Some(scene.counters.get());
        scene.observer.arrived(scene.now, read);
        for _ in 0..20 {
            scene.now += 200 * MS;
            scene.observer.trickles(scene.now);
        }
    }
    scene.end();
    shown
}

#[test]
fn events_however_many_of_which_there_is_little_end_no_pause_and_are_in_no_page() {
    let selection = learned();
    for transport in [Transport::Tcp, Transport::Quic] {
        let shown = pages_beside_events(&selection, transport);
        assert_eq!(shown.len(), 3, "{transport:?}");
        for page in shown {
            assert_eq!((page.first.as_bytes(), page.responses), (1_000_000, 1));
            let path = page.path_time().unwrap();
            assert!((1_000 * MS..1_100 * MS).contains(&path), "{page:?}");
        }
    }
}

#[test]
fn a_connection_that_ends_with_an_open_stream_tells_its_latest_page() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let selection = Selection {
        log: Some(crate::SelectionLog::append(&path).unwrap()),
        ..learned()
    };
    let mut scene = Scene::new(&selection, Transport::Tcp, 40 * MS);
    scene.request(1);
    scene.decide(Some(600));
    scene.sent(600);
    scene.complete();
    open_stream(&mut scene, 1);
    scene.now += 100 * MS;
    scene.end();
    let found = lines(&selection, &path);
    let pages: Vec<_> = found.iter().filter_map(|line| line.page).collect();
    assert_eq!(pages.len(), 1, "{found:?}");
    assert_eq!((pages[0].first, pages[0].responses), (600, 1));
}
