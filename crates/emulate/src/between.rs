//! A link between two interfaces that are there already: for a container that stands between others,
//! as their router or their wire.

use crate::Error;
use crate::backend::{self, Backend, Choice};
use crate::changes::Changes;
use crate::claim::{Claim, claim};
use crate::control::{LinkState, Target};
use crate::ip::IpVersion;
use crate::link::Link;
use crate::link_devices::{Interface, Start};
use crate::netem::{NetemLink, Router, beyond_netem};
use crate::netlink::{InterfaceProperties, Netlink};
use crate::packet::PacketPort;
use crate::packet_log::{LogReport, PacketLog};
use crate::pump::{Parameters, Snapshot};
use crate::report::{Circumstances, LinkReport};
use crate::subnet::Subnet;
use crate::thread::LinkThread;
use altway_link::{Change, Config, Schedule};
use std::path::PathBuf;

/// Options of a link between given interfaces.
#[derive(Debug, Clone)]
pub struct BetweenOptions {
    /// The interface on the client's side, in the network namespace of the caller: its name, or a
    /// block of addresses of which it has one (`198.19.1.0/24`).
    pub client_side: String,
    /// The interface on the server's side, named in the same way.
    pub server_side: String,
    /// The direction from the client to the server.
    pub up: Config,
    /// The direction from the server to the client.
    pub down: Config,
    /// The seed of the random loss of both directions.
    pub seed: u64,
    /// The mover of the packets: [`Backend::Packet`] or [`Backend::Netem`]; `None` takes the first
    /// of the two that can be used.
    pub backend: Option<Backend>,
    /// The processor that the link thread keeps to; `None` leaves it to the kernel.
    pub pin: Option<usize>,
    /// The file for a log of all packets at both interfaces (pcapng), as
    /// [`Options::packet_log`](crate::Options::packet_log); not with [`Backend::Netem`].
    pub packet_log: Option<PathBuf>,
}

/// A link between two given interfaces that runs. Dropping it ends it, and puts the interfaces back to
/// what they were.
///
/// With [`Backend::Packet`] the link is their wire: whatever comes in through one leaves through the
/// other, but for what is for this host itself, so that both sides are one Ethernet. With
/// [`Backend::Netem`] this host is their router, and the kernel shapes what it forwards.
///
/// Needs CAP_NET_ADMIN and CAP_NET_RAW. Offloads of the interfaces are off while it runs; those of the
/// senders should be off too: what they leave to be cut up (TSO, GSO) is no packet of a wire, does not
/// pass, and is counted in [`LinkReport::hidden_drops_sockets`]. After `kill -9` the offloads stay
/// off, and netem stays on the interfaces, until [`clean`](crate::clean()) puts them back.
#[derive(Debug)]
pub struct Between {
    link: Box<dyn Link>,
    /// The packet log; dropped after the link, which must be gone before the log can end.
    packet_log: Option<PacketLog>,
    choice: Choice,
    interfaces: [Interface; 2],
    /// Packets that both had dropped when the link began.
    dropped: u64,
    // After the link, in this order.
    _changes: Changes,
    _claims: [Claim; 2],
}

impl Between {
    /// Starts the link.
    ///
    /// # Errors
    /// Names the interface that is missing or can't be used, the privilege that is missing, or what
    /// the backend can't do. Nothing is left behind then.
    pub fn start(options: BetweenOptions) -> Result<Self, Error> {
        let (interfaces, mtu) = look_up(&options)?;
        let claims = [claim(&interfaces[0])?, claim(&interfaces[1])?];
        let choice = backend::choose_between(options.backend)?;
        let is_netem = choice.backend == Backend::Netem;
        if is_netem && options.packet_log.is_some() {
            return Err(beyond_netem("a packet log"));
        }
        let log = options.packet_log.as_deref().map(PacketLog::create);
        let (packet_log, recorder) = log.transpose()?.unzip();
        let changes = Changes::make(&interfaces, is_netem)?;
        let dropped = dropped(&interfaces)?;
        let start = Start {
            parameters: Parameters {
                up: options.up,
                down: options.down,
                seed: options.seed,
            },
            mtu,
            recorder,
            pin: options.pin,
            // Not used between interfaces that have their addresses.
            subnet: Subnet::number(IpVersion::V4, 0),
            beyond: None,
        };
        let link: Box<dyn Link> = match choice.backend {
            Backend::Netem => {
                let router = Router::given(interfaces.clone())?;
                Box::new(NetemLink::start(router, start.parameters, mtu)?)
            }
            _ => {
                let open = |interface: &Interface| PacketPort::open(interface.index, mtu);
                let ends = [open(&interfaces[0])?, open(&interfaces[1])?];
                Box::new(LinkThread::start(ends, None, start)?)
            }
        };
        Ok(Self {
            link,
            packet_log,
            choice,
            interfaces,
            dropped,
            _changes: changes,
            _claims: claims,
        })
    }

