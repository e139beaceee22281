//! The networks of a run with the servers in them: one for each topology, congestion control and initial window.
//!
//! All stay up for the whole run, so that going from cell to cell in random order costs nothing.

use crate::Error;
use crate::client::{FetchJob, Fetched, fetch};
use crate::host;
use crate::link_profile::LinkProfiles;
use crate::processor_time::ProcessTreeTime;
use crate::server::{Server, Testbed, commands, server_ports, shown, version_of};
use crate::traces::TraceFiles;
use crate::workspace::Workspace;
use altway_emulate::{Backend, Emulation, FarEnd, Processors};
use altway_link::Config;
use altway_record::{
    Cell, Certificate, Congestion, InitialWindow, Plan, Policy, Protocol, ServerCommand,
    ServerName, Topology,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

type Key = (Topology, Congestion, InitialWindow);

/// A server with the certificate that it shows, and whether it compresses that.
type ServerVariant = (ServerName, Certificate, bool);

/// All networks of a run; at most [`altway_record::MAX_ENVIRONMENTS`].
#[derive(Debug)]
pub(crate) struct Environments {
    binary: PathBuf,
    plan: Plan,
    workspace: Workspace,
    commands: Vec<ServerCommand>,
    /// Versions of the foreign servers and clients, by the program's name.
    pub(crate) programs: BTreeMap<String, String>,
    networks: BTreeMap<Key, Emulation>,
    servers: BTreeMap<(Key, ServerVariant), Server>,
    /// Files that are kept of the transfers; none of those that are measured.
    traces: TraceFiles,
}

impl Environments {
    /// Sets everything up that the plan needs, for the first worker of a run or a further one: the
    /// first keeps the processors awake for all.
    ///
    /// # Errors
    /// A program is missing, a network or server can't be started, or the network can't do what one
    /// of the plan's links asks of it.
    pub(crate) fn set_up(
        binary: &Path,
        plan: &Plan,
        profiles: &LinkProfiles,
        backend: Option<Backend>,
        worker: usize,
        traces: TraceFiles,
    ) -> Result<Self, Error> {
        let servers = commands(plan)?;
        host::check_congestion(&plan.congestions)?;
        let clients = crate::client::check(plan)?;
        let versions = servers
            .iter()
            .filter_map(|(command, version)| Some((command.name.to_string(), version.clone()?)));
        let clients = clients
            .into_iter()
            .map(|(client, version)| (client.to_string(), version));
        let mut programs: BTreeMap<String, String> = versions.chain(clients).collect();
        let networks = start_networks(plan, backend, worker, &traces)?;
        if let (0, Some(network)) = (worker, networks.values().next()) {
            let own = plan.commands.iter();
            programs.extend(own.filter_map(|server| {
                let version = version_of(binary, network, server)?;
                Some((server.name.to_string(), version))
            }));
        }
        let addresses: BTreeSet<IpAddr> =
            networks.values().map(Emulation::server_address).collect();
        let workspace = Workspace::create(binary, plan, &addresses)?;
        let mut environments = Self {
            binary: binary.into(),
            plan: plan.clone(),
            workspace,
            commands: servers.into_iter().map(|(command, _)| command).collect(),
            programs,
            networks,
            servers: BTreeMap::new(),
            traces,
        };
        environments.try_links(profiles)?;
        for key in environments.networks.keys().copied().collect::<Vec<_>>() {
            for server in &plan.servers {
                for (certificate, compression) in shown(plan) {
                    environments.start_server(key, (*server, certificate, compression))?;
                }
            }
        }
        Ok(environments)
    }

    /// The network of a cell.
    pub(crate) fn network(&self, cell: &Cell) -> &Emulation {
        &self.networks[&key_of(cell)]
    }

    /// All networks, with what tells each from the others; at least one.
    pub(crate) fn networks(&self) -> impl Iterator<Item = (Key, &Emulation)> {
        self.networks.iter().map(|(key, network)| (*key, network))
    }

    /// Starts the server of a cell again if it has ended.
    ///
    /// # Errors
    /// It can't be started.
    pub(crate) fn keep_the_server_up(&mut self, cell: &Cell) -> Result<(), Error> {
        let key = key_of(cell);
        let server = self.servers.get_mut(&(key, shown_by(cell)));
        if server.is_none_or(Server::has_died) {
            tracing::warn!("the server {} has ended; it is started again", cell.server);
            self.start_server(key, shown_by(cell))?;
        }
        Ok(())
    }

    /// Puts a server with this policy, which knows nothing yet, in the place of the cell's.
    ///
    /// # Errors
    /// It can't be started.
    pub(crate) fn serve_anew(&mut self, cell: &Cell, policy: Policy) -> Result<(), Error> {
        let (key, shown) = (key_of(cell), shown_by(cell));
        // Its port is the next one's.
        self.servers.remove(&(key, shown));
        let testbed = self.testbed(key, shown);
        let server = Server::start(testbed, cell.server, None, policy)?;
        self.servers.insert((key, shown), server);
        Ok(())
    }

    /// Involuntary context switches of a cell's server so far.
    pub(crate) fn server_switches(&self, cell: &Cell) -> u64 {
        let server = self.servers.get(&(key_of(cell), shown_by(cell)));
        server.map_or(0, Server::involuntary_switches)
    }

    /// Processor time of a cell's server so far, where it can be told.
    pub(crate) fn server_cpu(&self, cell: &Cell) -> Option<ProcessTreeTime> {
        self.servers.get(&(key_of(cell), shown_by(cell)))?.cpu()
    }

    /// Makes one transfer over the network of its cell as that is now.
    pub(crate) fn fetch(&self, cell: &Cell, protocol: Protocol, stop: &AtomicBool) -> Fetched {
        let key = key_of(cell);
        let Some(server) = self.servers.get(&(key, shown_by(cell))) else {
            return Fetched::Failed(format!("the server {} does not run", cell.server));
        };
        let job = FetchJob {
            testbed: self.testbed(key, shown_by(cell)),
            cell,
            protocol,
            visit: &self.plan.visit(cell, protocol),
            port: server.port(),
        };
        fetch(&job, stop)
    }

    /// Ends servers and networks, when all that was logged of them is written.
    pub(crate) fn end(mut self) {
        self.servers.clear();
        for (_, network) in std::mem::take(&mut self.networks) {
            network.stop();
        }
    }

    /// Runs each link of the plan once, in each kind of network: a setting that a backend can't
    /// have is reported before anything is measured.
    fn try_links(&self, profiles: &LinkProfiles) -> Result<(), Error> {
        let mut tried = BTreeSet::new();
        for cell in self.plan.cells() {
            if !tried.insert((key_of(&cell), cell.link)) {
                continue;
            }
            let (network, profile) = (self.network(&cell), profiles.cell(&cell));
            network.restart(profile.up, profile.down, 0)?;
            if !profile.schedule.changes().is_empty() {
                network.set_schedule(profile.schedule)?;
            }
        }
        Ok(())
    }

    fn testbed(&self, key: Key, (_, certificate, compression): ServerVariant) -> Testbed<'_> {
        Testbed {
            binary: &self.binary,
            network: &self.networks[&key],
            workspace: &self.workspace,
            plan: &self.plan,
            congestion: key.1,
            initial_window: key.2,
            certificate,
            certificate_compression: compression,
            traces: &self.traces,
        }
    }

    /// Starts a server and warms it up, over a link that lets everything through.
    fn start_server(&mut self, key: Key, shown: ServerVariant) -> Result<(), Error> {
        let (name, ..) = shown;
        let network = &self.networks[&key];
        network.restart(Config::default(), Config::default(), 0)?;
        let command = self.commands.iter().find(|command| command.name == name);
        let server = Server::start(self.testbed(key, shown), name, command, Policy::H3)?;
        self.servers.insert((key, shown), server);
        // What a policy learns must come from what is measured.
        if self.plan.policies.is_empty() {
            self.warm_up(key, shown);
        }
        Ok(())
    }

    /// Makes the plan's unmeasured transfers, because the first ones find caches empty. A warm-up
    /// that fails is left to the measured transfers to report.
    fn warm_up(&self, key: Key, shown: ServerVariant) {
        let never = AtomicBool::new(false);
        let cells = self.plan.cells();
        for client in &self.plan.clients {
            let alike = cells
                .iter()
                .find(|cell| (key_of(cell), shown_by(cell), cell.client) == (key, shown, *client));
            let Some(cell) = alike else { continue };
            for protocol in &self.plan.protocols {
                for _ in 0..self.plan.warm_ups {
                    drop(self.fetch(cell, *protocol, &never));
                }
            }
        }
    }
}

