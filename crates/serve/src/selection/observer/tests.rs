//! Visits of a client in virtual time, beside a selector of their own.

use super::*;
use crate::selection::counters::told;
use altway_select::{ModelKind, Offer};
use std::cell::Cell;
use std::net::Ipv4Addr;

mod ends;
mod page_shows;
mod streams;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
const UNIX: UnixTime = UnixTime::from_secs(1_795_392_000);
const MS: Duration = Duration::from_millis(1);
const FIREFOX: &[u8] = b"Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0";

/// A connection, its clock and what its transport has counted.
struct Scene<'a> {
    selection: &'a Selection,
    observer: ConnectionObserver,
    now: Instant,
    counters: Cell<Counters>,
}

impl<'a> Scene<'a> {
    fn new(selection: &'a Selection, transport: Transport, rtt: Duration) -> Self {
        let now = Instant::now();
        let protocol = match transport {
            Transport::Tcp => Protocol::Http2,
            Transport::Quic => Protocol::Http3,
        };
        let counters = Counters {
            transport,
            ..told(Some(rtt), 0, 0)
        };
        Self {
            selection,
            observer: ConnectionObserver::new(CLIENT, protocol, now),
            now,
            counters: Cell::new(counters),
        }
    }

    fn request(&mut self, in_progress: usize) {
        let facts = || {
            let hints = Hints {
                user_agent: Some(FIREFOX),
                ..Hints::default()
            };
            (hints, HostIndex::OTHERS)
        };
        let read = || Some(self.counters.get());
        let (now, selection) = (self.now, self.selection);
        self.observer
            .request(selection, in_progress, now, UNIX, facts, read);
    }

    fn sent(&mut self, bytes: u64) {
        let read = || Some(self.counters.get());
        self.observer.sent(bytes, self.now, read);
    }

    fn acknowledged(&mut self, bytes: u64) {
        let mut counters = self.counters.get();
        counters.bytes_acked += bytes;
        counters.packets_sent += bytes.div_ceil(1_400);
        self.counters.set(counters);
    }

    /// Ends the response, and its page two seconds after the client has all of it.
    fn finish_page(&mut self) -> Page {
        self.complete();
        self.observer
            .arrived(self.now, || Some(self.counters.get()));
        self.now += 2_000 * MS;
        let at = timestamp(self.observer.began, self.now);
        let known = self.observer.known.as_mut().unwrap();
        known.pages.complete(at).unwrap()
    }

    fn complete(&mut self) -> Complete {
        let read = || Some(self.counters.get());
        self.observer.complete(self.selection, self.now, UNIX, read)
    }

    fn decide(&mut self, size: Option<u64>) -> Decision {
        let decision = self
            .observer
            .decide(self.selection, size, 0.0, self.now, UNIX);
        decision.expect("a request has come")
    }

    /// A response of so many pieces of a megabyte, each of which takes `time`, and its last acknowledgement.
    fn download(&mut self, pieces: u64, time: Duration) {
        const PIECE: u64 = 1_000_000;
        self.request(1);
        for _ in 0..pieces {
            // In small steps, so that there are marks.
            for _ in 0..100 {
                self.sent(PIECE / 100);
                self.now += time / 100;
                self.acknowledged(PIECE / 100);
            }
        }
        assert_eq!(self.complete(), Complete::Watch);
        let mut counters = self.counters.get();
        counters.arrived = Some((self.now, counters.bytes_acked));
        self.counters.set(counters);
    }

    fn idle(&mut self) -> Option<Decision> {
        let read = || Some(self.counters.get());
        self.observer
            .idle(self.selection, 0.0, self.now, UNIX, read)
    }

    fn end(mut self) {
        let read = || Some(self.counters.get());
        self.observer.end(self.selection, self.now, UNIX, read);
    }
}

fn learned() -> Selection {
    Selection::of(&ModelKind::Learned(None))
}

