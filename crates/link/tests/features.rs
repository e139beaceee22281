//! Each feature of the model alone, and that none of them changes what the others do.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use altway_link::{
    Config, Direction, Discipline, Distribution, DropReason, GilbertElliott, Jitter, LossModel,
    Queue, Rate, Reordering, Shift, Trace, Transport,
};
use altway_units::{Bandwidth, DataSize, Ratio, Timestamp};
use std::collections::BTreeSet;
use std::time::Duration;

const PACKET: DataSize = DataSize::from_bytes(1_500);
const MS: u64 = 1_000_000;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn percent(percent: u32) -> Ratio {
    Ratio::from_percent(percent).unwrap()
}

fn mbit(rate: u64) -> Rate {
    Bandwidth::from_mbit(rate).into()
}

/// A packet as it came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arrival {
    number: u64,
    due: u64,
    is_corrupt: bool,
}

fn arrivals(link: &mut Direction<u64>, now: u64) -> Vec<Arrival> {
    let arrival = |link: &mut Direction<u64>| {
        let delivery = link.dequeue(at(now))?;
        Some(Arrival {
            number: delivery.packet,
            due: delivery.due.as_nanos(),
            is_corrupt: delivery.flip.is_some(),
        })
    };
    std::iter::from_fn(|| arrival(link)).collect()
}

/// Sends full packets with this gap; everything that came out, in the order in which it did.
fn send(config: &Config, count: u64, gap: u64) -> (Direction<u64>, Vec<Arrival>) {
    let mut link = Direction::new(config.clone(), 7);
    let mut out = Vec::new();
    for number in 0..count {
        out.extend(arrivals(&mut link, number * gap));
        let _ = link.enqueue(at(number * gap), PACKET, number);
    }
    out.extend(arrivals(&mut link, u64::MAX));
    (link, out)
}

fn mean_delay_ms(arrivals: &[Arrival], gap: u64) -> f64 {
    let delays = arrivals.iter().map(|a| a.due - a.number * gap);
    delays.sum::<u64>() as f64 / arrivals.len() as f64 / MS as f64
}

/// The share of the packets that came after one that was sent later.
fn overtaken(arrivals: &[Arrival]) -> f64 {
    let (mut latest, mut count) = (0, 0);
    for arrival in arrivals {
        count += u64::from(arrival.number < latest);
        latest = latest.max(arrival.number);
    }
    count as f64 / arrivals.len() as f64
}

fn jittery(may_reorder: bool) -> Config {
    Config {
        delay: Duration::from_millis(25),
        jitter: Jitter {
            spread: Duration::from_millis(5),
            distribution: Distribution::Uniform,
            may_reorder,
        },
        ..Config::default()
    }
}

/// The worked number of [`Jitter`]'s documentation.
#[test]
fn keeping_the_order_moves_the_mean_delay() {
    let (_, free) = send(&jittery(true), 200_000, MS);
    let (_, kept) = send(&jittery(false), 200_000, MS);
    let (free_delay, kept_delay) = (mean_delay_ms(&free, MS), mean_delay_ms(&kept, MS));
    assert!((free_delay - 25.0).abs() < 0.02, "{free_delay}");
    assert!((kept_delay - 26.87).abs() < 0.02, "{kept_delay}");
    assert!((overtaken(&free) - 0.587).abs() < 0.01);
    assert!(overtaken(&kept) <= 0.0);
    let (_, apart) = send(&jittery(false), 50_000, 10 * MS);
    assert!((mean_delay_ms(&apart, 10 * MS) - 25.0).abs() < 0.05);
}

