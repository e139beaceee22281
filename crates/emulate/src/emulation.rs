//! The whole of an emulated link: two ends, the link between them, commands at the ends.

use crate::backend::{self, Backend, Choice};
use crate::clean;
use crate::control::{LinkState, Target};
use crate::egress::{Sender, Shaping};
use crate::end::{self, End, EndAddress, Tuning};
use crate::idle_spinners::IdleSpinners;
use crate::ip::IpVersion;
use crate::link::Link;
use crate::link_devices::{Interface, LinkDevices, Start};
use crate::namespace::Namespace;
use crate::netem::beyond_netem;
use crate::netlink::Netlink;
use crate::packet_log::{LogReport, PacketLog};
use crate::pinning::Pinning;
use crate::processors::Processors;
use crate::pump::{Parameters, Snapshot};
use crate::report::{Circumstances, LinkReport};
use crate::router::{self, Router, RouterCounters};
use crate::subnet::Subnet;
use crate::sysctl::{self, UnsetParameter};
use crate::topology::Topology;
use crate::{Error, privilege, sys};
use altway_link::{Change, Config, Schedule};
use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The port of `altway serve` when nothing else was said.
const SERVER_PORT: u16 = 8443;

/// Options of an emulation.
#[derive(Debug, Clone)]
pub struct Options {
    /// The direction from the client to the server.
    pub up: Config,
    /// The direction from the server to the client.
    pub down: Config,
    /// The seed of the random loss of both directions, which draw independent streams.
    pub seed: u64,
    /// The mover of the packets; `None` (the default) takes the first of [`Backend`] that this
    /// machine has. [`Backend::Netem`] knows IPv4 only, no [`Topology::Router`], no packet log and no
    /// changes while it runs.
    pub backend: Option<Backend>,
    /// The other end of the link: a namespace, or this host.
    pub far_end: FarEnd,
    /// The topology between the client and the link; nothing ([`Topology::Direct`]) by default.
    pub topology: Topology,
    /// The ports of the server that proxies pass on, of TCP and of UDP each, in the topology
    /// [`Topology::Proxied`]; 8443 by default. Without effect in the others.
    pub proxy_ports: Vec<u16>,
    /// The version of IP of all addresses; IPv4 by default.
    pub ip: IpVersion,
    /// The largest IP packet on the link in bytes, at least [`IpVersion::least_mtu`]; 1,500 by
    /// default.
    pub mtu: u16,
    /// The congestion control of TCP in the namespaces made here; `None` (the default) leaves that
    /// of the machine. This host, as the far end, keeps its own in any case.
    pub congestion_control: Option<String>,
    /// Packets of TCP's first congestion window (RFC 6928) by all routes of the namespaces made here, at
    /// least 1; `None` (the default) leaves the kernel's 10. What the receiver offers bounds it too.
    pub initial_window: Option<u32>,
    /// The processor that the link thread keeps to; `None` (the default) leaves it to the kernel.
    pub pin: Option<usize>,
    /// The processors that the commands at the client's end keep to; `None` (the default) leaves it
    /// to the kernel.
    pub pin_client: Option<Processors>,
    /// The processors that the commands at the far end keep to; `None` (the default) leaves it to the
    /// kernel.
    pub pin_server: Option<Processors>,
    /// Asks to give the link and the ends processors of their own, as far as there are enough and
    /// nothing was said of them; off by default. [`Emulation::pinning`] says what came of it.
    pub isolate: bool,
    /// The nice value of the commands at both ends, from -20, the highest priority, to 19; 0 (the default) leaves them
    /// that of this process. Below 0 needs root.
    pub nice: i8,
    /// The file for a log of all packets at both ends of the link (pcapng); `None` (the default) for
    /// no log. It costs the link thread some 0.3 µs a packet, and never a wait.
    pub packet_log: Option<PathBuf>,
    /// Asks to keep all processors from sleeping, all the time, so that the ends wake faster, at
    /// full power; off by default. The link's own is awake while packets are on their way in any
    /// case. Neither is done under a processor quota.
    pub keep_awake: bool,
}

