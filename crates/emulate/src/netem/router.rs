//! The place where the kernel shapes: a namespace that forwards between two interfaces.

use super::tc;
use crate::Error;
use crate::ip::IpVersion;
use crate::link_devices::Interface;
use crate::namespace::Namespace;
use crate::netlink::{Netlink, ReceivedCounters};
use crate::pairs::{Pair, Pairs};
use crate::subnet::{Prefix, Subnet};
use crate::sysctl;

/// A namespace, and its interfaces on the client's and the server's side.
#[derive(Debug)]
pub(crate) struct Router {
    /// `None` for that of the caller.
    namespace: Option<Namespace>,
    client_side: Interface,
    server_side: Interface,
    /// The pairs that it is made of; `None` when its interfaces were given, so that what was put on
    /// them is to be taken off.
    pairs: Option<Pairs>,
}

impl Router {
    /// Makes the namespace between two pairs, which forwards already, a router for the two addresses
    /// of `link`, and for all of `beyond`, which the link's client passes on to.
    pub(crate) fn between(
        pairs: Pairs,
        link: Subnet,
        beyond: Option<Prefix>,
    ) -> Result<Self, Error> {
        let ends = [
            (&pairs.client, link.client()),
            (&pairs.server, link.server()),
        ];
        pairs.middle.run(|| {
            let netlink = Netlink::open()?;
            for (Pair { peer, end_mac, .. }, address) in ends {
                netlink.add_host_route(peer.index, address)?;
                netlink.add_neighbour(peer.index, address, *end_mac)?;
            }
            beyond.map_or(Ok(()), |beyond| {
                netlink.add_route(Some(beyond), link.client())
            })
        })?;
        Ok(Self {
            namespace: Some(pairs.middle.clone()),
            client_side: pairs.client.peer.clone(),
            server_side: pairs.server.peer.clone(),
            pairs: Some(pairs),
        })
    }

    /// The calling thread's namespace, which forwards between two interfaces of its own.
    pub(crate) fn given([client_side, server_side]: [Interface; 2]) -> Result<Self, Error> {
        if !IpVersion::ALL.into_iter().any(sysctl::forwards) {
            return Err(Error::NoForwarding);
        }
        Ok(Self {
            namespace: None,
            client_side,
            server_side,
            pairs: None,
        })
    }

    pub(super) fn client_side(&self) -> &Interface {
        &self.client_side
    }

    pub(super) fn server_side(&self) -> &Interface {
        &self.server_side
    }

    pub(super) fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    /// Returns what each interface received so far, the client's first.
    pub(super) fn received(&self) -> Result<[ReceivedCounters; 2], Error> {
        let (client, server) = (self.client_side.index, self.server_side.index);
        let received = || {
            let netlink = Netlink::open()?;
            Ok([netlink.received(client)?, netlink.received(server)?])
        };
        match &self.namespace {
            Some(namespace) => namespace.run(received),
            None => received(),
        }
    }

    /// Returns the packets that its interfaces dropped since they were made; of given ones, nothing
    /// is known here.
    pub(super) fn dropped(&self) -> Result<u64, Error> {
        self.pairs.as_ref().map_or(Ok(0), Pairs::dropped)
    }

    /// Takes off what shapes at interfaces that were given; others go with their namespace.
    pub(super) fn unshape(&self) {
        if self.pairs.is_some() {
            return;
        }
        for interface in [&self.client_side, &self.server_side] {
            // An interface that is gone took it with it.
            if let Err(error) = tc::remove(self.namespace(), interface) {
                tracing::debug!(%error, interface = interface.name, "nothing to take off");
            }
        }
    }
}
