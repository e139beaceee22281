//! The queue in front of an emulated link, as plans and results name it.

use crate::axis::AxisValue;
use crate::words::text_in_files;
use altway_units::{DataSize, ParseError};
use std::fmt;
use std::str::FromStr;

/// How many bytes wait at the link before packets are dropped. Text form: `64KB`, `default`,
/// `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum QueueLimit {
    /// What the link takes for its rate when nothing is said: 100 ms of it, at least 64 KiB.
    #[default]
    Default,
    /// So many bytes.
    Bytes(DataSize),
    /// Nothing is dropped for want of room.
    Unlimited,
}

impl FromStr for QueueLimit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "default" => Ok(Self::Default),
            "unlimited" => Ok(Self::Unlimited),
            size => size.parse().map(Self::Bytes),
        }
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.pad("default"),
            Self::Bytes(size) => size.fmt(f),
            Self::Unlimited => f.pad("unlimited"),
        }
    }
}

text_in_files!(QueueLimit);

impl AxisValue for QueueLimit {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: ParseError| error.to_string())
    }

    fn to_number(self) -> Option<u64> {
        match self {
            Self::Bytes(size) => Some(size.as_bytes()),
            Self::Default | Self::Unlimited => None,
        }
    }

    fn from_number(number: u64) -> Option<Self> {
        Some(Self::Bytes(DataSize::from_bytes(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_it_prints() {
        for text in ["default", "unlimited", "64KB"] {
            assert_eq!(text.parse::<QueueLimit>().unwrap().to_string(), text);
        }
        assert!("5mbit".parse::<QueueLimit>().is_err());
    }
}