/// The other end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FarEnd {
    /// A network namespace, made for it and empty but for what
    /// [`server_command`](Emulation::server_command) starts in it.
    #[default]
    ServerNamespace,
    /// The network namespace of the caller: clients reach the servers of this host that listen on
    /// all addresses. It keeps its own kernel parameters, congestion control among them. Needs root.
    Host,
}

/// An emulated link that runs.
///
/// Consists of a network namespace for clients, the far end, an interface in each of the two, and
/// what moves the packets between them, by default a thread; with a router, of its namespace too,
/// which then has the interface in the client's place. None of it has a name in the file system, so
/// nothing is left behind even when the process is killed, but for what its commands started in turn
/// ([`clean`](crate::clean())). Dropping it takes the interfaces away within milliseconds; commands
/// that still run at the ends are their owner's to stop, and find themselves without a network.
#[derive(Debug)]
pub struct Emulation {
    link: Box<dyn Link>,
    /// The packet log; dropped after the link, which must be gone before the log can end.
    packet_log: Option<PacketLog>,
    pinning: Pinning,
    nice: i8,
    client: End,
    router: Option<Router>,
    /// The link's end on the client's side: the client's or the router's.
    near: End,
    server: End,
    unset: Vec<UnsetParameter>,
    choice: Choice,
    since: Mutex<CounterBaseline>,
    idle_spinners: Option<IdleSpinners>,
}

/// Counters at the last start or restart, from which a report counts.
#[derive(Debug, Clone, Copy, Default)]
struct CounterBaseline {
    /// Packets that the kernel had dropped by then.
    dropped: u64,
    /// Counters of the router by then.
    router: RouterCounters,
}

/// The addresses of an emulation.
#[derive(Debug, Clone, Copy)]
struct Subnets {
    link: Subnet,
    /// Between the client and the router, where there is one.
    veth: Subnet,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            up: Config::default(),
            down: Config::default(),
            seed: 0,
            backend: None,
            far_end: FarEnd::default(),
            topology: Topology::default(),
            proxy_ports: vec![SERVER_PORT],
            ip: IpVersion::default(),
            mtu: 1_500,
            congestion_control: None,
            initial_window: None,
            pin: None,
            pin_client: None,
            pin_server: None,
            isolate: false,
            nice: 0,
            packet_log: None,
            keep_awake: false,
        }
    }
}

impl Emulation {
    /// Makes the ends and starts the link.
    ///
    /// The process needs the privilege that [`enter`](crate::enter) gets. It blocks for some 15 ms,
    /// with a router for some 30; dropping the link takes some 40 ms.
    ///
    /// # Errors
    /// Names the step that failed and the kernel's answer. Nothing is left behind then.
    pub fn start(mut options: Options) -> Result<Self, Error> {
        check(&options)?;
        let choice = choose_backend(&options)?;
        let pinning = Pinning::of(&options)?;
        let shaping = Shaping::of(options.topology, choice.backend, options.mtu);
        let parameters = shaping.left_to_the_link(&options);
        let (far_end, mtu) = (options.far_end, options.mtu);
        let tuning = Tuning {
            congestion_control: options.congestion_control.take(),
            host: Namespace::current()?,
        };
        let server = namespace(far_end)?;
        let near = namespace(FarEnd::ServerNamespace)?;
        if options.topology == Topology::Router {
            // Before there are interfaces: each would join the group of all routers, and report it.
            near.run(|| sysctl::let_forward(options.ip))?;
        }
        let devices = LinkDevices::create(choice.backend, &near, &server, mtu, options.ip)?;
        let subnets = choose_subnets(&options, &server, &devices.server)?;
        let far_tuning = match far_end {
            FarEnd::ServerNamespace => Some(&tuning),
            FarEnd::Host => None,
        };
        let subnet = subnets.link.prefix();
        let [near_place, server_place] =
            [subnets.link.client(), subnets.link.server()].map(|address| EndAddress {
                address,
                subnet,
                mtu,
            });
        let (server, mut unset) =
            server.run(|| end::configure(&server, &devices.server, server_place, far_tuning))?;
        let (near, near_unset) =
            near.run(|| end::configure(&near, &devices.client, near_place, Some(&tuning)))?;
        unset.extend(near_unset);
        end::add_neighbours(&devices, [&near, &server])?;
        let log = options.packet_log.as_deref().map(PacketLog::create);
        let (packet_log, recorder) = log.transpose()?.unzip();
        let senders = [(&near, &devices.client), (&server, &devices.server)].map(Sender::new);
        let link = devices.connect(Start {
            parameters,
            mtu,
            recorder,
            pin: pinning.link,
            subnet: subnets.link,
            beyond: (options.topology == Topology::Router).then(|| subnets.veth.prefix()),
        })?;
        let link = shaping.at_the_ends(link, senders, [&options.up, &options.down])?;
        let (client, router, more) = attach_client(&options, &near, &server, subnets, &tuning)?;
        unset.extend(more);
        set_initial_window(&options, [&client, &near, &server])?;
        let mut emulation = Self {
            link,
            packet_log,
            pinning,
            nice: options.nice,
            client,
            router,
            near,
            server,
            unset,
            choice,
            since: Mutex::default(),
            idle_spinners: options.keep_awake.then(IdleSpinners::start),
        };
        let begin = emulation.read_counters()?;
        emulation.since = Mutex::new(begin);
        Ok(emulation)
    }

