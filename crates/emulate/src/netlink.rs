//! Interfaces, addresses and routes over rtnetlink, in the network namespace of the calling thread.

use crate::Error;
use crate::subnet::Prefix;
use futures_util::{StreamExt, TryStreamExt};
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use rtnetlink::{Handle, LinkUnspec, RouteMessageBuilder};
use std::io;
use std::net::Ipv4Addr;

/// The loopback interface has this index in every namespace.
const LOOPBACK: u32 = 1;

/// A connection to the kernel's routing tables in one network namespace.
///
/// It belongs to the namespace of the thread that opened it, for good.
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

    /// Sets the loopback interface up.
    pub(crate) fn set_loopback_up(&self) -> Result<(), Error> {
        let up = LinkUnspec::new_with_index(LOOPBACK).up();
        self.run(
            "set the loopback interface up",
            self.handle.link().set(up.build()).execute(),
        )
    }

    /// Gives an interface an address, and with it a route to the prefix that the address is in.
    pub(crate) fn add_address(
        &self,
        index: u32,
        address: Ipv4Addr,
        length: u8,
    ) -> Result<(), Error> {
        let request = self.handle.address().add(index, address.into(), length);
        self.run("give the link its address", request.execute())
    }

    /// Sends everything that has no better route to `gateway`.
    pub(crate) fn add_default_route(&self, gateway: Ipv4Addr) -> Result<(), Error> {
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .gateway(gateway)
            .build();
        self.run(
            "route through the link",
            self.handle.route().add(route).execute(),
        )
    }

    /// The IPv4 prefixes in all routing tables, the addresses of this host among them.
    pub(crate) fn routed_prefixes(&self) -> Result<Vec<Prefix>, Error> {
        let every = RouteMessageBuilder::<Ipv4Addr>::new().build();
        let routes = self.handle.route().get(every).execute();
        let collected = routes.try_filter_map(async |route| Ok(destination(&route)));
        self.run("read the routes of this host", collected.try_collect())
    }

    /// How many packets an interface dropped so far, in either direction.
    pub(crate) fn dropped(&self, index: u32) -> Result<u64, Error> {
        let links = self.handle.link().get().match_index(index).execute();
        let found: Vec<_> = self.run("read the counters of the link", links.try_collect())?;
        let statistics = found.iter().flat_map(|link| &link.attributes);
        Ok(statistics
            .filter_map(|attribute| match attribute {
                LinkAttribute::Stats64(counters) => Some(counters.tx_dropped + counters.rx_dropped),
                _ => None,
            })
            .sum())
    }

    /// Whether the kernel has a queueing discipline of that name. `qdisc` must be one that requires
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

    /// Runs one request to its end.
    fn run<T>(
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

fn destination(route: &RouteMessage) -> Option<Prefix> {
    let length = route.header.destination_prefix_length;
    route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => {
                Some(Prefix::new(*address, length))
            }
            _ => None,
        })
}
