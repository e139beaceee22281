//! Logs of a few lines, and the trials that they hold.

use super::*;
use crate::{ENTRY_VERSION, ModelKind, UnixTime};

/// Monday, 2026-11-23 00:00 UTC.
const MONDAY: u64 = 1_795_392_000;
const DAY: u64 = 86_400;

fn page(start: LoggedStart) -> LoggedPage {
    LoggedPage {
        start,
        first: 20_000,
        rest: 400_000,
        responses: 20,
        seconds: 0.5,
    }
}

/// A line at `time` after Monday: a page on a new connection over HTTP/2, and an offer.
fn line(time: u64, offer: Offer) -> SelectionEntry {
    SelectionEntry {
        v: ENTRY_VERSION,
        time: UnixTime::from_secs(MONDAY + time),
        client: "00000000002a".parse().unwrap(),
        class: "firefox-linux".parse().unwrap(),
        host: "example.org".into(),
        protocol: LoggedProtocol::H2,
        page: Some(page(LoggedStart::Cold)),
        beacon: None,
        offer,
        reason: "predicted".into(),
        propensity: 0.975,
        held: false,
        path: Evidence {
            rtt: Some(0.02),
            limit_bps: 4e8,
            ..Evidence::default()
        },
    }
}

fn replay() -> Replay {
    let surface = Surface::embedded();
    let policies = ["h2", "h3", "surface"];
    let policies = policies.map(|it| it.parse::<ModelKind>().unwrap().build(surface));
    Replay::new(surface.clone(), policies.into())
}

fn read(lines: &[SelectionEntry]) -> (Vec<Option<PageTrial>>, ReplayCounts) {
    let mut replay = replay();
    let trials = lines.iter().map(|line| replay.read(line)).collect();
    (trials, *replay.counts())
}

/// The assignments that the pages show, a letter for each line: `2`, `3`, or `-` for no trial.
fn told(lines: &[SelectionEntry]) -> String {
    let letter = |trial: &Option<PageTrial>| match trial.map(|it| it.offer) {
        None => '-',
        Some(Offer::Http2) => '2',
        Some(Offer::Http3) => '3',
    };
    read(lines).0.iter().map(letter).collect()
}

const H2: Offer = Offer::Http2;
const H3: Offer = Offer::Http3;

#[test]
fn an_offer_shows_in_the_visits_after_it() {
    assert_eq!(
        told(&[line(0, H3), line(DAY, H3), line(2 * DAY, H3)]),
        "-33"
    );
    let (trials, counts) = read(&[line(0, H3), line(DAY, H3)]);
    let trial = trials[1].unwrap();
    assert_eq!(
        (trial.propensity, trial.held, trial.http3),
        (0.975, false, false)
    );
    assert_eq!((trial.client, trial.ln_time), (42, 0.5_f64.ln()));
    assert!(trial.predicted[1] < trial.predicted[0] && trial.processor[1] > trial.processor[0]);
    assert_eq!(
        [
            trial.wants_http3(0),
            trial.wants_http3(1),
            trial.wants_http3(2)
        ],
        [false, true, true]
    );
    assert_eq!(
        (counts.lines, counts.pages, counts.untold, counts.visits),
        (2, 2, 1, 2)
    );
    assert_eq!((counts.first, counts.last), (MONDAY, MONDAY + DAY));
}

#[test]
fn a_browsers_report_is_no_new_connection() {
    let report = SelectionEntry {
        page: None,
        beacon: Some(crate::LoggedBeacon {
            responses: 20,
            same: 20,
            bytes: 420_000,
            seconds: 0.5,
            load_seconds: 0.6,
            server_seconds: None,
        }),
        ..line(2, H3)
    };
    let warm = SelectionEntry {
        page: Some(page(LoggedStart::Warm)),
        ..line(60, H3)
    };
    let later = SelectionEntry {
        time: UnixTime::from_secs(MONDAY + 62),
        ..report.clone()
    };
    let lines = [line(0, H3), report, warm, later, line(DAY, H3)];
    // The connection was opened before the client was told anything.
    assert_eq!(told(&lines), "----3");
    assert_eq!(read(&lines).1.visits, 2);
}

#[test]
fn the_first_assignment_of_a_week_stands_for_it() {
    let week = 7 * DAY;
    // A change in the week's midst is of the assignment's own doing.
    assert_eq!(
        told(&[line(0, H3), line(DAY, H2), line(2 * DAY, H2)]),
        "-33"
    );
    // The first visit of the next week still shows the old one.
    let lines = [
        line(0, H3),
        line(DAY, H3),
        line(week, H2),
        line(week + DAY, H2),
    ];
    assert_eq!(told(&lines), "-332");
}

#[test]
fn until_a_page_shows_it_the_latest_assignment_counts() {
    let warm = |time, offer| SelectionEntry {
        page: Some(page(LoggedStart::Warm)),
        ..line(time, offer)
    };
    assert_eq!(
        told(&[line(0, H2), warm(5, H3), warm(9, H3), line(DAY, H2)]),
        "---3"
    );
    let waiting = SelectionEntry {
        reason: "waiting".into(),
        ..line(0, H3)
    };
    assert_eq!(told(&[waiting, line(DAY, H2), line(2 * DAY, H2)]), "--2");
}

#[test]
fn pages_on_an_open_connection_show_what_it_was_opened_under() {
    let warm = SelectionEntry {
        page: Some(page(LoggedStart::Warm)),
        ..line(7 * DAY + 60, H2)
    };
    let lines = [line(0, H3), line(7 * DAY, H2), warm, line(8 * DAY, H2)];
    assert_eq!(told(&lines), "-332");
}

#[test]
fn an_end_without_a_page_counts_as_told() {
    let end = SelectionEntry {
        page: None,
        ..line(0, H2)
    };
    assert_eq!(told(&[end.clone(), line(DAY, H3)]), "-2");
    assert_eq!(read(&[end]).1.pages, 0);
}

#[test]
fn an_offer_ends_with_its_life() {
    assert_eq!(told(&[line(0, H3), line(30 * DAY, H3)]), "-3");
    assert_eq!(told(&[line(0, H3), line(30 * DAY + 1, H3)]), "--");
}

#[test]
fn classes_and_hosts_are_told_apart() {
    let other = SelectionEntry {
        class: "chromium-linux".parse().unwrap(),
        ..line(DAY, H3)
    };
    let elsewhere = SelectionEntry {
        host: "example.com".into(),
        ..line(DAY, H3)
    };
    assert_eq!(
        told(&[line(0, H3), other, elsewhere, line(DAY, H3)]),
        "---3"
    );
}

#[test]
fn connections_within_half_a_minute_are_one_visit() {
    let visits = |times: &[u64]| {
        let lines: Vec<_> = times.iter().map(|time| line(*time, H3)).collect();
        read(&lines).1.visits
    };
    assert_eq!(visits(&[0, 1, 29]), 1);
    assert_eq!(visits(&[0, 30]), 2);
}

#[test]
fn http3_costs_three_times_as_much_for_a_large_object() {
    let cost = |http3| processor_seconds(http3, true, 1.0, 1e9);
    assert!((cost(true) / cost(false) - 3.3).abs() < 0.01);
}
