//! Interfaces, addresses and routes over rtnetlink, in the network namespace of the calling thread.

mod interface_lookup;
mod pairs;

pub(crate) use pairs::{InterfaceProperties, ReceivedCounters};

use crate::Error;
use crate::subnet::Prefix;
use futures_util::{StreamExt, TryStreamExt};
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::AddressHeaderFlags;
use rtnetlink::packet_route::link::{LinkAttribute, Stats64};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteType,
};
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use rtnetlink::{Handle, LinkUnspec, RouteMessageBuilder};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The loopback interface has this index in every namespace.
const LOOPBACK: u32 = 1;

/// A connection to the kernel's routing tables in one network namespace.
///
/// Belongs to the namespace of the thread that opened it, for good.
pub(crate) struct Netlink {
    runtime: tokio::runtime::Runtime,
    handle: Handle,
}

impl Netlink {
    /// Opens a connection. Not to be called on a thread that runs async tasks.
    pub(crate) fn open() -> Result<Self, Error> {
        let attempted = "open a netlink socket";
        let failed = |source| Error::Network { attempted, source };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(failed)?;
        let guard = runtime.enter();
        let (connection, handle, _) = rtnetlink::new_connection().map_err(failed)?;
        drop(guard);
        runtime.spawn(connection);
        Ok(Self { runtime, handle })
    }

    /// Sets an interface up, with its MTU and the length of its queue in packets.
    pub(crate) fn set_up(&self, index: u32, mtu: u16, queue: u32) -> Result<(), Error> {
        // One request each: the queue must have its length before the first packet.
        let sized = LinkUnspec::new_with_index(index)
            .mtu(mtu.into())
            .txqueuelen(queue);
        self.run(
            "set the MTU of the link",
            self.handle.link().set(sized.build()).execute(),
        )?;
        let up = LinkUnspec::new_with_index(index).up();
        self.run(
            "set the link up",
            self.handle.link().set(up.build()).execute(),
        )
    }

    /// Makes TCP hand over packets one by one that leave by an interface, for connections from now on.
    pub(crate) fn send_packets_apart(&self, index: u32) -> Result<(), Error> {
        let apart =
            LinkUnspec::new_with_index(index).append_extra_attribute(LinkAttribute::GsoMaxSegs(1));
        self.run(
            "have packets handed over one by one",
            self.handle.link().set(apart.build()).execute(),
        )
    }

    /// Sets the loopback interface up.
    pub(crate) fn set_loopback_up(&self) -> Result<(), Error> {
        let up = LinkUnspec::new_with_index(LOOPBACK).up();
        self.run(
            "set the loopback interface up",
            self.handle.link().set(up.build()).execute(),
        )
    }

    /// Gives an interface an address of `subnet`, and with it a route to all of them. It can be used
    /// at once: nobody else has it, so that duplicate address detection (RFC 4862 §5.4) would only
    /// take its second.
    pub(crate) fn add_address(
        &self,
        index: u32,
        address: IpAddr,
        subnet: Prefix,
    ) -> Result<(), Error> {
        let addresses = self.handle.address();
        let mut request = addresses.add(index, address, subnet.length());
        if address.is_ipv6() {
            request.message_mut().header.flags |= AddressHeaderFlags::Nodad;
        }
        self.run("give the link its address", request.execute())
    }

    /// Sends everything that has no better route to `gateway`.
    pub(crate) fn add_default_route(&self, gateway: IpAddr) -> Result<(), Error> {
        self.add_route(None, gateway)
    }

    /// Sends what is for `destination` (`None`: what has no better route) to `gateway`. The route goes
    /// with the interface that leads to the gateway.
    pub(crate) fn add_route(
        &self,
        destination: Option<Prefix>,
        gateway: IpAddr,
    ) -> Result<(), Error> {
        let mut route = match gateway {
            IpAddr::V4(to) => RouteMessageBuilder::<Ipv4Addr>::new().gateway(to).build(),
            IpAddr::V6(to) => RouteMessageBuilder::<Ipv6Addr>::new().gateway(to).build(),
        };
        if let Some(destination) = destination {
            route.header.destination_prefix_length = destination.length();
            let address = destination.address().into();
            route.attributes.push(RouteAttribute::Destination(address));
        }
        self.run(
            "route through the link",
            self.handle.route().add(route).execute(),
        )
    }

    /// The prefixes in all routing tables, the addresses of this host among them.
    pub(crate) fn routed_prefixes(&self) -> Result<Vec<Prefix>, Error> {
        let v4 = RouteMessageBuilder::<Ipv4Addr>::new().build();
        let v6 = RouteMessageBuilder::<Ipv6Addr>::new().build();
        let mut prefixes = self.routes(v4)?;
        prefixes.extend(self.routes(v6)?);
        Ok(prefixes)
    }

    fn routes(&self, every: RouteMessage) -> Result<Vec<Prefix>, Error> {
        let routes = self.handle.route().get(every).execute();
        let collected = routes.try_filter_map(async |route| Ok(destination(&route)));
        self.run("read the routes of this host", collected.try_collect())
    }