#[test]
fn a_shifted_packet_arrives_so_much_earlier_or_later() {
    let config = |shift| Config {
        delay: Duration::from_millis(20),
        reordering: Reordering {
            share: percent(10),
            shift,
        },
        ..Config::default()
    };
    for (shift, delay) in [
        (Shift::AtOnce, 0),
        (Shift::Early(Duration::from_millis(5)), 15 * MS),
        (Shift::Early(Duration::from_millis(50)), 0),
        (Shift::Late(Duration::from_millis(5)), 25 * MS),
    ] {
        let (link, out) = send(&config(shift), 1_000, MS);
        let shifted = out
            .iter()
            .filter(|arrival| arrival.due == arrival.number * MS + delay);
        let shifted = shifted.count() as u64;
        assert!((60..=140).contains(&shifted), "{shift:?}: {shifted}");
        assert_eq!(link.counters().packets_reordered, shifted);
        let punctual = out.iter().filter(|a| a.due == (a.number + 20) * MS);
        assert_eq!(punctual.count() as u64 + shifted, 1_000);
        assert!(overtaken(&out) > 0.0);
    }
}

#[test]
fn copies_pass_the_queue_too_and_are_counted_on_their_own() {
    let config = Config {
        rate: mbit(12),
        queue: Queue::Packets(2),
        duplication: Ratio::ONE,
        ..Config::default()
    };
    let mut link = Direction::new(config, 1);
    link.enqueue(at(0), PACKET, 1).unwrap();
    let full = link.enqueue(at(0), PACKET, 2).unwrap_err();
    assert_eq!((full.packet, full.reason), (2, DropReason::QueueFull));
    assert_eq!(link.poll_dropped(), None);
    // One of the two has left by then, and there is room for the original alone.
    link.enqueue(at(MS), PACKET, 3).unwrap();
    let copy = link.poll_dropped().unwrap();
    assert_eq!((copy.packet, copy.reason), (3, DropReason::QueueFull));
    let out: Vec<_> = arrivals(&mut link, 10 * MS)
        .iter()
        .map(|a| (a.number, a.due / MS))
        .collect();
    assert_eq!(out, [(1, 1), (1, 2), (3, 3)]);
    let counters = link.counters();
    assert_eq!((counters.packets_in, counters.packets_duplicated), (3, 2));
    assert_eq!(
        (counters.packets_out, counters.packets_queue_dropped),
        (3, 2)
    );
}

#[test]
fn there_is_no_copy_without_room_for_one() {
    let config = Config {
        duplication: Ratio::ONE,
        ..Config::default()
    };
    let mut link = Direction::new(config, 1);
    link.enqueue_with(at(0), PACKET, Transport::Other, 1, |_| None)
        .unwrap();
    assert_eq!(link.counters().packets_duplicated, 0);
    assert_eq!(link.counters().packets_queued, 1);
}

/// The checksum of TCP and UDP: the one's complement sum of 16-bit words (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([pair[0], low]))
    });
    let sum = words.sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) as u16 + (folded >> 16) as u16)
}

#[test]
fn a_corrupt_packet_has_a_wrong_checksum() {
    let config = Config {
        corruption: Ratio::ONE,
        ..Config::default()
    };
    let mut link = Direction::new(config, 3);
    let mut packet: Vec<u8> = (0..200).map(|byte| byte as u8).collect();
    packet[0] = 0x45;
    let mut places = BTreeSet::new();
    for _ in 0..2_000 {
        link.enqueue(at(0), PACKET, packet.clone()).unwrap();
        let delivery = link.dequeue(at(0)).unwrap();
        let mut corrupt = delivery.packet;
        delivery.flip.unwrap().apply(&mut corrupt);
        assert_eq!(corrupt[..20], packet[..20]);
        assert_ne!(checksum(&corrupt[20..]), checksum(&packet[20..]));
        places.insert(corrupt.iter().zip(&packet).position(|(a, b)| a != b));
    }
    assert_eq!(places.len(), 180);
    assert_eq!(link.counters().packets_corrupted, 2_000);
}

#[test]
fn a_queue_of_packets_and_one_of_time_hold_what_they_say() {
    // 3 ms at 12 Mbit/s are 4,500 bytes.
    for queue in [Queue::Packets(3), Queue::Time(Duration::from_millis(3))] {
        let config = Config {
            rate: mbit(12),
            queue,
            ..Config::default()
        };
        let (link, out) = send(&config, 10, 0);
        assert_eq!(out.len(), 3, "{queue:?}");
        assert_eq!(link.counters().packets_queue_dropped, 7);
    }
}

