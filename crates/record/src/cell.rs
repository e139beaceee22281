//! One condition of a plan's matrix.

use crate::{
    Certificate, Client, Congestion, Connection, InitialWindow, LinkName, QueueLimit, Rate,
    ServerName, Topology,
};
use altway_units::{DataSize, Ratio};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One condition of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Ordinal in the plan, from 0.
    pub index: u32,
    /// Place where the link is emulated.
    pub topology: Topology,
    /// The server.
    pub server: ServerName,
    /// The client.
    pub client: Client,
    /// Congestion control of the server.
    pub congestion: Congestion,
    /// First congestion window of the server.
    #[serde(default)]
    pub initial_window: InitialWindow,
    /// The certificate that the server shows.
    #[serde(default)]
    pub certificate: Certificate,
    /// True if the server compresses its certificates for clients that read it (RFC 8879).
    #[serde(default = "crate::yes")]
    pub certificate_compression: bool,
    /// Set-up of the connection: measured with the transfer (`cold`), or done before it (`warm`).
    pub connection: Connection,
    /// The link's settings beside its rate, queue, loss and delay: a name in the plan's `links`.
    #[serde(default)]
    pub link: LinkName,
    /// Rate of the link.
    pub rate: Rate,
    /// Room for waiting packets.
    pub queue: QueueLimit,
    /// Share of packets lost in each direction.
    pub loss: Ratio,
    /// Size of the object, or of a whole page.
    pub size: DataSize,
    /// Delay of each direction: the path's RTT is at least twice this.
    #[serde(with = "altway_units::duration")]
    pub delay: Duration,
}

impl Cell {
    /// Returns whether the two differ in nothing but their delay.
    #[must_use]
    pub fn is_of_series_of(&self, other: &Self) -> bool {
        let without_delay = |cell: &Self| Self {
            index: 0,
            delay: Duration::ZERO,
            ..*cell
        };
        without_delay(self) == without_delay(other)
    }

    /// Returns whether the two differ in nothing but their delay and loss: the axes of a map.
    #[must_use]
    pub fn is_of_map_of(&self, other: &Self) -> bool {
        let without_loss = |cell: &Self| Self {
            loss: Ratio::ZERO,
            ..*cell
        };
        without_loss(self).is_of_series_of(&without_loss(other))
    }
}

#[cfg(test)]
mod tests {
    use crate::Plan;

    #[test]
    fn a_series_differs_in_its_delay_alone() {
        let text = "name = \"p\"\nrate = \"5mbit\"\ndelay = [\"0ms\", \"1ms\"]\nsize = \"1MB\"\npairs = 1\ntopology = [\"direct\", \"proxied\"]";
        let cells = text.parse::<Plan>().unwrap().cells();
        assert!(cells[0].is_of_series_of(&cells[1]));
        assert!(!cells[0].is_of_series_of(&cells[2]));
    }

    #[test]
    fn a_map_is_over_delay_and_loss_alone() {
        let text = "name = \"p\"\nrate = [\"5mbit\", \"9mbit\"]\ndelay = [\"0ms\", \"9ms\"]\nsize = \"1MB\"\n\
                    loss = [\"0%\", \"1%\"]\npairs = 60";
        let cells = text.parse::<Plan>().unwrap().cells();
        let same = cells.iter().filter(|cell| cells[0].is_of_map_of(cell));
        assert_eq!(same.count(), 4);
    }
}
