//! The first congestion window of a plan's servers.

use crate::axis::AxisValue;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Packets that a server sends before the first acknowledgement, over TCP and over QUIC alike: from 2 to
/// [`InitialWindow::MOST`]. By default 10 (RFC 6928 section 2, RFC 9002 section 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct InitialWindow(u32);

impl InitialWindow {
    /// The fewest packets: with one, a receiver that acknowledges every second packet would wait.
    pub const LEAST: u32 = 2;

    /// The most packets: the SYN of a kernel's client offers 64 KiB at first (RFC 9293 section 3.1 has no
    /// scale there), which 44 segments of 1,460 bytes fill. A larger window would be QUIC's alone.
    pub const MOST: u32 = 44;

    /// The window in packets.
    #[must_use]
    pub fn packets(self) -> u32 {
        self.0
    }
}

impl Default for InitialWindow {
    fn default() -> Self {
        Self(10)
    }
}

/// A number of packets that is no first congestion window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a first congestion window: expected {least} to {most} packets",
    least = InitialWindow::LEAST,
    most = InitialWindow::MOST
)]
pub struct BadInitialWindow(String);

impl TryFrom<u32> for InitialWindow {
    type Error = BadInitialWindow;

    fn try_from(packets: u32) -> Result<Self, BadInitialWindow> {
        match (Self::LEAST..=Self::MOST).contains(&packets) {
            true => Ok(Self(packets)),
            false => Err(BadInitialWindow(packets.to_string())),
        }
    }
}

impl From<InitialWindow> for u32 {
    fn from(window: InitialWindow) -> Self {
        window.0
    }
}

impl FromStr for InitialWindow {
    type Err = BadInitialWindow;

    fn from_str(text: &str) -> Result<Self, BadInitialWindow> {
        let packets: u32 = text.parse().map_err(|_| BadInitialWindow(text.into()))?;
        packets.try_into()
    }
}

impl fmt::Display for InitialWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl AxisValue for InitialWindow {
    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: BadInitialWindow| error.to_string())
    }

    fn to_number(self) -> Option<u64> {
        Some(self.0.into())
    }

    fn from_number(number: u64) -> Option<Self> {
        u32::try_from(number).ok()?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_a_client_of_tcp_cannot_take_are_refused() {
        for packets in [2, 10, 44] {
            let window: InitialWindow = packets.to_string().parse().unwrap();
            assert_eq!(
                (window.packets(), window.to_string()),
                (packets, packets.to_string())
            );
        }
        for bad in ["1", "45", "ten", "-1", ""] {
            let error = bad.parse::<InitialWindow>().unwrap_err().to_string();
            assert!(error.ends_with("expected 2 to 44 packets"), "{error}");
        }
    }

    #[test]
    fn files_have_it_as_a_number() {
        let window = InitialWindow::default();
        assert_eq!(serde_json::to_string(&window).unwrap(), "10");
        assert_eq!(serde_json::from_str::<InitialWindow>("10").unwrap(), window);
        assert!(serde_json::from_str::<InitialWindow>("1").is_err());
    }
}
