//! The model as its users see it, in virtual time: exact times, conservation, reproducibility.

use altway_link::{
    Config, Counters, Direction, Discipline, Distribution, DropReason, GilbertElliott, Jitter,
    LossModel, PacketList, Policer, Queue, Rate, Reordering, Shift, Step, Trace, Transport,
    UdpTreatment, seed_for,
};
use altway_units::{Bandwidth, DataSize, Ratio, Timestamp};
use proptest::prelude::*;
use std::time::Duration;

const PACKET: DataSize = DataSize::from_bytes(1_500);

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn mbit(rate: u64) -> Rate {
    Bandwidth::from_mbit(rate).into()
}

/// Offers `count` full packets at once; returns the ordinals that were dropped for `reason`.
fn dropped<P: Clone>(
    link: &mut Direction<P>,
    count: u64,
    reason: DropReason,
    packet: impl Fn(u64) -> P,
) -> Vec<u64> {
    (0..count)
        .filter(|&ordinal| {
            let offered = link.enqueue(at(0), PACKET, packet(ordinal));
            offered.is_err_and(|dropped| dropped.reason == reason)
        })
        .collect()
}

/// Takes out everything that is due by `now`, as (packet, due time).
fn arrivals<P>(link: &mut Direction<P>, now: Timestamp) -> Vec<(P, u64)> {
    std::iter::from_fn(|| link.dequeue(now))
        .map(|delivery| (delivery.packet, delivery.due.as_nanos()))
        .collect()
}

#[test]
fn packets_arrive_after_serialisation_and_delay_to_the_nanosecond() {
    let config = Config {
        rate: mbit(12),
        delay: Duration::from_millis(25),
        ..Config::default()
    };
    let mut link = Direction::new(config, 1);
    for packet in 0..3 {
        link.enqueue(at(500), PACKET, packet).unwrap();
    }
    assert_eq!(link.poll_timeout(), Some(at(26_000_500)));
    assert_eq!(link.dequeue(at(26_000_499)), None);
    assert_eq!(
        arrivals(&mut link, at(27_000_500)),
        [(0, 26_000_500), (1, 27_000_500)]
    );
    assert_eq!(link.poll_timeout(), Some(at(28_000_500)));
    assert_eq!(link.counters().packets_queued, 1);
}

#[test]
fn a_link_without_a_rate_only_delays() {
    let config = Config {
        delay: Duration::from_millis(10),
        queue: Queue::Bytes(DataSize::ZERO),
        ..Config::default()
    };
    let mut link = Direction::new(config, 1);
    for packet in 0..100 {
        link.enqueue(at(7), PACKET, packet).unwrap();
    }
    let arrived = arrivals(&mut link, at(10_000_007));
    assert_eq!(arrived.len(), 100);
    assert!(arrived.iter().all(|&(_, due)| due == 10_000_007));
    assert_eq!(link.counters().bytes_backlog_max, 0);
}

#[test]
fn a_queue_takes_exactly_its_bytes() {
    let config = |bytes| Config {
        rate: mbit(1),
        queue: Queue::Bytes(DataSize::from_bytes(bytes)),
        ..Config::default()
    };
    for (bytes, taken) in [(4_500, 3), (4_499, 2), (1_500, 1), (1_499, 1), (0, 1)] {
        let mut link = Direction::new(config(bytes), 1);
        let full = dropped(&mut link, 10, DropReason::QueueFull, |ordinal| ordinal);
        assert_eq!(full.len(), 10 - taken, "queue of {bytes} bytes");
    }
}

#[test]
fn a_queue_has_room_again_when_a_packets_last_bit_has_passed() {
    let config = Config {
        rate: mbit(12),
        delay: Duration::from_secs(1),
        queue: Queue::Bytes(DataSize::from_bytes(3_000)),
        ..Config::default()
    };
    let mut link = Direction::new(config, 1);
    link.enqueue(at(0), PACKET, ()).unwrap();
    link.enqueue(at(0), PACKET, ()).unwrap();
    let refused = link.enqueue(at(999_999), PACKET, ()).unwrap_err();
    assert_eq!(refused.reason, DropReason::QueueFull);
    link.enqueue(at(1_000_000), PACKET, ()).unwrap();
    assert_eq!(link.counters().bytes_backlog_max, 3_000);
}

#[test]
fn the_queue_does_not_change_which_ordinals_are_lost() {
    let config = |queue| Config {
        rate: mbit(1),
        loss: Ratio::from_percent(5).unwrap().into(),
        queue,
        ..Config::default()
    };
    let lost = |queue| {
        let mut link = Direction::new(config(queue), 9);
        dropped(&mut link, 10_000, DropReason::Loss, |ordinal| ordinal)
    };
    assert_eq!(
        lost(Queue::Unlimited),
        lost(Queue::Bytes(DataSize::from_bytes(10_000)))
    );
}

