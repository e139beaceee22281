//! A [`Plan`] of measurements, whose every value is valid.
//!
//! `file` reads it from TOML, `check` refuses values that can't be, `error` has the reasons, `text`
//! writes it.

mod certificates;
mod check;
mod error;
mod file;
mod links;
mod placement;
mod servers;
mod text;

pub use error::PlanError;
pub use file::{Files, KEYS, MAX_INCLUDES};
pub use placement::Placement;

use crate::axis;
use crate::words::words;
use crate::{
    Cell, Certificate, Chain, ChainName, Client, Congestion, Connection, InitialWindow, LinkName,
    LinkWords, Policy, Protocol, QueueLimit, Rate, RequestRecord, Scenario, ServerCommand,
    ServerName, Sessions, Shard, SideBySide, TimeOut, Topology, Visit,
};
use altway_units::{DataSize, Ratio};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The file of a run folder that holds the run's plan, as `altway lab run` takes it.
pub const RUN_PLAN: &str = "plan.toml";

/// The most transfers that one plan may ask for.
pub const MAX_TRANSFERS: u64 = 1_000_000;

/// The most pairs a cell may have.
pub const MAX_PAIRS: u32 = 10_000;

/// The most transfers that warm a server up.
pub const MAX_WARM_UPS: u32 = 100;

/// The largest IP packet on a plan's link, in bytes, when it says nothing: what Ethernet carries.
pub const DEFAULT_MTU: u16 = 1_500;

/// The least [`Plan::mtu`]: QUIC wants paths that carry 1,200 bytes of UDP (RFC 9000 §14), which are
/// 1,228 of IPv4.
pub const LEAST_MTU: u16 = 1_228;

/// The most environments that a plan may have, for each costs namespaces and a link of its own:
/// topologies × congestion controls × initial windows.
pub const MAX_ENVIRONMENTS: usize = 16;

/// A plan: the matrix of conditions, what is fetched in each, and how often.
///
/// ```
/// let plan: altway_record::Plan = r#"
///     name = "demo"
///     rate = "5mbit"
///     delay = "0ms..100ms by 50ms"
///     size = "1MB"
///     pairs = 5
/// "#.parse()?;
/// assert_eq!(plan.cells().len(), 3);
/// // HTTP/2, HTTP/3, and HTTP/2 again as the null arm.
/// assert_eq!(plan.transfers(), 45);
/// # Ok::<(), altway_record::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Names the run folder: lower-case letters, digits and `-`, at most 64.
    pub name: String,
    /// The purpose of the plan, in a sentence.
    pub description: String,
    /// Place where the link is emulated.
    pub topologies: Vec<Topology>,
    /// The server.
    pub servers: Vec<ServerName>,
    /// Start-up commands of those `servers` that the plan itself starts.
    pub commands: Vec<ServerCommand>,
    /// The client.
    pub clients: Vec<Client>,
    /// Congestion control of the server: what the client sends is too little for its own to matter.
    pub congestions: Vec<Congestion>,
    /// First congestion windows of the server.
    #[serde(default = "only_ten")]
    pub initial_windows: Vec<InitialWindow>,
    /// Certificates that the servers show.
    #[serde(default = "only_ecdsa")]
    pub certificates: Vec<Certificate>,
    /// Values of certificate compression (RFC 8879), for clients that read compressed ones: `true`,
    /// `false`, or each once.
    #[serde(default = "only_compressed")]
    pub certificate_compressions: Vec<bool>,
    /// The files of those `certificates` that are chains of the user's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<Chain>,
    /// Set-up of the connection: measured with the transfer (`cold`), or done before it (`warm`).
    pub connections: Vec<Connection>,
    /// Settings of the link beside those of the axes below.
    #[serde(default = "only_plain")]
    pub links: Vec<LinkWords>,
    /// Rates of the link, the same in both directions.
    pub rates: Vec<Rate>,
    /// Room for packets that wait at the link; those beyond it are dropped.
    pub queues: Vec<QueueLimit>,
    /// Share of packets lost at random in each direction.
    pub losses: Vec<Ratio>,
    /// Sizes of the object that is fetched, in body bytes; of a page, its sum.
    pub sizes: Vec<DataSize>,
    /// Delays of each direction: the path's RTT is at least twice this.
    #[serde(with = "durations")]
    pub delays: Vec<Duration>,
    /// The protocols compared; the first is the one that the others are held against.
    pub protocols: Vec<Protocol>,
    /// Policies of the server that are compared, each by clients that come back; empty: clients speak what
    /// they are told to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Policy>,
    /// The time that passes on a client's clock before each of its sessions but the first, with policies.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "durations")]
    pub apart: Vec<Duration>,
    /// True if the first protocol is also held against itself: what differs then is noise.
    pub null_arm: bool,
    /// The requests of a transfer, and the time of it that is compared.
    pub scenario: Scenario,
    /// The largest IP packet on the link, in bytes.
    #[serde(default = "ethernet_mtu")]
    pub mtu: u16,
    /// Number of times that each cell is measured with each protocol, at most.
    pub pairs: u32,
    /// The rule by which a cell may do with fewer pairs; `None`: it has them all.
    pub stopping: Option<Stopping>,
    /// The order in which cells are measured.
    pub sampling: Sampling,
    /// The number of transfers over slow links that are made at once.
    #[serde(default)]
    pub side_by_side: SideBySide,
    /// Processors and priority of what takes part in a transfer.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,
    /// Unmeasured transfers by each client over each protocol when a server has started.
    pub warm_ups: u32,
    /// Decides the order of the transfers and which packets the links lose.
    pub seed: u64,
    /// Time that a request may take before its transfer counts as failed.
    pub timeout: TimeOut,
}