#[test]
fn a_trace_begins_with_the_first_packet() {
    let trace: Trace = "2\n5\n".parse().unwrap();
    let config = Config {
        rate: trace.into(),
        ..Config::default()
    };
    let mut link = Direction::new(config, 1);
    let begin = 1_000 * MS;
    for number in 0..3 {
        link.enqueue(at(begin), PACKET, number).unwrap();
    }
    let dues: Vec<_> = arrivals(&mut link, u64::MAX)
        .iter()
        .map(|a| (a.due - begin) / MS)
        .collect();
    assert_eq!(dues, [2, 5, 7]);
}

/// Compares what each feature did to each packet when alone with what it did when all are on.
#[test]
fn no_feature_changes_what_another_draws() {
    let loss = Config {
        loss: percent(10).into(),
        ..Config::default()
    };
    let corruption = Config {
        corruption: percent(10),
        ..Config::default()
    };
    let all = Config {
        loss: percent(10).into(),
        corruption: percent(10),
        duplication: percent(10),
        jitter: jittery(true).jitter,
        delay: Duration::from_millis(25),
        ..Config::default()
    };
    let numbers = |arrivals: &[Arrival], is_corrupt: bool| -> BTreeSet<u64> {
        let wanted = arrivals.iter().filter(|a| a.is_corrupt || !is_corrupt);
        wanted.map(|a| a.number).collect()
    };
    let (_, lossy) = send(&loss, 10_000, MS);
    let (_, corrupt) = send(&corruption, 10_000, MS);
    let (link, everything) = send(&all, 10_000, MS);
    let arrived = numbers(&lossy, false);
    assert_eq!(numbers(&everything, false), arrived);
    // A copy draws on its own, so that only the originals are compared.
    let copies = link.counters().packets_duplicated as usize;
    assert!((800..=1_000).contains(&copies), "{copies}");
    let expected: BTreeSet<_> = numbers(&corrupt, true)
        .intersection(&arrived)
        .copied()
        .collect();
    assert!(expected.is_subset(&numbers(&everything, true)));
}

#[test]
fn codel_keeps_the_queue_short_where_drop_tail_fills_it() {
    let config = |discipline| Config {
        rate: mbit(12),
        queue: Queue::Packets(1_000),
        discipline,
        ..Config::default()
    };
    // Twice the rate for 10 s.
    let gap = MS / 2;
    let last_second = |arrivals: &[Arrival]| {
        let late = arrivals.iter().filter(|a| a.number * gap > 9_000 * MS);
        let delays: Vec<_> = late.map(|a| a.due - a.number * gap).collect();
        delays.iter().sum::<u64>() / delays.len() as u64 / MS
    };
    let (tail, out) = send(&config(Discipline::DropTail), 20_000, gap);
    assert!((950..=1_000).contains(&last_second(&out)));
    assert_eq!(tail.counters().packets_codel_dropped, 0);
    let (mut codel, out) = send(&config(Discipline::CoDel), 20_000, gap);
    let counters = codel.counters();
    assert!(counters.packets_codel_dropped > 500, "{counters:?}");
    let dropped = std::iter::from_fn(|| codel.poll_dropped());
    let by_codel = dropped.filter(|dropped| dropped.reason == DropReason::CoDel);
    assert_eq!(by_codel.count() as u64, counters.packets_codel_dropped);
    assert!(last_second(&out) < 1_000, "{}", last_second(&out));
    // A sender within the rate is left alone.
    let (idle, _) = send(&config(Discipline::CoDel), 1_000, MS);
    assert_eq!(idle.counters().packets_codel_dropped, 0);
}

#[test]
fn bursts_of_loss_reach_the_link() {
    let bursts = GilbertElliott::from_bursts(percent(5), 4).unwrap();
    let config = Config {
        loss: LossModel::GilbertElliott(bursts),
        ..Config::default()
    };
    let (link, _) = send(&config, 100_000, MS);
    // 5,000 expected; the standard deviation √(n π (1 − π) (1 + λ) / (1 − λ)), λ = 0.737, is 177.
    let lost = link.counters().packets_lost;
    assert!((4_450..=5_550).contains(&lost), "{lost}");
}