#[test]
fn a_link_never_holds_more_than_its_limit_of_packets() {
    let config = Config {
        delay: Duration::from_secs(1),
        ..Config::default()
    };
    let mut link = Direction::new(config, 1);
    let most = Direction::<()>::MAX_PACKETS as u64;
    let over = dropped(&mut link, most + 10, DropReason::TooManyPackets, |_| ());
    assert_eq!(over.len(), 10);
    assert_eq!(link.counters().packets_over_limit, 10);
    assert_eq!(link.into_packets().count() as u64, most);
}

#[test]
fn a_clock_that_steps_back_does_not_reorder() {
    let mut link = Direction::new(Config::default(), 1);
    link.enqueue(at(100), PACKET, 'a').unwrap();
    link.enqueue(at(50), PACKET, 'b').unwrap();
    assert_eq!(arrivals(&mut link, at(100)), [('a', 100), ('b', 100)]);
}

#[test]
fn what_was_inside_is_handed_back_oldest_first() {
    let mut link = Direction::new(Config::default(), 1);
    link.enqueue(at(0), PACKET, 'a').unwrap();
    link.enqueue(at(1), PACKET, 'b').unwrap();
    assert_eq!(link.into_packets().collect::<String>(), "ab");
}

fn any_ratio() -> impl Strategy<Value = Ratio> {
    (0..=100_u32).prop_map(|percent| Ratio::from_percent(percent).expect("at most 100"))
}

fn any_duration() -> impl Strategy<Value = Duration> {
    (0..50_000_000_u64).prop_map(Duration::from_nanos)
}

fn any_trace() -> impl Strategy<Value = Trace> {
    let parts = prop::collection::vec(
        (1..20_u64, prop::option::of(1_000..2_000_000_000_u64)),
        1..5,
    );
    (parts, any::<bool>()).prop_filter_map("a rate", |(parts, repeats)| {
        let (mut at, mut steps) = (Duration::ZERO, Vec::new());
        for (millis, bps) in parts {
            let rate = bps.and_then(Bandwidth::from_bps);
            steps.push(Step { at, rate });
            at += Duration::from_millis(millis);
        }
        Trace::stepped(&steps, repeats.then_some(at)).ok()
    })
}

fn any_opportunities() -> impl Strategy<Value = Trace> {
    prop::collection::vec(0..20_u64, 1..10).prop_filter_map("an end", |mut times| {
        times.sort_unstable();
        let times: Vec<_> = times.into_iter().map(Duration::from_millis).collect();
        Trace::opportunities(&times).ok()
    })
}

fn any_rate() -> impl Strategy<Value = Rate> {
    prop_oneof![
        Just(Rate::Unlimited),
        (1_000..2_000_000_000_u64).prop_map(|bps| Bandwidth::from_bps(bps).into()),
        any_trace().prop_map(Rate::from),
        any_opportunities().prop_map(Rate::from),
    ]
}

fn any_jitter() -> impl Strategy<Value = Jitter> {
    let distribution = prop_oneof![
        Just(Distribution::Uniform),
        Just(Distribution::Normal),
        Just(Distribution::Pareto),
    ];
    let spread = prop_oneof![Just(Duration::ZERO), any_duration()];
    (spread, distribution, any::<bool>()).prop_map(|(spread, distribution, may_reorder)| Jitter {
        spread,
        distribution,
        may_reorder,
    })
}

fn any_loss() -> impl Strategy<Value = LossModel> {
    let bursts = [any_ratio(), any_ratio(), any_ratio(), any_ratio()];
    let bursts = bursts.prop_map(|[to_bad, to_good, loss_good, loss_bad]| GilbertElliott {
        to_bad,
        to_good,
        loss_good,
        loss_bad,
    });
    prop_oneof![
        any_ratio().prop_map(LossModel::Random),
        bursts.prop_map(LossModel::GilbertElliott),
        (1..100_u64).prop_map(|first| {
            let list = PacketList::new(&[first..=first + 9]);
            LossModel::Packets(list.expect("one range that does not begin with 0"))
        }),
    ]
}

fn any_reordering() -> impl Strategy<Value = Reordering> {
    let shift = prop_oneof![
        Just(Shift::AtOnce),
        any_duration().prop_map(Shift::Early),
        any_duration().prop_map(Shift::Late),
    ];
    (any_ratio(), shift).prop_map(|(share, shift)| Reordering { share, shift })
}

fn any_queue() -> impl Strategy<Value = Queue> {
    prop_oneof![
        Just(Queue::Unlimited),
        (0..100_000_u64).prop_map(|bytes| Queue::Bytes(DataSize::from_bytes(bytes))),
        (0..100_u32).prop_map(Queue::Packets),
        any_duration().prop_map(Queue::Time),
    ]
}