    /// Returns what the link did since it was started. Of a link in the kernel, packets that entered
    /// are all that came in through the interface, those for this host among them.
    ///
    /// # Errors
    /// [`Error::LinkStopped`] when the link no longer runs: one of the interfaces went away.
    pub fn report(&self) -> Result<LinkReport, Error> {
        self.take_report(&self.link.snapshot()?)
    }

    /// Goes through these changes, at times that count from now, as
    /// [`Emulation::set_schedule`](crate::Emulation::set_schedule) does.
    ///
    /// # Errors
    /// [`Error::LinkStopped`] when the link no longer runs; [`Error::Unshapable`] of changes that
    /// [`Backend::Netem`] has nothing for.
    pub fn set_schedule(&self, schedule: Schedule) -> Result<(), Error> {
        self.link.set_schedule(schedule)
    }

    /// The names of the interfaces on the client's side and on the server's.
    #[must_use]
    pub fn sides(&self) -> [&str; 2] {
        let [client, server] = &self.interfaces;
        [&client.name, &server.name]
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

    /// Returns the backend that moves the packets.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.choice.backend
    }

    fn take_report(&self, snapshot: &Snapshot) -> Result<LinkReport, Error> {
        let dropped = dropped(&self.interfaces).map_err(|_| Error::LinkStopped)?;
        let circumstances = Circumstances {
            choice: &self.choice,
            realtime_priority: self.link.is_realtime(),
            arrivals_by_kernel: self.link.knows_arrivals(),
            dropped: dropped.saturating_sub(self.dropped),
            router: None,
        };
        Ok(LinkReport::new(snapshot, circumstances))
    }
}

impl Target for Between {
    fn change(&self, change: &Change) -> Result<(), Error> {
        self.link.change(change.clone())
    }

    fn reset(&self) -> Result<(), Error> {
        self.link.reset()
    }

    fn state(&self) -> Result<LinkState, Error> {
        let snapshot = self.link.snapshot()?;
        let report = self.take_report(&snapshot)?;
        let log = self.packet_log.as_ref().map(PacketLog::report);
        Ok(LinkState::new(&snapshot.now, report, log))
    }
}

/// Finds both interfaces, and the larger of their MTUs.
fn look_up(options: &BetweenOptions) -> Result<([Interface; 2], u16), Error> {
    let netlink = Netlink::open()?;
    let client = netlink.find_interface(&options.client_side)?;
    let server = netlink.find_interface(&options.server_side)?;
    if client == server {
        return Err(unfit(client, "can't be both sides of a link"));
    }
    let mut mtu = 0;
    for side in [&client, &server] {
        let given = netlink.interface_properties(&side.name)?;
        if let Some(reason) = flaw(&given) {
            return Err(unfit(side.clone(), reason));
        }
        mtu = given.mtu.max(mtu);
    }
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
    Ok(([client, server], mtu))
}

fn unfit(interface: Interface, reason: &'static str) -> Error {
    Error::UnfitInterface {
        name: interface.name,
        reason,
    }
}

fn flaw(given: &InterfaceProperties) -> Option<&'static str> {
    if !given.is_ethernet {
        return Some("is no Ethernet interface");
    }
    if given.has_master {
        return Some("belongs to a bridge or a bond");
    }
    (!given.is_up).then_some("is not up")
}

fn dropped(interfaces: &[Interface; 2]) -> Result<u64, Error> {
    let netlink = Netlink::open()?;
    Ok(netlink.dropped(interfaces[0].index)? + netlink.dropped(interfaces[1].index)?)
}
