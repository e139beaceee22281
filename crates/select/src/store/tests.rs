//! The store in virtual time: what it keeps, what it costs, and what nobody can do to it.

use super::*;
use crate::observation::Transport;
use crate::{ClientClass, Secret};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const NOW: UnixTime = UnixTime::from_secs(1_795_392_000);

fn client(address: impl Into<IpAddr>) -> Client {
    Client::new(&Secret::new([5; 16]), address.into(), ClientClass::OTHER)
}

fn numbered(number: u32) -> Client {
    client(Ipv4Addr::from_bits(number.wrapping_mul(0x9e37_79b1)))
}

fn add(store: &Store, client: &Client) {
    store.change(client, NOW, |known| {
        known.add_rtt(Transport::Tcp, Duration::from_millis(20));
    });
}

#[test]
fn a_client_is_known_by_address_and_class() {
    let store = Store::new(1024);
    let one = numbered(1);
    add(&store, &one);
    assert_eq!(
        store.known(&one, NOW).unwrap().rtt(Transport::Tcp),
        Some(0.02)
    );
    assert_eq!(store.known(&numbered(2), NOW), None);
    let other = one.with_class("safari-ios".parse().unwrap());
    assert_eq!(store.known(&other, NOW), None);
}

#[test]
fn a_client_that_stays_away_for_a_month_is_new() {
    let store = Store::new(1024);
    add(&store, &numbered(1));
    let day = Duration::from_secs(86_400);
    assert!(store.known(&numbered(1), NOW + day * 30).is_some());
    assert!(store.known(&numbered(1), NOW + day * 31).is_none());
    let rtt = store.change(&numbered(1), NOW + day * 31, |known| {
        known.rtt(Transport::Tcp)
    });
    assert_eq!(rtt, None);
}

#[test]
fn an_entry_costs_less_than_80_bytes_networks_included() {
    let store = Store::new(50_000);
    for number in 0..200_000 {
        add(&store, &numbered(number));
    }
    let each = store.bytes() as f64 / store.len() as f64;
    assert!(each <= 80.0, "{each} bytes, {} clients", store.len());
    assert!(store.len() <= 50_048);
}

#[test]
fn who_holds_an_allocation_makes_the_store_forget_a_sixteenth_part_at_most() {
    let store = Store::new(8_192);
    for number in 0..4_000 {
        add(&store, &numbered(number));
    }
    let known = |store: &Store| {
        (0..4_000)
            .filter(|it| store.known(&numbered(*it), NOW).is_some())
            .count()
    };
    let before = known(&store);
    for site in 0..100_000_u32 {
        let [_, a, b, c] = site.to_be_bytes();
        let site = Ipv6Addr::new(
            0x2001,
            0xbad,
            u16::from(a) << 8 | u16::from(b),
            c.into(),
            0,
            0,
            0,
            1,
        );
        add(&store, &client(site));
    }
    let after = known(&store);
    assert!(
        before - after < before / 12,
        "{before} before, {after} after"
    );
}

#[test]
fn a_network_votes_six_times_a_day_and_an_allocation_sixty_times() {
    let store = Store::new(1024);
    let votes = |client: &Client| (0..100).filter(|_| store.vote(client, NOW)).count();
    assert_eq!(votes(&client(Ipv4Addr::new(192, 0, 2, 1))), 6);
    assert_eq!(votes(&client(Ipv4Addr::new(192, 0, 2, 2))), 0);
    let sites = (0..50).map(|site| client(Ipv6Addr::new(0x2001, 0xdb8, site, 0, 0, 0, 0, 1)));
    assert_eq!(sites.map(|site| votes(&site)).sum::<usize>(), 60);
}
