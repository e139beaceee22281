//! Snapshots: the same state again, and nothing from hostile bytes.

use super::*;
use crate::{
    Bulk, Client, Config, DecisionRequest, Host, ModelKind, Observation, Page, Start, Transport,
};
use altway_units::{Bandwidth, DataSize};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::time::Duration;

const NOW: UnixTime = UnixTime::from_secs(1_795_392_000);

fn selector(secret: u8) -> Selector {
    let mut config = Config::new(Secret::new([secret; 16]), &ModelKind::Learned(None));
    config.max_clients = 65_536;
    Selector::new(config)
}

fn client(selector: &Selector, number: u8) -> Client {
    let class = ClientClass::from_index(number % 7 * 8).unwrap();
    Client::new(
        &selector.secret,
        Ipv4Addr::new(10, number, 2, 3).into(),
        class,
    )
}

fn fed() -> Selector {
    let (selector, host) = (selector(1), Host::new("a"));
    for number in 0..100 {
        let client = client(&selector, number);
        for transport in [Transport::Tcp, Transport::Quic] {
            selector.connected(&client, &host, transport, NOW);
            let size = DataSize::from_bytes(10_000_000);
            let rate = Bandwidth::from_mbit(50 + u64::from(number)).unwrap();
            let page = Page {
                first: size,
                rest: DataSize::ZERO,
                responses: 1,
                start: Start::Cold,
                time: Duration::from_secs(1),
                waited: Some(Duration::ZERO),
            };
            let seen = Observation {
                min_rtt: Some(Duration::from_millis(9)),
                packets_sent: 7_000,
                packets_lost: 9,
                bulk: Some(Bulk {
                    size,
                    rate,
                    app_limited: false,
                }),
                page: Some(page),
                ..Observation::new(transport)
            };
            selector.observe(&client, &host, &seen, NOW);
            let _ = selector.decide(&client, &host, &DecisionRequest::new(NOW, transport));
        }
    }
    selector
}

#[test]
fn a_snapshot_is_the_same_after_a_round_trip_and_decides_the_same() {
    let (before, after) = (fed(), selector(1));
    let bytes = before.snapshot([], NOW);
    after.restore(&bytes, NOW).unwrap();
    assert!(after.snapshot([], NOW) == bytes, "other bytes");
    let host = Host::new("a");
    for number in 0..100 {
        let moment = DecisionRequest::new(NOW, Transport::Tcp);
        let decide =
            |selector: &Selector| selector.preview(&client(selector, number), &host, &moment);
        assert_eq!(decide(&before), decide(&after));
    }
}

#[test]
fn a_snapshot_knows_which_host_a_name_is_and_its_slot() {
    let before = selector(1);
    let mut hosts = vec![Host::default()];
    // All have the slot of the first but for what they avoid.
    for name in ["b.test", "c.test", "*.d.test", "p.test"] {
        let taken = hosts.iter().fold(0, |all, it| all | it.taken_slot());
        hosts.push(Host::new(name).avoiding(taken));
    }
    let other_policy = Host::new("c.test").avoiding(!(1 << 7));
    let shared = Host::new("").avoiding(1);
    let all = hosts.iter().chain([&other_policy, &shared]);
    let after = selector(1);
    after.restore(&before.snapshot(all, NOW), NOW).unwrap();
    let found = |name: &str| {
        let host = after.host_of_snapshot(name);
        (host.name().to_owned(), host.taken_slot())
    };
    for (name, host) in [
        ("B.test", &hosts[1]),
        ("c.test", &other_policy),
        ("x.d.test", &hosts[3]),
        ("p.test", &hosts[4]),
        ("d.test", &hosts[0]),
        ("x.y.d.test", &hosts[0]),
        ("", &hosts[0]),
    ] {
        let (of, slot) = found(name);
        assert_eq!(
            (of.to_ascii_lowercase().as_str(), slot),
            (host.name(), host.taken_slot()),
            "{name}"
        );
    }
    let nothing = selector(1);
    assert_eq!(nothing.host_of_snapshot("b.test").name(), "b.test");
}

#[test]
fn a_host_goes_on_with_its_pages() {
    let before = selector(1);
    let load = |host: &Host, bytes, pages| {
        for _ in 0..pages {
            host.mix.lock().unwrap().add(bytes, 3, true);
        }
    };
    let [site, downloads, other_policy] =
        ["site.test", "Downloads.test", "downloads.test"].map(Host::new);
    load(&site, 20_000, 2);
    load(&downloads, 10_000_000, 300);
    load(&other_policy, 20_000, 2);
    let hosts = [&site, &downloads, &other_policy, &Host::new("empty.test")];
    let bytes = before.snapshot(hosts, NOW);
    let after = selector(1);
    after.restore(&bytes, NOW).unwrap();
    let recalled = |host: Host| {
        after.recall(&host);
        host.mix.into_inner().unwrap()
    };
    let mix = |host: &Host| host.mix.lock().unwrap().clone();
    assert_eq!(recalled(Host::new("site.test")), mix(&site));
    assert_eq!(
        recalled(Host::new("downloads.test")),
        mix(&downloads),
        "that with the most pages"
    );
    for unknown in ["empty.test", "new.test", ""] {
        assert!(recalled(Host::new(unknown)).is_empty(), "{unknown}");
    }
    let begun = Host::new("site.test");
    load(&begun, 1_000, 1);
    assert_eq!(recalled(begun).pages(), 1.0, "it has pages of its own");
}

