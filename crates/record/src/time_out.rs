//! The time that a plan lets a request take.

use crate::words::text_in_files;
use altway_units::duration;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The time that a request may take, or of browsers a page, before its transfer counts as failed. Text
/// form: `auto`, or a time.
///
/// A time-out takes the slowest transfers away, and those of one protocol more than those of the other,
/// where it is within what a transfer may honestly take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimeOut {
    /// A time by the cell, so far beyond what its link needs that only broken transfers take longer.
    #[default]
    Auto,
    /// The same time over every link.
    After(Duration),
}

/// A text that is no time-out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}, or auto")]
pub struct BadTimeOut(altway_units::ParseError);

impl FromStr for TimeOut {
    type Err = BadTimeOut;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            time => duration::parse(time).map(Self::After).map_err(BadTimeOut),
        }
    }
}

impl fmt::Display for TimeOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::After(time) => f.pad(&duration::format(*time)),
        }
    }
}

text_in_files!(TimeOut);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints_and_refuses_the_rest() {
        for text in ["auto", "1min", "1500ms"] {
            assert_eq!(text.parse::<TimeOut>().unwrap().to_string(), text);
        }
        for text in ["", "60", "never"] {
            assert!(text.parse::<TimeOut>().is_err(), "{text}");
        }
    }
}
