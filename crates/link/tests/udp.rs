//! UDP that a direction blocks or polices, and all else, which that does not concern.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use altway_link::{Config, Direction, DropReason, Policer, Queue, Rate, Transport, UdpTreatment};
use altway_units::{Bandwidth, DataSize, Ratio, Timestamp};
use std::time::Duration;

const PACKET: DataSize = DataSize::from_bytes(1_500);
const MS: u64 = 1_000_000;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn treated(udp: &str) -> Config {
    Config {
        udp: udp.parse().unwrap(),
        ..Config::default()
    }
}

/// Offers a full packet; returns the reason for which it was dropped.
fn offer(link: &mut Direction<u64>, now: u64, transport: Transport) -> Option<DropReason> {
    let offered = link.enqueue_with(at(now), PACKET, transport, now, |packet| Some(*packet));
    offered.err().map(|dropped| dropped.reason)
}

/// Offers a full packet each `gap` ns for `time`; returns the number of those that passed.
fn passed(link: &mut Direction<u64>, transport: Transport, gap: u64, time: Duration) -> u64 {
    let count = u64::try_from(time.as_nanos()).unwrap() / gap;
    let mut passes = |ordinal| offer(link, ordinal * gap, transport).is_none();
    (0..count).map(|ordinal| u64::from(passes(ordinal))).sum()
}

#[test]
fn a_blocked_link_passes_all_but_udp() {
    let mut link = Direction::new(treated("block"), 1);
    let second = Duration::from_secs(1);
    assert_eq!(passed(&mut link, Transport::Udp, MS, second), 0);
    assert_eq!(passed(&mut link, Transport::Other, MS, second), 1_000);
    let counters = link.counters();
    assert_eq!(
        (counters.packets_in, counters.packets_udp_dropped),
        (2_000, 1_000)
    );
    assert_eq!(counters.packets_lost, 0);
}

#[test]
fn a_policer_passes_its_rate_over_10_s_within_2_percent() {
    for (rate, gap) in [("1mbit", MS / 10), ("5mbit", MS), ("50mbit", MS / 20)] {
        let mut link = Direction::new(treated(&format!("rate {rate} burst 15KB")), 1);
        let time = Duration::from_secs(10);
        let bits = passed(&mut link, Transport::Udp, gap, time) * 12_000;
        let asked = rate.parse::<Bandwidth>().unwrap().data_in(time).as_bytes() * 8;
        assert!(
            bits.abs_diff(asked) * 50 <= asked,
            "{rate}: {bits} of {asked}"
        );
    }
}

#[test]
fn udp_below_its_rate_passes_whole() {
    let mut link = Direction::new(treated("rate 13mbit burst 1500B"), 1);
    let time = Duration::from_secs(10);
    assert_eq!(passed(&mut link, Transport::Udp, MS, time), 10_000);
}

#[test]
fn a_burst_passes_whole_and_what_comes_on_top_is_dropped() {
    let mut link = Direction::new(treated("rate 1mbit burst 30KB"), 1);
    let burst = |link: &mut Direction<u64>, now| {
        (0..100)
            .map(|_| offer(link, now, Transport::Udp))
            .take_while(Option::is_none)
            .count()
    };
    assert_eq!(burst(&mut link, 0), 20);
    assert_eq!(burst(&mut link, 0), 0);
    assert_eq!(offer(&mut link, 0, Transport::Udp), Some(DropReason::Udp));
    // 12,000 bits a packet: ten of them in 120 ms.
    assert_eq!(burst(&mut link, 120 * MS), 10);
    assert_eq!(burst(&mut link, 10_000 * MS), 20);
}

#[test]
fn all_else_passes_a_policer_untouched_and_takes_no_tokens() {
    let (with, without) = (treated("rate 1mbit burst 3KB"), Config::default());
    let run = |config: Config| {
        let mut link = Direction::new(config, 1);
        let other = passed(&mut link, Transport::Other, MS / 10, Duration::from_secs(1));
        (other, link.counters())
    };
    assert_eq!(run(with.clone()), run(without));
    let mut link = Direction::new(with, 1);
    passed(
        &mut link,
        Transport::Other,
        MS / 10,
        Duration::from_millis(1),
    );
    assert_eq!(offer(&mut link, MS, Transport::Udp), None);
    assert_eq!(offer(&mut link, MS, Transport::Udp), None);
    assert_eq!(offer(&mut link, MS, Transport::Udp), Some(DropReason::Udp));
}

#[test]
fn what_is_dropped_as_udp_takes_no_room_in_the_queue() {
    let config = Config {
        rate: Rate::Fixed(Bandwidth::from_mbit(1).unwrap()),
        queue: Queue::Packets(2),
        ..treated("block")
    };
    let mut link = Direction::new(config, 1);
    for _ in 0..10 {
        assert_eq!(offer(&mut link, 0, Transport::Udp), Some(DropReason::Udp));
    }
    assert_eq!(offer(&mut link, 0, Transport::Other), None);
    assert_eq!(offer(&mut link, 0, Transport::Other), None);
    assert_eq!(link.counters().bytes_backlog_max, 3_000);
}

#[test]
fn the_same_packets_of_all_else_are_lost_whatever_becomes_of_udp() {
    let lost = |udp| {
        let config = Config {
            loss: Ratio::from_percent(5).unwrap().into(),
            udp,
            ..Config::default()
        };
        let mut link = Direction::new(config, 9);
        let lost = |ordinal: &u64| match ordinal % 2 {
            0 => offer(&mut link, *ordinal, Transport::Other).is_some(),
            _ => {
                offer(&mut link, *ordinal, Transport::Udp);
                false
            }
        };
        (0..10_000).filter(lost).collect::<Vec<_>>()
    };
    let policer = Policer::of(Bandwidth::from_kbit(8).unwrap());
    let plain = lost(UdpTreatment::Pass);
    assert!(!plain.is_empty());
    assert_eq!(lost(UdpTreatment::Block), plain);
    assert_eq!(lost(UdpTreatment::Police(policer)), plain);
}

#[test]
fn udp_is_blocked_and_let_through_again_while_the_link_runs() {
    let mut link = Direction::new(Config::default(), 1);
    assert_eq!(offer(&mut link, 0, Transport::Udp), None);
    link.reconfigure(at(MS), treated("block"));
    assert_eq!(offer(&mut link, MS, Transport::Udp), Some(DropReason::Udp));
    link.reconfigure(at(2 * MS), treated("rate 1mbit burst 3KB"));
    assert_eq!(offer(&mut link, 2 * MS, Transport::Udp), None);
    link.reconfigure(at(3 * MS), Config::default());
    assert_eq!(offer(&mut link, 3 * MS, Transport::Udp), None);
    // What was inside when UDP was blocked came out.
    let out = std::iter::from_fn(|| link.dequeue(at(4 * MS)));
    assert_eq!(out.count(), 3);
}
