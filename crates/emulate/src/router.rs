//! The router between the client and the link in the topologies `router` and `proxied`: a
//! namespace with a veth pair to the client's, in which packets are forwarded or proxies run.

use crate::end::{End, Tuning, configure_namespace};
use crate::ip::IpVersion;
use crate::namespace::Namespace;
use crate::netlink::Netlink;
use crate::proxy::{Forward, Limits, Proxy, ProxyReport};
use crate::report::{DirectionReport, RouterReport};
use crate::subnet::Subnet;
use crate::sysctl::{self, UnsetParameter};
use crate::topology::Topology;
use crate::veth::{self, VethEnd};
use crate::{Error, udp_drops};
use rtnetlink::packet_route::link::Stats64;
use std::net::IpAddr;

/// Bytes that an interface counts besides the IP packet: the header of Ethernet (IEEE 802.3
/// §3.1.1).
const ETHERNET_HEADER: u64 = 14;

/// Settings of a router.
pub(crate) struct Plan<'a> {
    pub(crate) topology: Topology,
    /// The addresses of the veth pair.
    pub(crate) veth: Subnet,
    pub(crate) mtu: u16,
    /// The address of the server.
    pub(crate) server: IpAddr,
    /// Ports that the proxies pass on, of TCP and of UDP each.
    pub(crate) proxy_ports: &'a [u16],
    pub(crate) tuning: &'a Tuning,
}

/// A router that runs; dropping it ends its proxies.
#[derive(Debug)]
pub(crate) struct Router {
    /// The end of the veth pair.
    end: End,
    proxy: Option<Proxy>,
}

/// The counters of a router since it was made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RouterCounters {
    client: Stats64,
    router: Stats64,
    proxy: ProxyReport,
    /// Datagrams that the kernel dropped before a proxy took them.
    udp_drops: u64,
}

impl Router {
    /// Makes a namespace for the client and joins it to `namespace`, which becomes the router's and
    /// has its end of the link already. Returns the client's end too.
    pub(crate) fn start(
        namespace: &Namespace,
        plan: &Plan<'_>,
    ) -> Result<(Self, End, Vec<UnsetParameter>), Error> {
        let client_namespace = Namespace::create()?;
        let (client, unset) = client_namespace.run(|| {
            let mut unset = configure_namespace(plan.tuning)?;
            veth::create_pair(namespace, plan.mtu)?;
            let (end, more) = set_up_end(&client_namespace, VethEnd::Client, plan)?;
            unset.extend(more);
            Netlink::open()?.add_default_route(plan.veth.server())?;
            Ok((end, unset))
        })?;
        let mut unset = unset;
        let (router, more) = namespace.run(|| set_up(namespace, plan))?;
        unset.extend(more);
        Ok((router, client, unset))
    }

    /// The router's address on the client's side.
    pub(crate) fn address(&self) -> IpAddr {
        self.end.address
    }

    /// Returns whether proxies pass on, and not the kernel.
    pub(crate) fn is_proxy(&self) -> bool {
        self.proxy.is_some()
    }

    /// Counts what happened so far on the veth pair to `client`, and in the proxies.
    pub(crate) fn counters(&self, client: &End) -> Result<RouterCounters, Error> {
        let (router, udp_drops) = self.end.namespace.run(|| {
            let counters = Netlink::open()?.counters(self.end.interface)?;
            Ok((counters, udp_drops::count()))
        })?;
        Ok(RouterCounters {
            client: client.counters()?,
            router,
            proxy: self.proxy.as_ref().map(Proxy::report).unwrap_or_default(),
            udp_drops,
        })
    }

    /// Returns what happened between two readings of the counters.
    pub(crate) fn report(&self, before: &RouterCounters, now: &RouterCounters) -> RouterReport {
        let (client, router) = (
            passed(&before.client, &now.client),
            passed(&before.router, &now.router),
        );
        RouterReport {
            up: veth_counts(client.sent, router.received),
            down: veth_counts(router.sent, client.received),
            proxy: self.proxy.is_some().then(|| now.proxy.since(before.proxy)),
        }
    }
}

impl RouterCounters {
    /// Packets that were lost at the router and by no model.
    pub(crate) fn hidden_drops(&self) -> u64 {
        dropped(&self.client) + dropped(&self.router) + self.proxy.udp_dropped + self.udp_drops
    }
}

/// Sets the router up, on a thread in its namespace.
fn set_up(namespace: &Namespace, plan: &Plan<'_>) -> Result<(Router, Vec<UnsetParameter>), Error> {
    let (end, unset) = set_up_end(namespace, VethEnd::Router, plan)?;
    let proxy = match plan.topology {
        Topology::Proxied => Some(start_proxy(end.address, plan)?),
        _ => None,
    };
    Ok((Router { end, proxy }, unset))
}

/// Sets one end of the veth pair up, on a thread in its namespace.
fn set_up_end(
    namespace: &Namespace,
    end: VethEnd,
    plan: &Plan<'_>,
) -> Result<(End, Vec<UnsetParameter>), Error> {
    let (address, peer) = match end {
        VethEnd::Client => (plan.veth.client(), plan.veth.server()),
        VethEnd::Router => (plan.veth.server(), plan.veth.client()),
    };
    let unset = sysctl::prepare_interface(IpVersion::of(address), end.name());
    let interface = veth::set_up(end, plan.mtu, peer)?;
    Netlink::open()?.add_address(interface, address, plan.veth.prefix())?;
    let end = End {
        namespace: namespace.clone(),
        address,
        interface,
    };
    Ok((end, unset))
}

fn start_proxy(address: IpAddr, plan: &Plan<'_>) -> Result<Proxy, Error> {
    let forward = |port: &u16| Forward {
        listen: (address, *port).into(),
        host: plan.server.to_string(),
        port: *port,
    };
    let forwards: Vec<_> = plan.proxy_ports.iter().map(forward).collect();
    Proxy::start(&forwards, &forwards, Limits::default())
}

/// Packets and IP bytes through an interface.
struct Passed {
    sent: (u64, u64),
    received: (u64, u64),
}

fn passed(before: &Stats64, now: &Stats64) -> Passed {
    let ip = |packets: u64, bytes: u64| (packets, bytes - packets * ETHERNET_HEADER);
    Passed {
        sent: ip(
            now.tx_packets - before.tx_packets,
            now.tx_bytes - before.tx_bytes,
        ),
        received: ip(
            now.rx_packets - before.rx_packets,
            now.rx_bytes - before.rx_bytes,
        ),
    }
}

/// The counts of one direction of the veth pair, of what went in at one end and came out at the other.
fn veth_counts(
    (packets_in, bytes_in): (u64, u64),
    (packets_out, bytes_out): (u64, u64),
) -> DirectionReport {
    DirectionReport {
        packets_in,
        bytes_in,
        packets_out,
        bytes_out,
        ..DirectionReport::default()
    }
}

fn dropped(counters: &Stats64) -> u64 {
    counters.tx_dropped + counters.rx_dropped
}
