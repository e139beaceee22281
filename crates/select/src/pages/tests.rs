//! Pages of connections in virtual time.

use super::*;

const fn ms(at: u64) -> Timestamp {
    Timestamp::from_nanos(at * 1_000_000)
}

const fn kb(size: u64) -> DataSize {
    DataSize::from_bytes(size * 1_000)
}

#[test]
fn a_page_is_its_document_and_what_follows_without_a_pause() {
    let mut pages = Pages::new(ms(0), Start::Cold);
    assert_eq!(pages.request(ms(40)), None);
    pages.response(ms(60), kb(20));
    for at in [70, 75] {
        assert_eq!(pages.request(ms(at)), None);
    }
    pages.response(ms(90), kb(5));
    pages.response(ms(100), kb(7));
    assert_eq!(pages.complete(ms(1_099)), None);
    let page = Page {
        first: kb(20),
        rest: kb(12),
        responses: 3,
        start: Start::Cold,
        // From the first packet to 60 ms, and from 70 to 100 ms.
        time: Duration::from_millis(90),
        waited: Some(Duration::ZERO),
    };
    assert_eq!(pages.complete(ms(1_100)), Some(page));
    assert_eq!(pages.complete(ms(1_200)), None);
}

#[test]
fn the_next_page_is_warm_and_does_not_count_the_pause() {
    let mut pages = Pages::new(ms(0), Start::Early);
    pages.request(ms(5));
    pages.response(ms(10), kb(1));
    assert_eq!(pages.request(ms(5_000)).unwrap().start, Start::Early);
    pages.response(ms(5_020), kb(2));
    let page = pages.complete(ms(9_000)).unwrap();
    assert_eq!(
        (page.start, page.time),
        (Start::Warm, Duration::from_millis(20))
    );
    assert_eq!((page.first, page.responses), (kb(2), 1));
}

#[test]
fn a_page_with_a_cancelled_request_counts_for_nothing() {
    let mut pages = Pages::new(ms(0), Start::Cold);
    pages.request(ms(0));
    pages.request(ms(0));
    pages.response(ms(10), kb(1));
    pages.cancelled(ms(20));
    assert_eq!(pages.complete(ms(9_000)), None);
    pages.request(ms(9_000));
    pages.response(ms(9_010), kb(1));
    assert_eq!(pages.complete(ms(20_000)).unwrap().start, Start::Warm);
}

#[test]
fn the_path_does_not_take_the_time_in_which_an_application_begins_no_response() {
    let mut pages = Pages::new(ms(0), Start::Cold);
    pages.request(ms(40));
    pages.waits(ms(40), Some(ms(40)));
    pages.begins(ms(540));
    pages.response(ms(560), kb(20));
    // Two at once: the first is answered while the other waits.
    for _ in 0..2 {
        pages.request(ms(570));
        pages.waits(ms(570), Some(ms(570)));
    }
    pages.begins(ms(870));
    pages.response(ms(870), kb(1));
    pages.begins(ms(880));
    pages.response(ms(900), kb(1));
    let page = pages.complete(ms(9_000)).unwrap();
    assert_eq!(page.time, Duration::from_millis(560 + 330));
    assert_eq!(page.waited, Some(Duration::from_millis(500 + 300 + 10)));
    assert_eq!(page.path_time(), Some(Duration::from_millis(80)));
}

#[test]
fn a_page_with_pauses_while_bytes_may_be_on_their_way_shows_nothing_of_the_path() {
    let page = |pause: u64| {
        let mut pages = Pages::new(ms(0), Start::Cold);
        pages.request(ms(40));
        pages.waits_for_more(ms(60), None);
        pages.goes_on(ms(60 + pause));
        pages.response(ms(100 + pause), kb(50));
        pages.complete(ms(9_000)).unwrap()
    };
    assert_eq!(page(33).waited, Some(Duration::ZERO));
    assert_eq!((page(34).waited, page(34).path_time()), (None, None));
    let mut pages = Pages::new(ms(0), Start::Cold);
    pages.request(ms(0));
    pages.paused(Duration::from_secs(5));
    pages.response(ms(10_000), kb(50));
    assert_eq!(pages.complete(ms(20_000)).unwrap().waited, None);
}

