//! The whole of an emulated link: two ends, the link thread between them, commands at the ends.

use crate::awake::Awake;
use crate::congestion;
use crate::namespace::Namespace;
use crate::netlink::Netlink;
use crate::pump::{Parameters, Snapshot};
use crate::report::LinkReport;
use crate::subnet::Subnet;
use crate::sysctl::{self, Unset};
use crate::thread::LinkThread;
use crate::tun::Tun;
use crate::{Error, privilege, sys};
use altway_link::Config;
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The smallest MTU of IPv4 (RFC 791 §3.2).
const LEAST_MTU: u16 = 68;

/// What an emulation is like.
#[derive(Debug, Clone)]
pub struct Options {
    /// The direction from the client to the server.
    pub up: Config,
    /// The direction from the server to the client.
    pub down: Config,
    /// The seed of the random loss of both directions, which draw independent streams.
    pub seed: u64,
    /// Who is at the other end.
    pub far_end: FarEnd,
    /// The largest IP packet on the link in bytes, at least 68; 1,500 by default.
    pub mtu: u16,
    /// The congestion control of TCP in the namespaces made here; `None` (the default) leaves that
    /// of the machine. This host, as the far end, keeps its own in any case.
    pub congestion_control: Option<String>,
    /// The processor that the link thread keeps to; `None` (the default) leaves it to the kernel.
    pub pin: Option<usize>,
    /// Whether to keep the processors from sleeping, which makes the link more exact and costs
    /// their power; off by default. Never under a processor quota.
    pub keep_awake: bool,
}

/// Who is at the other end of the link.
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
/// It consists of a network namespace for clients, the far end, a TUN interface in each of the two,
/// and a thread that moves the packets. None of it has a name in the file system, so nothing is
/// left behind even when the process is killed. Dropping it takes the interfaces away within
/// milliseconds; commands that still run at the ends are their owner's to stop, and find themselves
/// without a network.
#[derive(Debug)]
pub struct Emulation {
    link: LinkThread,
    client: End,
    server: End,
    unset: Vec<Unset>,
    since: Mutex<Since>,
    awake: Option<Awake>,
}

/// What a report needs to know of the last start or restart.
#[derive(Debug, Clone, Copy)]
struct Since {
    /// What the kernel had dropped by then.
    dropped: u64,
    /// The longer of the two directions' delays.
    delay: Duration,
}

/// One end of the link as it is seen from outside of the link thread.
#[derive(Debug)]
struct End {
    namespace: Namespace,
    address: Ipv4Addr,
    /// The index of the TUN interface in the namespace.
    interface: u32,
}

/// What the namespaces made here are given.
#[derive(Debug)]
struct Tuning {
    congestion_control: Option<String>,
    /// The namespace of the caller.
    host: Namespace,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            up: Config::default(),
            down: Config::default(),
            seed: 0,
            far_end: FarEnd::default(),
            mtu: 1_500,
            congestion_control: None,
            pin: None,
            keep_awake: false,
        }
    }
}

impl Emulation {
    /// Makes the ends and starts the link.
    ///
    /// The process needs the privilege that [`enter`](crate::enter) gets. It blocks for some 15 ms;
    /// dropping the link takes some 40 ms.
    ///
    /// # Errors
    /// Names the step that failed and the kernel's answer. Nothing is left behind then.
    pub fn start(options: Options) -> Result<Self, Error> {
        check(&options)?;
        let parameters = Parameters::from(&options);
        let (far_end, mtu) = (options.far_end, options.mtu);
        let tuning = Tuning {
            congestion_control: options.congestion_control,
            host: Namespace::current()?,
        };
        let (server, server_tun) = plug_in(far_end)?;
        let (client, client_tun) = plug_in(FarEnd::ServerNamespace)?;
        let subnet = choose_subnet(far_end, &server, &server_tun)?;
        let far_tuning = match far_end {
            FarEnd::ServerNamespace => Some(&tuning),
            FarEnd::Host => None,
        };
        let (server, mut unset) =
            server.run(|| configure(&server, &server_tun, subnet.server(), mtu, far_tuning))?;
        let (client, client_unset) = client.run(|| {
            let address = subnet.client();
            let configured = configure(&client, &client_tun, address, mtu, Some(&tuning))?;
            Netlink::open()?.add_default_route(subnet.server())?;
            Ok(configured)
        })?;
        unset.extend(client_unset);
        let link = LinkThread::start([client_tun, server_tun], mtu, parameters, options.pin)?;
        let since = Mutex::new(Since {
            dropped: client.dropped()? + server.dropped()?,
            delay: options.up.delay.max(options.down.delay),
        });
        Ok(Self {
            link,
            client,
            server,
            unset,
            since,
            awake: options.keep_awake.then(Awake::start),
        })
    }

    /// Begins anew: new parameters and seed, an empty link, zeroed counters.
    ///
    /// Packets that are in the link are thrown away, so let the traffic before it come to its end.
    ///
    /// # Errors
    /// [`Error::LinkStopped`] when the link no longer runs.
    pub fn restart(&self, up: Config, down: Config, seed: u64) -> Result<(), Error> {
        let mut since = self.since();
        let delay = up.delay.max(down.delay);
        self.link.restart(Parameters { up, down, seed })?;
        since.dropped = self.dropped()?;
        since.delay = delay;
        Ok(())
    }

    /// What the link did since the last start or restart.
    ///
    /// # Errors
    /// [`Error::LinkStopped`] when the link no longer runs.
    pub fn report(&self) -> Result<LinkReport, Error> {
        let since = self.since();
        let snapshot = self.link.snapshot()?;
        let dropped = self.dropped()?.saturating_sub(since.dropped);
        Ok(self.to_report(&snapshot, dropped, since.delay))
    }

