//! Separation of the shares of a cost: those that the rounds bear out, and those that can't be told
//! apart from the others.

use super::Share;
use crate::options::TransportKind;
use altway_stats::{quantile, quantile_interval};
use serde::Serialize;

/// Level of the intervals.
const LEVEL: f64 = 0.95;

/// Parts of a transport's time in one round, in per cent of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parts {
    /// Saved without a cipher; 0 by definition of a transport that has none.
    pub(super) encryption: f64,
    /// Saved by plain TCP without copies.
    pub(super) copies: f64,
    /// Calls, each as long as one that does nothing.
    pub(super) calls: f64,
    /// Time that the kernel was seen to take.
    pub(super) kernel: f64,
}

/// A share that can be told.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Separated {
    /// The median of the rounds.
    pub median: f64,
    /// Lower end of the median's 95 % interval, by ranks alone; at least 0.
    pub low: f64,
    /// Upper end; at most 100.
    pub high: f64,
}

/// Reasons why a share can't be told.
const FEW_ROUNDS: &str = "fewer than 6 rounds give no interval";
const HOLDS_ZERO: &str = "its interval holds 0";
const BEYOND: &str = "its interval reaches beyond 100 %";
const KERNEL: &str = "copies and calls are more than the kernel's time";
const OTHERS: &str = "another share can't be told";

/// The four shares of a transport's time.
pub(super) fn separate(over: TransportKind, rounds: &[Parts]) -> [Share; 4] {
    let all = |of: &dyn Fn(&Parts) -> f64| found(&rounds.iter().map(of).collect::<Vec<_>>());
    let encryption = match over {
        TransportKind::Tcp => Ok(Separated {
            median: 0.0,
            low: 0.0,
            high: 0.0,
        }),
        TransportKind::Tls | TransportKind::Quic => all(&|round| round.encryption),
    };
    let fits = median_of(rounds, |round| round.copies + round.calls)
        <= median_of(rounds, |round| round.kernel);
    let in_kernel = |share: Result<Separated, &'static str>| match fits {
        true => share,
        false => share.and(Err(KERNEL)),
    };
    let copies = in_kernel(all(&|round| round.copies));
    let calls = in_kernel(all(&|round| round.calls));
    let rest = |round: &Parts| 100.0 - round.encryption - round.copies - round.calls;
    let protocol = match (&encryption, &copies, &calls) {
        (Ok(_), Ok(_), Ok(_)) => all(&rest),
        _ => Err(OTHERS),
    };
    let share = |part, found: Result<Separated, &'static str>| Share {
        over,
        part,
        percent: found.ok(),
        obstacle: found.err().unwrap_or_default(),
    };
    [
        share("encryption", encryption),
        share("copies", copies),
        share("system calls", calls),
        share("protocol", protocol),
    ]
}

fn median_of(rounds: &[Parts], of: impl Fn(&Parts) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// The median with its interval, where the whole of it is a share.
fn found(values: &[f64]) -> Result<Separated, &'static str> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let interval = quantile_interval(&sorted, 0.5, LEVEL);
    let bounded = |end: f64| end.is_finite();
    let interval = interval.filter(|it| bounded(it.low) && bounded(it.high));
    let interval = interval.ok_or(FEW_ROUNDS)?;
    match (interval.low, interval.high) {
        (low, _) if low <= 0.0 => Err(HOLDS_ZERO),
        (_, high) if high > 100.0 => Err(BEYOND),
        (low, high) => Ok(Separated {
            median: quantile(&sorted, 0.5),
            low,
            high,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(copies: &[f64], kernel: f64) -> Vec<Parts> {
        let round = |copies: &f64| Parts {
            encryption: 30.0,
            copies: *copies,
            calls: 2.0,
            kernel,
        };
        copies.iter().map(round).collect()
    }

    fn obstacles(rounds: &[Parts]) -> [&'static str; 4] {
        separate(TransportKind::Quic, rounds).map(|share| share.obstacle)
    }

    #[test]
    fn shares_that_the_rounds_bear_out_are_told_with_their_interval() {
        let rounds = rounds(&[9.0, 10.0, 11.0, 12.0, 10.5, 9.5, 10.2], 50.0);
        let shares = separate(TransportKind::Quic, &rounds);
        let copies = shares[1].percent.unwrap();
        assert_eq!((copies.low, copies.median, copies.high), (9.0, 10.2, 12.0));
        let protocol = shares[3].percent.unwrap();
        assert_eq!((protocol.median * 10.0).round(), 578.0);
        assert!(shares.iter().all(|share| share.obstacle.is_empty()));
    }

    #[test]
    fn what_cannot_be_is_not_told() {
        // What was once printed: copies of −21.7 %, and a protocol of 121 %.
        let negative = rounds(&[-21.7, -20.0, -22.0, -19.0, -25.0, -21.0], 50.0);
        assert_eq!(obstacles(&negative), ["", HOLDS_ZERO, "", OTHERS]);
        let around = rounds(&[-1.0, 4.0, 5.0, 6.0, 7.0, 8.0], 50.0);
        assert_eq!(obstacles(&around)[1], HOLDS_ZERO);
        let beyond = rounds(&[90.0, 95.0, 99.0, 101.0, 105.0, 110.0], 120.0);
        assert_eq!(obstacles(&beyond)[1], BEYOND);
    }

    #[test]
    fn more_than_the_kernel_took_is_no_share_of_it() {
        let rounds = rounds(&[40.0, 41.0, 42.0, 43.0, 44.0, 45.0], 30.0);
        assert_eq!(obstacles(&rounds), ["", KERNEL, KERNEL, OTHERS]);
    }

    #[test]
    fn five_rounds_tell_nothing_and_tcp_encrypts_nothing() {
        let five = rounds(&[10.0; 5], 50.0);
        assert_eq!(
            obstacles(&five),
            [FEW_ROUNDS, FEW_ROUNDS, FEW_ROUNDS, OTHERS]
        );
        let tcp = separate(TransportKind::Tcp, &rounds(&[10.0; 6], 50.0));
        assert_eq!(tcp[0].percent.unwrap().median, 0.0);
    }
}