    /// Begins anew: new parameters and seed, an empty link, zeroed counters.
    ///
    /// Packets that are in the link are thrown away, so let the traffic before it come to its end.
    ///
    /// # Errors
    /// [`Error::LinkStopped`] when the link no longer runs.
    pub fn restart(&self, up: Config, down: Config, seed: u64) -> Result<(), Error> {
        let mut since = self.since();
        self.link.restart(Parameters { up, down, seed })?;
        *since = self.read_counters()?;
        Ok(())
    }

    /// Goes through these changes, at times that count from now; what was to come of an earlier
    /// schedule is forgotten. A [`restart`](Self::restart) forgets it too.
    ///
    /// # Errors
    /// [`Error::LinkStopped`] when the link no longer runs; [`Error::Unshapable`] of changes that
    /// [`Backend::Netem`] has nothing for.
    pub fn set_schedule(&self, schedule: Schedule) -> Result<(), Error> {
        self.link.set_schedule(schedule)
    }

    /// Returns the backend that moves the packets.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.choice.backend
    }

    /// Ends the link, and returns what its packet log has when all of it is written; `None` when
    /// there is none.
    pub fn stop(self) -> Option<LogReport> {
        let Self {
            link, packet_log, ..
        } = self;
        drop(link);
        packet_log.map(PacketLog::finish)
    }

    /// Returns what the link did since the last start or restart.
    ///
    /// # Errors
    /// [`Error::LinkStopped`] when the link no longer runs.
    pub fn report(&self) -> Result<LinkReport, Error> {
        let since = self.since();
        self.take_report(&self.link.snapshot()?, &since)
    }

    /// Returns a command that runs at the client's end.
    ///
    /// The command gets a process group of its own (a Ctrl-C at the terminal does not reach it). In
    /// its environment are `ALTWAY_SERVER` and `ALTWAY_CLIENT`, the addresses of the two ends as the
    /// one where it runs sees them, and `ALTWAY_HOST`, the server's as it stands in a URL: in
    /// brackets if it is one of IPv6 (RFC 3986 §3.2.2).
    ///
    /// The kernel kills it when the *thread* that spawned it ends (PR_SET_PDEATHSIG), so spawn it
    /// from a thread that outlives it.
    pub fn client_command(&self, program: impl AsRef<OsStr>) -> Command {
        let addresses = [self.server_address(), self.client.address];
        self.command(
            &self.client,
            addresses,
            program.as_ref(),
            self.pinning.client.as_ref(),
        )
    }

    /// A command that runs at the far end, in all else like
    /// [`client_command`](Self::client_command).
    pub fn server_command(&self, program: impl AsRef<OsStr>) -> Command {
        // The address that clients seem to have.
        let client = match &self.router {
            Some(router) if router.is_proxy() => self.near.address,
            _ => self.client.address,
        };
        self.command(
            &self.server,
            [self.server.address, client],
            program.as_ref(),
            self.pinning.server.as_ref(),
        )
    }

    /// A command that runs a program at the far end in a process namespace of its own, with which all ends
    /// that it starts: the program and its arguments are to be added. `binary` is a program that takes
    /// `emulate contain` for [`containment::supervise`](crate::containment::supervise), and
    /// [`containment::end`](crate::containment::end) ends it.
    pub fn contained_command(&self, binary: &Path) -> Command {
        let mut command = self.server_command(binary);
        command.args(["emulate", "contain", "--"]);
        command
    }

    /// The address at which clients find the server: the far end's own, or in
    /// [`Topology::Proxied`] that of the router, whose proxies pass on to it.
    #[must_use]
    pub fn server_address(&self) -> IpAddr {
        match &self.router {
            Some(router) if router.is_proxy() => router.address(),
            _ => self.server.address,
        }
    }

    /// The address of the client's end.
    #[must_use]
    pub fn client_address(&self) -> IpAddr {
        self.client.address
    }

    /// The kernel parameters that could not be set in the namespaces; each costs something.
    #[must_use]
    pub fn unset(&self) -> &[UnsetParameter] {
        &self.unset
    }

    /// Returns the processors that the link and its ends keep to.
    #[must_use]
    pub fn pinning(&self) -> &Pinning {
        &self.pinning
    }

    /// Returns whether the processors are kept awake.
    #[must_use]
    pub fn keeps_awake(&self) -> bool {
        self.idle_spinners.as_ref().is_some_and(IdleSpinners::is_on)
    }

    fn command(
        &self,
        end: &End,
        [server, client]: [IpAddr; 2],
        program: &OsStr,
        processors: Option<&Processors>,
    ) -> Command {
        let host = match server {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        let mut command = Command::new(program);
        command
            .process_group(0)
            .env("ALTWAY_SERVER", server.to_string())
            .env("ALTWAY_HOST", host)
            .env("ALTWAY_CLIENT", client.to_string());
        clean::mark(&mut command);
        let processors = processors.map(Processors::to_set);
        sys::join_before_exec(&mut command, end.namespace.clone(), processors, self.nice);
        command
    }

    /// The report of what is in `snapshot`, with what the kernel counted since `since`.
    fn take_report(
        &self,
        snapshot: &Snapshot,
        since: &CounterBaseline,
    ) -> Result<LinkReport, Error> {
        let now = self.router_counters()?;
        let dropped = self.dropped(&now)?.saturating_sub(since.dropped);
        let router = self.router.as_ref();
        let circumstances = Circumstances {
            choice: &self.choice,
            realtime_priority: self.link.is_realtime(),
            arrivals_by_kernel: self.link.knows_arrivals(),
            dropped,
            router: router.map(|router| router.report(&since.router, &now)),
        };
        Ok(LinkReport::new(snapshot, circumstances))
    }

    /// Returns the packets that interfaces and the router dropped since they were made.
    fn dropped(&self, router: &RouterCounters) -> Result<u64, Error> {
        let at_the_ends = self.near.dropped()? + self.server.dropped()?;
        Ok(at_the_ends + self.link.dropped_between()? + router.hidden_drops())
    }

    fn router_counters(&self) -> Result<RouterCounters, Error> {
        let read = self
            .router
            .as_ref()
            .map(|router| router.counters(&self.client));
        Ok(read.transpose()?.unwrap_or_default())
    }

    /// Reads the counters from which the next report is to count.
    fn read_counters(&self) -> Result<CounterBaseline, Error> {
        let router = self.router_counters()?;
        Ok(CounterBaseline {
            dropped: self.dropped(&router)?,
            router,
        })
    }

    /// Locks the baseline of the counters, which also keeps two callers from mixing up a restart and a report.
    fn since(&self) -> MutexGuard<'_, CounterBaseline> {
        // Nothing that holds it can panic between its two fields.
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Target for Emulation {
    fn change(&self, change: &Change) -> Result<(), Error> {
        self.link.change(change.clone())
    }

    fn reset(&self) -> Result<(), Error> {
        self.link.reset()
    }

    fn state(&self) -> Result<LinkState, Error> {
        let since = self.since();
        let snapshot = self.link.snapshot()?;
        let report = self.take_report(&snapshot, &since)?;
        let log = self.packet_log.as_ref().map(PacketLog::report);
        Ok(LinkState::new(&snapshot.now, report, log))
    }
}

fn check(options: &Options) -> Result<(), Error> {
    let (ip, mtu, least) = (options.ip, options.mtu, options.ip.least_mtu());
    if mtu < least {
        return Err(Error::Mtu { mtu, ip, least });
    }
    if options.nice < 0 {
        let nice = options.nice;
        sys::try_out_priority().map_err(|source| Error::Priority { nice, source })?;
    }
    if options.far_end == FarEnd::Host && privilege::in_user_namespace() {
        return Err(Error::HostNeedsRoot);
    }
    Ok(())
}

/// Chooses the backend, and refuses what it can't do, before anything is made.
fn choose_backend(options: &Options) -> Result<Choice, Error> {
    let choice = match options.topology.shapes_at_the_ends() {
        true => backend::choose_for_egress(options.backend)?,
        false => backend::choose(options.backend)?,
    };
    if choice.backend == Backend::Netem && options.packet_log.is_some() {
        return Err(beyond_netem("a packet log"));
    }
    Ok(choice)
}

/// The namespace of one end.
fn namespace(end: FarEnd) -> Result<Namespace, Error> {
    match end {
        FarEnd::ServerNamespace => Namespace::create(),
        FarEnd::Host => Namespace::current(),
    }
}

fn choose_subnets(
    options: &Options,
    server: &Namespace,
    interface: &Interface,
) -> Result<Subnets, Error> {
    let ip = options.ip;
    match options.far_end {
        FarEnd::ServerNamespace => Ok(Subnets {
            link: Subnet::number(ip, 0),
            veth: Subnet::number(ip, 1),
        }),
        // The search begins at the number of the interface, which no other emulation on this host
        // has, so that two that start at the same moment don't choose the same subnet.
        FarEnd::Host => server.run(|| {
            let (start, in_use) = (interface.index, Netlink::open()?.routed_prefixes()?);
            let link = Subnet::free(ip, start, &in_use).ok_or(Error::NoFreeSubnet)?;
            let veth = Subnet::free_far_from(ip, start, &in_use).ok_or(Error::NoFreeSubnet)?;
            Ok(Subnets { link, veth })
        }),
    }
}

/// Has TCP connections from the namespaces made here begin with the window that was asked for.
fn set_initial_window(options: &Options, [client, near, server]: [&End; 3]) -> Result<(), Error> {
    let Some(packets) = options.initial_window else {
        return Ok(());
    };
    let ours = (options.far_end == FarEnd::ServerNamespace).then_some(server);
    for end in [client, near].into_iter().chain(ours) {
        let set = || Netlink::open()?.set_initial_window(packets);
        end.namespace.run(set)?;
    }
    Ok(())
}

/// Gives the client its way to the server, from the link's near end or by a router there.
fn attach_client(
    options: &Options,
    near: &End,
    server: &End,
    subnets: Subnets,
    tuning: &Tuning,
) -> Result<(End, Option<Router>, Vec<UnsetParameter>), Error> {
    if options.topology == Topology::Direct || options.topology.shapes_at_the_ends() {
        let namespace = &near.namespace;
        namespace.run(|| Netlink::open()?.add_default_route(server.address))?;
        return Ok((near.clone(), None, Vec::new()));
    }
    let plan = router::Plan {
        topology: options.topology,
        veth: subnets.veth,
        mtu: options.mtu,
        server: server.address,
        proxy_ports: &options.proxy_ports,
        tuning,
    };
    let (router, client, unset) = Router::start(&near.namespace, &plan)?;
    if options.topology == Topology::Router {
        let back = Some(subnets.veth.prefix());
        server
            .namespace
            .run(|| Netlink::open()?.add_route(back, near.address))?;
    }
    Ok((client, Some(router), unset))
}
