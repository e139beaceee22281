//! Ends of a link that are virtual Ethernet interfaces, whose peers lie in a namespace between them.
//!
//! For hosts whose `/dev/net/tun` is closed, and for links that the kernel shapes. Each packet on
//! them is a wire packet: all offloads are off. Nothing on them asks where an address is (ARP), for
//! both ends are told when the link is made, so nothing but the programs' packets takes part in the
//! loss.

use crate::Error;
use crate::ip::IpVersion;
use crate::link_devices::Interface;
use crate::namespace::Namespace;
use crate::netlink::Netlink;
use crate::sys::{self, Offload};
use crate::sysctl;

/// A hardware address.
pub(crate) type Mac = [u8; 6];

/// Locally administered (IEEE 802 §8.4): nobody else's. Pairs are alone on their wire, so that every
/// emulation may use the same.
const fn mac(number: u8) -> Mac {
    [0x02, 0, 0, 0, 0, number]
}

/// The kernel fills in the first free number.
const NAME_PATTERN: &str = "altway%d";

/// The pairs of both ends: an interface at each end, and between them their peers.
#[derive(Debug)]
pub(crate) struct Pairs {
    /// The namespace between the ends.
    pub(crate) middle: Namespace,
    pub(crate) client: Pair,
    pub(crate) server: Pair,
}

/// An interface at one end and its peer.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) end: Interface,
    pub(crate) end_mac: Mac,
    /// The interface in the namespace between the ends.
    pub(crate) peer: Interface,
    pub(crate) peer_mac: Mac,
}

impl Pairs {
    /// Makes both pairs, and has the kernel pass packets of one version of IP `forward` between them,
    /// if it is to. They vanish with the namespace between them, so with this value.
    pub(crate) fn create(
        client: &Namespace,
        server: &Namespace,
        mtu: u16,
        forward: Option<IpVersion>,
    ) -> Result<Self, Error> {
        let middle = Namespace::create()?;
        let (client, server) = middle.run(|| {
            // Before there are interfaces: each would join the group of all routers, and report it.
            forward.map_or(Ok(()), sysctl::let_forward)?;
            let netlink = Netlink::open()?;
            let create = |name, end, macs| {
                let pair = Pair::create(&netlink, name, end, macs)?;
                prepare_peer(&netlink, &pair.peer, mtu, forward)?;
                Ok(pair)
            };
            Ok((
                create("client", client, [mac(1), mac(2)])?,
                create("server", server, [mac(3), mac(4)])?,
            ))
        })?;
        Ok(Self {
            middle,
            client,
            server,
        })
    }

    /// Returns the packets that the interfaces between the ends dropped so far.
    pub(crate) fn dropped(&self) -> Result<u64, Error> {
        let (client, server) = (self.client.peer.index, self.server.peer.index);
        self.middle.run(|| {
            let netlink = Netlink::open()?;
            Ok(netlink.dropped(client)? + netlink.dropped(server)?)
        })
    }
}

impl Drop for Pairs {
    /// The kernel takes the interfaces away with their namespace, but only after a while.
    fn drop(&mut self) {
        let (client, server) = (self.client.peer.index, self.server.peer.index);
        let removed = self.middle.run(|| {
            let netlink = Netlink::open()?;
            netlink.remove(client)?;
            netlink.remove(server)
        });
        if let Err(error) = removed {
            tracing::debug!(%error, "the interfaces go with their namespace");
        }
    }
}

impl Pair {
    fn create(
        netlink: &Netlink,
        name: &str,
        end: &Namespace,
        [end_mac, peer_mac]: [Mac; 2],
    ) -> Result<Self, Error> {
        let near = (name, peer_mac);
        let (near, far) = netlink.add_pair(near, (NAME_PATTERN, end_mac), end)?;
        let peer = Interface {
            name: name.to_owned(),
            index: near,
        };
        let end = end.run(|| {
            let end = Netlink::open()?.interface(far)?;
            only_wire_packets(&end.name)?;
            Ok(end)
        })?;
        Ok(Self {
            end,
            end_mac,
            peer,
            peer_mac,
        })
    }
}

fn prepare_peer(
    netlink: &Netlink,
    peer: &Interface,
    mtu: u16,
    forward: Option<IpVersion>,
) -> Result<(), Error> {
    only_wire_packets(&peer.name)?;
    // It would send router solicitations to the end; without IPv6 in the kernel there are none.
    sysctl::prepare_interface(forward.unwrap_or(IpVersion::V4), &peer.name);
    netlink.set_up(peer.index, mtu, Interface::QUEUE)
}

/// Switches everything off that makes one packet of several, or leaves a checksum to the hardware.
fn only_wire_packets(interface: &str) -> Result<(), Error> {
    let failed = |source| Error::Network {
        attempted: "switch offloads off",
        source,
    };
    for offload in Offload::ALL {
        sys::set_offload(interface, offload, false).map_err(failed)?;
    }
    Ok(())
}