    /// A command that runs at the client's end.
    ///
    /// It gets a process group of its own (a Ctrl-C at the terminal does not reach it), and
    /// `ALTWAY_SERVER` and `ALTWAY_CLIENT`, the addresses of the two ends, in its environment. It is
    /// killed when the *thread* that spawned it ends (PR_SET_PDEATHSIG), so spawn it from a thread
    /// that outlives it.
    pub fn client_command(&self, program: impl AsRef<OsStr>) -> Command {
        self.command(&self.client, program.as_ref())
    }

    /// A command that runs at the far end, in all else like
    /// [`client_command`](Self::client_command).
    pub fn server_command(&self, program: impl AsRef<OsStr>) -> Command {
        self.command(&self.server, program.as_ref())
    }

    /// The address of the far end.
    #[must_use]
    pub fn server_address(&self) -> IpAddr {
        self.server.address.into()
    }

    /// The address of the client's end.
    #[must_use]
    pub fn client_address(&self) -> IpAddr {
        self.client.address.into()
    }

    /// The kernel parameters that could not be set in the namespaces; each costs something.
    #[must_use]
    pub fn unset(&self) -> &[Unset] {
        &self.unset
    }

    /// Whether the processors are kept awake.
    #[must_use]
    pub fn keeps_awake(&self) -> bool {
        self.awake.as_ref().is_some_and(Awake::is_on)
    }

    fn command(&self, end: &End, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        command
            .process_group(0)
            .env("ALTWAY_SERVER", self.server.address.to_string())
            .env("ALTWAY_CLIENT", self.client.address.to_string());
        sys::join_before_exec(&mut command, end.namespace.clone());
        command
    }

    fn to_report(&self, snapshot: &Snapshot, dropped: u64, delay: Duration) -> LinkReport {
        let micros = |nanos: u64| nanos as f64 / 1_000.0;
        LinkReport {
            up: snapshot.up.into(),
            down: snapshot.down.into(),
            realtime_priority: self.link.is_realtime(),
            lateness_us_p50: micros(snapshot.lateness.percentile(50)),
            lateness_us_p99: micros(snapshot.lateness.percentile(99)),
            lateness_us_max: micros(snapshot.lateness.max()),
            lateness_limit_us: LinkReport::lateness_limit_us(delay),
            hidden_drops: snapshot.mishaps + dropped,
        }
    }

    /// What the kernel dropped at both interfaces since they were made.
    fn dropped(&self) -> Result<u64, Error> {
        Ok(self.client.dropped()? + self.server.dropped()?)
    }

    /// Also keeps two callers from mixing up a restart and a report.
    fn since(&self) -> MutexGuard<'_, Since> {
        // Nothing that holds it can panic between its two fields.
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl End {
    fn dropped(&self) -> Result<u64, Error> {
        let interface = self.interface;
        self.namespace.run(|| Netlink::open()?.dropped(interface))
    }
}

impl From<&Options> for Parameters {
    fn from(options: &Options) -> Self {
        Self {
            up: options.up.clone(),
            down: options.down.clone(),
            seed: options.seed,
        }
    }
}

fn check(options: &Options) -> Result<(), Error> {
    if options.mtu < LEAST_MTU {
        return Err(Error::Mtu {
            mtu: options.mtu,
            least: LEAST_MTU,
        });
    }
    if options.far_end == FarEnd::Host && privilege::in_user_namespace() {
        return Err(Error::HostNeedsRoot);
    }
    Ok(())
}

/// The namespace of one end, with a TUN interface in it.
fn plug_in(end: FarEnd) -> Result<(Namespace, Tun), Error> {
    let namespace = match end {
        FarEnd::ServerNamespace => Namespace::create()?,
        FarEnd::Host => Namespace::current()?,
    };
    let tun = namespace.run(Tun::create)?;
    Ok((namespace, tun))
}

fn choose_subnet(far_end: FarEnd, server: &Namespace, tun: &Tun) -> Result<Subnet, Error> {
    match far_end {
        FarEnd::ServerNamespace => Ok(Subnet::number(0)),
        // The search begins at the number of the interface, which no other emulation on this host
        // has, so that two that start at the same moment don't choose the same subnet.
        FarEnd::Host => server.run(|| {
            let in_use = Netlink::open()?.routed_prefixes()?;
            Subnet::free(tun.index()?, &in_use).ok_or(Error::NoFreeSubnet)
        }),
    }
}

/// Sets one end up, on a thread in its namespace; a namespace that was there before is not tuned.
fn configure(
    namespace: &Namespace,
    tun: &Tun,
    address: Ipv4Addr,
    mtu: u16,
    tuning: Option<&Tuning>,
) -> Result<(End, Vec<Unset>), Error> {
    let netlink = Netlink::open()?;
    let mut unset = Vec::new();
    if let Some(tuning) = tuning {
        netlink.set_loopback_up()?;
        unset.extend(sysctl::tune_namespace());
        if let Some(name) = &tuning.congestion_control {
            congestion::set_default(name, &tuning.host)?;
        }
    }
    unset.extend(sysctl::disable_ipv6(tun.name()));
    let interface = tun.index()?;
    netlink.set_up(interface, mtu, Tun::QUEUE)?;
    netlink.add_address(interface, address, Subnet::LENGTH)?;
    let end = End {
        namespace: namespace.clone(),
        address,
        interface,
    };
    Ok((end, unset))
}