#[test]
fn the_first_response_is_decided_by_the_round_trip_of_the_handshake() {
    let selection = Selection::of(&"threshold:rtt=50ms,loss=1%".parse().unwrap());
    let decide = |rtt| {
        let mut scene = Scene::new(&selection, Transport::Tcp, rtt);
        scene.request(1);
        let decision = scene.decide(Some(600));
        scene.end();
        decision
    };
    assert!(matches!(decide(60 * MS).reason, Reason::LongRtt { .. }));
    assert!(!matches!(decide(20 * MS).reason, Reason::LongRtt { .. }));
}

#[test]
fn a_large_first_response_measures_the_path_and_the_next_one_tells() {
    let selection = learned();
    let mut scene = Scene::new(&selection, Transport::Tcp, MS);
    scene.request(1);
    assert_eq!(scene.decide(Some(50_000_000)).reason, Reason::Waiting);
    scene.end();
    // 900 Mbit/s over TCP, of which Firefox takes less than half over QUIC.
    let mut scene = Scene::new(&selection, Transport::Tcp, MS);
    scene.download(50, 8_889 * MS / 1_000);
    scene.now += 2_000 * MS;
    scene.request(1);
    let decision = scene.decide(Some(600));
    assert_eq!(decision.offer, Offer::Http2, "{}", decision.reason);
    let prediction = decision.prediction.unwrap();
    assert!(
        (prediction.rates[0] / 9e8 - 1.0).abs() < 0.2,
        "{prediction:?}"
    );
}

#[test]
fn an_offer_waits_for_the_first_time_that_the_connection_idles() {
    let selection = Selection::of(&"threshold:rtt=0ms,loss=1%".parse().unwrap());
    let mut scene = Scene::new(&selection, Transport::Tcp, 20 * MS);
    scene.request(1);
    let decision = scene.decide(Some(600));
    assert_eq!(
        (decision.offer, decision.alt_svc),
        (Offer::Http3, AltSvc::Omit)
    );
    assert!(scene.observer.may_tell_later());
    scene.now += 300 * MS;
    let told = scene.idle().unwrap();
    assert!(matches!(told.alt_svc, AltSvc::Advertise { .. }), "{told:?}");
    assert_eq!(scene.idle(), None, "once");
    let next = scene.decide(Some(600));
    assert!(matches!(next.alt_svc, AltSvc::Advertise { .. }));
}

#[test]
fn a_page_that_takes_long_has_its_offer_in_the_middle() {
    let selection = Selection::of(&"threshold:rtt=0ms,loss=1%".parse().unwrap());
    let mut scene = Scene::new(&selection, Transport::Tcp, 20 * MS);
    scene.request(1);
    assert_eq!(scene.decide(Some(600)).alt_svc, AltSvc::Omit);
    scene.now += TELL_WITHIN;
    let decision = scene.decide(Some(600));
    assert!(matches!(decision.alt_svc, AltSvc::Advertise { .. }));
    scene.now += 300 * MS;
    assert_eq!(scene.idle(), None, "it has been told");
}

#[test]
fn what_was_learnt_is_there_for_the_next_connection() {
    let selection = learned();
    let mut scene = Scene::new(&selection, Transport::Tcp, MS);
    scene.download(50, 8_889 * MS / 1_000);
    scene.end();
    let mut scene = Scene::new(&selection, Transport::Quic, MS);
    scene.request(1);
    assert_eq!(scene.decide(Some(600)).offer, Offer::Http2);
}

#[test]
fn a_decision_is_good_for_a_second() {
    let selection = learned();
    let mut scene = Scene::new(&selection, Transport::Tcp, 40 * MS);
    scene.request(1);
    let first = scene.decide(None);
    scene.now += 999 * MS;
    let mut counters = scene.counters.get();
    counters.min_rtt = Some(MS);
    scene.counters.set(counters);
    assert_eq!(scene.decide(None), first);
}

