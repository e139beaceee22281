//! Packets that leave their order.

use altway_units::Ratio;
use std::time::Duration;

/// Takes single packets out of their order, by changing their delay.
///
/// Worked number: packets that leave every millisecond, a delay of 20 ms, and `Early(5 ms)`. A packet
/// that is shifted arrives 15 ms after it left, before the 4 packets in front of it and together with
/// the 5th.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reordering {
    /// The probability that a packet is shifted.
    pub share: Ratio,
    /// Direction of the shift in time.
    pub shift: Shift,
}

/// Shift in time of a packet that leaves its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shift {
    /// The packet is not delayed at all, and overtakes what left within the delay before it. That
    /// is what netem does. Without a delay there is nothing to overtake.
    #[default]
    AtOnce,
    /// The delay is shorter by so much, at the least 0.
    Early(Duration),
    /// The delay is longer by so much: what leaves within that time overtakes the packet.
    Late(Duration),
}
