//! The way of datagrams between two processes, with neither sockets nor workers.

use super::predecessors::ProcessIds;
use super::relay::{self, MESSAGE_BYTES, PredecessorRelay};
use super::steering::{DatagramRouter, Inboxes, Routes, WorkerSlot, worker_slots};
use crate::listen::{Bound, BoundAddress};
use crate::options::Steering;
use altway_http3::{Datagram, Generation, ServerId};
use rustix::net::{RecvFlags, recv};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// A datagram with its addresses and ECN bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relayed {
    /// The client.
    pub remote: SocketAddr,
    /// The address that it sent the datagram to, if that is known.
    pub local_ip: Option<IpAddr>,
    /// The bits of the IP header (RFC 3168 section 5).
    pub ecn: u8,
    /// The UDP payload.
    pub payload: Vec<u8>,
}

/// A process that was taken over from, and its successor, each with the same number of workers.
#[derive(Debug)]
pub struct Relay {
    predecessor: Vec<DatagramRouter>,
    inboxes: Vec<Inboxes>,
    successor: Vec<DatagramRouter>,
    datagram_channel: OwnedFd,
}

/// The address of both processes' sockets.
const LISTENER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Reads a message as the predecessor does; `None`: no successor sends this.
#[must_use]
pub fn relayed(message: &[u8]) -> Option<Relayed> {
    let (_, datagram) = relay::read(message)?;
    Some(Relayed::of(&datagram))
}

impl Relayed {
    fn of(datagram: &Datagram<'_>) -> Self {
        Self {
            remote: datagram.remote,
            local_ip: datagram.local_ip,
            ecn: datagram.ecn.map_or(0, altway_http3::Ecn::bits),
            payload: datagram.payload.to_vec(),
        }
    }

    fn datagram(&self) -> Datagram<'_> {
        Datagram {
            remote: self.remote,
            local_ip: self.local_ip,
            ecn: altway_http3::Ecn::from_bits(self.ecn),
            payload: &self.payload,
        }
    }

    /// The message that a successor sends for it.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        [&relay::head(LISTENER, &self.datagram())[..], &self.payload].concat()
    }
}

impl Relay {
    /// Two processes of `workers` each.
    ///
    /// # Panics
    /// No descriptors are left, or there are more workers than a process may have.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let (datagram_channel, theirs) = relay::datagram_channel().expect("two descriptors");
        let first = Generation::default();
        let ids = |generation| ProcessIds {
            server: ServerId::default(),
            generation,
            workers,
        };
        let (predecessor, inboxes) = routers(ids(first), Vec::new());
        let predecessors = vec![PredecessorRelay::new(ids(first), theirs)];
        let (successor, _) = routers(ids(first.next()), predecessors);
        Self {
            predecessor,
            inboxes,
            successor,
            datagram_channel,
        }
    }

    /// Lets a worker of the successor take a datagram in. Whether it keeps the datagram, and what
    /// came to the predecessor.
    ///
    /// # Panics
    /// There is no such worker.
    pub fn arrive(&mut self, worker: usize, datagram: &Relayed) -> (bool, Vec<Relayed>) {
        let kept = !self.successor[worker].pass_on(&datagram.datagram());
        (kept, self.passed())
    }

    fn passed(&self) -> Vec<Relayed> {
        let mut message = vec![0; MESSAGE_BYTES];
        let mut all = Vec::new();
        while let Ok((length @ 1.., _)) = recv(
            &self.datagram_channel,
            &mut message[..],
            RecvFlags::DONTWAIT,
        ) {
            all.push(relayed(&message[..length]).expect("a message of ours"));
        }
        all
    }

    /// Delivers a datagram to the predecessor's workers: who got what.
    pub fn deliver(&mut self, datagram: &Relayed) -> Vec<(usize, Relayed)> {
        self.inboxes[0].deliver(&datagram.datagram());
        arrived(&mut self.predecessor)
    }

    /// Takes what the successor's workers have passed to each other since the last time.
    pub fn exchanged(&mut self) -> Vec<(usize, Relayed)> {
        arrived(&mut self.successor)
    }
}

fn arrived(routers: &mut [DatagramRouter]) -> Vec<(usize, Relayed)> {
    let mut all = Vec::new();
    for (worker, router) in routers.iter_mut().enumerate() {
        all.extend(
            router
                .arrived()
                .map(|it| (worker, Relayed::of(&it.datagram()))),
        );
    }
    all
}

fn routers(
    ids: ProcessIds,
    predecessors: Vec<PredecessorRelay>,
) -> (Vec<DatagramRouter>, Vec<Inboxes>) {
    let bound = Bound(vec![BoundAddress {
        address: LISTENER,
        tcp: Vec::new(),
        udp: Vec::new(),
    }]);
    let routes = Routes {
        steering: Steering::Workers,
        ids,
        predecessors,
        can_be_taken_over: true,
    };
    let (worker_slots, inboxes) = worker_slots(&bound, &routes);
    let routers = worker_slots
        .into_iter()
        .flatten()
        .filter_map(|WorkerSlot { router, .. }| router);
    (routers.collect(), inboxes)
}