#[test]
fn requests_that_end_in_no_response_leave_nothing_behind() {
    let selection = learned();
    let mut scene = Scene::new(&selection, Transport::Tcp, 10 * MS);
    for in_progress in 1..=5 {
        scene.request(in_progress);
    }
    // Reset, all of them.
    scene.now += 50 * MS;
    scene.request(1);
    let known = scene.observer.known.as_ref().unwrap();
    assert_eq!(known.pages.under_way(), 1);
    scene.sent(100);
    assert_eq!(scene.complete(), Complete::Done);
    let known = scene.observer.known.as_ref().unwrap();
    assert_eq!(known.pages.under_way(), 0);
}

/// Visits of a client that loads 20 KB, which the application begins to give after `wait`.
fn slowly_answered(selection: &Selection, transport: Transport, wait: Duration, visits: u32) {
    for _ in 0..visits {
        let mut scene = Scene::new(selection, transport, 40 * MS);
        scene.now += 40 * MS;
        scene.request(1);
        scene.observer.waits(scene.now);
        scene.now += wait;
        scene.observer.begins(scene.now);
        scene.sent(20_000);
        scene.now += 60 * MS;
        scene.acknowledged(20_000);
        scene.complete();
        scene
            .observer
            .arrived(scene.now, || Some(scene.counters.get()));
        scene.end();
    }
}

#[test]
fn an_application_that_takes_its_time_over_both_protocols_makes_neither_of_them_slow() {
    let effect = |wait| {
        let selection = learned();
        // What is learnt counts from there on.
        for number in 0..1_000 {
            let (hints, elsewhere) = (Hints::default(), Ipv4Addr::from_bits(number).into());
            let client = (elsewhere, &hints);
            selection.connected(client, HostIndex::OTHERS, Transport::Tcp, UNIX);
        }
        slowly_answered(&selection, Transport::Tcp, wait, 1);
        slowly_answered(&selection, Transport::Quic, wait, 5);
        let mut scene = Scene::new(&selection, Transport::Quic, 40 * MS);
        scene.request(1);
        scene.decide(None).prediction.unwrap().effect
    };
    let (at_once, slowly) = (effect(Duration::ZERO), effect(500 * MS));
    assert!((slowly - at_once).abs() < 0.01, "{at_once} {slowly}");
}

#[test]
fn a_connection_that_was_opened_ahead_did_not_begin_a_page() {
    let selection = learned();
    for (transport, handshake) in [(Transport::Tcp, 80 * MS), (Transport::Quic, 60 * MS)] {
        for wait in [40, 8_000] {
            let mut scene = Scene::new(&selection, transport, 40 * MS);
            scene.now += wait * MS;
            scene.request(1);
            scene.sent(20_000);
            scene.now += 50 * MS;
            scene.acknowledged(20_000);
            let page = scene.finish_page();
            assert_eq!((page.start, page.time), (Start::Cold, handshake + 50 * MS));
        }
    }
}

#[test]
fn a_client_that_pauses_while_it_is_sent_something_shows_no_rate_and_no_time() {
    let selection = learned();
    for (pause, is_shown) in [(Duration::ZERO, true), (10_000 * MS, false)] {
        let mut scene = Scene::new(&selection, Transport::Quic, 10 * MS);
        scene.request(1);
        for piece in 0..1_000 {
            if piece % 100 == 50 {
                scene.now += pause;
            }
            scene.sent(10_000);
            scene.now += MS;
            scene.acknowledged(10_000);
        }
        let page = scene.finish_page();
        let known = scene.observer.known.as_ref().unwrap();
        assert_eq!(known.bulk.unwrap().app_limited, !is_shown);
        assert_eq!(page.path_time().is_some(), is_shown);
    }
}

#[test]
fn a_download_that_was_given_up_is_no_part_of_what_comes_after_it() {
    let selection = learned();
    for transport in [Transport::Tcp, Transport::Quic] {
        let mut scene = Scene::new(&selection, transport, 10 * MS);
        scene.request(1);
        for _ in 0..1_000 {
            scene.sent(50_000);
            scene.now += MS;
            scene.acknowledged(50_000);
        }
        // Reset. Its client asks again a minute later.
        scene.now += 60_000 * MS;
        scene.request(1);
        scene.sent(20_000);
        scene.now += 10 * MS;
        scene.acknowledged(20_000);
        assert_eq!(scene.complete(), Complete::Watch);
        scene
            .observer
            .arrived(scene.now, || Some(scene.counters.get()));
        let known = scene.observer.known.as_ref().unwrap();
        assert_eq!(known.bulk, None, "20 KB show no rate");
    }
}

