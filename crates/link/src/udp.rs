//! Treatment of UDP apart from all other packets, as some networks have it: blocked, or policed.

use crate::Queue;
use altway_units::{Bandwidth, DataSize, Timestamp};

/// Parts in a bit of a bucket's tokens: what flows in at 1 bit/s within a nanosecond.
const PARTS: u128 = 1_000_000_000;

/// Transport protocol of a packet, as far as a direction tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// UDP (RFC 768), and so QUIC.
    Udp,
    /// TCP and all others.
    Other,
}

/// Treatment of UDP packets by a direction, before it treats them as all others.
///
/// Text form: `pass`, `block`, `rate 5mbit` or `rate 5mbit burst 64KiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UdpTreatment {
    /// UDP is treated as all else.
    #[default]
    Pass,
    /// Every UDP packet is dropped, as by a firewall.
    Block,
    /// UDP packets beyond a rate are dropped.
    Police(Policer),
}

/// A token bucket that drops what exceeds a rate and delays nothing: a meter of RFC 2697 section 3
/// with an excess burst size of 0 whose yellow and red packets are dropped, as `police … conform-exceed
/// drop` of tc-police(8).
///
/// The bucket is full at first. A packet of which all bytes are covered by tokens takes them and passes; any
/// other is dropped and takes none. So a packet that is larger than the burst never passes.
///
/// Worked number: 5 Mbit/s with 64 KiB pass 43 full packets of 1,500 bytes at once, then one each 2.4
/// ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policer {
    /// Committed information rate: rate at which tokens flow into the bucket, in IP bits per second.
    pub rate: Bandwidth,
    /// Committed burst size: the most IP bytes that the bucket holds tokens for.
    pub burst: DataSize,
}

impl Policer {
    /// The policer of a rate of which no burst was said: 100 ms of the rate, but at least 64 KiB, as
    /// [`Queue::default_for`] has it of a queue.
    ///
    /// RFC 2697 section 3 recommends at least the largest packet that there may be, which is 65,535 bytes.
    #[must_use]
    pub fn of(rate: Bandwidth) -> Self {
        Self {
            rate,
            burst: Queue::default_bytes(rate),
        }
    }
}

/// The treatment with its state.
#[derive(Debug, Clone)]
pub(crate) enum UdpGate {
    Pass,
    Block,
    Police(TokenBucket),
}

/// The tokens of a [`Policer`].
#[derive(Debug, Clone)]
pub(crate) struct TokenBucket {
    policer: Policer,
    /// Bits that may be sent at once, in [`PARTS`] of a bit.
    tokens: u128,
    filled: Timestamp,
}

impl UdpGate {
    pub(crate) fn new(now: Timestamp, treatment: UdpTreatment) -> Self {
        match treatment {
            UdpTreatment::Pass => Self::Pass,
            UdpTreatment::Block => Self::Block,
            UdpTreatment::Police(policer) => Self::Police(TokenBucket::new(now, policer)),
        }
    }

    /// Returns whether a UDP packet of this size passes.
    pub(crate) fn admits(&mut self, now: Timestamp, size: DataSize) -> bool {
        match self {
            Self::Pass => true,
            Self::Block => false,
            Self::Police(bucket) => bucket.take(now, size),
        }
    }

    /// Goes on with another treatment. A bucket that stays keeps its tokens, as many as it still has
    /// room for.
    pub(crate) fn change(&mut self, now: Timestamp, treatment: UdpTreatment) {
        match (&mut *self, treatment) {
            (Self::Police(bucket), UdpTreatment::Police(policer)) => bucket.change(now, policer),
            _ => *self = Self::new(now, treatment),
        }
    }
}

impl TokenBucket {
    fn new(now: Timestamp, policer: Policer) -> Self {
        Self {
            tokens: parts(policer.burst),
            policer,
            filled: now,
        }
    }

    fn take(&mut self, now: Timestamp, size: DataSize) -> bool {
        self.fill(now);
        let left = self.tokens.checked_sub(parts(size));
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }

    fn change(&mut self, now: Timestamp, policer: Policer) {
        self.fill(now);
        self.policer = policer;
        self.tokens = self.tokens.min(parts(policer.burst));
    }

    /// Lets in the tokens of the time that has passed.
    fn fill(&mut self, now: Timestamp) {
        let passed = (now - self.filled).as_nanos();
        let came = passed * u128::from(self.policer.rate.as_bps());
        self.tokens = self
            .tokens
            .saturating_add(came)
            .min(parts(self.policer.burst));
        self.filled = self.filled.max(now);
    }
}

fn parts(size: DataSize) -> u128 {
    u128::from(size.as_bytes()) * 8 * PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: DataSize = DataSize::from_bytes(1_500);

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    fn policer(mbit: u64, bytes: u64) -> Policer {
        Policer {
            rate: Bandwidth::from_mbit(mbit).unwrap(),
            burst: DataSize::from_bytes(bytes),
        }
    }

    #[test]
    fn a_burst_that_nobody_said_is_100_ms_of_the_rate_or_64_kib() {
        let burst = |mbit| Policer::of(Bandwidth::from_mbit(mbit).unwrap()).burst;
        assert_eq!(burst(5), DataSize::from_bytes(65_536));
        assert_eq!(burst(20), DataSize::from_bytes(250_000));
    }

    #[test]
    fn tokens_are_there_to_the_nanosecond() {
        // 12 Mbit/s are a full packet each millisecond.
        let mut bucket = TokenBucket::new(at(0), policer(12, 1_500));
        assert!(bucket.take(at(0), PACKET));
        assert!(
            !bucket.take(at(999_999), PACKET),
            "a refused one takes none"
        );
        assert!(bucket.take(at(1_000_000), PACKET));
        assert!(!bucket.take(at(1_999_999), PACKET));
    }

    #[test]
    fn a_quiet_time_fills_the_bucket_and_no_more() {
        let mut bucket = TokenBucket::new(at(0), policer(12, 3_000));
        let passed = |bucket: &mut TokenBucket, now| {
            std::iter::repeat_with(|| bucket.take(now, PACKET))
                .take_while(|passes| *passes)
                .count()
        };
        assert_eq!(passed(&mut bucket, at(0)), 2);
        assert_eq!(passed(&mut bucket, at(u64::MAX)), 2);
    }

    #[test]
    fn a_packet_larger_than_the_burst_never_passes() {
        let mut bucket = TokenBucket::new(at(0), policer(1_000, 1_499));
        assert!(!bucket.take(at(u64::MAX), PACKET));
    }

    #[test]
    fn a_policer_that_is_changed_keeps_its_tokens_and_one_that_is_switched_on_is_full() {
        let police = |bytes| UdpTreatment::Police(policer(12, bytes));
        let mut gate = UdpGate::new(at(0), police(3_000));
        assert!(gate.admits(at(0), PACKET));
        gate.change(at(0), police(30_000));
        assert!(gate.admits(at(0), PACKET));
        assert!(
            !gate.admits(at(0), PACKET),
            "the larger bucket was not filled"
        );
        gate.change(at(0), UdpTreatment::Pass);
        gate.change(at(0), police(1_500));
        assert!(gate.admits(at(0), PACKET));
    }

    #[test]
    fn no_rate_time_or_burst_is_too_large() {
        let most = Policer {
            rate: Bandwidth::from_bps(u64::MAX).unwrap(),
            burst: DataSize::MAX,
        };
        let mut bucket = TokenBucket::new(at(0), most);
        assert!(bucket.take(at(u64::MAX), DataSize::MAX));
    }
}
