//! The text form of [`Duration`]: `40ms`, `12.5ms`, `2min`.
//!
//! The type is the standard library's; only its spelling is ours. Field attribute for serde:
//! `#[serde(with = "altway_units::duration")]`.

use crate::ParseError;
use crate::text::Grammar;
use serde::{Deserialize, Deserializer, Serializer};
use std::time::Duration;

/// Base unit: nanoseconds.
const GRAMMAR: Grammar = Grammar {
    quantity: "duration",
    example: "40ms",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
    units_in_words: "ns, us, ms, s, min, h",
    range: "a whole number of nanoseconds, at most 584 years",
};

/// Reads `40ms`; a bare number is refused, for nobody knows whether it meant seconds.
///
/// # Errors
/// No number, no known unit, a negative number, or a part of a nanosecond.
pub fn parse(text: &str) -> Result<Duration, ParseError> {
    GRAMMAR.parse(text).map(Duration::from_nanos)
}

/// Prints with the largest unit that divides it, so that [`parse`] gives the same back; times over
/// 584 years are printed as 584 years. Zero is `0ms`.
#[must_use]
pub fn format(duration: Duration) -> String {
    if duration.is_zero() {
        return "0ms".into();
    }
    GRAMMAR.print(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Serializes a duration as its text, for `#[serde(with = "altway_units::duration")]`.
///
/// # Errors
/// The serializer's own errors.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*duration))
}

/// Reads a duration from its text, for `#[serde(with = "altway_units::duration")]`.
///
/// # Errors
/// The text is not a duration.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_fractions_of_a_unit() {
        assert_eq!(parse("12.5ms"), Ok(Duration::from_micros(12_500)));
        assert_eq!(parse("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(parse("3 µs"), Ok(Duration::from_micros(3)));
    }

    #[test]
    fn refuses_a_bare_number() {
        assert!(
            parse("40")
                .unwrap_err()
                .to_string()
                .contains("ns, us, ms, s")
        );
        assert!(parse("-40ms").is_err());
        assert!(parse("0.5ns").is_err());
    }

    #[test]
    fn prints_zero_with_a_unit() {
        assert_eq!(format(Duration::ZERO), "0ms");
        assert_eq!(format(Duration::from_micros(12_500)), "12500us");
    }

    proptest! {
        #[test]
        fn parses_what_it_prints(nanos: u64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }
    }
}
