//! Brings datagrams to the worker that has their connection.
//!
//! Every connection ID of ours names its worker. Where the system allows, a program in the kernel
//! picks the worker's socket by it; what still comes to another worker (the system refuses, or the
//! kernel joined datagrams of two connections) is passed on through a bounded queue. A server of
//! one worker does neither.

use crate::listen::Sockets;
use crate::options::Steering;
use altway_http3::{ConnectionIds, Datagram, Ecn, ServerId, worker_of};
use altway_socket::steer_by_connection_id;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Datagrams that may wait for a worker: at worst, of the largest that UDP carries, 32 MiB. More
/// are dropped, as by a full socket.
const QUEUE: usize = 512;

/// A worker among the others.
#[derive(Debug)]
pub(crate) struct Place {
    /// What its connection IDs begin with.
    pub(super) ids: ConnectionIds,
    /// `None` where it has no others.
    pub(super) exchange: Option<Exchange>,
}

/// A place for each worker, in the order in which their sockets were bound. Has the kernel steer if
/// there is anything to be steered.
pub(crate) fn places(sockets: &[Sockets], steering: Steering, server: ServerId) -> Vec<Place> {
    let first = sockets.iter().find_map(|sockets| sockets.udp.as_ref());
    let alone = sockets.len() == 1;
    if let Some(socket) = first.filter(|_| !alone && steering == Steering::Kernel) {
        steer(socket, server);
    }
    let (inboxes, queues): (Vec<_>, Vec<_>) = sockets.iter().map(|_| mpsc::channel(QUEUE)).unzip();
    let inboxes: Arc<[_]> = inboxes.into();
    let place = |(worker, arrivals)| {
        let worker = u16::try_from(worker).expect("a port has 65,535 sockets at most");
        let ids = ConnectionIds { server, worker };
        let exchange = Exchange {
            ids,
            inboxes: Arc::clone(&inboxes),
            arrivals,
        };
        Place {
            ids,
            exchange: (!alone).then_some(exchange),
        }
    };
    queues.into_iter().enumerate().map(place).collect()
}

fn steer(socket: &UdpSocket, server: ServerId) {
    if let Err(error) = steer_by_connection_id(socket, server) {
        tracing::info!(
            %error,
            "the kernel does not steer by connection ID: workers pass datagrams on themselves"
        );
    }
}

/// A worker's way to the others, and theirs to it.
#[derive(Debug)]
pub(super) struct Exchange {
    ids: ConnectionIds,
    /// By the workers' numbers.
    inboxes: Arc<[mpsc::Sender<Forwarded>]>,
    arrivals: mpsc::Receiver<Forwarded>,
}

impl Exchange {
    /// Passes a datagram of another worker on. False if it is for this one, or for nobody else.
    pub(super) fn pass_on(&self, datagram: &Datagram<'_>) -> bool {
        let worker = worker_of(datagram.payload, self.ids.server);
        let other = worker.filter(|worker| *worker != self.ids.worker);
        let Some(inbox) = other.and_then(|worker| self.inboxes.get(usize::from(worker))) else {
            return false;
        };
        match inbox.try_reserve() {
            Ok(room) => room.send(Forwarded::new(datagram)),
            Err(error) => tracing::trace!(%error, "dropped a datagram of another worker"),
        }
        true
    }

    /// The datagrams that other workers got, as far as they are there, and a turn's at most.
    pub(super) fn arrived(&mut self) -> impl Iterator<Item = Forwarded> {
        let next = || self.arrivals.try_recv().ok();
        std::iter::from_fn(next).take(QUEUE)
    }

    /// The next datagram that another worker gets. When dropped before its end, none is lost.
    pub(super) async fn next(&mut self) -> Forwarded {
        let next = self.arrivals.recv().await;
        next.expect("`inboxes` holds a sender")
    }
}

/// A datagram that came to another worker.
#[derive(Debug)]
pub(super) struct Forwarded {
    remote: SocketAddr,
    local_ip: Option<IpAddr>,
    ecn: Option<Ecn>,
    payload: Box<[u8]>,
}

impl Forwarded {
    fn new(datagram: &Datagram<'_>) -> Self {
        Self {
            remote: datagram.remote,
            local_ip: datagram.local_ip,
            ecn: datagram.ecn,
            payload: datagram.payload.into(),
        }
    }