/// A way in which each cell is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arm {
    /// The protocol asked for; of a policy the one that it offers everybody, or HTTP/3 where it chooses.
    pub protocol: Protocol,
    /// True if the arm is the first arm once more.
    pub null_arm: bool,
    /// The server's policy, where policies are compared.
    pub policy: Option<Policy>,
}

words! {
    /// The choice of the cell that is measured next.
    Sampling, "a way of sampling" {
        /// Each cell in every block, in random order.
        Grid = "grid",
        /// The cell whose winner is least sure, so that the line of equal times is found with few
        /// transfers.
        Adaptive = "adaptive",
    }
}

/// The rule by which a cell is known well enough. It is applied after fixed numbers of pairs, and
/// never between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopping {
    /// Pairs at the first look.
    pub least_pairs: u32,
    /// Number of looks; the last is at the plan's `pairs`.
    pub looks: u32,
    /// Half the width of an interval at which a cell is known, as a share of the time. It is also
    /// known when its interval lies outside of the band within which protocols count as equal, or
    /// inside.
    pub half_width: Ratio,
}

impl Stopping {
    /// The fewest pairs before the first look: fewer make intervals that are too narrow.
    pub const LEAST_PAIRS: u32 = 12;

    /// The most looks: more hardly save pairs, but widen the interval.
    pub const MAX_LOOKS: u32 = 20;
}

/// Four looks from 12 pairs on, to ± 3 %: the band within which protocols count as equal.
impl Default for Stopping {
    fn default() -> Self {
        Self {
            least_pairs: Self::LEAST_PAIRS,
            looks: 4,
            half_width: Ratio::from_percent(3).unwrap_or(Ratio::ONE),
        }
    }
}

impl Plan {
    /// Number of environments that the plan needs, each with networks and servers of its own.
    #[must_use]
    pub fn environment_count(&self) -> usize {
        self.topologies.len() * self.congestions.len() * self.initial_windows.len()
    }

