//! The store in virtual time: what a client learns of its path, and what neighbours can't do to it.

use super::*;
use crate::Transport;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const MAX_AGE: Duration = Duration::from_secs(600);

/// A client in an IPv4 network of its own, all in one /8.
fn client(network: u16) -> IpAddr {
    let [high, low] = network.to_be_bytes();
    Ipv4Addr::new(10, high, low, 1).into()
}

/// A client in a network that all of them share.
fn neighbour(host: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, host).into()
}

/// A client in the `site`th IPv6 /48 of a /32.
fn site(allocation: u16, site: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, allocation, site, 0, 0, 0, 0, 1).into()
}

fn sample(at: u64, rtt_ms: u64, sent: u64, lost: u64) -> Sample {
    Sample {
        transport: Transport::Quic,
        at: Duration::from_secs(at),
        min_rtt: Duration::from_millis(rtt_ms),
        packets_sent: sent,
        packets_lost: lost,
    }
}

fn small(max_clients: usize) -> MemoryStore {
    MemoryStore::new(MemoryStoreConfig {
        max_clients,
        max_clients_per_network: 4,
        max_clients_per_allocation: 5,
        max_age: MAX_AGE,
    })
}

#[test]
fn samples_of_a_client_add_up() {
    let mut store = small(8);
    store.record(client(1), &sample(0, 30, 100, 1));
    store.record(client(1), &sample(1, 20, 100, 2));
    let path = store.client(client(1), Duration::from_secs(2)).unwrap();
    assert_eq!(path.min_rtt, Duration::from_millis(20));
    assert_eq!(path.loss, "1.5%".parse().unwrap());
    assert_eq!(path.packets, 200);
    assert_eq!(path.updated, Duration::from_secs(1));
}

#[test]
fn an_unknown_client_has_no_statistics() {
    let mut store = small(8);
    store.record(client(1), &sample(0, 30, 100, 1));
    assert_eq!(store.client(client(2), Duration::ZERO), None);
    assert_eq!(store.neighbours(client(2), Duration::ZERO), None);
}

#[test]
fn addresses_of_an_ipv6_64_are_one_client() {
    let mut store = small(8);
    store.record("2001:db8::1".parse().unwrap(), &sample(0, 30, 100, 1));
    store.record("2001:db8::2".parse().unwrap(), &sample(0, 30, 100, 1));
    assert_eq!(store.len(), 1);
    let path = store.client("2001:db8::3".parse().unwrap(), Duration::ZERO);
    assert_eq!(path.unwrap().packets, 200);
}

#[test]
fn one_neighbour_or_two_decide_nothing() {
    let mut store = small(8);
    for host in [1, 2] {
        store.record(neighbour(host), &sample(0, 0, 1_000, 1_000));
        assert_eq!(store.neighbours(neighbour(9), Duration::ZERO), None);
    }
}

#[test]
fn of_three_neighbours_the_middle_one_counts_however_often_another_measures() {
    let mut store = small(8);
    store.record(neighbour(1), &sample(0, 80, 100, 0));
    store.record(neighbour(2), &sample(0, 90, 100, 1));
    for _ in 0..1_000 {
        store.record(neighbour(3), &sample(0, 0, 1_000, 1_000));
    }
    let guess = store.neighbours(neighbour(9), Duration::ZERO).unwrap();
    assert_eq!(guess.min_rtt, Duration::from_millis(80));
    assert_eq!(guess.loss, "1%".parse().unwrap());
    assert_eq!(guess.packets, 100);
}

#[test]
fn a_client_is_no_neighbour_of_its_own() {
    let mut store = small(8);
    for host in [1, 2, 3] {
        store.record(neighbour(host), &sample(0, 80, 100, 0));
    }
    assert_eq!(store.neighbours(neighbour(3), Duration::ZERO), None);
}