    /// As it came.
    pub(super) fn datagram(&self) -> Datagram<'_> {
        Datagram {
            remote: self.remote,
            local_ip: self.local_ip,
            ecn: self.ecn,
            payload: &self.payload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen;
    use crate::options::{Bind, Spread};
    use std::net::Ipv4Addr;
    use std::time::{Duration, Instant};

    fn sockets(workers: usize) -> Vec<Sockets> {
        let request = listen::Request {
            bind: Bind::Address(Ipv4Addr::LOCALHOST.into()),
            port: 0,
            workers,
            spread: Spread::default(),
            with_udp: true,
            congestion: None,
        };
        listen::listen(&request).unwrap().workers
    }

    fn exchanges(workers: usize) -> Vec<Exchange> {
        let places = places(&sockets(workers), Steering::Workers, ServerId::default());
        let exchanges = places.into_iter().map(|place| place.exchange.unwrap());
        exchanges.collect()
    }

    /// A packet for this worker.
    fn packet(worker: u16) -> [u8; 9] {
        let [high, low] = worker.to_be_bytes();
        [0x40, high, low, 1, 2, 3, 4, 5, 6]
    }

    fn datagram(payload: &[u8]) -> Datagram<'_> {
        Datagram {
            remote: ([192, 0, 2, 1], 1234).into(),
            local_ip: Some([192, 0, 2, 2].into()),
            ecn: Some(Ecn::Ce),
            payload,
        }
    }

    #[test]
    fn what_another_worker_gets_arrives_as_it_came() {
        let mut exchanges = exchanges(3);
        assert!(exchanges[0].pass_on(&datagram(&packet(2))));
        let arrived: Vec<_> = exchanges[2].arrived().collect();
        let [forwarded] = &arrived[..] else {
            panic!("{arrived:?}");
        };
        let (got, sent) = (forwarded.datagram(), packet(2));
        let expected = datagram(&sent);
        assert_eq!(got.payload, expected.payload);
        assert_eq!(
            (got.remote, got.local_ip),
            (expected.remote, expected.local_ip)
        );
        assert_eq!(got.ecn, expected.ecn);
        assert!(exchanges[1].arrived().next().is_none());
    }

    #[test]
    fn what_is_ours_or_nobodys_stays() {
        let exchanges = exchanges(2);
        for stays in [&packet(1)[..], &packet(2), &packet(0xffff), &[0x40], &[]] {
            assert!(!exchanges[1].pass_on(&datagram(stays)), "{stays:x?}");
        }
    }

    #[test]
    fn a_full_queue_drops_what_comes_late() {
        let mut exchanges = exchanges(2);
        for _ in 0..=QUEUE {
            assert!(exchanges[0].pass_on(&datagram(&packet(1))));
        }
        assert_eq!(exchanges[1].arrived().count(), QUEUE);
        assert!(exchanges[0].pass_on(&datagram(&packet(1))));
        assert_eq!(exchanges[1].arrived().count(), 1);
    }

    #[test]
    fn a_worker_that_has_ended_takes_nothing() {
        let mut exchanges = exchanges(2);
        exchanges.pop();
        assert!(exchanges[0].pass_on(&datagram(&packet(1))));
    }

    #[test]
    fn a_lone_worker_exchanges_nothing() {
        let places = places(&sockets(1), Steering::Kernel, ServerId::default());
        assert!(matches!(&places[..], [Place { exchange: None, .. }]));
    }

    /// Its number is its socket's place in the kernel's group.
    #[test]
    fn the_kernel_brings_each_worker_its_own() {
        let sockets = sockets(8);
        let server = ServerId::new(&[1, 2]).unwrap();
        let places = places(&sockets, Steering::Kernel, server);
        let udp: Vec<_> = sockets.iter().filter_map(|one| one.udp.as_ref()).collect();
        let address = udp[0].local_addr().unwrap();
        for _ in 0..10 {
            let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            for (place, socket) in places.iter().zip(&udp) {
                let [_, worker @ ..] = packet(place.ids.worker);
                let sent = [&[0x40, 1, 2][..], &worker].concat();
                client.send_to(&sent, address).unwrap();
                let deadline = Instant::now() + Duration::from_secs(5);
                while socket.recv(&mut [0; 20]).is_err() {
                    assert!(Instant::now() < deadline, "it came to another worker");
                }
            }
        }
    }
}
