//! Links that the kernel shapes: netem on both interfaces of a router between the ends.
//!
//! Never on an end's own interface: there, netem tells the local TCP of each packet that it drops, and
//! the TCP behaves as if none had been lost.

mod shape;
mod tc;

pub use shape::Unshapable;

use crate::cable::Interface;
use crate::clock::now;
use crate::ip::IpVersion;
use crate::link::Link;
use crate::namespace::Namespace;
use crate::netlink::{Netlink, Received};
use crate::pairs::{Pair, Pairs};
use crate::pump::{Now, Parameters, Snapshot};
use crate::report::mean_loss;
use crate::subnet::Subnet;
use crate::{Backend, Error, sysctl};
use altway_link::{Change, Config, Counters, Schedule};
use altway_units::Timestamp;
use shape::Shape;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tc::Counted;

/// The header of Ethernet, which is counted below IP and no part of what a report says.
const ETHERNET_HEADER: u64 = 14;

/// Whether the program that tells the kernel what to do is there.
pub(crate) fn has_tc() -> bool {
    tc::is_there()
}

/// Whether a link shapes what leaves an interface of the calling thread's namespace, or did so until it
/// was killed.
pub(crate) fn is_shaped(interface: &Interface) -> Result<bool, Error> {
    tc::is_shaped(None, interface)
}

/// Takes away what shapes there.
pub(crate) fn unshape(interface: &Interface) -> Result<(), Error> {
    tc::remove(None, interface)
}

/// A link in the kernel.
#[derive(Debug)]
pub(crate) struct NetemLink {
    router: Router,
    mtu: u16,
    run: Mutex<Run>,
}

/// What is remembered of the last start or restart.
#[derive(Debug)]
struct Run {
    parameters: Parameters,
    at: Timestamp,
    /// What each interface had received by then, the client's first.
    received: [Received; 2],
}

/// Where the kernel shapes: a namespace, and its interfaces on the client's and the server's side.
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
    /// Makes the namespace between two pairs a router for two addresses.
    pub(crate) fn between(pairs: Pairs, subnet: Subnet) -> Result<Self, Error> {
        let (IpAddr::V4(client), IpAddr::V4(server)) = (subnet.client(), subnet.server()) else {
            return Err(beyond_netem("IPv6"));
        };
        let ends = [(&pairs.client, client), (&pairs.server, server)];
        pairs.middle.run(|| {
            sysctl::let_forward(IpVersion::V4)?;
            let netlink = Netlink::open()?;
            for (Pair { peer, end_mac, .. }, address) in ends {
                netlink.add_host_route(peer.index, address)?;
                netlink.add_neighbour(peer.index, address.into(), *end_mac)?;
            }
            Ok(())
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
        if sysctl::read("net.ipv4.ip_forward").is_ok_and(|forwards| forwards == "0") {
            return Err(Error::NoForwarding);
        }
        Ok(Self {
            namespace: None,
            client_side,
            server_side,
            pairs: None,
        })
    }

    fn interfaces(&self) -> [&Interface; 2] {
        [&self.client_side, &self.server_side]
    }

    fn received(&self) -> Result<[Received; 2], Error> {
        let [client, server] = self.interfaces().map(|interface| interface.index);
        let received = || {
            let netlink = Netlink::open()?;
            Ok([netlink.received(client)?, netlink.received(server)?])
        };
        match &self.namespace {
            Some(namespace) => namespace.run(received),
            None => received(),
        }
    }

    fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }
}

impl NetemLink {
    /// Shapes what leaves the router on either side.
    pub(crate) fn start(router: Router, parameters: Parameters, mtu: u16) -> Result<Self, Error> {
        let [up, down] = shapes(&parameters, mtu)?;
        let run = Mutex::new(Run {
            parameters,
            at: now(),
            received: router.received()?,
        });
        tc::add(router.namespace(), &router.server_side, &up)?;
        if let Err(error) = tc::add(router.namespace(), &router.client_side, &down) {
            // What is on the other one is not ours to take off.
            let _ = tc::remove(router.namespace(), &router.server_side);
            return Err(error);
        }
        Ok(Self { router, mtu, run })
    }

