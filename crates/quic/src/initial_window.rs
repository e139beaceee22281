//! The first congestion window of a path (RFC 9002 section 7.2), whichever controller follows.

/// Initial congestion window: what may be under way before anything is known of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InitialWindow {
    pub(crate) packets: u32,
    /// Bytes that it holds at least, for packets of which few fit into it.
    pub(crate) at_least: u64,
}

/// Size of a packet of which 14,720 bytes hold 10.
const PACKET: u64 = 1_472;

impl InitialWindow {
    /// Bytes, where the largest datagram has `mtu`. RFC 9002 section 7.2: "Endpoints SHOULD use an initial
    /// congestion window of ten times the maximum datagram size (max_datagram_size), while limiting the
    /// window to the larger of 14,720 bytes or twice the maximum datagram size." The limit moves with the
    /// number of packets.
    pub(crate) fn bytes(self, mtu: u16) -> u64 {
        let (mtu, packets) = (u64::from(mtu), u64::from(self.packets));
        let limit = (2 * mtu).max(packets * PACKET);
        (packets * mtu).min(limit).max(self.at_least)
    }
}

#[cfg(test)]
impl Default for InitialWindow {
    fn default() -> Self {
        Self {
            packets: 10,
            at_least: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_begins_with_ten_packets_or_what_14720_bytes_hold() {
        for (mtu, bytes) in [
            (1_200, 12_000),
            (1_452, 14_520),
            (1_473, 14_720),
            (9_000, 18_000),
        ] {
            assert_eq!(InitialWindow::default().bytes(mtu), bytes);
        }
    }

    #[test]
    fn more_packets_and_large_ones_have_room() {
        let window = |packets, at_least| InitialWindow { packets, at_least };
        assert_eq!(window(32, 0).bytes(1_452), 46_464);
        assert_eq!(window(2, 0).bytes(9_000), 18_000);
        assert_eq!(window(10, 50_000).bytes(1_200), 50_000);
    }
}
