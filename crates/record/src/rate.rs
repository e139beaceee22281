//! The rate of a link: so many bits per second, or no limit.

use crate::words::text_in_files;
use altway_units::{Bandwidth, ParseError};
use std::fmt;
use std::str::FromStr;

/// The rate of an emulated link, counted in IP bytes. Text form: `20mbit`, or `unlimited`
/// (`none`, as `altway emulate` says it, is read too).
///
/// Ordered by speed: no limit is the fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rate {
    /// A rate of at most so many bits per second.
    Limited(Bandwidth),
    /// A rate as fast as the machine forwards.
    Unlimited,
}

impl Rate {
    /// The limit, if there is one.
    #[must_use]
    pub fn limit(self) -> Option<Bandwidth> {
        match self {
            Self::Limited(bandwidth) => Some(bandwidth),
            Self::Unlimited => None,
        }
    }
}

impl FromStr for Rate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "unlimited" | "none" => Ok(Self::Unlimited),
            limit => limit.parse().map(Self::Limited),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limited(bandwidth) => bandwidth.fmt(f),
            Self::Unlimited => f.pad("unlimited"),
        }
    }
}

text_in_files!(Rate);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_it_prints() {
        for text in ["5mbit", "unlimited"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        assert_eq!("none".parse(), Ok(Rate::Unlimited));
    }

    #[test]
    fn no_limit_is_the_fastest() {
        assert!("1gbit".parse::<Rate>().unwrap() < Rate::Unlimited);
    }
}