    fn last_run(&self) -> MutexGuard<'_, Run> {
        // Nothing that holds it can panic.
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link for NetemLink {
    /// The seed is without effect: netem has a generator of its own.
    fn restart(&self, parameters: Parameters) -> Result<(), Error> {
        let [up, down] = shapes(&parameters, self.mtu)?;
        let mut run = self.last_run();
        tc::replace(self.router.namespace(), &self.router.server_side, &up)?;
        tc::replace(self.router.namespace(), &self.router.client_side, &down)?;
        *run = Run {
            parameters,
            at: now(),
            received: self.router.received()?,
        };
        Ok(())
    }

    /// Another shape would take the packets in the old one away.
    fn change(&self, _: Change) -> Result<(), Error> {
        Err(beyond_netem("changes of a running link"))
    }

    fn reset(&self) -> Result<(), Error> {
        Err(beyond_netem("changes of a running link"))
    }

    fn follow(&self, schedule: Schedule) -> Result<(), Error> {
        if schedule.turns().is_empty() {
            return Ok(());
        }
        Err(beyond_netem("changes of a running link"))
    }

    fn snapshot(&self) -> Result<Snapshot, Error> {
        let run = self.last_run();
        let received = self.router.received()?;
        let count = |interface| tc::count(self.router.namespace(), interface);
        let up = count(&self.router.server_side)?;
        let down = count(&self.router.client_side)?;
        Ok(Snapshot {
            up: counters(since(received[0], run.received[0]), up),
            down: counters(since(received[1], run.received[1]), down),
            lateness: None,
            mishaps: 0,
            socket_drops: 0,
            involuntary_switches: 0,
            now: run.now(),
        })
    }

    fn dropped_between(&self) -> Result<u64, Error> {
        self.router.pairs.as_ref().map_or(Ok(0), Pairs::dropped)
    }

    fn is_realtime(&self) -> Option<bool> {
        None
    }
}

impl Drop for NetemLink {
    fn drop(&mut self) {
        if self.router.pairs.is_some() {
            return;
        }
        for interface in self.router.interfaces() {
            // An interface that is gone took it with it.
            if let Err(error) = tc::remove(self.router.namespace(), interface) {
                tracing::debug!(%error, interface = interface.name, "nothing to take off");
            }
        }
    }
}

impl Run {
    fn now(&self) -> Now {
        let Parameters { up, down, .. } = &self.parameters;
        Now {
            loss: [up, down].map(mean_loss),
            up: up.clone(),
            down: down.clone(),
            least_delay: up.delay.max(down.delay),
            running: now() - self.at,
            to_come: Vec::new(),
        }
    }
}

/// Refuses what a link in the kernel can't have.
pub(crate) fn beyond_netem(what: &'static str) -> Error {
    Error::BeyondBackend {
        backend: Backend::Netem,
        what,
    }
}

fn shapes(parameters: &Parameters, mtu: u16) -> Result<[Shape; 2], Error> {
    let shape = |direction, config: &Config| {
        Shape::of(config, mtu).map_err(|source| Error::Unshapable { direction, source })
    };
    Ok([
        shape("up", &parameters.up)?,
        shape("down", &parameters.down)?,
    ])
}

fn since(now: Received, before: Received) -> Received {
    Received {
        packets: now.packets.saturating_sub(before.packets),
        bytes: now.bytes.saturating_sub(before.bytes),
    }
}

/// What the link model would have counted.
fn counters(received: Received, counted: Counted) -> Counters {
    let below_ip = |packets: u64| packets * ETHERNET_HEADER;
    Counters {
        packets_in: received.packets,
        bytes_in: received.bytes.saturating_sub(below_ip(received.packets)),
        packets_lost: counted.dropped.saturating_sub(counted.queue_dropped),
        packets_queue_dropped: counted.queue_dropped,
        packets_out: counted.packets,
        bytes_out: counted.bytes.saturating_sub(below_ip(counted.packets)),
        packets_queued: counted.queued,
        ..Counters::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_ip() {
        let received = Received {
            packets: 3,
            bytes: 3 * 1_514,
        };
        let counted = Counted {
            packets: 1,
            bytes: 1_514,
            dropped: 2,
            queue_dropped: 1,
            queued: 0,
        };
        let counters = counters(received, counted);
        assert_eq!((counters.bytes_in, counters.bytes_out), (4_500, 1_500));
        assert_eq!(
            (counters.packets_lost, counters.packets_queue_dropped),
            (1, 1)
        );
    }
}
