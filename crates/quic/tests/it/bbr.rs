//! BBR over the link model: what it makes of loss, of queues, of changes, and of others beside it.

use std::time::Duration;

use altway_link::Config as Link;
use altway_quic::{Congestion, Direction};

use crate::bottleneck::{Bottleneck, Supply, link};
use crate::engine::QuicEndpoint;
use crate::pair::{Pair, delay, pattern};

/// 20 Mbit/s in bytes a second, and over 40 ms.
const RATE: f64 = 2.5e6;
const BDP: u64 = 100_000;

/// Part of a packet of 1,480 bytes that is the application's.
const PAYLOAD: f64 = 0.958;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// 20 Mbit/s with a round trip of 40 ms.
fn path(queue: u64, loss: f64) -> Link {
    link("20mbit", 20, queue, loss)
}

fn alone(congestion: Congestion, link: Link) -> Bottleneck {
    Bottleneck::new(1, link, &[(congestion, Supply::Endless)])
}

/// Part of `rate` that the only flow's application gets in so many seconds.
fn used(bottleneck: &mut Bottleneck, time: u64, rate: f64) -> f64 {
    let received = bottleneck.received_in(seconds(time))[0];
    received as f64 / rate / time as f64
}

#[test]
fn lost_packets_leave_bbr_nine_tenths_of_the_rate_and_cubic_a_quarter() {
    for loss in [0.0, 1.0, 2.0] {
        let mut bbr = alone(Congestion::Bbr, path(BDP, loss));
        bbr.run_for(seconds(1));
        let carried = PAYLOAD * (1.0 - loss / 100.0);
        let part = used(&mut bbr, 12, RATE) / carried;
        assert!(part > 0.9, "{part} with {loss} %");
    }
    let mut cubic = alone(Congestion::Cubic, path(BDP, 2.0));
    cubic.run_for(seconds(1));
    let part = used(&mut cubic, 12, RATE);
    assert!(part < 0.25, "{part}");
}

#[test]
fn a_deep_queue_stays_nearly_empty() {
    // 16 times what the path holds.
    let mut bbr = alone(Congestion::Bbr, path(16 * BDP, 0.0));
    bbr.run_for(seconds(2));
    let part = used(&mut bbr, 10, RATE);
    assert!(part > 0.9 * PAYLOAD, "{part}");
    // While it tries for more the window is 2.25 times what the path holds, so that 1.25 wait; all
    // else is what is sent at a time.
    let longest = Duration::from_millis(50 + 6);
    assert!(bbr.longest_wait < longest, "{:?}", bbr.longest_wait);
    assert!(
        bbr.mean_wait() < Duration::from_millis(8),
        "{:?}",
        bbr.mean_wait()
    );
    let lost = bbr.statistics(0).packets_lost;
    assert_eq!(lost, 0);
}

#[test]
fn startup_finds_the_rate_within_some_rounds() {
    let mut bbr = alone(Congestion::Bbr, path(2 * BDP, 0.0));
    // The handshake takes two round trips, and from 10 packets to 70 it is three doublings.
    bbr.run_for(Duration::from_millis(400));
    let part = used(&mut bbr, 1, RATE);
    assert!(part > 0.85 * PAYLOAD, "{part}");
    // Three more rounds show that there is no more, and one drains what that left.
    let mut bbr = alone(Congestion::Bbr, path(2 * BDP, 0.0));
    bbr.run_for(Duration::from_millis(800));
    bbr.received_in(Duration::from_millis(400));
    assert!(
        bbr.mean_wait() < Duration::from_millis(15),
        "{:?}",
        bbr.mean_wait()
    );
}

#[test]
fn an_application_that_holds_back_teaches_nothing_wrong() {
    // 2 Mbit/s in pieces of 5,000 bytes over a path of 20.
    let supply = Supply::Each(Duration::from_millis(20), 5_000);
    let mut slow = Bottleneck::new(1, path(BDP, 0.0), &[(Congestion::Bbr, supply)]);
    slow.run_for(seconds(2));
    let received = slow.received_in(seconds(8))[0];
    let part = received as f64 / 8.0 / 250_000.0;
    assert!((0.98..1.02).contains(&part), "{part}");
    assert!(
        slow.mean_wait() < Duration::from_millis(3),
        "{:?}",
        slow.mean_wait()
    );
    // Once it has more to send, the whole rate is found as by a new flow.
    slow.supply(0, Supply::Endless);
    slow.run_for(seconds(1));
    let part = used(&mut slow, 4, RATE);
    assert!(part > 0.9 * PAYLOAD, "{part}");
    assert!(
        slow.longest_wait < Duration::from_millis(60),
        "{:?}",
        slow.longest_wait
    );
}

