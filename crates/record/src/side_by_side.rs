//! The number of transfers that a run makes at once.

use crate::words::text_in_files;
use altway_document::nearest;
use std::fmt;
use std::str::FromStr;

/// The number of transfers over slow links that a run makes at once, each over links of its own.
/// Text form: `off`, `auto`, or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SideBySide {
    /// A single transfer.
    #[default]
    Off,
    /// The number of transfers that the machine's processors allow.
    Auto,
    /// At most the given number of transfers, from 2 to [`Self::MOST`].
    AtMost(u8),
}

impl SideBySide {
    /// The most that a plan may ask for.
    pub const MOST: u8 = 32;
}

/// A text that is no number of transfers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not how many transfers are made at once: expected off, auto or 1 to {most}{suggestion}", most = SideBySide::MOST)]
pub struct BadSideBySide {
    found: String,
    suggestion: String,
}

impl FromStr for SideBySide {
    type Err = BadSideBySide;

    fn from_str(text: &str) -> Result<Self, BadSideBySide> {
        let bad = || BadSideBySide {
            found: text.into(),
            suggestion: nearest(text, ["off", "auto"])
                .map_or_else(String::new, |word| format!("; did you mean `{word}`?")),
        };
        match text {
            "off" | "1" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            number => match number.parse() {
                Ok(count @ 2..=Self::MOST) => Ok(Self::AtMost(count)),
                _ => Err(bad()),
            },
        }
    }
}

impl fmt::Display for SideBySide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.pad("off"),
            Self::Auto => f.pad("auto"),
            Self::AtMost(count) => fmt::Display::fmt(count, f),
        }
    }
}

text_in_files!(SideBySide);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints_and_refuses_the_rest() {
        for text in ["off", "auto", "2", "32"] {
            assert_eq!(text.parse::<SideBySide>().unwrap().to_string(), text);
        }
        assert_eq!("1".parse(), Ok(SideBySide::Off));
        for text in ["0", "33", "", "-1", "many"] {
            assert!(text.parse::<SideBySide>().is_err(), "{text}");
        }
        let slip = "atuo".parse::<SideBySide>().unwrap_err().to_string();
        assert!(slip.ends_with("did you mean `auto`?"), "{slip}");
    }
}
