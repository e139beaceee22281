//! The queue in front of an emulated link, as plans and results name it.

use crate::axis::AxisValue;
use crate::words::text_in_files;
use altway_units::{DataSize, duration};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Room for packets that wait at the link; those beyond it are dropped. Text form: `64KB`,
/// `50packets`, `30ms`, `default`, `unlimited` (`none`, as `altway emulate` says it, is read too).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum QueueLimit {
    /// The room that the link has by default: 100 ms at its rate, at least 64 KiB.
    #[default]
    Default,
    /// Room for a number of bytes.
    Bytes(DataSize),
    /// Room for a number of packets, whatever their size.
    Packets(u32),
    /// Room for the bytes that the rate passes in a time.
    Time(Duration),
    /// Room without a limit: no packet is dropped for want of it.
    Unlimited,
}

/// A text that is no queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a queue: expected bytes, packets or a time, like `64KB`, `50packets` or `30ms`; or default or unlimited"
)]
pub struct BadQueue(String);

impl FromStr for QueueLimit {
    type Err = BadQueue;

    fn from_str(text: &str) -> Result<Self, BadQueue> {
        match text {
            "default" => return Ok(Self::Default),
            "unlimited" | "none" => return Ok(Self::Unlimited),
            _ => {}
        }
        let count = text
            .strip_suffix("packets")
            .or_else(|| text.strip_suffix("packet"));
        let packets = count.and_then(|count| Some(Self::Packets(count.trim().parse().ok()?)));
        packets
            .or_else(|| Some(Self::Bytes(text.parse().ok()?)))
            .or_else(|| Some(Self::Time(duration::parse(text).ok()?)))
            .ok_or_else(|| BadQueue(text.into()))
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.pad("default"),
            Self::Bytes(size) => size.fmt(f),
            Self::Packets(count) => f.pad(&format!("{count}packets")),
            Self::Time(time) => f.pad(&duration::format(*time)),
            Self::Unlimited => f.pad("unlimited"),
        }
    }
}

text_in_files!(QueueLimit);

impl AxisValue for QueueLimit {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: BadQueue| error.to_string())
    }

    fn to_number(self) -> Option<u64> {
        match self {
            Self::Bytes(size) => Some(size.as_bytes()),
            Self::Default | Self::Packets(_) | Self::Time(_) | Self::Unlimited => None,
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
        for text in ["default", "unlimited", "64KB", "50packets", "30ms"] {
            assert_eq!(text.parse::<QueueLimit>().unwrap().to_string(), text);
        }
        assert_eq!("none".parse(), Ok(QueueLimit::Unlimited));
        let error = "5mbit".parse::<QueueLimit>().unwrap_err().to_string();
        assert!(
            error.contains("like `64KB`, `50packets` or `30ms`"),
            "{error}"
        );
    }
}
