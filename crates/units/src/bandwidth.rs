//! Data per time.

use crate::text::{Grammar, as_text};
use crate::{DataSize, ParseError};
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

const GRAMMAR: Grammar = Grammar {
    quantity: "bandwidth",
    example: "20mbit",
    units: &[
        ("bit", 1),
        ("bit/s", 1),
        ("bps", 1),
        ("kbit", 1_000),
        ("kbit/s", 1_000),
        ("mbit", 1_000_000),
        ("mbit/s", 1_000_000),
        ("gbit", 1_000_000_000),
        ("gbit/s", 1_000_000_000),
    ],
    units_in_words: "bit, kbit, mbit, gbit (each per second)",
    range: "a whole number of bits per second, more than 0",
};

/// Bits per second, at least 1. No limit at all is `Option::<Bandwidth>::None`, never zero.
///
/// Text form: a number and `bit`, `kbit`, `mbit` or `gbit` (powers of 1000; `/s` may follow).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(NonZeroU64);

impl Bandwidth {
    /// `bits` per second; `None` for zero.
    #[must_use]
    pub const fn from_bps(bits: u64) -> Option<Self> {
        match NonZeroU64::new(bits) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// Thousands of bits per second; `None` for zero or when it does not fit.
    #[must_use]
    pub const fn from_kbit(kilobits: u64) -> Option<Self> {
        match kilobits.checked_mul(1_000) {
            Some(bits) => Self::from_bps(bits),
            None => None,
        }
    }

    /// Millions of bits per second; `None` for zero or when it does not fit.
    #[must_use]
    pub const fn from_mbit(megabits: u64) -> Option<Self> {
        match megabits.checked_mul(1_000_000) {
            Some(bits) => Self::from_bps(bits),
            None => None,
        }
    }

    /// Bits per second.
    #[must_use]
    pub const fn as_bps(self) -> u64 {
        self.0.get()
    }

    /// Returns the data that passes in `time`, rounded down; saturates at [`DataSize::MAX`].
    ///
    /// ```
    /// use altway_units::{Bandwidth, DataSize};
    /// use std::time::Duration;
    /// let rate = Bandwidth::from_mbit(5).expect("5 is not 0");
    /// assert_eq!(rate.data_in(Duration::from_millis(100)), DataSize::from_bytes(62_500));
    /// ```
    #[must_use]
    pub fn data_in(self, time: std::time::Duration) -> DataSize {
        let bits = u128::from(self.as_bps()).saturating_mul(time.as_nanos()) / NANOS_PER_SECOND;
        DataSize::from_bytes(u64::try_from(bits / 8).unwrap_or(u64::MAX))
    }
}

impl FromStr for Bandwidth {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::from_bps(GRAMMAR.parse(text)?).ok_or_else(|| GRAMMAR.out_of_range(text))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&GRAMMAR.print(self.as_bps()))
    }
}

as_text!(Bandwidth);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_every_spelling_of_a_rate() {
        for text in [
            "5mbit",
            "5 Mbit/s",
            "5000kbit",
            "0.005gbit",
            "5000000 bit",
            "5000000bps",
        ] {
            assert_eq!(text.parse(), Ok(Bandwidth::from_mbit(5).unwrap()), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_rate() {
        let message = |text: &str| text.parse::<Bandwidth>().unwrap_err().to_string();
        assert_eq!(
            message("-5mbit"),
            "`-5mbit` is not a bandwidth: it can't be negative"
        );
        assert!(message("0mbit").contains("more than 0"));
        assert!(message("0.5bit").contains("whole number"));
        assert!(message("5").contains("expected one of the units"));
        assert!(message("5MB").contains("expected one of the units"));
        assert!(message("mbit").contains("like `20mbit`"));
        assert!(message("99999999999gbit").contains("more than 0"));
    }

    #[test]
    fn prints_the_largest_whole_unit() {
        assert_eq!(Bandwidth::from_kbit(1_500).unwrap().to_string(), "1500kbit");
        assert_eq!(Bandwidth::from_mbit(2_000).unwrap().to_string(), "2gbit");
    }

    proptest! {
        #[test]
        fn parses_what_it_prints(bits in 1_u64..) {
            let rate = Bandwidth::from_bps(bits).unwrap();
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }
    }
}
