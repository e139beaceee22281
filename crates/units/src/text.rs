//! The grammar that all quantities share: a decimal number, then a unit; and its inverse.

use crate::ParseError;

/// Written form of one quantity: its units and an example.
pub(crate) struct Grammar {
    pub(crate) quantity: &'static str,
    pub(crate) example: &'static str,
    /// Unit names in lower case with their size in the quantity's base unit. The first entry of
    /// each size is the one that is printed; entries stand from small to large.
    pub(crate) units: &'static [(&'static str, u64)],
    pub(crate) units_in_words: &'static str,
    pub(crate) range: &'static str,
}

impl Grammar {
    /// Reads `text` as a whole number of base units. A fraction must come out whole (`1.5kbit` is
    /// 1500 bit/s, `0.5B` is an error): a value is never rounded behind the user's back.
    pub(crate) fn parse(&self, text: &str) -> Result<u64, ParseError> {
        let trimmed = text.trim();
        if trimmed.starts_with('-') {
            return Err(ParseError::Negative {
                text: text.into(),
                quantity: self.quantity,
            });
        }
        let split = trimmed
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let (mantissa, decimals) = mantissa(number).ok_or_else(|| self.no_number(text))?;
        let size = self.unit_size(unit.trim(), text)?;
        let scaled = mantissa
            .checked_mul(u128::from(size))
            .ok_or_else(|| self.out_of_range(text))?;
        let divisor = 10_u128.pow(decimals);
        if scaled % divisor != 0 {
            return Err(self.out_of_range(text));
        }
        u64::try_from(scaled / divisor).map_err(|_| self.out_of_range(text))
    }

    /// Prints `value` with the largest decimal unit that divides it.
    pub(crate) fn print(&self, value: u64) -> String {
        let (unit, size) = self
            .units
            .iter()
            .filter(|(_, size)| value != 0 && value.is_multiple_of(*size))
            .fold(
                self.units[0],
                |best, unit| if unit.1 > best.1 { *unit } else { best },
            );
        format!("{}{unit}", value / size)
    }

    pub(crate) fn out_of_range(&self, text: &str) -> ParseError {
        ParseError::Range {
            text: text.into(),
            quantity: self.quantity,
            range: self.range,
        }
    }

    fn no_number(&self, text: &str) -> ParseError {
        ParseError::NoNumber {
            text: text.into(),
            quantity: self.quantity,
            example: self.example,
        }
    }

    fn unit_size(&self, unit: &str, text: &str) -> Result<u64, ParseError> {
        let wanted = unit.to_ascii_lowercase();
        let found = self
            .units
            .iter()
            .find(|(name, _)| name.to_ascii_lowercase() == wanted);
        found
            .map(|(_, size)| *size)
            .ok_or_else(|| ParseError::Unit {
                text: text.into(),
                quantity: self.quantity,
                units: self.units_in_words,
                example: self.example,
            })
    }
}

/// `12.50` → (125, 1): the digits without the point, and how many of them follow it. At most 18
/// significant digits, so that no later product overflows unseen.
fn mantissa(number: &str) -> Option<(u128, u32)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    if whole.is_empty() || fraction.contains('.') || fraction.len() > 18 || digits.len() > 20 {
        return None;
    }
    Some((digits.parse().ok()?, u32::try_from(fraction.len()).ok()?))
}

/// Lets a quantity stand in TOML, JSON and on the command line as the text it prints.
macro_rules! as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use as_text;