#[test]
fn nothing_waits_any_more_after_a_request_that_was_given_up() {
    let mut pages = Pages::new(ms(0), Start::Cold);
    pages.request(ms(0));
    pages.waits(ms(0), Some(ms(0)));
    pages.cancelled(ms(5_000));
    pages.request(ms(9_000));
    pages.response(ms(9_010), kb(1));
    let page = pages.complete(ms(20_000)).unwrap();
    assert_eq!(page.waited, Some(Duration::ZERO));
}

/// A stream of events that was opened by a page of 20 KB, on a connection of 40 ms; the page took 60 ms.
fn with_stream() -> Pages {
    let mut pages = Pages::new(ms(0), Start::Cold);
    pages.request(ms(40));
    pages.request(ms(45));
    pages.waits(ms(45), Some(ms(45)));
    pages.begins(ms(50));
    pages.waits_for_more(ms(50), None);
    pages.response(ms(60), kb(20));
    pages
}

/// An event, and that the client has it a round trip later.
fn event(pages: &mut Pages, at: u64) -> Option<Page> {
    let page = pages.goes_on(ms(at));
    pages.waits_for_more(ms(at), Some(ms(at + 40)));
    page
}

/// A page of one response, which takes 60 ms.
fn one(pages: &mut Pages, at: u64) -> Option<Page> {
    let page = pages.request(ms(at));
    pages.response(ms(at + 60), kb(5));
    page
}

#[test]
fn a_stream_that_is_open_ends_no_page_and_is_in_none() {
    let events: [&[u64]; 4] = [&[], &[5_000], &[5_000, 20_000], &[5_000, 20_000, 29_990]];
    for events in events {
        let mut pages = with_stream();
        assert_eq!(pages.complete(ms(1_059)), None);
        let of_events = events.iter().filter_map(|at| event(&mut pages, *at));
        let mut found: Vec<_> = of_events.collect();
        assert!(pages.is_beginning(ms(30_000)));
        found.extend(one(&mut pages, 30_000));
        found.extend(pages.complete(ms(40_000)));
        let shown: Vec<_> = found.iter().map(|it| (it.first, it.start)).collect();
        assert_eq!(shown, [(kb(20), Start::Cold), (kb(5), Start::Warm)]);
        for page in &found {
            assert_eq!(
                page.path_time(),
                Some(Duration::from_millis(60)),
                "{page:?}"
            );
            assert_eq!((page.time, page.responses), (Duration::from_millis(60), 1));
        }
        // It goes on as it did.
        assert_eq!(event(&mut pages, 50_000), None);
        assert_eq!(pages.under_way(), 1);
    }
}

#[test]
fn events_in_the_course_of_a_page_leave_its_time_alone() {
    let mut pages = with_stream();
    event(&mut pages, 5_000);
    pages.request(ms(9_000));
    event(&mut pages, 9_030);
    pages.response(ms(9_060), kb(5));
    event(&mut pages, 9_500);
    pages.request(ms(9_700));
    pages.response(ms(9_760), kb(5));
    let page = pages.complete(ms(20_000)).unwrap();
    assert_eq!((page.first, page.rest, page.responses), (kb(5), kb(5), 2));
    // 40 ms of the time between both the event was on its way, or may have been.
    assert_eq!(page.time, Duration::from_millis(760));
    assert_eq!(page.path_time(), Some(Duration::from_millis(160)));
}

#[test]
fn a_stream_that_is_given_up_later_is_no_part_of_the_page_that_opened_it() {
    for at in [300, 700_000] {
        let mut pages = with_stream();
        let page = pages.given_up(ms(at));
        let page = page.or(one(&mut pages, 800_000)).unwrap();
        assert_eq!((page.start, page.first), (Start::Cold, kb(20)));
        assert_eq!(page.path_time(), Some(Duration::from_millis(60)));
        let next = pages.complete(ms(900_000)).unwrap();
        assert_eq!((next.first, next.time), (kb(5), Duration::from_millis(60)));
    }
}

