//! Brings datagrams to the worker that has their connection.
//!
//! Every connection ID of ours names its worker. Where the system allows, a program in the kernel
//! picks the worker's socket by it; what still comes to another worker (the system refuses, or the
//! kernel joined datagrams of two connections) is passed on through a bounded queue. A server of
//! one worker does neither.
//!
//! A server that has taken the sockets over from another process gets that one's datagrams as well:
//! the ID names the process too, and [`relay`](super::relay) is the way to it. The process at the
//! other end finds them in the same queues.

use super::predecessors::{Predecessors, ProcessIds};
use super::relay::PredecessorRelay;
use super::surplus::SurplusRouter;
use crate::listen::Bound;
use crate::options::Steering;
use altway_http3::{ConnectionIds, Datagram, Ecn, WorkerId, worker_of, worker_perhaps_of};
use altway_socket::steer_by_connection_id;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Datagrams that may wait for a worker: at worst, of the largest that UDP carries, 32 MiB. More
/// are dropped, as by a full socket.
const QUEUE: usize = 512;

/// The processes whose connections come to this process's sockets, and the way to them.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) steering: Steering,
    /// The beginnings of this process's connection IDs.
    pub(crate) ids: ProcessIds,
    /// The processes before this one; each worker asks them one after the other.
    pub(crate) predecessors: Vec<PredecessorRelay>,
    /// True if another process may take the sockets over, and pass datagrams back.
    pub(crate) can_be_taken_over: bool,
}

/// A worker among the others. Outlives the worker, for the one that takes its place after a panic: its
/// connection IDs name the same worker, and the ways to the others and from them stay open.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    /// The bytes that the place's connection IDs begin with.
    pub(super) ids: ConnectionIds,
    /// `None` where there is nobody to exchange datagrams with.
    pub(super) router: Option<DatagramRouter>,
    /// The way of what comes to sockets that no worker has.
    pub(super) surplus: SurplusRouter,
}

/// Makes the places of all workers at each address, and for each address the way to its workers.
///
/// # Panics
/// With more than [`WorkerId::MAX_WORKERS`].
pub(crate) fn worker_slots(bound: &Bound, routes: &Routes) -> (Vec<Vec<WorkerSlot>>, Vec<Inboxes>) {
    let mut all: Vec<_> = (0..routes.ids.workers).map(|_| Vec::new()).collect();
    let mut inboxes = Vec::new();
    for listener in &bound.0 {
        let (worker_slots, ways) = places_at(listener.address, routes);
        for (own, place) in all.iter_mut().zip(worker_slots) {
            own.push(place);
        }
        inboxes.push(ways);
    }
    (all, inboxes)
}

/// A place for each worker at one address, in the order in which their sockets were bound.
fn places_at(listener: SocketAddr, routes: &Routes) -> (Vec<WorkerSlot>, Inboxes) {
    let workers = routes.ids.workers;
    let alone = workers == 1;
    let (inboxes, queues): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::channel(QUEUE)).unzip();
    let inboxes = Inboxes {
        listener,
        ids: routes.ids,
        queues: inboxes.into(),
    };
    let predecessors = Predecessors(routes.predecessors.clone());
    let surplus = SurplusRouter::new(inboxes.clone(), predecessors.clone());
    let place = |(number, arrivals)| {
        let worker = WorkerId::new(routes.ids.generation, number);
        let ids = ConnectionIds {
            server: routes.ids.server,
            worker: worker.expect("the number of workers was checked"),
        };
        let router = DatagramRouter {
            ids,
            inboxes: inboxes.clone(),
            arrivals,
            predecessors: predecessors.clone(),
        };
        let others = !alone || routes.can_be_taken_over || !routes.predecessors.is_empty();
        WorkerSlot {
            ids,
            router: others.then_some(router),
            surplus: surplus.clone(),
        }
    };
    let worker_slots = queues.into_iter().enumerate().map(place).collect();
    (worker_slots, inboxes)
}

