//! The topics that are measured of a link, the programs that measure them, and the figures computed
//! from them.

use clap::ValueEnum;
use serde::{Serialize, Serializer};
use std::fmt;

/// A property of a link that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// Exactness of a delay of so many ms each way.
    Delay { ms: u32 },
    /// Exactness of a rate, by datagrams that are too many for it.
    Rate { mbit: u32 },
    /// Share of a rate that TCP gets, of the most that it could get.
    Goodput { mbit: u32 },
    /// Number of lost datagrams among many, and their choice.
    Loss { percent: u32 },
    /// Number of segments that TCP sends again at a loss of 1 %.
    LossyTcp,
    /// Rate that TCP gets through a link that limits nothing.
    Unlimited,
    /// Time that a topology takes to be built and taken down.
    SetUp { topology: Topology },
    /// Validity of eight slow links side by side, by links on so many processors.
    SideBySide { processors: u32 },
}

/// The hops between the client and the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Topology {
    Direct,
    Router,
    Proxied,
}

/// Topics that are chosen together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    Delay,
    Rate,
    Goodput,
    Loss,
    Unlimited,
    SetUp,
    SideBySide,
}

/// A program that measures, and the link that it measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum By {
    /// altway's link, its thread with SCHED_FIFO.
    Altway,
    /// altway's link, its thread with normal priority.
    AltwayNormal,
    /// altway's link as in `altway`, with the processors kept awake as the lab keeps them.
    AltwayAwake,
    /// altway's link as in `altway`, measured by iperf3.
    Iperf3,
    /// rattan's link.
    Rattan,
}

/// A topic with the program that measures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct Cell {
    pub(crate) topic: Topic,
    pub(crate) by: By,
}

/// A number that is known of a cell after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    /// Distance of a datagram's delay from the one asked for: the median, µs.
    ErrorUsP50,
    /// The 99th percentile of the same.
    ErrorUsP99,
    /// The median of the same until the receiving program has the datagram.
    ProgramErrorUsP50,
    /// This one's median error as a multiple of altway's, in the same round.
    ErrorRatioP50,
    /// The same ratio of the 99th percentiles.
    ErrorRatioP99,
    /// Distance of the rate from the one asked for, % of it.
    RateErrorPercent,
    /// Distance of the goodput from the most there can be, % of it.
    GoodputErrorPercent,
    /// Payload, Gbit/s.
    GoodputGbit,
    /// altway's goodput as a multiple of this one's, in the same round.
    GoodputRatio,
    /// Share of packets lost, %.
    LossPercent,
    /// Distance of that from the share asked for, in standard deviations of chance.
    LossDeviations,
    /// 1 if other datagrams were lost than in an earlier round with the same seed, else 0.
    OthersLost,
    /// Segments that TCP sent again.
    Retransmissions,
    /// The median of the round's, ms.
    MillisecondsP50,
    /// The longest of the round's, ms.
    MillisecondsMax,
    /// Links that did not do what they were asked to.
    InvalidLinks,
    /// Lateness of the latest link at 99 %, µs, by its own report.
    LatestUsP99,
    /// Payload of the slowest, Mbit/s.
    SlowestMbit,
}

impl Topic {
    pub(crate) fn group(self) -> Group {
        match self {
            Self::Delay { .. } => Group::Delay,
            Self::Rate { .. } => Group::Rate,
            Self::Goodput { .. } => Group::Goodput,
            Self::Loss { .. } | Self::LossyTcp => Group::Loss,
            Self::Unlimited => Group::Unlimited,
            Self::SetUp { .. } => Group::SetUp,
            Self::SideBySide { .. } => Group::SideBySide,
        }
    }
}

impl Cell {
    /// The figures of the cell, in the order of the table.
    pub(crate) fn figures(self) -> &'static [Figure] {
        use Figure::*;
        match (self.topic, self.by) {
            (Topic::Delay { .. }, By::Rattan) => &[
                ErrorUsP50,
                ErrorUsP99,
                ProgramErrorUsP50,
                ErrorRatioP50,
                ErrorRatioP99,
            ],
            (Topic::Delay { .. }, _) => &[ErrorUsP50, ErrorUsP99, ProgramErrorUsP50],
            (Topic::Rate { .. }, _) => &[RateErrorPercent],
            (Topic::Goodput { .. }, _) => &[GoodputErrorPercent],
            (Topic::Loss { .. }, _) => &[LossPercent, LossDeviations, OthersLost],
            (Topic::LossyTcp, _) => &[Retransmissions],
            (Topic::Unlimited, By::Rattan) => &[GoodputGbit, GoodputRatio],
            (Topic::Unlimited, _) => &[GoodputGbit],
            (Topic::SetUp { .. }, _) => &[MillisecondsP50, MillisecondsMax],
            (Topic::SideBySide { .. }, _) => &[InvalidLinks, LatestUsP99, SlowestMbit],
        }
    }

    /// The same by altway.
    pub(crate) fn of_altway(self) -> Self {
        Self {
            by: By::Altway,
            ..self
        }
    }
}

impl Topology {
    pub(crate) const ALL: [Self; 3] = [Self::Direct, Self::Router, Self::Proxied];

    /// The name that `altway emulate` has for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Router => "router",
            Self::Proxied => "proxied",
        }
    }
}

impl Figure {
    /// The figure's name and its unit.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::ErrorUsP50 => ("error of the delay, median", "µs"),
            Self::ErrorUsP99 => ("error of the delay, 99 %", "µs"),
            Self::ProgramErrorUsP50 => ("  as the program sees it, median", "µs"),
            Self::ErrorRatioP50 => ("its error / altway's, median", "×"),
            Self::ErrorRatioP99 => ("its error / altway's, 99 %", "×"),
            Self::RateErrorPercent => ("error of the rate", "%"),
            Self::GoodputErrorPercent => ("goodput, off the ideal", "%"),
            Self::GoodputGbit => ("goodput", "Gbit/s"),
            Self::GoodputRatio => ("altway's goodput / its", "×"),
            Self::LossPercent => ("lost", "%"),
            Self::LossDeviations => ("off what was asked for", "σ"),
            Self::OthersLost => ("rounds that lost others", ""),
            Self::Retransmissions => ("retransmissions", ""),
            Self::MillisecondsP50 => ("set-up and tear-down, median", "ms"),
            Self::MillisecondsMax => ("  longest", "ms"),
            Self::InvalidLinks => ("links that don't count", ""),
            Self::LatestUsP99 => ("lateness of the latest, 99 %", "µs"),
            Self::SlowestMbit => ("goodput of the slowest", "Mbit/s"),
        }
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay { ms } => write!(f, "delay-{ms}ms"),
            Self::Rate { mbit } => write!(f, "rate-{mbit}mbit"),
            Self::Goodput { mbit } => write!(f, "goodput-{mbit}mbit"),
            Self::Loss { percent } => write!(f, "loss-{percent}%"),
            Self::LossyTcp => f.write_str("lossy-tcp"),
            Self::Unlimited => f.write_str("unlimited"),
            Self::SetUp { topology } => write!(f, "set-up-{}", topology.name()),
            Self::SideBySide { processors } => write!(f, "side-by-side-on-{processors}"),
        }
    }
}

impl Serialize for Topic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("none is hidden");
        f.pad(value.get_name())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.topic, self.by)
    }
}