#[test]
fn a_response_that_is_there_when_there_is_news_is_a_page_of_its_own() {
    let mut pages = Pages::new(ms(0), Start::Cold);
    assert_eq!(one(&mut pages, 0), None);
    pages.request(ms(70));
    pages.waits(ms(70), Some(ms(70)));
    let page = pages.begins(ms(25_070)).unwrap();
    assert_eq!((page.first, page.time), (kb(5), Duration::from_millis(60)));
    pages.response(ms(25_110), kb(1));
    pages.request(ms(25_120));
    pages.waits(ms(25_120), Some(ms(25_120)));
    let news = pages.complete(ms(30_000)).unwrap();
    assert_eq!((news.first, news.start), (kb(1), Start::Warm));
    assert_eq!(news.time, Duration::from_millis(40));
}

#[test]
fn a_document_for_which_an_application_takes_seconds_is_one_page_with_them() {
    for start in [Start::Cold, Start::Warm] {
        let mut pages = Pages::new(ms(0), start);
        pages.request(ms(0));
        pages.waits(ms(0), Some(ms(0)));
        assert_eq!(pages.begins(ms(3_000)), None);
        pages.response(ms(3_060), kb(20));
        let page = pages.complete(ms(9_000)).unwrap();
        assert_eq!(page.time, Duration::from_millis(3_060));
        assert_eq!(page.path_time(), Some(Duration::from_millis(60)));
    }
}

#[test]
fn what_may_be_on_its_way_is_no_pause() {
    let mut pages = Pages::new(ms(0), Start::Cold);
    one(&mut pages, 0);
    pages.request(ms(70));
    pages.waits_for_more(ms(80), None);
    assert_eq!(pages.complete(ms(9_000)), None);
    assert_eq!(pages.given_up(ms(9_000)), None);
    assert_eq!(
        pages.complete(ms(20_000)),
        None,
        "a part of it was given up"
    );
}

#[test]
fn a_page_of_failures_alone_is_none() {
    let mut pages = Pages::new(ms(0), Start::Cold);
    for begin in [0, 9_000] {
        for at in [begin, begin + 10] {
            pages.request(ms(at));
            pages.failed();
            pages.response(ms(at + 5), kb(1));
        }
    }
    assert_eq!(pages.complete(ms(11_000)), None);
    pages.request(ms(20_000));
    pages.failed();
    pages.response(ms(20_010), kb(1));
    pages.request(ms(20_010));
    pages.response(ms(20_020), kb(1));
    assert_eq!(pages.complete(ms(30_000)).unwrap().responses, 2);
}

#[test]
fn ends_without_a_beginning_and_time_that_runs_backwards_do_no_harm() {
    let mut pages = Pages::new(ms(100), Start::Cold);
    pages.cancelled(ms(0));
    pages.response(ms(50), kb(1));
    assert_eq!(pages.complete(ms(5_000)), None);
    pages.request(ms(6_000));
    assert_eq!(pages.complete(ms(99_000)), None);
}

#[test]
fn the_latest_page_of_a_connection_counts_however_soon_it_ends() {
    for ended in [0, 30, 60, 61] {
        let mut pages = Pages::new(ms(0), Start::Cold);
        // Acknowledged, by the smoothed round trip, at 60 ms.
        one(&mut pages, 0);
        let page = pages.conclude(ms(ended)).unwrap();
        assert_eq!((page.first, page.time), (kb(5), Duration::from_millis(60)));
    }
    assert_eq!(with_stream().conclude(ms(60)).unwrap().first, kb(20));
    let mut pages = Pages::new(ms(0), Start::Cold);
    pages.request(ms(0));
    assert_eq!(pages.conclude(ms(60)), None);
}