    /// First congestion windows that routes give TCP connections, in packets; none of those that say nothing.
    pub(crate) fn initial_windows(&self) -> Result<Vec<u32>, Error> {
        let v4 = RouteMessageBuilder::<Ipv4Addr>::new().build();
        let v6 = RouteMessageBuilder::<Ipv6Addr>::new().build();
        let mut windows = Vec::new();
        for every in [v4, v6] {
            let routes = self.handle.route().get(every).execute();
            let collected = routes.try_filter_map(async |route| Ok(initial_window(&route)));
            let found: Vec<u32> =
                self.run("read the routes of this host", collected.try_collect())?;
            windows.extend(found);
        }
        Ok(windows)
    }

    /// Sets the congestion window, in packets, with which TCP connections by all routes of this
    /// namespace begin.
    pub(crate) fn set_initial_window(&self, packets: u32) -> Result<(), Error> {
        let v4 = RouteMessageBuilder::<Ipv4Addr>::new().build();
        let v6 = RouteMessageBuilder::<Ipv6Addr>::new().build();
        for every in [v4, v6] {
            let routes = self.handle.route().get(every).execute();
            let collected = routes.try_filter_map(async |route| Ok(to_a_host(route)));
            let found: Vec<RouteMessage> =
                self.run("read the routes of a namespace", collected.try_collect())?;
            for mut route in found {
                let window = RouteMetric::InitCwnd(packets);
                route.attributes.push(RouteAttribute::Metrics(vec![window]));
                let request = self.handle.route().add(route).replace().execute();
                self.run("set TCP's initial window of a route", request)?;
            }
        }
        Ok(())
    }

    /// Returns the counters of what passed an interface so far.
    pub(crate) fn counters(&self, index: u32) -> Result<Stats64, Error> {
        let links = self.handle.link().get().match_index(index).execute();
        let found: Vec<_> = self.run("read the counters of the link", links.try_collect())?;
        let mut attributes = found.iter().flat_map(|link| &link.attributes);
        let counters = attributes.find_map(|attribute| match attribute {
            LinkAttribute::Stats64(counters) => Some(*counters),
            _ => None,
        });
        // Every interface has them.
        Ok(counters.unwrap_or_default())
    }

    /// Returns the packets that an interface dropped so far.
    pub(crate) fn dropped(&self, index: u32) -> Result<u64, Error> {
        let counters = self.counters(index)?;
        Ok(counters.tx_dropped + counters.rx_dropped)
    }

    /// Returns whether the kernel has a queueing discipline of that name. `qdisc` must be one that requires
    /// options: the request has none, so it never succeeds.
    pub(crate) fn knows_qdisc(&self, qdisc: &str) -> Result<bool, Error> {
        let attempted = "try a queueing discipline";
        match self.run(attempted, self.add_qdisc_without_options(qdisc)) {
            Ok(()) => Ok(true),
            Err(Error::Network { source, .. }) => match source.kind() {
                io::ErrorKind::NotFound => Ok(false),
                io::ErrorKind::InvalidInput => Ok(true),
                _ => Err(Error::Network { attempted, source }),
            },
            Err(other) => Err(other),
        }
    }

    async fn add_qdisc_without_options(&self, kind: &str) -> Result<(), rtnetlink::Error> {
        let mut message = TcMessage::with_index(LOOPBACK.cast_signed());
        message.header.parent = TcHandle::ROOT;
        message.attributes.push(TcAttribute::Kind(kind.to_owned()));
        let mut request = NetlinkMessage::from(RouteNetlinkMessage::NewQueueDiscipline(message));
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        let mut answers = self.handle.clone().request(request)?;
        while let Some(answer) = answers.next().await {
            if let NetlinkPayload::Error(error) = answer.payload {
                return Err(rtnetlink::Error::NetlinkError(error));
            }
        }
        Ok(())
    }

    /// Returns the handle with which requests are made.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs one request to its end.
    pub(crate) fn run<T>(
        &self,
        attempted: &'static str,
        request: impl Future<Output = Result<T, rtnetlink::Error>>,
    ) -> Result<T, Error> {
        self.runtime
            .block_on(request)
            .map_err(|error| Error::Network {
                attempted,
                source: as_io(error),
            })
    }
}

/// The kernel's error number where there is one: its text says more than the library's.
fn as_io(error: rtnetlink::Error) -> io::Error {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.to_io(),
        other => io::Error::other(other),
    }
}

/// The route with what tells it from others alone, if other hosts are reached by it.
fn to_a_host(mut route: RouteMessage) -> Option<RouteMessage> {
    // The kernel refuses states of interfaces that it says itself.
    route.header.flags = RouteFlags::empty();
    let is_unicast = route.header.kind == RouteType::Unicast;
    let is_main = route.header.table == RouteHeader::RT_TABLE_MAIN;
    route.attributes.retain(|attribute| {
        matches!(
            attribute,
            RouteAttribute::Destination(_)
                | RouteAttribute::Gateway(_)
                | RouteAttribute::Oif(_)
                | RouteAttribute::PrefSource(_)
                | RouteAttribute::Priority(_)
        )
    });
    (is_unicast && is_main).then_some(route)
}

fn initial_window(route: &RouteMessage) -> Option<u32> {
    let metrics = route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Metrics(metrics) => Some(metrics),
            _ => None,
        });
    metrics?.iter().find_map(|metric| match metric {
        RouteMetric::InitCwnd(packets) => Some(*packets),
        _ => None,
    })
}

fn destination(route: &RouteMessage) -> Option<Prefix> {
    let length = route.header.destination_prefix_length;
    route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => {
                Some(Prefix::new((*address).into(), length))
            }
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => {
                Some(Prefix::new((*address).into(), length))
            }
            _ => None,
        })
}