/// Servers end before the networks that they are in.
impl Drop for Environments {
    fn drop(&mut self) {
        self.servers.clear();
    }
}

fn emulated(topology: Topology) -> altway_emulate::Topology {
    match topology {
        Topology::Direct => altway_emulate::Topology::Direct,
        Topology::Router => altway_emulate::Topology::Router,
        Topology::Proxied => altway_emulate::Topology::Proxied,
        Topology::Egress => altway_emulate::Topology::Egress,
        Topology::EgressPackets => altway_emulate::Topology::EgressPackets,
    }
}

fn shown_by(cell: &Cell) -> ServerVariant {
    (cell.server, cell.certificate, cell.certificate_compression)
}

fn key_of(cell: &Cell) -> Key {
    (cell.topology, cell.congestion, cell.initial_window)
}

fn start_networks(
    plan: &Plan,
    backend: Option<Backend>,
    worker: usize,
    traces: &TraceFiles,
) -> Result<BTreeMap<Key, Emulation>, Error> {
    let mut networks = BTreeMap::new();
    let placement = &plan.placement;
    let set = |text: &Option<String>| text.as_deref().map(str::parse::<Processors>).transpose();
    let (pin_client, pin_server) = (set(&placement.client)?, set(&placement.server)?);
    for key in keys(plan) {
        // One network keeps the processors awake for all.
        let options = altway_emulate::Options {
            backend: backend_of(key.0, backend),
            far_end: FarEnd::ServerNamespace,
            topology: emulated(key.0),
            proxy_ports: server_ports(plan),
            mtu: plan.mtu,
            initial_window: window_of_routes(key.2),
            keep_awake: worker == 0 && networks.is_empty(),
            packet_log: traces.pcap(),
            isolate: placement.isolate,
            pin: placement.link.map(usize::from),
            pin_client: pin_client.clone(),
            pin_server: pin_server.clone(),
            nice: placement.nice,
            ..altway_emulate::Options::default()
        };
        networks.insert(key, start_network(&options, key.1)?);
    }
    Ok(networks)
}