/// Has the kernel steer where there is anything to be steered.
pub(crate) fn steer(bound: &Bound, routes: &Routes) {
    if routes.steering != Steering::Kernel {
        return;
    }
    for sockets in &bound.0 {
        if let [socket, _, ..] = &sockets.udp[..]
            && let Err(error) = steer_by_connection_id(socket, routes.ids.server)
        {
            tracing::info!(
                %error,
                "the kernel does not steer by connection ID: workers pass datagrams on themselves"
            );
        }
    }
}

/// The way to all workers of this process.
#[derive(Debug, Clone)]
pub(crate) struct Inboxes {
    /// The address that the workers' sockets are bound to.
    listener: SocketAddr,
    ids: ProcessIds,
    /// The workers' queues, by their numbers.
    queues: Arc<[mpsc::Sender<Forwarded>]>,
}

impl Inboxes {
    /// Returns true if the workers' sockets are bound to this address.
    pub(super) fn is_at(&self, listener: SocketAddr) -> bool {
        self.listener == listener
    }

    /// The address that the workers' sockets are bound to.
    pub(super) fn listener(&self) -> SocketAddr {
        self.listener
    }

    /// The number of workers.
    pub(super) fn workers(&self) -> usize {
        self.queues.len()
    }

    /// Hands a datagram that came to another process to its worker, if it has one here.
    pub(super) fn deliver(&self, datagram: &Datagram<'_>) {
        let certainly = worker_of(datagram.payload, self.ids.server);
        let worker = certainly.or_else(|| worker_perhaps_of(datagram.payload, self.ids.server));
        if let Some(worker) = worker.filter(|worker| worker.generation() == self.ids.generation) {
            self.put(worker.number(), datagram);
        }
    }

    /// Hands a datagram to the worker of this process that it names. False if it names none.
    pub(super) fn put_to_owner(&self, datagram: &Datagram<'_>) -> bool {
        let worker = worker_of(datagram.payload, self.ids.server);
        let worker = worker.filter(|worker| worker.generation() == self.ids.generation);
        worker.is_some_and(|worker| self.put(worker.number(), datagram))
    }

    /// False if there is no such worker.
    pub(super) fn put(&self, worker: usize, datagram: &Datagram<'_>) -> bool {
        let Some(queue) = self.queues.get(worker) else {
            return false;
        };
        match queue.try_reserve() {
            Ok(room) => room.send(Forwarded::new(datagram)),
            Err(error) => tracing::trace!(%error, "dropped a datagram of another worker"),
        }
        true
    }
}

/// A worker's way to the others, and theirs to it.
#[derive(Debug)]
pub(super) struct DatagramRouter {
    ids: ConnectionIds,
    inboxes: Inboxes,
    arrivals: mpsc::Receiver<Forwarded>,
    /// The predecessors that have not ended.
    predecessors: Predecessors,
}

impl DatagramRouter {
    /// Passes a datagram of another worker on. False if it is for this one, or for nobody else.
    pub(super) fn pass_on(&mut self, datagram: &Datagram<'_>) -> bool {
        let listener = self.inboxes.listener;
        // First: only they can say what their connection IDs look like.
        if self.predecessors.pass_back(listener, datagram) {
            return true;
        }
        match worker_of(datagram.payload, self.ids.server) {
            Some(worker) if worker == self.ids.worker => false,
            Some(worker) if worker.generation() == self.ids.worker.generation() => {
                self.inboxes.put(worker.number(), datagram)
            }
            Some(_) => false,
            None => {
                self.predecessors.copy_back(listener, datagram);
                false
            }
        }
    }

