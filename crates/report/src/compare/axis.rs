//! The conditions by which the cells of a run can be held against each other.

use crate::words;
use altway_record::{
    Cell, Certificate, Client, Congestion, Connection, InitialWindow, LinkName, QueueLimit, Rate,
    ServerName, Topology, UnknownWord,
};
use altway_units::Ratio;
use std::fmt;
use std::str::FromStr;

/// A condition that two sides of a comparison may differ in: all of a plan's axes but the delay, over
/// which they are compared, and the size, whose times have nothing to say of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Place at which the link is emulated.
    Topology,
    /// The server.
    Server,
    /// The client.
    Client,
    /// Congestion control.
    Congestion,
    /// First congestion window.
    InitialWindow,
    /// The certificate that the server shows.
    Certificate,
    /// Compression of the server's certificates.
    CertificateCompression,
    /// The connection: a new one for each page, or one that is open.
    Connection,
    /// Rate of the link.
    Rate,
    /// Room for waiting packets.
    Queue,
    /// Further properties of the link, by its name in the plan.
    Link,
    /// Share of packets lost.
    Loss,
}

const NAMES: &[&str] = &[
    "topology",
    "server",
    "client",
    "congestion",
    "initial_window",
    "certificate",
    "certificate_compression",
    "connection",
    "rate",
    "queue",
    "link",
    "loss",
];

impl Axis {
    /// All of them, in a plan's order.
    pub const ALL: [Self; 12] = [
        Self::Topology,
        Self::Server,
        Self::Client,
        Self::Congestion,
        Self::InitialWindow,
        Self::Certificate,
        Self::CertificateCompression,
        Self::Connection,
        Self::Rate,
        Self::Queue,
        Self::Link,
        Self::Loss,
    ];

    /// The axes that stand around a link. Two runs may differ in them and still be compared,
    /// because their transfers and their links are the same.
    pub(super) const AROUND_THE_LINK: [Self; 9] = [
        Self::Topology,
        Self::Server,
        Self::Client,
        Self::Congestion,
        Self::InitialWindow,
        Self::Certificate,
        Self::CertificateCompression,
        Self::Connection,
        Self::Queue,
    ];

    /// The key in a plan.
    #[must_use]
    pub const fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// Returns the cell's value on the axis, in words.
    pub(super) fn value(self, cell: &Cell) -> String {
        match self {
            Self::Topology => cell.topology.to_string(),
            Self::Server => cell.server.to_string(),
            Self::Client => cell.client.to_string(),
            Self::Congestion => cell.congestion.to_string(),
            Self::InitialWindow => words::initial_window(cell.initial_window),
            Self::Certificate => words::certificate(cell.certificate),
            Self::CertificateCompression => {
                words::certificate_compression(cell.certificate_compression)
            }
            Self::Connection => format!("{} connection", cell.connection),
            Self::Rate => words::rate(cell.rate),
            Self::Queue => format!("{} queue", cell.queue),
            Self::Link => format!("{} link", cell.link),
            Self::Loss => words::loss(cell.loss),
        }
    }

    /// Returns whether both cells have the same there.
    pub(super) fn is_same(self, a: &Cell, b: &Cell) -> bool {
        match self {
            Self::Topology => a.topology == b.topology,
            Self::Server => a.server == b.server,
            Self::Client => a.client == b.client,
            Self::Congestion => a.congestion == b.congestion,
            Self::InitialWindow => a.initial_window == b.initial_window,
            Self::Certificate => a.certificate == b.certificate,
            Self::CertificateCompression => a.certificate_compression == b.certificate_compression,
            Self::Connection => a.connection == b.connection,
            Self::Rate => a.rate == b.rate,
            Self::Queue => a.queue == b.queue,
            Self::Link => a.link == b.link,
            Self::Loss => a.loss == b.loss,
        }
    }

    /// The cell with a value there that says nothing.
    pub(super) fn without(self, mut cell: Cell) -> Cell {
        match self {
            Self::Topology => cell.topology = Topology::default(),
            Self::Server => cell.server = ServerName::default(),
            Self::Client => cell.client = Client::default(),
            Self::Congestion => cell.congestion = Congestion::default(),
            Self::InitialWindow => cell.initial_window = InitialWindow::default(),
            Self::Certificate => cell.certificate = Certificate::default(),
            Self::CertificateCompression => cell.certificate_compression = true,
            Self::Connection => cell.connection = Connection::default(),
            Self::Rate => cell.rate = Rate::Unlimited,
            Self::Queue => cell.queue = QueueLimit::default(),
            Self::Link => cell.link = LinkName::default(),
            Self::Loss => cell.loss = Ratio::ZERO,
        }
        cell
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Axis {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| UnknownWord {
            found: text.into(),
            what: "something to compare by",
            known: NAMES,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_has_the_name_that_finds_it() {
        for axis in Axis::ALL {
            assert_eq!(axis.name().parse(), Ok(axis));
        }
        let error = "topologo".parse::<Axis>().unwrap_err().to_string();
        assert!(error.ends_with("did you mean `topology`?"), "{error}");
    }
}
