//! The pair of virtual Ethernet interfaces between the client and the router.
//!
//! Every packet on it is a wire packet: the kernel may not join segments into larger ones
//! (offloads), and the two ends know each other's hardware addresses, so that nothing is asked for
//! (ARP, neighbour discovery).

use crate::Error;
use crate::namespace::Namespace;
use crate::netlink::Netlink;
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute};
use rtnetlink::{LinkMessageBuilder, LinkUnspec, LinkVeth};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

/// The queue of packets that wait to be sent: none wait, as the other end always takes them.
const QUEUE: u32 = 1_000;

/// An end of the pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VethEnd {
    Client,
    Router,
}

impl VethEnd {
    /// The name of the interface in its namespace.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "altway0",
            Self::Router => "altway-client",
        }
    }

    /// Addresses of the locally administered kind (IEEE 802 §8.2): both ends are in namespaces of
    /// ours, so they collide with none.
    fn hardware_address(self) -> Vec<u8> {
        let last = match self {
            Self::Client => 1,
            Self::Router => 2,
        };
        vec![0x02, 0, 0, 0, 0, last]
    }

    fn other(self) -> Self {
        match self {
            Self::Client => Self::Router,
            Self::Router => Self::Client,
        }
    }
}

/// Creates the pair from the namespace of the calling thread, the client's, to that of the router. Both
/// ends are down.
pub(crate) fn create_pair(router: &Namespace, mtu: u16) -> Result<(), Error> {
    let netlink = Netlink::open()?;
    let peer = end(
        LinkMessageBuilder::<LinkUnspec>::new(),
        VethEnd::Router,
        mtu,
    )
    .setns_by_fd(router.as_fd().as_raw_fd())
    .build();
    let (near, far) = (VethEnd::Client.name(), VethEnd::Router.name());
    let pair = end(LinkVeth::new(near, far), VethEnd::Client, mtu)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
        .build();
    let request = netlink.handle().link().add(pair).execute();
    netlink.run("create a veth pair between client and router", request)
}

/// Sets an end up in the namespace of the calling thread, and tells it where `peer` is; returns its
/// index.
pub(crate) fn set_up(end: VethEnd, mtu: u16, peer: IpAddr) -> Result<u32, Error> {
    let index = index(end)?;
    let netlink = Netlink::open()?;
    netlink.set_up(index, mtu, QUEUE)?;
    let neighbours = netlink.handle().neighbours();
    let known = neighbours
        .add(index, peer)
        .link_layer_address(&end.other().hardware_address());
    netlink.run(
        "tell the ends of a veth pair of each other",
        known.execute(),
    )?;
    Ok(index)
}

fn end<T>(builder: LinkMessageBuilder<T>, end: VethEnd, mtu: u16) -> LinkMessageBuilder<T> {
    builder
        .name(end.name())
        .mtu(mtu.into())
        .address(end.hardware_address())
        // Nor does it listen to the group in which IPv6 would be asked, and report that it does.
        .arp(false)
        // What TCP or an application (UDP_SEGMENT) hands over as one is split up before it is sent.
        .append_extra_attribute(LinkAttribute::GsoMaxSegs(1))
}

fn index(end: VethEnd) -> Result<u32, Error> {
    nix::net::if_::if_nametoindex(end.name()).map_err(|errno| Error::Network {
        attempted: "find an end of the veth pair",
        source: errno.into(),
    })
}
