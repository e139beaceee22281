//! Pairs of virtual Ethernet interfaces, and what a link needs to know of an interface that was given.

use super::Netlink;
use crate::Error;
use crate::link_devices::Interface;
use crate::namespace::Namespace;
use crate::pairs::Mac;
use futures_util::TryStreamExt;
use rtnetlink::packet_route::link::{
    InfoData, InfoVeth, LinkAttribute, LinkLayerType, LinkMessage,
};
use rtnetlink::packet_route::route::RouteScope;
use rtnetlink::{LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

/// Properties of an interface that a link needs to know before it uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterfaceProperties {
    pub(crate) index: u32,
    pub(crate) mtu: u32,
    pub(crate) is_ethernet: bool,
    pub(crate) is_up: bool,
    /// True if it is a port of a bridge or a bond.
    pub(crate) has_master: bool,
}

/// Packets and bytes that an interface received since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReceivedCounters {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Netlink {
    /// Makes an interface called `near` in this namespace and its peer in namespace `there`, whose
    /// name becomes `far`, in which `%d` is a free number.
    ///
    /// Returns the index of the near one, and that of the far one in its own namespace.
    pub(crate) fn add_pair(
        &self,
        (near, near_mac): (&str, Mac),
        (far, far_mac): (&str, Mac),
        there: &Namespace,
    ) -> Result<(u32, u32), Error> {
        let peer = LinkMessageBuilder::<LinkUnspec>::new()
            .name(far)
            .address(far_mac.to_vec())
            .arp(false)
            .setns_by_fd(there.as_fd().as_raw_fd());
        let pair = LinkMessageBuilder::<LinkVeth>::new(near, "")
            .address(near_mac.to_vec())
            // Nor does it listen to the group in which IPv6 would be asked, and report that it does.
            .arp(false)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer.build())));
        let request = self.handle.link().add(pair.build());
        self.run("create a pair of interfaces", request.execute())?;
        let made = self.link_named(near)?;
        let far_index = made
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                LinkAttribute::Link(index) => Some(*index),
                _ => None,
            });
        let missing = || Error::Network {
            attempted: "find the pair of interfaces",
            source: io::ErrorKind::NotFound.into(),
        };
        Ok((made.header.index, far_index.ok_or_else(missing)?))
    }

    /// The interface of that index.
    pub(crate) fn interface(&self, index: u32) -> Result<Interface, Error> {
        let found = self.handle.link().get().match_index(index).execute();
        let found: Vec<LinkMessage> = self.run("find the interface", found.try_collect())?;
        let name = found
            .iter()
            .flat_map(|link| &link.attributes)
            .find_map(name_of);
        name.map(|name| Interface { name, index })
            .ok_or_else(|| Error::Network {
                attempted: "find the interface",
                source: io::ErrorKind::NotFound.into(),
            })
    }

    /// Returns the properties of the interface of that name.
    ///
    /// # Errors
    /// [`Error::NoInterface`] when there is none.
    pub(crate) fn interface_properties(&self, name: &str) -> Result<InterfaceProperties, Error> {
        let link = self.link_named(name).map_err(|error| match error {
            Error::Network { source, .. } if is_absence(&source) => Error::NoInterface {
                name: name.to_owned(),
            },
            other => other,
        })?;
        let mtu = link
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                LinkAttribute::Mtu(mtu) => Some(*mtu),
                _ => None,
            });
        let has_master = |attribute| matches!(attribute, &LinkAttribute::Controller(_));
        Ok(InterfaceProperties {
            index: link.header.index,
            mtu: mtu.unwrap_or(0),
            is_ethernet: link.header.link_layer_type == LinkLayerType::Ether,
            is_up: link
                .header
                .flags
                .contains(rtnetlink::packet_route::link::LinkFlags::Up),
            has_master: link.attributes.iter().any(has_master),
        })
    }

    /// Returns what an interface received, counted below IP.
    pub(crate) fn received(&self, index: u32) -> Result<ReceivedCounters, Error> {
        let counters = self.counters(index)?;
        Ok(ReceivedCounters {
            packets: counters.rx_packets,
            bytes: counters.rx_bytes,
        })
    }

    /// Takes an interface away, and its peer with it.
    pub(crate) fn remove(&self, index: u32) -> Result<(), Error> {
        self.run(
            "take the link away",
            self.handle.link().del(index).execute(),
        )
    }

    /// Tells the kernel once and for all where `address` is, so that it never asks.
    pub(crate) fn add_neighbour(&self, index: u32, address: IpAddr, mac: Mac) -> Result<(), Error> {
        let request = self
            .handle
            .neighbours()
            .add(index, address)
            .link_layer_address(&mac);
        self.run("tell where the other end is", request.execute())
    }

    /// Sends what is for `address` out of an interface.
    pub(crate) fn add_host_route(&self, index: u32, address: IpAddr) -> Result<(), Error> {
        let route = match address {
            IpAddr::V4(address) => RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(address, 32)
                .output_interface(index)
                .scope(RouteScope::Link)
                .build(),
            IpAddr::V6(address) => RouteMessageBuilder::<Ipv6Addr>::new()
                .destination_prefix(address, 128)
                .output_interface(index)
                .build(),
        };
        self.run("route to an end", self.handle.route().add(route).execute())
    }

    fn link_named(&self, name: &str) -> Result<LinkMessage, Error> {
        let attempted = "find the interface";
        let found = self.handle.link().get().match_name(name.to_owned());
        let found: Vec<_> = self.run(attempted, found.execute().try_collect())?;
        found.into_iter().next().ok_or_else(|| Error::Network {
            attempted,
            source: io::ErrorKind::NotFound.into(),
        })
    }
}

/// Returns whether the kernel says that there is no such interface.
fn is_absence(error: &io::Error) -> bool {
    const NO_SUCH_DEVICE: i32 = libc::ENODEV;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(NO_SUCH_DEVICE)
}

fn name_of(attribute: &LinkAttribute) -> Option<String> {
    match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    }
}