#[test]
fn a_busy_flow_that_pauses_comes_back_at_its_rate() {
    let mut bbr = alone(Congestion::Bbr, path(BDP, 0.0));
    bbr.run_for(seconds(5));
    bbr.supply(0, Supply::Each(seconds(3_600), 0));
    bbr.run_for(seconds(30));
    bbr.supply(0, Supply::Endless);
    let part = used(&mut bbr, 1, RATE);
    assert!(part > 0.85 * PAYLOAD, "{part}");
}

#[test]
fn a_rate_that_grows_or_shrinks_is_followed_in_some_seconds() {
    let mut bbr = alone(Congestion::Bbr, path(4 * BDP, 0.0));
    bbr.run_for(seconds(5));
    // Four times as much: within two cycles of probing, of three seconds at most.
    bbr.change(link("80mbit", 20, 4 * BDP, 0.0));
    bbr.run_for(seconds(6));
    let part = used(&mut bbr, 4, 4.0 * RATE);
    assert!(part > 0.85 * PAYLOAD, "{part}");
    // A quarter of that: the old rate is remembered for two cycles, in which the queue is full, and the
    // round trip through that queue until it was looked at anew.
    bbr.change(path(4 * BDP, 0.0));
    bbr.run_for(seconds(16));
    let part = used(&mut bbr, 4, RATE);
    assert!(part > 0.9 * PAYLOAD, "{part}");
    assert!(
        bbr.mean_wait() < Duration::from_millis(15),
        "{:?}",
        bbr.mean_wait()
    );
}

#[test]
fn the_path_of_a_queue_that_others_keep_full_is_seen_now_and_then() {
    // Another flow keeps 40 ms of queue. Every five seconds BBR makes its own volume small for 200 ms.
    let cubic = (Congestion::Cubic, Supply::Endless);
    let bbr = (Congestion::Bbr, Supply::Endless);
    let mut both = Bottleneck::new(1, path(BDP, 0.0), &[bbr, cubic]);
    both.run_for(seconds(4));
    let (mut smallest, mut largest) = (u64::MAX, 0);
    for _ in 0..240 {
        both.run_for(Duration::from_millis(50));
        let window = both.statistics(0).congestion_window;
        (smallest, largest) = (smallest.min(window), largest.max(window));
    }
    assert!(smallest * 3 < largest, "{smallest} of {largest}");
}

/// Parts of the rate that two flows get, the second of which begins a second later.
fn shares(queue: u64, kinds: [Congestion; 2]) -> [f64; 2] {
    let flows = kinds.map(|kind| (kind, Supply::Endless));
    let mut both = Bottleneck::new(1, path(queue, 0.0), &flows);
    both.run_for(seconds(8));
    let received = both.received_in(seconds(20));
    [0, 1].map(|flow| received[flow] as f64 / 20.0 / RATE)
}

#[test]
fn two_flows_share_a_path() {
    for queue in [BDP, 4 * BDP] {
        let [first, second] = shares(queue, [Congestion::Bbr; 2]);
        let ratio = first.max(second) / first.min(second);
        assert!(ratio < 2.0, "{first}, {second}");
        assert!(first + second > 0.9 * PAYLOAD, "{first}, {second}");
    }
}

#[test]
fn cubic_beside_bbr_keeps_a_third_of_the_rate() {
    for queue in [BDP, 4 * BDP] {
        let [bbr, cubic] = shares(queue, [Congestion::Bbr, Congestion::Cubic]);
        assert!(cubic > 0.33, "{cubic} beside {bbr}");
        assert!(bbr > 0.25, "{bbr} beside {cubic}");
    }
}

#[test]
fn who_has_sent_all_that_there_is_waits_for_nothing_but_the_peer() {
    let mut pair = Pair::with(delay(20), |_, server| {
        server.transport.congestion = Congestion::Bbr;
    })
    .connected();
    pair.run_for(seconds(1));
    let stream = pair.client.open(Direction::Bidirectional);
    pair.client.send(stream, pattern(100));
    assert!(pair.run_until(|pair| pair.server.received.contains_key(&stream)));
    pair.server.send(stream, pattern(1000));
    let sent = pair.server.flight.len();
    pair.run_for(Duration::ZERO);
    assert_eq!(pair.server.flight.len(), sent + 1);
    // A packet of that size has half a millisecond at the rate of that moment. What is acknowledged comes after 40.
    let due = pair.server.endpoint.poll_timeout().unwrap() - pair.now();
    assert!(due > Duration::from_millis(20), "{due:?}");
}