    /// Forgets the processes before this one: from now on another process passes datagrams to them.
    pub(super) fn forget_predecessors(&mut self) {
        self.predecessors.0.clear();
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

    /// The datagram as it was received.
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
    use crate::h3::relay;
    use crate::listen;
    use crate::options::{Bind, Spread};
    use altway_http3::{Generation, ServerId};
    use std::net::{Ipv4Addr, UdpSocket};
    use std::time::{Duration, Instant};

    fn bound(workers: usize) -> Bound {
        let request = listen::Request {
            bind: Bind::Address(Ipv4Addr::LOCALHOST.into()),
            port: 0,
            workers,
            spread: Spread::default(),
            with_udp: true,
            congestion: None,
            passed: Vec::new(),
            further: Vec::new(),
        };
        listen::listen(&request).unwrap()
    }

    fn ids(generation: Generation, workers: usize) -> ProcessIds {
        ProcessIds {
            server: ServerId::default(),
            generation,
            workers,
        }
    }

    fn routes(steering: Steering, workers: usize) -> Routes {
        Routes {
            steering,
            ids: ids(Generation::default(), workers),
            predecessors: Vec::new(),
            can_be_taken_over: false,
        }
    }

    fn exchanges_of(routes: &Routes) -> Vec<DatagramRouter> {
        let (worker_slots, _) = worker_slots(&bound(routes.ids.workers), routes);
        let routers = worker_slots
            .into_iter()
            .flatten()
            .map(|place| place.router.unwrap());
        routers.collect()
    }

    fn routers(workers: usize) -> Vec<DatagramRouter> {
        exchanges_of(&routes(Steering::Workers, workers))
    }

    /// A packet for this worker.
    fn packet(worker: u16) -> [u8; 9] {
        let [high, low] = worker.to_be_bytes();
        [0x40, high, low, 1, 2, 3, 4, 5, 6]
    }

    /// An Initial packet to a connection ID that looks like this worker's.
    fn initial(worker: u16) -> [u8; 14] {
        let [high, low] = worker.to_be_bytes();
        [0xc0, 0, 0, 0, 1, 8, high, low, 1, 2, 3, 4, 5, 6]
    }

    /// The second of three processes in a row, before it and after.
    struct Successor {
        router: DatagramRouter,
        datagram_channel: std::os::fd::OwnedFd,
    }

    impl Successor {
        fn new() -> Self {
            let (datagram_channel, theirs) = relay::datagram_channel().unwrap();
            let first = Generation::default();
            let routers = exchanges_of(&Routes {
                ids: ids(first.next(), 2),
                predecessors: vec![PredecessorRelay::new(ids(first, 2), theirs)],
                ..routes(Steering::Workers, 2)
            });
            let [_, router] = routers.try_into().unwrap();
            Self {
                router,
                datagram_channel,
            }
        }

        /// Returns whether this process keeps a datagram, and whether it passes it to the process before it.
        fn gets(&mut self, payload: &[u8]) -> (bool, bool) {
            let kept = !self.router.pass_on(&datagram(payload));
            let passed = rustix::net::recv(
                &self.datagram_channel,
                &mut [0; 100][..],
                rustix::net::RecvFlags::empty(),
            );
            (kept, passed.is_ok_and(|(bytes, _)| bytes > 0))
        }
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
        let mut routers = routers(3);
        assert!(routers[0].pass_on(&datagram(&packet(2))));
        let arrived: Vec<_> = routers[2].arrived().collect();
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
        assert!(routers[1].arrived().next().is_none());
    }

    #[test]
    fn what_is_ours_or_nobodys_stays() {
        let mut routers = routers(2);
        let other_process = packet(0x1000);
        for stays in [
            &packet(1)[..],
            &packet(2),
            &packet(0xffff),
            &other_process,
            &[0x40],
            &[],
        ] {
            assert!(!routers[1].pass_on(&datagram(stays)), "{stays:x?}");
        }
    }

    #[test]
    fn what_is_of_a_former_process_is_passed_to_it_until_it_has_ended() {
        let mut successor = Successor::new();
        assert_eq!(successor.gets(&packet(0)), (false, true));
        assert_eq!(successor.gets(&packet(1)), (false, true));
        assert_eq!(successor.gets(&packet(0x1001)), (true, false), "ours");
        assert_eq!(successor.gets(&packet(0x2001)), (true, false), "nobody's");
        let (datagram_channel, _) = relay::datagram_channel().unwrap();
        drop(std::mem::replace(
            &mut successor.datagram_channel,
            datagram_channel,
        ));
        for _ in 0..2 {
            assert_eq!(successor.gets(&packet(0)), (true, false), "it has ended");
        }
    }

    #[test]
    fn a_first_packet_that_may_be_of_a_former_process_is_for_both() {
        let mut successor = Successor::new();
        assert_eq!(successor.gets(&initial(1)), (true, true));
        assert_eq!(
            successor.gets(&initial(2)),
            (true, false),
            "it has two workers"
        );
        assert_eq!(successor.gets(&initial(0x1001)), (true, false), "ours");
    }

    #[tokio::test]
    async fn what_a_successor_passes_back_comes_to_its_worker() {
        let routes = Routes {
            can_be_taken_over: true,
            ..routes(Steering::Workers, 1)
        };
        let bound = bound(1);
        let address = bound.main().address;
        let (mut worker_slots, inboxes) = worker_slots(&bound, &routes);
        let (ours, theirs) = relay::datagram_channel().unwrap();
        let predecessor = PredecessorRelay::new(routes.ids, theirs);
        for payload in [&packet(1)[..], &packet(0x1000), &packet(0), &initial(0)] {
            predecessor.pass(address, &datagram(payload)).unwrap();
        }
        // What comes to an address that the successor alone has is not for this process.
        let other = SocketAddr::new(address.ip(), 1);
        predecessor.pass(other, &datagram(&packet(0))).unwrap();
        drop(predecessor);
        let ours = altway_socket::watch(ours, tokio::io::Interest::READABLE).unwrap();
        relay::carry(&ours, &inboxes).await;
        let router = worker_slots[0][0].router.as_mut().unwrap();
        let arrived: Vec<_> = router.arrived().map(|it| it.payload).collect();
        assert_eq!(arrived, [packet(0)[..].into(), initial(0)[..].into()]);
    }

    #[test]
    fn a_full_queue_drops_what_comes_late() {
        let mut routers = routers(2);
        for _ in 0..=QUEUE {
            assert!(routers[0].pass_on(&datagram(&packet(1))));
        }
        assert_eq!(routers[1].arrived().count(), QUEUE);
        assert!(routers[0].pass_on(&datagram(&packet(1))));
        assert_eq!(routers[1].arrived().count(), 1);
    }

    #[test]
    fn a_worker_that_has_ended_takes_nothing() {
        let mut routers = routers(2);
        routers.pop();
        assert!(routers[0].pass_on(&datagram(&packet(1))));
    }

    #[test]
    fn a_lone_worker_exchanges_nothing() {
        let (worker_slots, _) = worker_slots(&bound(1), &routes(Steering::Kernel, 1));
        assert!(matches!(
            &worker_slots[0][..],
            [WorkerSlot { router: None, .. }]
        ));
    }

    /// A worker's number is its socket's index in the kernel's group.
    #[test]
    fn the_kernel_brings_each_worker_its_own() {
        let bound = bound(8);
        let server = ServerId::new(&[1, 2]).unwrap();
        let mut routes = routes(Steering::Kernel, 8);
        routes.ids.server = server;
        steer(&bound, &routes);
        for _ in 0..10 {
            let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            for (worker, socket) in (0..).zip(&bound.main().udp) {
                let [_, worker @ ..] = packet(worker);
                let sent = [&[0x40, 1, 2][..], &worker].concat();
                client.send_to(&sent, bound.main().address).unwrap();
                let deadline = Instant::now() + Duration::from_secs(30);
                while socket.recv(&mut [0; 20]).is_err() {
                    assert!(Instant::now() < deadline, "it came to another worker");
                }
            }
        }
    }
}
