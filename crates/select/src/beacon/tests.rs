//! Reports as browsers send them, and as whoever likes may send them.

use super::*;
use crate::{Config, DecisionRequest, Host, ModelKind, Secret, Start};
use altway_units::DataSize;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const NOW: UnixTime = UnixTime::from_secs(1_795_392_000);
const SECRET: Secret = Secret::new([1; 16]);
const TEXT: &[u8] = b"v=1&p=h3&n=12&s=12&b=345678&t=1234&l=1402";

fn selector() -> Selector {
    Selector::new(Config::new(SECRET, &ModelKind::Learned(None)))
}

fn client(address: impl Into<IpAddr>) -> Client {
    Client::new(&SECRET, address.into(), "firefox-linux".parse().unwrap())
}

fn page(bytes: u64, responses: u32, ms: u64) -> Page {
    Page {
        first: DataSize::from_bytes(bytes),
        rest: DataSize::ZERO,
        responses,
        start: Start::Cold,
        time: Duration::from_millis(ms),
        waited: Some(Duration::ZERO),
    }
}

#[test]
fn a_report_is_its_numbers() {
    let report = BeaconReport::parse(TEXT).unwrap();
    let expected = BeaconReport {
        protocol: BeaconProtocol::Http3,
        responses: 12,
        same: 12,
        bytes: 345_678,
        time_ms: 1_234,
        load_ms: 1_402,
    };
    assert_eq!(report, expected);
}

#[test]
fn anything_but_a_report_is_refused() {
    let text = std::str::from_utf8(TEXT).unwrap();
    for (from, to) in [
        ("v=1", "v=2"),
        ("p=h3", "p=h4"),
        ("p=h3", "p=<script>"),
        ("n=12&s=12", "s=12&n=12"),
        ("s=12", "s=13"),
        ("n=12", "n=0"),
        ("b=345678", "b=-1"),
        ("b=345678", "b=1e3"),
        ("b=345678", "b=10000000001"),
        ("b=345678", "b=99999999999999999999"),
        ("t=1234", "t=0"),
        ("t=1234", "t=600001"),
        ("t=1234", "t=NaN"),
        ("t=1234", "t= 1"),
        ("t=1234", "t=+1"),
        ("l=1402", "l=1402&x=1"),
        ("l=1402", "l=1402\n"),
        ("&l=1402", ""),
    ] {
        assert!(text.contains(from));
        let changed = text.replacen(from, to, 1);
        assert_eq!(
            BeaconReport::parse(changed.as_bytes()),
            Err(InvalidBeacon),
            "{changed}"
        );
    }
    assert!(BeaconReport::parse(b"").is_err() && BeaconReport::parse(b"\xff").is_err());
}

#[test]
fn a_sample_is_of_the_same_responses_over_the_same_connection() {
    let selector = selector();
    let sent = 345_678 - 12 * 300;
    let take = |transport, page: Option<Page>, address: u8| {
        let report = BeaconReport::parse(TEXT).unwrap();
        let client = client(Ipv4Addr::new(192, 0, address, 1));
        selector
            .beacon(&client, transport, &report, page.as_ref(), NOW)
            .unwrap()
    };
    let bias = take(Transport::Quic, Some(page(sent, 12, 617)), 1).unwrap();
    assert!((bias - 0.5_f64.ln()).abs() < 1e-9, "{bias}");
    for (transport, page) in [
        (Transport::Tcp, Some(page(sent, 12, 617))),
        (Transport::Quic, Some(page(sent, 11, 617))),
        (Transport::Quic, Some(page(sent * 2, 12, 617))),
        (Transport::Quic, Some(page(sent, 12, 0))),
        (Transport::Quic, None),
    ] {
        assert_eq!(take(transport, page, 2), None, "{page:?}");
    }
    let counts = BeaconCounts {
        taken: 6,
        matched: 1,
        refused: 0,
    };
    assert_eq!(selector.beacon_counts(), counts);
    let timing = selector.timing();
    assert_eq!(
        (timing.len(), timing[0].bias[0]),
        (1, TimingBias::default())
    );
    let quic = timing[0].bias[1];
    assert_eq!((quic.reports, quic.networks, quic.error), (1.0, 1, 0.0));
}

#[test]
fn a_network_sends_ten_at_once_and_then_one_a_minute() {
    let selector = selector();
    let report = BeaconReport::parse(TEXT).unwrap();
    let send = |last: u8, later: u64| {
        let client = client(Ipv4Addr::new(192, 0, 2, last));
        let now = NOW + Duration::from_secs(later);
        selector.beacon(&client, Transport::Quic, &report, None, now)
    };
    for last in 0..10 {
        assert_eq!(send(last, 0), Ok(None));
    }
    assert_eq!(send(99, 0), Err(TooManyBeacons));
    assert_eq!(send(99, 59), Err(TooManyBeacons));
    assert_eq!(send(99, 60), Ok(None));
    assert_eq!(send(99, 60), Err(TooManyBeacons));
    assert_eq!(send(1, 315_360_000), Ok(None));
    assert_eq!(send(1, 700), Ok(None), "the clock was ten years ahead");
    let other = client(Ipv4Addr::new(198, 51, 100, 1));
    let taken = selector.beacon(&other, Transport::Quic, &report, None, NOW);
    assert_eq!(taken, Ok(None));
    assert_eq!(selector.beacon_counts().refused, 3);
}

#[test]
fn reports_decide_nothing() {
    let selector = selector();
    let (whom, host) = (client(Ipv4Addr::new(192, 0, 2, 1)), Host::new("a"));
    let moment = DecisionRequest::new(NOW, Transport::Tcp);
    let before = selector.preview(&whom, &host, &moment);
    let report = BeaconReport::parse(TEXT).unwrap();
    for network in 0..=255 {
        let liar = client(Ipv4Addr::new(10, 0, network, 1));
        let page = page(345_678 - 12 * 300, 12, 600_000);
        let taken = selector.beacon(&liar, Transport::Quic, &report, Some(&page), NOW);
        assert_eq!(taken, Ok(Some(MOST)));
    }
    assert_eq!(selector.preview(&whom, &host, &moment), before);
}

proptest! {
    #[test]
    fn any_bytes_are_a_report_within_its_ranges_or_none(bytes: Vec<u8>) {
        prop_assert!(BeaconReport::parse(&bytes).is_err());
    }

    #[test]
    fn any_numbers_leave_finite_sums(
        numbers in prop::collection::vec((0_u64..20_000, 0_u64..20_000, any::<u64>(), 0_u64..700_000, any::<u64>(), any::<u32>()), 1..40),
    ) {
        let selector = selector();
        for (index, (responses, same, bytes, time, sent, ms)) in numbers.into_iter().enumerate() {
            let text = format!("v=1&p=h2&n={responses}&s={same}&b={bytes}&t={time}&l={time}");
            let Ok(report) = BeaconReport::parse(text.as_bytes()) else {
                continue;
            };
            prop_assert!(report.same <= report.responses && report.time_ms <= 600_000);
            let client = client(Ipv4Addr::from(index as u32 * 256));
            let page = page(sent, report.responses, ms.into());
            let _ = selector.beacon(&client, Transport::Tcp, &report, Some(&page), NOW);
        }
        for class in selector.timing() {
            for bias in class.bias {
                prop_assert!(bias.mean.abs() <= MOST + 1e-9 && bias.error.is_finite());
            }
        }
    }
}
