//! A direction whose parameters change while packets are in it.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use altway_link::{Config, Direction, Discipline, DropReason, Jitter, Queue, Rate, Trace};
use altway_units::{Bandwidth, DataSize, Ratio, Timestamp};
use proptest::prelude::*;
use std::time::Duration;

const PACKET: DataSize = DataSize::from_bytes(1_500);
const MS: u64 = 1_000_000;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn config(mbit: u64, delay_ms: u64) -> Config {
    Config {
        rate: Bandwidth::from_mbit(mbit).into(),
        delay: Duration::from_millis(delay_ms),
        ..Config::default()
    }
}

fn link(config: Config, packets: u64) -> Direction<u64> {
    let mut link = Direction::new(config, 1);
    for packet in 0..packets {
        link.enqueue(at(0), PACKET, packet).unwrap();
    }
    link
}

/// Packets with the time at which they are due, in µs.
fn arrivals(link: &mut Direction<u64>) -> Vec<(u64, u64)> {
    std::iter::from_fn(|| link.dequeue(at(u64::MAX)))
        .map(|delivery| (delivery.packet, delivery.due.as_nanos() / 1_000))
        .collect()
}

#[test]
fn what_waits_is_serialised_at_the_new_rate_from_then_on() {
    let mut link = link(config(12, 0), 4);
    // One has passed, of the second a quarter; 9,000 bits are left of it.
    link.reconfigure(at(1_250_000), config(1, 0));
    assert_eq!(
        arrivals(&mut link),
        [(0, 1_000), (1, 10_250), (2, 22_250), (3, 34_250)]
    );
}

#[test]
fn what_is_on_its_way_keeps_its_time_and_is_not_overtaken() {
    let mut link = link(config(12, 20), 3);
    link.reconfigure(at(2_500_000), config(12, 1));
    link.enqueue(at(2_500_000), PACKET, 3).unwrap();
    assert_eq!(
        arrivals(&mut link),
        [(0, 21_000), (1, 22_000), (2, 22_000), (3, 22_000)]
    );
}

#[test]
fn nothing_overtakes_what_was_on_its_way_even_if_packets_may_reorder_now() {
    let mut link = link(config(12, 20), 1);
    let mut free = config(12, 0);
    free.jitter = Jitter {
        spread: Duration::from_millis(1),
        may_reorder: true,
        ..Jitter::default()
    };
    link.reconfigure(at(2 * MS), free);
    link.enqueue(at(2 * MS), PACKET, 1).unwrap();
    assert_eq!(arrivals(&mut link), [(0, 21_000), (1, 21_000)]);
}

#[test]
fn without_a_rate_all_that_waits_goes_at_once() {
    let mut link = link(config(12, 5), 3);
    link.reconfigure(at(MS), config(0, 5));
    assert_eq!(arrivals(&mut link), [(0, 6_000), (1, 6_000), (2, 6_000)]);
    link.reconfigure(at(10 * MS), config(12, 5));
    assert_eq!(link.counters().packets_out, 3);
}

#[test]
fn a_smaller_queue_drops_nothing_that_is_in_it() {
    let mut link = link(config(12, 0), 10);
    let mut small = config(12, 0);
    small.queue = Queue::Packets(2);
    link.reconfigure(at(0), small);
    let full = link.enqueue(at(0), PACKET, 10).unwrap_err();
    assert_eq!(full.reason, DropReason::QueueFull);
    assert_eq!(arrivals(&mut link).len(), 10);
}

#[test]
fn the_same_packets_are_lost_as_if_it_had_always_been_so() {
    let lossy = |percent| Config {
        loss: Ratio::from_percent(percent).unwrap().into(),
        ..Config::default()
    };
    let lost = |from, to| -> Vec<u64> {
        let mut link = Direction::new(from, 9);
        let mut lost = Vec::new();
        for packet in 0..10_000 {
            if packet == 5_000 {
                link.reconfigure(at(0), Config::clone(&to));
            }
            if link.enqueue(at(0), PACKET, packet).is_err() {
                lost.push(packet);
            }
        }
        lost
    };
    let (none, always) = (lost(lossy(0), lossy(5)), lost(lossy(5), lossy(5)));
    assert!(none.iter().all(|packet| *packet >= 5_000));
    assert!(always.ends_with(&none) && none.len() > 200);
}

