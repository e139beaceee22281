//! The way of datagrams between two processes, with neither sockets nor workers.

use super::relay::{self, Former, MESSAGE_BYTES};
use super::steering::{Exchange, Inboxes, Place, Routes, places};
use crate::listen::Bound;
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
    former: Vec<Exchange>,
    inboxes: Vec<Inboxes>,
    successor: Vec<Exchange>,
    way: OwnedFd,
}

/// The address of both processes' sockets.
const LISTENER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Reads a message as the former process does; `None`: no successor sends this.
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
        let (way, theirs) = relay::way().expect("two descriptors");
        let first = Generation::default();
        let (former, inboxes) = exchanges(workers, first, Vec::new());
        let formers = vec![Former::new(first, theirs)];
        let (successor, _) = exchanges(workers, first.next(), formers);
        Self {
            former,
            inboxes,
            successor,
            way,
        }
    }

    /// Lets a worker of the successor take a datagram in. Whether it keeps the datagram, and what
    /// came to the former process.
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
        while let Ok((length @ 1.., _)) = recv(&self.way, &mut message[..], RecvFlags::DONTWAIT) {
            all.push(relayed(&message[..length]).expect("a message of ours"));
        }
        all
    }

    /// Delivers a datagram to the former process's workers: who got what.
    pub fn deliver(&mut self, datagram: &Relayed) -> Vec<(usize, Relayed)> {
        self.inboxes[0].deliver(&datagram.datagram());
        arrived(&mut self.former)
    }

    /// Takes what the successor's workers have passed to each other since the last time.
    pub fn exchanged(&mut self) -> Vec<(usize, Relayed)> {
        arrived(&mut self.successor)
    }
}

fn arrived(exchanges: &mut [Exchange]) -> Vec<(usize, Relayed)> {
    let mut all = Vec::new();
    for (worker, exchange) in exchanges.iter_mut().enumerate() {
        all.extend(
            exchange
                .arrived()
                .map(|it| (worker, Relayed::of(&it.datagram()))),
        );
    }
    all
}

fn exchanges(
    workers: usize,
    generation: Generation,
    formers: Vec<Former>,
) -> (Vec<Exchange>, Vec<Inboxes>) {
    let bound = Bound {
        further: Vec::new(),
        address: LISTENER,
        tcp: Vec::new(),
        udp: Vec::new(),
    };
    let routes = Routes {
        steering: Steering::Workers,
        server: ServerId::default(),
        generation,
        formers,
        can_be_taken_over: true,
    };
    let (places, inboxes) = places(&bound, workers, &routes);
    let exchanges = places
        .into_iter()
        .flatten()
        .filter_map(|Place { exchange, .. }| exchange);
    (exchanges.collect(), inboxes)
}
