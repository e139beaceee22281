//! Amounts of data.

use crate::text::{Grammar, as_text};
use crate::{Bandwidth, ParseError};
use std::fmt;
use std::ops::{Add, Div};
use std::str::FromStr;
use std::time::Duration;

const GRAMMAR: Grammar = Grammar {
    quantity: "data size",
    example: "64KiB",
    units: &[
        ("B", 1),
        ("KB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
    ],
    units_in_words: "B, KB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024)",
    range: "a whole number of bytes below 2^64",
};

/// Bytes.
///
/// Text form: a number and `B`, `KB`, `MB`, `GB` (powers of 1000) or `KiB`, `MiB`, `GiB` (powers
/// of 1024).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DataSize(u64);

impl DataSize {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// The largest amount there is: 2^64 − 1 bytes.
    pub const MAX: Self = Self(u64::MAX);

    /// `bytes` bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Bytes.
    #[must_use]
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

/// Saturates at [`DataSize::MAX`].
impl Add for DataSize {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Time that the data takes at that rate, rounded up to the next nanosecond (the last bit must have
/// passed); saturates at [`Duration::MAX`].
impl Div<Bandwidth> for DataSize {
    type Output = Duration;

    fn div(self, rate: Bandwidth) -> Duration {
        const NANOS_PER_SECOND: u128 = 1_000_000_000;
        let nanos = (u128::from(self.0) * 8 * NANOS_PER_SECOND).div_ceil(u128::from(rate.as_bps()));
        let seconds = u64::try_from(nanos / NANOS_PER_SECOND);
        let rest = u32::try_from(nanos % NANOS_PER_SECOND);
        seconds.map_or(Duration::MAX, |seconds| {
            Duration::new(seconds, rest.unwrap_or(0))
        })
    }
}

impl FromStr for DataSize {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        GRAMMAR.parse(text).map(Self)
    }
}

impl fmt::Display for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&GRAMMAR.print(self.0))
    }
}

as_text!(DataSize);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tells_powers_of_1000_from_powers_of_1024() {
        assert_eq!("64KiB".parse(), Ok(DataSize::from_bytes(65_536)));
        assert_eq!("64KB".parse(), Ok(DataSize::from_bytes(64_000)));
        assert_eq!("1.5 MiB".parse(), Ok(DataSize::from_bytes(1_572_864)));
    }

    #[test]
    fn refuses_half_a_byte_and_no_unit() {
        assert!("0.5B".parse::<DataSize>().is_err());
        assert!("12".parse::<DataSize>().is_err());
        assert!("".parse::<DataSize>().is_err());
    }

    #[test]
    fn division_by_a_rate_rounds_up() {
        let rate = Bandwidth::from_bps(3).unwrap();
        assert_eq!(
            DataSize::from_bytes(1) / rate,
            Duration::from_nanos(2_666_666_667)
        );
        let slow = Bandwidth::from_bps(1).unwrap();
        assert_eq!(DataSize::MAX / slow, Duration::MAX);
        assert_eq!(DataSize::ZERO / slow, Duration::ZERO);
    }

    proptest! {
        #[test]
        fn parses_what_it_prints(bytes: u64) {
            let size = DataSize::from_bytes(bytes);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }
    }
}
