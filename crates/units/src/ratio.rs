//! Parts of a whole.

use crate::ParseError;
use crate::text::{Grammar, as_text};
use std::fmt;
use std::str::FromStr;

const WHOLE: u32 = 1_000_000_000;

/// Base unit: parts per billion.
const GRAMMAR: Grammar = Grammar {
    quantity: "ratio",
    example: "0.5%",
    units: &[("%", 10_000_000)],
    units_in_words: "%",
    range: "from 0% to 100%, in steps of 0.0000001%",
};

/// A part of a whole, from 0 to 1, exact to one part in a billion.
///
/// Text form: per cent (`0.5%`). A number without the sign is refused, for `1` is 1 % to some tools and
/// the whole to others; a `0` is the same to all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ratio(u32);

impl Ratio {
    /// None of it.
    pub const ZERO: Self = Self(0);
    /// All of it.
    pub const ONE: Self = Self(WHOLE);

    /// `parts` of a billion; `None` when that is more than the whole.
    #[must_use]
    pub const fn from_parts_per_billion(parts: u32) -> Option<Self> {
        if parts <= WHOLE {
            Some(Self(parts))
        } else {
            None
        }
    }

    /// `percent` of a hundred; `None` when that is more than the whole.
    #[must_use]
    pub const fn from_percent(percent: u32) -> Option<Self> {
        if percent <= 100 {
            Some(Self(percent * (WHOLE / 100)))
        } else {
            None
        }
    }

    /// `part` of `whole`, rounded to the nearest billionth and at most 1; `None` of nothing.
    #[must_use]
    pub fn of(part: u64, whole: u64) -> Option<Self> {
        let parts = (u128::from(part) * u128::from(WHOLE) + u128::from(whole) / 2)
            .checked_div(u128::from(whole))?;
        Some(u32::try_from(parts).map_or(Self::ONE, |parts| Self(parts.min(WHOLE))))
    }

    /// Parts per billion.
    #[must_use]
    pub const fn as_parts_per_billion(self) -> u32 {
        self.0
    }

    /// The ratio as a number from 0 to 1.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }
}

impl FromStr for Ratio {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if let Some(number) = plain_number(text) {
            return number;
        }
        let parts = u32::try_from(GRAMMAR.parse(text)?).map_err(|_| GRAMMAR.out_of_range(text))?;
        Self::from_parts_per_billion(parts).ok_or_else(|| GRAMMAR.out_of_range(text))
    }
}

/// Reads a number without a unit; `None` of any other text.
fn plain_number(text: &str) -> Option<Result<Ratio, ParseError>> {
    const WITHOUT_UNIT: Grammar = Grammar {
        units: &[("", 1_000_000_000)],
        ..GRAMMAR
    };
    let number = text.trim();
    let is_number = number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    if !is_number {
        return None;
    }
    let part = WITHOUT_UNIT.parse(number).map(u32::try_from);
    if part == Ok(Ok(0)) {
        return Some(Ok(Ratio::ZERO));
    }
    let as_percent = format!("{number}%");
    let as_part = part.ok().and_then(Result::ok);
    let as_part = as_part.and_then(Ratio::from_parts_per_billion);
    let readings = match (as_percent.parse::<Ratio>(), as_part) {
        (Err(error), _) => return Some(Err(error)),
        (Ok(_), Some(part)) => format!("{as_percent} (as in tc), or {part} (as a part of 1)"),
        (Ok(_), None) => format!("{as_percent}, which is to be written so"),
    };
    Some(Err(ParseError::Ambiguous {
        text: text.into(),
        quantity: GRAMMAR.quantity,
        readings,
    }))
}

/// Writes the ratio in per cent, with as many decimals as it needs.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PER_CENT: u32 = WHOLE / 100;
        let (whole, rest) = (self.0 / PER_CENT, self.0 % PER_CENT);
        if rest == 0 {
            return f.pad(&format!("{whole}%"));
        }
        let digits = format!("{rest:07}");
        f.pad(&format!("{whole}.{}%", digits.trim_end_matches('0')))
    }
}

as_text!(Ratio);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_per_cent() {
        assert_eq!(
            "0.5%".parse(),
            Ok(Ratio::from_parts_per_billion(5_000_000).unwrap())
        );
        assert_eq!("100%".parse(), Ok(Ratio::ONE));
        assert_eq!("0%".parse(), Ok(Ratio::ZERO));
        assert_eq!("0".parse(), Ok(Ratio::ZERO));
        assert_eq!("0.00".parse(), Ok(Ratio::ZERO));
    }

    #[test]
    fn refuses_a_number_without_a_unit_with_what_it_may_mean() {
        let error = |text: &str| text.parse::<Ratio>().unwrap_err().to_string();
        assert_eq!(
            error("1"),
            "`1` is not a ratio: without a unit it may mean 1% (as in tc), or 100% (as a part of 1)"
        );
        assert!(error("0.005").contains("0.005% (as in tc), or 0.5% (as a part of 1)"));
        assert!(error("5").ends_with("may mean 5%, which is to be written so"));
        assert!(error("101").contains("from 0% to 100%"));
        assert!(error("1.2.3").contains("expected a number with a unit"));
    }

    #[test]
    fn refuses_more_than_the_whole() {
        let error = "150%".parse::<Ratio>().unwrap_err().to_string();
        assert!(error.contains("from 0% to 100%"), "{error}");
        assert!("1.5".parse::<Ratio>().is_err());
        assert!("-1%".parse::<Ratio>().is_err());
        assert!("100.0000001%".parse::<Ratio>().is_err());
    }

    #[test]
    fn a_part_of_a_whole_is_rounded_and_capped() {
        assert_eq!(Ratio::of(1, 3), Ratio::from_parts_per_billion(333_333_333));
        assert_eq!(Ratio::of(2, 3), Ratio::from_parts_per_billion(666_666_667));
        assert_eq!(Ratio::of(5, 3), Some(Ratio::ONE));
        assert_eq!(Ratio::of(0, 0), None);
        assert_eq!(Ratio::of(u64::MAX, u64::MAX), Some(Ratio::ONE));
    }

    proptest! {
        #[test]
        fn parses_what_it_prints(parts in 0..=WHOLE) {
            let ratio = Ratio::from_parts_per_billion(parts).unwrap();
            prop_assert_eq!(ratio.to_string().parse(), Ok(ratio));
        }
    }
}
