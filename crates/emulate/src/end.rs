//! The ends of a link, and of the veth pair to a router: a namespace, an address and an interface each.
//!
//! The link's devices lie between them, and the emulation runs programs at them.

use crate::Error;
use crate::congestion;
use crate::ip::IpVersion;
use crate::link_devices::{Interface, LinkDevices};
use crate::namespace::Namespace;
use crate::netlink::Netlink;
use crate::subnet::Prefix;
use crate::sysctl::{self, UnsetParameter};
use rtnetlink::packet_route::link::Stats64;
use std::net::IpAddr;

/// An end of the link, or of the veth pair to a router, as it is seen from outside.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) namespace: Namespace,
    pub(crate) address: IpAddr,
    /// The index of its interface in the namespace.
    pub(crate) interface: u32,
}

/// Address of an end of the link, its subnet, and the MTU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndAddress {
    pub(crate) address: IpAddr,
    pub(crate) subnet: Prefix,
    pub(crate) mtu: u16,
}

/// Settings of the namespaces made here.
#[derive(Debug)]
pub(crate) struct Tuning {
    pub(crate) congestion_control: Option<String>,
    /// The namespace of the caller.
    pub(crate) host: Namespace,
}

impl End {
    /// Returns the counters of what passed its interface so far.
    pub(crate) fn counters(&self) -> Result<Stats64, Error> {
        let interface = self.interface;
        self.namespace.run(|| Netlink::open()?.counters(interface))
    }

    /// Returns the packets that its interface dropped so far.
    pub(crate) fn dropped(&self) -> Result<u64, Error> {
        let interface = self.interface;
        self.namespace.run(|| Netlink::open()?.dropped(interface))
    }
}

/// Sets one end of the link up, on a thread in its namespace; a namespace that was there before is
/// not tuned.
pub(crate) fn configure(
    namespace: &Namespace,
    interface: &Interface,
    place: EndAddress,
    tuning: Option<&Tuning>,
) -> Result<(End, Vec<UnsetParameter>), Error> {
    let EndAddress {
        address,
        subnet,
        mtu,
    } = place;
    let mut unset = tuning.map_or(Ok(Vec::new()), configure_namespace)?;
    unset.extend(sysctl::prepare_interface(
        IpVersion::of(address),
        &interface.name,
    ));
    let netlink = Netlink::open()?;
    netlink.set_up(interface.index, mtu, Interface::QUEUE)?;
    netlink.add_address(interface.index, address, subnet)?;
    let end = End {
        namespace: namespace.clone(),
        address,
        interface: interface.index,
    };
    Ok((end, unset))
}

/// Tells each end once and for all where the other is, where the link has hardware addresses.
pub(crate) fn add_neighbours(
    devices: &LinkDevices,
    [near, server]: [&End; 2],
) -> Result<(), Error> {
    let Some([of_server, of_near]) = devices.neighbours() else {
        return Ok(());
    };
    let tell = |end: &End, other: &End, mac| {
        let (interface, address) = (end.interface, other.address);
        let add = || Netlink::open()?.add_neighbour(interface, address, mac);
        end.namespace.run(add)
    };
    tell(near, server, of_server)?;
    tell(server, near, of_near)
}

/// Sets a namespace of ours up, on a thread in it.
pub(crate) fn configure_namespace(tuning: &Tuning) -> Result<Vec<UnsetParameter>, Error> {
    Netlink::open()?.set_loopback_up()?;
    if let Some(name) = &tuning.congestion_control {
        congestion::set_default(name, &tuning.host)?;
    }
    Ok(sysctl::tune_namespace())
}