#[test]
fn a_path_is_known_up_to_its_maximum_age_and_not_longer() {
    let mut store = small(8);
    for host in [1, 2, 3] {
        store.record(neighbour(host), &sample(10, 30, 100, 1));
    }
    let end = Duration::from_secs(10) + MAX_AGE;
    assert!(store.client(neighbour(1), end).is_some());
    assert!(store.neighbours(neighbour(9), end).is_some());
    let later = end + Duration::from_nanos(1);
    assert_eq!(store.client(neighbour(1), later), None);
    assert_eq!(store.neighbours(neighbour(9), later), None);
}

#[test]
fn an_old_minimum_leaves_while_new_samples_come() {
    let mut store = small(8);
    store.record(client(1), &sample(0, 5, 100, 50));
    for at in (100..=1000).step_by(100) {
        store.record(client(1), &sample(at, 80, 100, 0));
    }
    let path = store.client(client(1), Duration::from_secs(1000)).unwrap();
    assert_eq!(path.min_rtt, Duration::from_millis(80));
    assert_eq!(path.loss, Ratio::ZERO);
}

#[test]
fn without_a_packet_there_is_no_loss() {
    let mut store = small(8);
    store.record(client(1), &sample(0, 5, 0, 0));
    let path = store.client(client(1), Duration::ZERO).unwrap();
    assert_eq!((path.loss, path.packets), (Ratio::ZERO, 0));
}

#[test]
fn a_full_store_forgets_the_client_that_was_silent_longest() {
    let mut store = small(2);
    store.record(client(1), &sample(0, 5, 1, 0));
    store.record(client(2), &sample(1, 5, 1, 0));
    store.record(client(1), &sample(2, 5, 1, 0));
    store.record(client(3), &sample(3, 5, 1, 0));
    let now = Duration::from_secs(3);
    assert_eq!(store.len(), 2);
    assert!(store.client(client(1), now).is_some());
    assert!(store.client(client(2), now).is_none());
    assert!(store.client(client(3), now).is_some());
}

#[test]
fn a_network_keeps_its_newest_clients_and_takes_no_place_of_others() {
    let mut store = small(8);
    store.record(client(1), &sample(0, 5, 1, 0));
    for host in 0..100 {
        store.record(neighbour(host), &sample(1 + u64::from(host), 5, 1, 0));
    }
    let now = Duration::from_secs(100);
    assert_eq!(store.len(), 1 + 4);
    assert!(store.client(client(1), now).is_some());
    assert!(store.client(neighbour(95), now).is_none());
    assert!(store.client(neighbour(96), now).is_some());
}

#[test]
fn an_ipv6_32_can_not_make_the_store_forget_others() {
    let mut store = small(16);
    store.record(site(0xdb8, 0), &sample(0, 5, 1, 0));
    for number in 0..1_000 {
        store.record(site(0xbad, number), &sample(1, 5, 1, 0));
    }
    assert_eq!(store.len(), 1 + 5);
    let now = Duration::from_secs(1);
    assert!(store.client(site(0xdb8, 0), now).is_some());
}

proptest! {
    #[test]
    fn never_exceeds_its_bounds_and_its_maps_agree(
        samples in proptest::collection::vec(
            (0_u16..20, 0_u8..20, 0_u64..2000, 0_u64..50, 0_u64..50),
            0..200,
        ),
    ) {
        let mut store = small(7);
        for (network, host, at, sent, lost) in samples {
            let client = match host {
                0..10 => neighbour(host),
                10..15 => client(network),
                _ => site(u16::from(host), network),
            };
            store.record(client, &sample(at, 1, sent, lost));
            prop_assert!(store.len() <= 7);
            prop_assert_eq!(store.by_age.len(), store.paths.len());
            let allocated: usize = store.allocations.values().map(BTreeSet::len).sum();
            prop_assert_eq!(allocated, store.paths.len());
            prop_assert!(store.allocations.values().all(|it| (1..=5).contains(&it.len())));
            prop_assert!(store.paths.range(NETWORK.range(client)).count() <= 4);
        }
    }
}