#[test]
fn a_small_response_over_quic_waits_for_its_acknowledgement_and_over_tcp_for_a_round_trip() {
    let selection = learned();
    for (transport, complete) in [
        (Transport::Tcp, Complete::Done),
        (Transport::Quic, Complete::Watch),
    ] {
        let mut scene = Scene::new(&selection, transport, 10 * MS);
        scene.request(1);
        scene.sent(600);
        assert_eq!(scene.complete(), complete);
        scene.now += 10 * MS;
        scene
            .observer
            .arrived(scene.now, || Some(scene.counters.get()));
        let known = scene.observer.known.as_ref().unwrap();
        assert_eq!(known.pages.under_way(), 0);
    }
}

#[test]
fn of_several_responses_at_once_the_last_is_waited_for() {
    let selection = learned();
    let mut scene = Scene::new(&selection, Transport::Tcp, 10 * MS);
    for in_progress in 1..=3 {
        scene.request(in_progress);
    }
    let mut ends = Vec::new();
    for _ in 0..3 {
        scene.sent(20_000);
        ends.push(scene.complete());
    }
    assert_eq!(ends, [Complete::Done, Complete::Done, Complete::Watch]);
    // A request that comes before the client was known to have everything shows that it has.
    scene.now += 15 * MS;
    scene.request(1);
    let known = scene.observer.known.as_ref().unwrap();
    assert_eq!((known.pages.under_way(), known.unacknowledged), (1, None));
}

#[test]
fn packets_are_counted_once() {
    let selection = Selection::of(&"threshold:rtt=50ms,loss=1%".parse().unwrap());
    let mut scene = Scene::new(&selection, Transport::Tcp, 10 * MS);
    let mut counters = scene.counters.get();
    (counters.packets_sent, counters.packets_lost) = (100_000, 900);
    scene.counters.set(counters);
    for _ in 0..20 {
        scene.request(1);
        scene.sent(600);
        let _ = scene.complete();
        scene.now += 2_000 * MS;
    }
    let reason = scene.decide(None).reason;
    assert!(matches!(reason, Reason::ShortAndClean { .. }), "{reason}");
}

#[test]
fn rates_after_the_first_are_told_once_a_second() {
    let selection = learned();
    let mut scene = Scene::new(&selection, Transport::Tcp, MS);
    let mut observed = Vec::new();
    for _ in 0..4 {
        scene.download(2, 10 * MS);
        scene.request(1);
        let known = scene.observer.known.as_ref().unwrap();
        observed.push(known.observed_at.duration_since(scene.observer.began));
        let _ = scene.complete();
        scene.now += 100 * MS;
    }
    assert!(
        observed.windows(2).all(|pair| pair[0] == pair[1]),
        "{observed:?}"
    );
    scene.now += 900 * MS;
    scene.download(2, 10 * MS);
    let known = scene.observer.known.as_ref().unwrap();
    assert!(known.observed_at.duration_since(scene.observer.began) > observed[0]);
}