#[test]
fn a_snapshot_of_the_version_before_is_read() {
    let (before, after) = (fed(), selector(1));
    let bytes = before.snapshot([], NOW);
    // There was nothing after the networks, where the number of hosts is now.
    let mut former = bytes[..bytes.len() - 16].to_vec();
    former[8] = 2;
    former.extend(checksum(&before.secret, &former).to_le_bytes());
    assert_eq!(snapshot_congestion(&former), snapshot_congestion(&bytes));
    after.restore(&former, NOW).unwrap();
    assert!(after.snapshot([], NOW) == bytes, "other bytes");
}

#[test]
fn what_is_older_than_a_month_is_left_out() {
    let after = selector(1);
    let later = NOW + Duration::from_secs(31 * 86_400);
    after.restore(&fed().snapshot([], NOW), later).unwrap();
    assert_eq!(after.clients(), 0);
}

#[test]
fn says_what_is_wrong() {
    let bytes = fed().snapshot([], NOW);
    let error = |bytes: &[u8]| selector(1).restore(bytes, NOW).unwrap_err();
    assert_eq!(selector(2).restore(&bytes, NOW), Err(SnapshotError::Secret));
    assert_eq!(error(b""), SnapshotError::Format);
    assert_eq!(error(&bytes[..bytes.len() - 1]), SnapshotError::Checksum);
    let mut damaged = bytes.clone();
    damaged[1_000] ^= 1;
    assert_eq!(error(&damaged), SnapshotError::Checksum);
    let mut newer = bytes;
    newer[8] = 9;
    assert_eq!(error(&newer), SnapshotError::Version { found: 9 });
}

#[test]
fn after_a_restart_with_another_congestion_control_no_rate_of_the_former_is_gone_by() {
    let (loss, rate) = (Congestion::LossBased, Congestion::RateBased);
    let before = fed();
    let bytes = before.snapshot([], NOW);
    assert_eq!(snapshot_congestion(&bytes), Some([loss, loss]));
    assert_eq!(snapshot_congestion(&bytes[..20]), None);
    let after = |congestion| {
        let mut config = Config::new(Secret::new([1; 16]), &ModelKind::Learned(None));
        (config.max_clients, config.congestion) = (65_536, congestion);
        let after = Selector::new(config);
        after.restore(&bytes, NOW).unwrap();
        after
    };
    let host = Host::new("a");
    let moment = DecisionRequest::new(NOW, Transport::Tcp);
    for (congestion, kept) in [([rate, loss], [false, true]), ([loss, rate], [true, false])] {
        let after = after(congestion);
        let found = after.explain(&client(&after, 40), &host, &moment);
        assert_eq!(found.measured.map(|it| it.is_some()), kept, "{found:?}");
        assert!(found.is_known && found.rtts[0].is_some());
        // Measured at 90 Mbit/s over either: the path carries that at least.
        let [rate2, _] = found.decision.prediction.unwrap().rates;
        assert!(rate2 > 80e6, "{rate2}");
    }
    let same = after([loss, loss]);
    assert!(same.snapshot([], NOW) == bytes);
}

#[test]
fn a_connection_says_itself_which_congestion_control_it_has() {
    let selector = fed();
    let (whom, host) = (client(&selector, 40), Host::new("a"));
    let under = |congestion| DecisionRequest {
        congestion: Some(congestion),
        ..DecisionRequest::new(NOW, Transport::Tcp)
    };
    let measured = |congestion| selector.explain(&whom, &host, &under(congestion)).measured[0];
    assert!(measured(Congestion::LossBased).is_some());
    assert_eq!(measured(Congestion::RateBased), None);
    let seen = Observation {
        congestion: Some(Congestion::RateBased),
        min_rtt: Some(Duration::from_millis(9)),
        bulk: Some(Bulk {
            size: DataSize::from_bytes(10_000_000),
            rate: Bandwidth::from_mbit(200).unwrap(),
            app_limited: false,
        }),
        ..Observation::new(Transport::Tcp)
    };
    selector.observe(&whom, &host, &seen, NOW);
    let rate = measured(Congestion::RateBased).unwrap();
    assert!((rate - 200e6).abs() < 1e3, "{rate}");
    assert_eq!(measured(Congestion::LossBased), None);
}

/// Bytes of the head: magic, version, identity of the secret.
const HEAD: usize = 20;

/// Bytes with a right head and checksum, whatever stands between.
fn sealed(selector: &Selector, body: &[u8]) -> Vec<u8> {
    let mut bytes = selector.snapshot([], NOW)[..HEAD].to_vec();
    bytes.extend(body);
    bytes.extend(checksum(&selector.secret, &bytes).to_le_bytes());
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes: Vec<u8>) {
        prop_assert!(selector(1).restore(&bytes, NOW).is_err());
    }

    #[test]
    fn bytes_by_who_knows_the_secret_leave_a_selector_that_decides(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..40),
        cut: Option<proptest::sample::Index>,
    ) {
        let (before, host) = (fed(), Host::new("a"));
        host.mix.lock().unwrap().add(10_000_000, 3, true);
        let bytes = before.snapshot([&host], NOW);
        let mut body = bytes[HEAD..bytes.len() - 8].to_vec();
        for (index, byte) in changes {
            let index = index.index(body.len());
            body[index] = byte;
        }
        if let Some(cut) = cut {
            body.truncate(cut.index(body.len()));
        }
        let after = selector(1);
        let _ = after.restore(&sealed(&before, &body), NOW);
        let host = Host::new("a");
        after.recall(&host);
        for number in 0..100 {
            let moment = DecisionRequest::new(NOW, Transport::Quic);
            let decision = after.decide(&client(&after, number), &host, &moment);
            prop_assert!(decision.prediction.unwrap().difference.is_finite());
        }
    }
}
