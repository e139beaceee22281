//! Amounts that have passed by given times, in single numbers and against the slow way.

use super::*;
use proptest::prelude::*;

const BYTE: u128 = BITS_PER_BYTE * NANOS_PER_SECOND;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn steps(steps: &[(u64, u64)], period: Option<u64>) -> Result<Trace, Error> {
    let steps: Vec<_> = steps
        .iter()
        .map(|&(at, mbit)| Step {
            at: ms(at),
            rate: Bandwidth::from_mbit(mbit),
        })
        .collect();
    Trace::stepped(&steps, period.map(ms))
}

fn opportunities(times: &[u64]) -> Result<Trace, Error> {
    let times: Vec<_> = times.iter().copied().map(ms).collect();
    Trace::opportunities(&times)
}

/// Time at which so many bytes have passed, in µs.
fn bytes_at(trace: &Trace, bytes: u64) -> u64 {
    trace.reaches(u128::from(bytes) * BYTE) / 1_000
}

#[test]
fn a_step_changes_the_rate_in_the_middle_of_a_packet() {
    let trace = steps(&[(0, 12), (3, 0), (5, 1)], None).unwrap();
    // 3 ms at 12 Mbit/s are 4,500 bytes.
    assert_eq!(bytes_at(&trace, 1_500), 1_000);
    assert_eq!(bytes_at(&trace, 4_500), 3_000);
    assert_eq!(bytes_at(&trace, 4_501), 5_008);
    assert_eq!(trace.passed(4_000_000), 4_500 * BYTE);
}

#[test]
fn a_trace_repeats_after_its_period() {
    let trace = steps(&[(0, 12), (1, 0)], Some(4)).unwrap();
    for lap in 0..5 {
        assert_eq!(bytes_at(&trace, 1_500 * lap + 750), 4_000 * lap + 500);
        assert_eq!(bytes_at(&trace, 1_500 * lap + 1_500), 4_000 * lap + 1_000);
    }
    assert_eq!(trace.mean(), Bandwidth::from_mbit(3).unwrap());
}

#[test]
fn a_trace_that_ends_with_nothing_passes_nothing_more() {
    let trace = steps(&[(0, 12), (1, 0)], None).unwrap();
    assert_eq!(trace.reaches(1_500 * BYTE), 1_000_000);
    assert_eq!(trace.reaches(1_500 * BYTE + 1), u64::MAX);
    assert_eq!(trace.mean(), Bandwidth::from_mbit(12).unwrap());
}

#[test]
fn opportunities_pass_1500_bytes_each_and_repeat_with_the_last() {
    let trace = opportunities(&[2, 5, 5]).unwrap();
    assert_eq!(bytes_at(&trace, 1), 2_000);
    assert_eq!(bytes_at(&trace, 1_500), 2_000);
    assert_eq!(bytes_at(&trace, 1_501), 5_000);
    assert_eq!(bytes_at(&trace, 4_500), 5_000);
    assert_eq!(bytes_at(&trace, 4_501), 7_000);
    assert_eq!(bytes_at(&trace, 9_000), 10_000);
    assert_eq!(trace.passed(5_000_000), 1_500 * BYTE);
    assert_eq!(trace.passed(5_000_001), 4_500 * BYTE);
    assert_eq!(trace.mean(), Bandwidth::from_kbit(7_200).unwrap());
}

#[test]
fn an_opportunity_at_0_comes_together_with_the_last_of_the_lap_before() {
    let trace = opportunities(&[0, 10]).unwrap();
    assert_eq!(bytes_at(&trace, 1_500), 0);
    assert_eq!(bytes_at(&trace, 3_000), 10_000);
    assert_eq!(bytes_at(&trace, 4_500), 10_000);
    assert_eq!(bytes_at(&trace, 6_000), 20_000);
}

#[test]
fn what_is_no_trace_is_refused() {
    assert_eq!(steps(&[], None), Err(Error::EmptyTrace));
    assert_eq!(steps(&[(1, 1)], None), Err(Error::TraceStart));
    let twice = steps(&[(0, 1), (5, 1), (5, 2)], None);
    assert_eq!(twice, Err(Error::TraceOrder { entry: 3 }));
    assert_eq!(steps(&[(0, 0), (5, 0)], None), Err(Error::TraceZero));
    assert_eq!(steps(&[(0, 1), (5, 2)], Some(5)), Err(Error::TraceEnd));
    assert_eq!(opportunities(&[]), Err(Error::EmptyTrace));
    assert_eq!(opportunities(&[0, 0]), Err(Error::TraceEnd));
    let back = opportunities(&[4, 3]);
    assert_eq!(back, Err(Error::TraceOrder { entry: 2 }));
    let most = Trace::MAX_ENTRIES;
    let long = opportunities(&vec![1; most + 1]);
    assert_eq!(long, Err(Error::LongTrace { most }));
}

#[test]
fn times_beyond_584_years_saturate() {
    let rate = Bandwidth::from_bps(u64::MAX);
    let step = |at| Step { at, rate };
    let far = [step(Duration::ZERO), step(Duration::MAX)];
    let trace = Trace::stepped(&far, None).unwrap();
    assert_eq!(trace.reaches(u128::MAX), u64::MAX);
    assert_eq!(trace.passed(u64::MAX), u128::from(u64::MAX).pow(2));
}

fn any_trace() -> impl Strategy<Value = Trace> {
    let stepped = (
        prop::collection::vec((1..50_u64, 0..5_u64), 1..8),
        prop::option::of(1..20_u64),
    )
        .prop_filter_map("a rate", |(parts, more)| {
            let starts = parts.iter().scan(0, |at, (gap, mbit)| {
                let step = (*at, *mbit);
                *at += gap;
                Some(step)
            });
            let all: Vec<_> = starts.collect();
            let last = all[all.len() - 1].0;
            steps(&all, more.map(|more| last + more)).ok()
        });
    let single = prop::collection::vec(0..50_u64, 1..20).prop_filter_map("an end", |mut times| {
        times.sort_unstable();
        opportunities(&times).ok()
    });
    prop_oneof![stepped, single]
}

proptest! {
    /// The time at which work is reached is the first at which at least that much has passed.
    #[test]
    fn reaches_is_the_inverse_of_passed(trace in any_trace(), work in 1..100_000_000_000_000_u128) {
        let time = trace.reaches(work);
        prop_assume!(time < u64::MAX);
        prop_assert!(trace.passed(time) < work || time == 0 || matches!(trace.shape, Shape::Steps(_)));
        prop_assert!(trace.passed(time + 1) >= work);
        if time > 0 {
            prop_assert!(trace.passed(time - 1) < work);
        }
    }

    #[test]
    fn what_has_passed_never_falls(trace in any_trace(), times in prop::collection::vec(0..1_000_000_000_u64, 2..50)) {
        let mut times = times;
        times.sort_unstable();
        prop_assert!(times.iter().map(|time| trace.passed(*time)).is_sorted());
    }
}
