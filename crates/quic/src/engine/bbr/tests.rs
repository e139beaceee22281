//! BBR against peers whose acknowledgements are strange, and its first steps. What it makes of paths is
//! tested over the link model (`tests/it/bbr.rs`).

#![allow(clippy::disallowed_methods, reason = "an instant to count from")]

use proptest::prelude::*;

use super::*;

const MTU: u16 = 1_200;

fn bbr(now: Instant) -> Bbr {
    let first = InitialWindow::default();
    let built = Arc::new(BbrFactory::new(first)).build(now, MTU);
    *built.into_any().downcast::<Bbr>().unwrap()
}

/// A peer that acknowledges what was sent then, after this time.
fn acknowledge(bbr: &mut Bbr, sent: Instant, rtt: Duration, bytes: u64) {
    let now = sent + rtt;
    bbr.acked += bytes;
    bbr.newest = Some(sent);
    bbr.delivery.on_ack(now, sent, bytes);
    bbr.on_end_acks(now, 0, false, None);
}

#[test]
fn the_first_window_has_ten_packets_and_no_rate() {
    let mut bbr = bbr(Instant::now());
    assert_eq!(bbr.window(), 12_000);
    assert_eq!(bbr.metrics().pacing_rate, None);
    bbr.on_mtu_update(1_452);
    assert_eq!(bbr.window(), 14_520, "larger packets were found");
}

#[test]
fn the_first_round_trip_gives_a_rate_and_twice_the_window() {
    let now = Instant::now();
    let mut bbr = bbr(now);
    bbr.on_sent(now, 12_000, 9);
    acknowledge(&mut bbr, now, Duration::from_millis(100), 12_000);
    assert_eq!(bbr.window(), 24_000);
    // 2.77 times 12,000 bytes in 100 ms, in bits.
    assert_eq!(bbr.metrics().pacing_rate, Some(2_659_200));
}

#[test]
fn persistent_congestion_leaves_four_packets() {
    let now = Instant::now();
    let mut bbr = bbr(now);
    bbr.on_sent(now, 12_000, 9);
    bbr.on_congestion_event(now, now, true, 12_000);
    assert_eq!(bbr.window(), 4_800);
}

#[test]
fn an_acknowledgement_in_no_time_makes_no_endless_rate() {
    let now = Instant::now();
    let mut bbr = bbr(now);
    for round in 0..200 {
        let sent = now + Duration::from_nanos(round * 10);
        bbr.on_sent(sent, 1 << 30, 1);
        acknowledge(&mut bbr, sent, Duration::from_nanos(round % 2), 1 << 30);
        assert!(bbr.window() <= MAX_WINDOW);
    }
    assert!(bbr.metrics().pacing_rate.unwrap() <= 100_000_000_000);
}

#[test]
fn marked_packets_count_as_too_much_loss() {
    let now = Instant::now();
    let mut bbr = bbr(now);
    let mut sent = now;
    for _ in 0..4 {
        bbr.on_sent(sent, 12_000, 9);
        bbr.on_congestion_event(sent, sent, false, 0);
        acknowledge(&mut bbr, sent, Duration::from_millis(100), 12_000);
        sent += Duration::from_millis(100);
    }
    assert_ne!(bbr.state, State::Startup);
    assert_ne!(bbr.bounds.long, u64::MAX);
}

/// An input to a controller.
#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    Send(u64),
    Acknowledge {
        bytes: u64,
        in_flight: u64,
        ago: u64,
    },
    Lose {
        bytes: u64,
        ago: u64,
        persistent: bool,
    },
    Grow(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let time = || prop_oneof![Just(0), 0..1_000_000_u64, Just(3_600_000_000)];
    let bytes = || prop_oneof![Just(0), 1..100_000_u64, Just(1 << 40)];
    let acknowledge = (bytes(), bytes(), time(), any::<bool>());
    let step = prop_oneof![
        time().prop_map(Step::Wait),
        bytes().prop_map(Step::Send),
        acknowledge.prop_map(|(bytes, in_flight, ago, _)| Step::Acknowledge {
            bytes,
            in_flight,
            ago
        }),
        (bytes(), time(), any::<bool>()).prop_map(|(bytes, ago, persistent)| Step::Lose {
            bytes,
            ago,
            persistent
        }),
        (1_200..=u16::MAX).prop_map(Step::Grow),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #[test]
    fn whatever_happens_the_window_and_the_rate_have_bounds(steps in steps()) {
        let began = Instant::now() + Duration::from_secs(7_200);
        let (mut bbr, mut now) = (bbr(began), began);
        let us = Duration::from_micros;
        for step in steps {
            match step {
                Step::Wait(time) => now += us(time),
                Step::Send(bytes) => bbr.on_sent(now, bytes, 0),
                Step::Acknowledge { bytes, in_flight, ago } => {
                    let sent = now - us(ago);
                    bbr.acked += bytes;
                    bbr.newest = bbr.newest.max(Some(sent));
                    bbr.delivery.on_ack(now, sent, bytes);
                    bbr.on_end_acks(now, in_flight, in_flight % 2 == 0, None);
                }
                Step::Lose { bytes, ago, persistent } => {
                    bbr.on_congestion_event(now, now - us(ago), persistent, bytes);
                }
                Step::Grow(mtu) => bbr.on_mtu_update(mtu),
            }
            let metrics = bbr.metrics();
            prop_assert!(bbr.window() >= 2 * 1_200);
            prop_assert!(bbr.window() <= MAX_WINDOW);
            let rate = metrics.pacing_rate.unwrap_or(1);
            prop_assert!((1..=100_000_000_000).contains(&rate), "{rate}");
        }
    }
}