    /// The cells, in the plan's order: the last axis that changes is the delay.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![self.first_cell()];
        spread(&mut cells, &self.topologies, |c, v| c.topology = v);
        spread(&mut cells, &self.servers, |c, v| c.server = v);
        spread(&mut cells, &self.clients, |c, v| c.client = v);
        spread(&mut cells, &self.congestions, |c, v| c.congestion = v);
        spread(&mut cells, &self.initial_windows, |c, v| {
            c.initial_window = v;
        });
        spread(&mut cells, &self.certificates, |c, v| c.certificate = v);
        spread(&mut cells, &self.certificate_compressions, |c, v| {
            c.certificate_compression = v;
        });
        spread(&mut cells, &self.connections, |c, v| c.connection = v);
        let links: Vec<LinkName> = self.links.iter().map(|link| link.name).collect();
        spread(&mut cells, &links, |c, v| c.link = v);
        spread(&mut cells, &self.rates, |c, v| c.rate = v);
        spread(&mut cells, &self.queues, |c, v| c.queue = v);
        spread(&mut cells, &self.losses, |c, v| c.loss = v);
        spread(&mut cells, &self.sizes, |c, v| c.size = v);
        spread(&mut cells, &self.delays, |c, v| c.delay = v);
        for (index, cell) in cells.iter_mut().enumerate() {
            cell.index = u32::try_from(index).expect("bounded by MAX_TRANSFERS");
        }
        cells
    }

    /// The cells that are measured in a part of the plan.
    #[must_use]
    pub fn part(&self, shard: Shard) -> Vec<Cell> {
        let mut cells = self.cells();
        shard.deal(&mut cells, self.sampling);
        cells
    }

    /// Number of cells.
    #[must_use]
    pub fn cell_count(&self) -> u64 {
        product(&[
            self.topologies.len(),
            self.servers.len(),
            self.clients.len(),
            self.congestions.len(),
            self.initial_windows.len(),
            self.certificates.len(),
            self.certificate_compressions.len(),
            self.connections.len(),
            self.links.len(),
            self.rates.len(),
            self.queues.len(),
            self.losses.len(),
            self.sizes.len(),
            self.delays.len(),
        ])
    }

    /// The transfers of one cell in one block, the null arm last; at least one.
    #[must_use]
    pub fn arms(&self) -> Vec<Arm> {
        let of_protocol = |protocol: &Protocol| Arm {
            protocol: *protocol,
            null_arm: false,
            policy: None,
        };
        let of_policy = |policy: &Policy| Arm {
            protocol: policy.fixed().unwrap_or(Protocol::H3),
            null_arm: false,
            policy: Some(*policy),
        };
        let mut arms: Vec<Arm> = match self.policies.is_empty() {
            true => self.protocols.iter().map(of_protocol).collect(),
            false => self.policies.iter().map(of_policy).collect(),
        };
        let is_baseline = |arm: &&Arm| arm.protocol == self.protocols[0];
        let baseline = arms.iter().find(is_baseline).copied();
        let null = baseline.filter(|_| self.null_arm).map(|arm| Arm {
            null_arm: true,
            ..arm
        });
        arms.extend(null);
        arms
    }

    /// Number of transfers that the plan asks for at most, repetitions for faults not counted.
    #[must_use]
    pub fn transfers(&self) -> u64 {
        let of_a_cell = product(&[self.arms().len(), self.pairs as usize]);
        self.cell_count().saturating_mul(of_a_cell)
    }

    /// Number of transfers that a part of the plan has, all of which are made unless a cell is left early; `None` where
    /// sampling is adaptive, which makes what it needs.
    #[must_use]
    pub fn planned(&self, shard: Shard) -> Option<u64> {
        let cells = self.part(shard).len();
        let all = product(&[cells, self.arms().len(), self.pairs as usize]);
        (self.sampling == Sampling::Grid).then_some(all)
    }

    /// The requests that the client makes for a transfer in `cell` over `protocol`.
    #[must_use]
    pub fn visit(&self, cell: &Cell, protocol: Protocol) -> Visit {
        let (client, connection) = (cell.client, cell.connection);
        let mut visit = self.scenario.visit(client, cell.size, connection, protocol);
        if !self.policies.is_empty() {
            let millis = |apart: &Duration| u64::try_from(apart.as_millis()).unwrap_or(u64::MAX);
            visit.sessions = Some(Sessions {
                apart_ms: self.apart.iter().map(millis).collect(),
            });
        }
        visit
    }

    /// Sessions that a client has with the server: one, where no policies are compared.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.apart.len() + 1
    }

    /// The time that is compared, in µs, of what was measured in a cell: the records by
    /// [`RequestRecord::item`]. Of several sessions it is the sum. `None` when a request failed or is
    /// missing, or when nothing can be compared.
    #[must_use]
    pub fn compared_us(&self, cell: &Cell, records: &[RequestRecord]) -> Option<u64> {
        let of_session = records.len().div_ceil(self.sessions()).max(1);
        let sessions = records.chunks(of_session);
        let times = sessions.map(|records| self.scenario.compared_us(cell.connection, records));
        (!records.is_empty()).then(|| times.sum::<Option<u64>>())?
    }

    /// The same plan with another order in which cells are measured.
    ///
    /// # Errors
    /// The plan can't be sampled like that.
    pub fn sampled(self, sampling: Sampling) -> Result<Self, PlanError> {
        Self { sampling, ..self }.check()
    }

    /// The same plan, but over other one-way delays: values or ranges in words, as in a plan.
    ///
    /// # Errors
    /// There are none, one of them is no delay or stands twice, or the plan grows too large.
    pub fn over_delays(self, delays: &[String]) -> Result<Self, PlanError> {
        let delays = axis::read(delays).map_err(PlanError::Delays)?;
        Self { delays, ..self }.check()
    }

    /// The same plan with another number of transfers that are made at once.
    #[must_use]
    pub fn at_once(self, side_by_side: SideBySide) -> Self {
        Self {
            side_by_side,
            ..self
        }
    }

    /// The settings of the link of `cell` beside the axes.
    ///
    /// # Panics
    /// The cell is not of this plan.
    #[must_use]
    pub fn link_of(&self, cell: &Cell) -> &LinkWords {
        let mut links = self.links.iter();
        let found = links.find(|link| link.name == cell.link);
        found.expect("a cell's link is one of its plan's")
    }

    /// The plan's chain of that name; `None` of one that rows alone name.
    #[must_use]
    pub fn chain(&self, name: ChainName) -> Option<&Chain> {
        self.chains.iter().find(|chain| chain.name == name)
    }

    /// All values are of the plan but the index.
    fn first_cell(&self) -> Cell {
        Cell {
            index: 0,
            topology: self.topologies[0],
            server: self.servers[0],
            client: self.clients[0],
            congestion: self.congestions[0],
            initial_window: self.initial_windows[0],
            certificate: self.certificates[0],
            certificate_compression: self.certificate_compressions[0],
            connection: self.connections[0],
            link: self.links[0].name,
            rate: self.rates[0],
            queue: self.queues[0],
            loss: self.losses[0],
            size: self.sizes[0],
            delay: self.delays[0],
        }
    }
}