/// The backend of a topology's network: ends that shape what they send have no use for TUN interfaces, which others
/// of the plan may well have.
fn backend_of(topology: Topology, asked: Option<Backend>) -> Option<Backend> {
    let at_the_ends = emulated(topology).shapes_at_the_ends();
    asked.filter(|backend| !at_the_ends || *backend != Backend::Tun)
}

/// The window that routes must say: that by default is the kernel's too.
fn window_of_routes(window: InitialWindow) -> Option<u32> {
    (window != InitialWindow::default()).then_some(window.packets())
}

/// The keys that tell the networks of a plan from each other.
fn keys(plan: &Plan) -> impl Iterator<Item = Key> {
    plan.topologies.iter().flat_map(|topology| {
        plan.congestions.iter().flat_map(|congestion| {
            let windows = plan.initial_windows.iter();
            windows.map(|window| (*topology, *congestion, *window))
        })
    })
}

/// Starts a network. Where the kernel keeps `congestion` from being a namespace's default, the server still sets it
/// on its own sockets, and the client sends too little for its control to matter.
fn start_network(
    options: &altway_emulate::Options,
    congestion: Congestion,
) -> Result<Emulation, Error> {
    let options = |congestion_control| altway_emulate::Options {
        congestion_control,
        ..options.clone()
    };
    match Emulation::start(options(Some(congestion.tcp().into()))) {
        Err(altway_emulate::Error::CongestionControl { .. }) => {
            Ok(Emulation::start(options(None))?)
        }
        started => Ok(started?),
    }
}
