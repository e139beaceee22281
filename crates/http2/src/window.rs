//! Flow-control windows (RFC 9113 section 5.2), of a stream or of the connection.
//!
//! A [`SendWindow`] says how much this side may send. A [`ReceiveWindow`] says how much the peer may
//! send, tells when to announce more, and grows while the peer uses it up within two round trips:
//! then the window, and not the path, is what bounds the transfer.

use std::time::{Duration, Instant};

/// "The flow-control window [...] MUST NOT exceed 2^31-1 octets" (section 6.9.1).
pub(crate) const MAX_WINDOW: u32 = (1 << 31) - 1;

/// Every window begins with so many bytes (section 6.9.2).
pub(crate) const DEFAULT_WINDOW: u32 = 65_535;

/// The window would exceed 2^31-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

/// Bytes of DATA that this side may send. Below zero after the peer has shrunk
/// SETTINGS_INITIAL_WINDOW_SIZE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWindow(i64);

impl SendWindow {
    pub(crate) fn new(size: u32) -> Self {
        Self(i64::from(size))
    }

    pub(crate) fn available(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// `n` bytes were sent, at most what is available.
    pub(crate) fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.available());
        self.0 -= i64::try_from(n).expect("at most what is available");
    }

    /// A WINDOW_UPDATE, or a change of the initial size.
    pub(crate) fn adjust(&mut self, by: i64) -> Result<(), Overflow> {
        let size = self.0 + by;
        if size > i64::from(MAX_WINDOW) {
            return Err(Overflow);
        }
        self.0 = size;
        Ok(())
    }
}

/// The peer sent more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

/// Bytes of DATA that the peer may send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveWindow {
    /// Size at which the window is kept, bytes.
    size: u32,
    /// Bytes that the peer may still send, by the windows it was told.
    room: i64,
    /// Bytes that the application released and the peer was not told.
    released: u32,
    /// Time at which the peer was told last.
    told: Option<Instant>,
}

/// Conditions and bound of a window's growth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    pub(crate) now: Instant,
    /// `None` before the first measurement: no growth.
    pub(crate) rtt: Option<Duration>,
    /// Upper end, bytes.
    pub(crate) max: u32,
}

impl ReceiveWindow {
    /// The peer believes in `known` bytes; we want `size`.
    pub(crate) fn new(known: u32, size: u32) -> Self {
        Self {
            size: size.min(MAX_WINDOW),
            room: i64::from(known),
            released: 0,
            told: None,
        }
    }

    /// The peer learned of another initial size.
    pub(crate) fn adjust(&mut self, by: i64) {
        self.room += by;
    }

    /// Returns true if the peer may send.
    pub(crate) fn has_room(&self) -> bool {
        self.room > 0
    }

    /// `n` bytes came. None need no room, which is below zero when the peer learned of a smaller
    /// initial size late.
    pub(crate) fn receive(&mut self, n: usize) -> Result<(), Overrun> {
        let room = self.room - i64::try_from(n).map_err(|_| Overrun)?;
        if n > 0 && room < 0 {
            return Err(Overrun);
        }
        self.room = room;
        Ok(())
    }

    /// The application is done with `n` bytes. Gives the increment to announce once that is worth
    /// a frame: half a window.
    pub(crate) fn release(&mut self, n: usize, growth: Growth) -> Option<u32> {
        // No more than came: what was never received can't be given back.
        let held = i64::from(self.size) - self.room - i64::from(self.released);
        let n = u32::try_from(held.min(i64::try_from(n).unwrap_or(held))).unwrap_or(0);
        self.released = self.released.saturating_add(n);
        if self.released < self.size / 2 {
            return None;
        }
        let grown = self.growth(growth);
        self.size += grown;
        self.told = Some(growth.now);
        let increment = std::mem::take(&mut self.released) + grown;
        self.room += i64::from(increment);
        Some(increment)
    }

    /// Brings the peer up to `size` at once.
    pub(crate) fn open(&mut self) -> Option<u32> {
        let missing = i64::from(self.size) - self.room - i64::from(self.released);
        let increment = u32::try_from(missing).ok().filter(|n| *n > 0)?;
        self.room += i64::from(increment);
        Some(increment)
    }

    fn growth(&self, growth: Growth) -> u32 {
        let Some((told, rtt)) = self.told.zip(growth.rtt) else {
            return 0;
        };
        // Half a window in less than two round trips: a whole one would not last for four.
        if growth.now.saturating_duration_since(told) >= 2 * rtt {
            return 0;
        }
        growth
            .max
            .min(MAX_WINDOW)
            .saturating_sub(self.size)
            .min(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(10);

    #[test]
    fn a_send_window_may_go_below_zero_and_not_above_its_end() {
        let mut window = SendWindow::new(10);
        window.consume(10);
        window.adjust(-5).unwrap();
        assert_eq!(window.available(), 0);
        window.adjust(6).unwrap();
        assert_eq!(window.available(), 1);
        assert_eq!(window.adjust(i64::from(MAX_WINDOW)), Err(Overflow));
        assert_eq!(window.available(), 1);
    }

    #[test]
    fn the_peer_may_send_what_it_was_told_and_no_more() {
        let mut window = ReceiveWindow::new(10, 10);
        assert_eq!(window.receive(10), Ok(()));
        assert_eq!(window.receive(1), Err(Overrun));
        let growth = Growth {
            now: Instant::now(),
            rtt: None,
            max: 10,
        };
        assert_eq!(window.release(4, growth), None);
        assert_eq!(window.receive(1), Err(Overrun));
        assert_eq!(window.release(1, growth), Some(5));
        assert_eq!(window.receive(5), Ok(()));
    }

    #[test]
    fn a_window_doubles_while_it_is_used_up_within_two_round_trips() {
        let start = Instant::now();
        let mut window = ReceiveWindow::new(100, 100);
        let mut release = |n, at: Duration| {
            let growth = Growth {
                now: start + at,
                rtt: Some(RTT),
                max: 350,
            };
            window.receive(n).unwrap();
            window.release(n, growth)
        };
        assert_eq!(release(50, RTT), Some(50), "nothing to compare with yet");
        assert_eq!(release(50, 2 * RTT), Some(150), "fast: 100 more");
        assert_eq!(release(100, 4 * RTT), Some(100), "slow: no growth");
        assert_eq!(
            release(100, 5 * RTT),
            Some(250),
            "fast again, up to the maximum"
        );
        assert_eq!(release(175, 5 * RTT), Some(175), "and not beyond");
    }

    #[test]
    fn opening_tells_the_peer_what_it_does_not_know() {
        let mut window = ReceiveWindow::new(DEFAULT_WINDOW, 100_000);
        assert_eq!(window.open(), Some(100_000 - DEFAULT_WINDOW));
        assert_eq!(window.open(), None);
    }
}