fn any_udp() -> impl Strategy<Value = UdpTreatment> {
    let policer = (1_000..2_000_000_000_u64, 0..100_000_u64).prop_map(|(bps, burst)| Policer {
        rate: Bandwidth::from_bps(bps).expect("more than 0"),
        burst: DataSize::from_bytes(burst),
    });
    prop_oneof![
        Just(UdpTreatment::Pass),
        Just(UdpTreatment::Block),
        policer.prop_map(UdpTreatment::Police),
    ]
}

fn any_config() -> impl Strategy<Value = Config> {
    let discipline = prop_oneof![Just(Discipline::DropTail), Just(Discipline::CoDel)];
    let way = (any_rate(), any_duration(), any_jitter(), any_reordering());
    let loss = (any_loss(), any_ratio(), any_ratio());
    let queue = (any_queue(), discipline);
    (any_udp(), way, loss, queue).prop_map(|(udp, way, loss, (queue, discipline))| Config {
        udp,
        rate: way.0,
        delay: way.1,
        jitter: way.2,
        reordering: way.3,
        loss: loss.0,
        duplication: loss.1,
        corruption: loss.2,
        queue,
        discipline,
    })
}

/// Packets with a gap in ns before each, and their sizes.
fn any_packets() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..5_000_000_u64, 0..2_000_u64), 0..200)
}

/// Runs arrivals of (gap in ns, size) through a link and lets it empty at the end; those of an odd size are
/// of UDP.
fn run(config: Config, seed: u64, offered: &[(u64, u64)]) -> (Vec<(usize, u64)>, Counters) {
    let mut link = Direction::new(config, seed);
    let (mut now, mut arrived) = (0, Vec::new());
    for (ordinal, &(gap, size)) in offered.iter().enumerate() {
        now += gap;
        let transport = match size % 2 {
            0 => Transport::Other,
            _ => Transport::Udp,
        };
        let (now, size) = (at(now), DataSize::from_bytes(size));
        let _ = link.enqueue_with(now, size, transport, ordinal, |ordinal| Some(*ordinal));
        arrived.extend(arrivals(&mut link, now));
        while link.poll_dropped().is_some() {}
        check_conservation(&link.counters());
    }
    arrived.extend(arrivals(&mut link, at(u64::MAX)));
    (arrived, link.counters())
}

fn check_conservation(counters: &Counters) {
    let accounted = counters.packets_udp_dropped
        + counters.packets_lost
        + counters.packets_queue_dropped
        + counters.packets_codel_dropped
        + counters.packets_over_limit
        + counters.packets_out
        + counters.packets_queued;
    let offered = counters.packets_in + counters.packets_duplicated;
    assert_eq!(offered, accounted, "{counters:?}");
}

proptest! {
    #[test]
    fn every_packet_is_accounted_for(
        config in any_config(),
        seed: u64,
        offered in any_packets(),
    ) {
        let (arrived, counters) = run(config, seed, &offered);
        check_conservation(&counters);
        prop_assert_eq!(counters.packets_queued, 0);
        prop_assert_eq!(counters.packets_out, arrived.len() as u64);
        prop_assert!(arrived.is_sorted_by_key(|(_, due)| due));
    }

    #[test]
    fn nothing_overtakes_unless_it_was_asked_for(
        config in any_config(),
        seed: u64,
        offered in any_packets(),
    ) {
        let mut config = config;
        config.jitter.may_reorder = false;
        config.reordering = Reordering::default();
        let (arrived, counters) = run(config, seed, &offered);
        prop_assert!(arrived.is_sorted());
        let ordinals: std::collections::BTreeSet<_> = arrived.iter().map(|(ordinal, _)| ordinal).collect();
        let copies = arrived.len() - ordinals.len();
        prop_assert!(copies as u64 <= counters.packets_duplicated);
    }

    #[test]
    fn the_same_seed_gives_the_same_run(
        config in any_config(),
        seed: u64,
        offered in any_packets(),
    ) {
        prop_assert_eq!(run(config.clone(), seed, &offered), run(config, seed, &offered));
    }

    #[test]
    fn a_busy_link_passes_its_rate_to_the_nanosecond(
        bps in 1_000..5_000_000_000_u64,
        sizes in prop::collection::vec(1..1_500_u64, 1..300),
    ) {
        let config = Config { rate: Bandwidth::from_bps(bps).into(), ..Config::default() };
        let offered: Vec<_> = sizes.iter().map(|&size| (0, size)).collect();
        let (arrived, _) = run(config, 1, &offered);
        let bits = u128::from(sizes.iter().sum::<u64>()) * 8;
        let exact = (bits * 1_000_000_000).div_ceil(u128::from(bps));
        prop_assert_eq!(u128::from(arrived.last().unwrap().1), exact);
    }

    #[test]
    fn the_two_directions_of_a_seed_differ(seed: u64) {
        prop_assert_ne!(seed_for(seed, true), seed_for(seed, false));
    }
}
