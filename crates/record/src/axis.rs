//! One axis of a plan's matrix: a value, a list of values, or a range in words.

use altway_units::{Bandwidth, DataSize, Ratio, duration};
use std::str::FromStr;
use std::time::Duration;

use crate::{Protocol, Rate};

/// The most values that one axis may have; a slip in a range's step can't fill the memory.
pub const MAX_AXIS_VALUES: usize = 1_000;

/// A quantity that an axis can hold.
pub(crate) trait AxisValue: Sized + Copy + PartialEq {
    fn read(text: &str) -> Result<Self, String>;

    /// The position on a number line, for ranges; `None` where a range makes no sense.
    fn to_number(self) -> Option<u64> {
        None
    }

    fn from_number(_: u64) -> Option<Self> {
        None
    }
}

/// Reasons for which an axis can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AxisError {
    /// A value of the axis that can't be read, with the reason in a sentence.
    #[error("{0}")]
    Value(String),
    /// The list or range has nothing in it.
    #[error("it has no values")]
    Empty,
    /// The same value stands twice.
    #[error("`{0}` stands twice")]
    Twice(String),
    /// A range without its step, with a step of zero, or that runs backwards.
    #[error("`{0}` is not a range: expected one like `0ms..200ms by 25ms`")]
    Range(String),
    /// A list or range of more values than [`MAX_AXIS_VALUES`].
    #[error("it has more than {MAX_AXIS_VALUES} values")]
    TooMany,
}

/// Reads the texts of an axis; each may be a value or a range `FROM..TO by STEP` (or `step STEP`),
/// both ends in it.
pub(crate) fn read<T: AxisValue>(texts: &[String]) -> Result<Vec<T>, AxisError> {
    let mut values = Vec::new();
    for text in texts {
        for value in values_of(text)? {
            if values.contains(&value) {
                return Err(AxisError::Twice(text.clone()));
            }
            values.push(value);
        }
        if values.len() > MAX_AXIS_VALUES {
            return Err(AxisError::TooMany);
        }
    }
    if values.is_empty() {
        Err(AxisError::Empty)
    } else {
        Ok(values)
    }
}

fn values_of<T: AxisValue>(text: &str) -> Result<Vec<T>, AxisError> {
    let Some((from, rest)) = text.split_once("..") else {
        return Ok(vec![T::read(text).map_err(AxisError::Value)?]);
    };
    let malformed = || AxisError::Range(text.into());
    let by_step = rest
        .split_once(" by ")
        .or_else(|| rest.split_once(" step "));
    let (to, step) = by_step.ok_or_else(malformed)?;
    let number = |part: &str| {
        T::read(part.trim())
            .map_err(AxisError::Value)?
            .to_number()
            .ok_or_else(malformed)
    };
    let (from, to, step) = (number(from)?, number(to)?, number(step)?);
    if step == 0 || from > to {
        return Err(malformed());
    }
    if (to - from) / step >= MAX_AXIS_VALUES as u64 {
        return Err(AxisError::TooMany);
    }
    let steps = 0..=(to - from) / step;
    steps
        .map(|i| T::from_number(from + i * step).ok_or_else(malformed))
        .collect()
}

/// Reads through `FromStr`, keeping the error's sentence.
fn from_str<T: FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

impl AxisValue for Duration {
    fn read(text: &str) -> Result<Self, String> {
        duration::parse(text).map_err(|error| error.to_string())
    }

    fn to_number(self) -> Option<u64> {
        u64::try_from(self.as_nanos()).ok()
    }

    fn from_number(number: u64) -> Option<Self> {
        Some(Self::from_nanos(number))
    }
}

impl AxisValue for Ratio {
    fn read(text: &str) -> Result<Self, String> {
        from_str(text)
    }

    fn to_number(self) -> Option<u64> {
        Some(u64::from(self.as_parts_per_billion()))
    }

    fn from_number(number: u64) -> Option<Self> {
        Self::from_parts_per_billion(u32::try_from(number).ok()?)
    }
}

impl AxisValue for DataSize {
    fn read(text: &str) -> Result<Self, String> {
        from_str(text)
    }

    fn to_number(self) -> Option<u64> {
        Some(self.as_bytes())
    }

    fn from_number(number: u64) -> Option<Self> {
        Some(Self::from_bytes(number))
    }
}

impl AxisValue for Rate {
    fn read(text: &str) -> Result<Self, String> {
        from_str(text)
    }

    fn to_number(self) -> Option<u64> {
        self.limit().map(Bandwidth::as_bps)
    }

    fn from_number(number: u64) -> Option<Self> {
        Bandwidth::from_bps(number).map(Self::Limited)
    }
}

impl AxisValue for Protocol {
    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: crate::UnknownProtocol| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(texts: &[&str]) -> Result<Vec<Duration>, AxisError> {
        read(&texts.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn a_range_holds_both_ends() {
        let expected: Vec<_> = (0..=8).map(|i| Duration::from_millis(25 * i)).collect();
        assert_eq!(durations(&["0ms..200ms by 25ms"]), Ok(expected.clone()));
        assert_eq!(durations(&["0ms..200ms step 25ms"]), Ok(expected));
    }

    #[test]
    fn a_range_stops_before_what_its_step_misses() {
        let expected = vec![Duration::ZERO, Duration::from_millis(3)];
        assert_eq!(durations(&["0ms..5ms by 3ms"]), Ok(expected));
    }

    #[test]
    fn values_and_ranges_mix() {
        assert_eq!(durations(&["0ms..2ms by 1ms", "5ms"]).unwrap().len(), 4);
    }

    #[test]
    fn refuses_ranges_that_are_none() {
        for text in ["0ms..5ms", "5ms..0ms by 1ms", "0ms..5ms by 0ms"] {
            assert_eq!(durations(&[text]), Err(AxisError::Range(text.into())));
        }
        let protocols: Result<Vec<Protocol>, _> = read(&["h1..h3 by h1".to_owned()]);
        assert!(matches!(protocols, Err(AxisError::Range(_))));
    }

    #[test]
    fn refuses_too_many_values_without_making_them() {
        assert_eq!(durations(&["0ns..1000h by 1ns"]), Err(AxisError::TooMany));
    }

    #[test]
    fn refuses_a_value_that_stands_twice_and_an_empty_list() {
        assert_eq!(
            durations(&["1ms", "1000us"]),
            Err(AxisError::Twice("1000us".into()))
        );
        assert_eq!(durations(&[]), Err(AxisError::Empty));
    }
}