#[test]
fn a_new_trace_begins_with_the_change_and_the_same_one_goes_on() {
    let trace: Trace = "2\n6\n".parse().unwrap();
    let with_trace = Config {
        rate: Rate::from(trace),
        ..Config::default()
    };
    let mut link = link(config(1, 0), 1);
    assert!(link.dequeue(at(12 * MS)).is_some());
    link.reconfigure(at(20 * MS), with_trace.clone());
    link.enqueue(at(23 * MS), PACKET, 1).unwrap();
    link.reconfigure(at(24 * MS), with_trace);
    assert_eq!(arrivals(&mut link), [(1, 26_000)]);
}

#[test]
fn codel_can_be_switched_on_and_off() {
    let mut link = link(config(12, 0), 1_000);
    let mut with_codel = config(12, 0);
    with_codel.discipline = Discipline::CoDel;
    link.reconfigure(at(300 * MS), with_codel);
    while link.dequeue(at(600 * MS)).is_some() {}
    // 100 ms after the first packet that it saw, 100 ms after that, and 100 ms / √2 after that.
    assert_eq!(link.counters().packets_codel_dropped, 3);
    link.reconfigure(at(600 * MS), config(12, 0));
    assert_eq!(arrivals(&mut link).len(), 397);
    assert_eq!(link.counters().packets_codel_dropped, 3);
}

proptest! {
    /// Links without a queue's limit, loss or jitter deliver all packets in order, however they change.
    #[test]
    fn nothing_is_lost_or_reordered(
        turns in prop::collection::vec((0..20_u64, 0..50_u64, 0..10_000_000_u64, 0..5_u64), 1..20),
    ) {
        let mut link = Direction::new(config(10, 10), 1);
        let (mut now, mut sent, mut out) = (0, 0, Vec::new());
        for (mbit, delay, gap, packets) in turns {
            now += gap;
            link.reconfigure(at(now), config(mbit, delay));
            for _ in 0..packets {
                link.enqueue(at(now), PACKET, sent).unwrap();
                sent += 1;
            }
            while let Some(delivery) = link.dequeue(at(now)) {
                out.push(delivery.packet);
            }
        }
        out.extend(arrivals(&mut link).into_iter().map(|(packet, _)| packet));
        prop_assert_eq!(out, (0..sent).collect::<Vec<_>>());
    }

    /// A caller that sleeps until `poll_timeout` gets each packet at the moment at which it is due.
    #[test]
    fn the_timer_misses_no_packet(
        mbit in 0..20_u64,
        reorders: bool,
        offered in prop::collection::vec(0..3_000_000_u64, 1..100),
    ) {
        let mut config = config(mbit, 5);
        config.jitter.spread = Duration::from_millis(4);
        config.jitter.may_reorder = reorders;
        config.reordering.share = Ratio::from_percent(if reorders { 20 } else { 0 }).unwrap();
        let mut link = Direction::new(config, 5);
        let mut now = 0;
        for gap in offered.into_iter().map(Some).chain([None]) {
            let next = gap.map_or(u64::MAX, |gap| now + gap);
            while let Some(due) = link.poll_timeout().filter(|due| due.as_nanos() <= next) {
                while let Some(delivery) = link.dequeue(due) {
                    prop_assert_eq!(delivery.due, due);
                }
            }
            now = next;
            if gap.is_some() {
                link.enqueue(at(now), PACKET, 0).unwrap();
            }
        }
        prop_assert_eq!(link.counters().packets_queued, 0);
    }
}