/// Each cell once for each value of an axis.
fn spread<T: Copy>(cells: &mut Vec<Cell>, values: &[T], set: impl Fn(&mut Cell, T)) {
    let one = |cell: &Cell, value: T| {
        let mut cell = *cell;
        set(&mut cell, value);
        cell
    };
    *cells = cells
        .iter()
        .flat_map(|cell| {
            values
                .iter()
                .map(|value| one(cell, *value))
                .collect::<Vec<_>>()
        })
        .collect();
}

fn product(lengths: &[usize]) -> u64 {
    lengths.iter().fold(1_u64, |product, length| {
        product.saturating_mul(*length as u64)
    })
}

/// The initial window of plans of a version that could not state another.
fn only_ten() -> Vec<InitialWindow> {
    vec![InitialWindow::default()]
}

/// The certificate of plans of a version that could not state another.
fn only_ecdsa() -> Vec<Certificate> {
    vec![Certificate::ECDSA]
}

/// The certificate compression of plans of a version that could not state it.
fn only_compressed() -> Vec<bool> {
    vec![true]
}

/// The link of plans of a version that could not state another.
fn only_plain() -> Vec<LinkWords> {
    vec![LinkWords::plain()]
}

/// The MTU of plans of a version that could not state another.
fn ethernet_mtu() -> u16 {
    DEFAULT_MTU
}

/// A list of durations as texts.
mod durations {
    use altway_units::duration;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(all: &[Duration], s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(all.iter().map(|one| duration::format(*one)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Duration>, D::Error> {
        let texts = Vec::<String>::deserialize(d)?;
        texts
            .iter()
            .map(|text| duration::parse(text).map_err(serde::de::Error::custom))
            .collect()
    }
}

#[cfg(test)]
mod tests;