#[test]
fn what_a_client_shows_after_a_move_counts_for_its_new_address() {
    const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));
    let selection = Selection::of(&"threshold:rtt=50ms,loss=1%".parse().unwrap());
    let mut scene = Scene::new(&selection, Transport::Quic, 10 * MS);
    let mut counters = scene.counters.get();
    (counters.packets_sent, counters.packets_lost) = (1_000, 500);
    scene.counters.set(counters);
    let ask = |scene: &mut Scene<'_>| {
        for _ in 0..3 {
            scene.request(1);
            scene.sent(600);
            let _ = scene.complete();
            let read = || Some(scene.counters.get());
            scene.observer.arrived(scene.now, read);
            scene.now += 2_000 * MS;
        }
    };
    ask(&mut scene);
    scene.request(1);
    let move_to = |scene: &mut Scene<'_>, is_validated| {
        let (now, selection) = (scene.now, scene.selection);
        let observer = &mut scene.observer;
        observer.follow(selection, ELSEWHERE, is_validated, now, UNIX);
    };
    assert!(scene.observer.take_finished().is_some(), "those before");
    move_to(&mut scene, false);
    assert_eq!(scene.observer.take_finished(), None, "it is half loaded");
    // Whoever says to be elsewhere has shown nothing of it.
    counters.min_rtt = Some(80 * MS);
    scene.counters.set(counters);
    scene.request(2);
    assert!(scene.observer.client().is_none());
    move_to(&mut scene, true);
    ask(&mut scene);
    let reason = scene.decide(None).reason;
    assert!(matches!(reason, Reason::LongRtt { .. }), "{reason}");
    scene.end();
    let decide = |address| {
        let mut scene = Scene::new(&selection, Transport::Tcp, MS);
        let mut counters = scene.counters.get();
        counters.min_rtt = None;
        scene.counters.set(counters);
        scene.observer.address = address;
        scene.request(1);
        scene.decide(None).reason
    };
    let (before, after) = (decide(CLIENT), decide(ELSEWHERE));
    assert!(matches!(before, Reason::Lossy { .. }), "{before}");
    assert!(matches!(after, Reason::LongRtt { .. }), "{after}");
}

/// The lines of a selection log, of which `path` is the file.
fn lines(selection: &Selection, path: &std::path::Path) -> Vec<altway_select::SelectionEntry> {
    assert!(selection.log().unwrap().drain(Duration::from_secs(10)));
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

#[test]
fn the_selection_log_has_each_page_and_a_decision_that_none_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = crate::SelectionLog::append(&path).unwrap();
    let selection = Selection {
        log: Some(log),
        ..learned()
    };
    let mut scene = Scene::new(&selection, Transport::Tcp, 40 * MS);
    scene.request(1);
    let decision = scene.decide(Some(20_000));
    scene.sent(20_000);
    scene.now += 50 * MS;
    scene.acknowledged(20_000);
    scene.complete();
    scene.observer.arrived(scene.now, || None);
    assert!(lines(&selection, &path).is_empty(), "the page may go on");
    scene.now += 2_000 * MS;
    scene.request(1);
    let found = lines(&selection, &path);
    assert_eq!(found.len(), 1);
    let (line, page) = (&found[0], found[0].page.unwrap());
    assert_eq!((line.offer, line.propensity), (decision.offer, 1.0));
    assert_eq!(line.class.to_string(), "firefox-linux");
    assert_eq!(line.protocol, LoggedProtocol::H2);
    assert_eq!((page.first, page.rest, page.responses), (20_000, 0, 1));
    // From the first packet, a round trip before the connection was accepted.
    assert!((page.seconds - 0.09).abs() < 1e-6, "{page:?}");
    assert_eq!(line.path.rtt, Some(0.04));

    // The page that has begun is never whole, but something was decided for it.
    scene.decide(None);
    scene.end();
    let found = lines(&selection, &path);
    assert_eq!(found.len(), 2);
    assert_eq!((found[1].page, found[1].client), (None, found[0].client));
}

#[test]
fn a_connection_that_ends_after_its_page_has_no_other_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = crate::SelectionLog::append(&path).unwrap();
    let selection = Selection {
        log: Some(log),
        ..learned()
    };
    let mut scene = Scene::new(&selection, Transport::Quic, 40 * MS);
    scene.request(1);
    scene.decide(Some(600));
    scene.sent(600);
    scene.complete();
    scene.now += 40 * MS;
    scene.observer.arrived(scene.now, || None);
    scene.end();
    let found = lines(&selection, &path);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].page.is_some() && found[0].protocol == LoggedProtocol::H3);
    // A connection of which nobody asked anything has none.
    Scene::new(&selection, Transport::Quic, MS).end();
    assert_eq!(lines(&selection, &path).len(), 1);
}
