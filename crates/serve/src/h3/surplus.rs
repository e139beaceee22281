//! Sockets that no worker has for its own: of a process before this one, which had more workers.
//!
//! Such sockets stay in the kernel's group as long as a process has them, and get their share of new connections, so that they
//! must be read. A worker does, and passes all that comes to the worker that it is for.

use super::Udp;
use super::predecessors::Predecessors;
use super::steering::Inboxes;
use crate::stop::StopSignal;
use altway_http3::Datagram;
use std::future::pending;
use std::hash::{BuildHasher as _, RandomState};
use std::io;

/// The way of what comes to such sockets at one address.
#[derive(Debug, Clone)]
pub(super) struct SurplusRouter {
    inboxes: Inboxes,
    predecessors: Predecessors,
    /// Spreads new connections over the workers; clients can't tell how.
    spread: RandomState,
}

impl SurplusRouter {
    pub(super) fn new(inboxes: Inboxes, predecessors: Predecessors) -> Self {
        Self {
            inboxes,
            predecessors,
            spread: RandomState::new(),
        }
    }

    fn route(&mut self, datagram: &Datagram<'_>) {
        let listener = self.inboxes.listener();
        if self.predecessors.pass_back(listener, datagram) || self.inboxes.put_to_owner(datagram) {
            return;
        }
        self.predecessors.copy_back(listener, datagram);
        // All that a client sends in its handshake comes to one worker.
        let share = self.spread.hash_one(datagram.remote) % self.inboxes.workers() as u64;
        self.inboxes
            .put(usize::try_from(share).expect("a worker's number"), datagram);
    }
}

/// A socket that a worker reads beside its own.
pub(super) struct SurplusSocket {
    udp: Udp,
    router: SurplusRouter,
}

impl SurplusSocket {
    pub(super) fn new(udp: Udp, router: SurplusRouter) -> Self {
        Self { udp, router }
    }

    /// Passes on what comes, while this process reads its sockets. Never ends but by an error.
    ///
    /// # Errors
    /// None: the socket has no peer of its own.
    pub(super) async fn run(mut self, stop: StopSignal) -> io::Result<()> {
        let mut accept_permit = stop.accept_permit();
        while !stop.is_requested() {
            tokio::select! {
                () = accept_permit.changed() => {}
                _ = self.udp.socket().readable(), if accept_permit.is_open() => self.read()?,
            }
        }
        // Connections of this process still end, unless another one reads the socket.
        while accept_permit.is_open() {
            // An error shows when it is read.
            let _ = self.udp.socket().readable().await;
            self.read()?;
        }
        pending().await
    }

    fn read(&mut self) -> io::Result<()> {
        let Self { udp, router } = self;
        udp.receive(|datagram| router.route(&datagram))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h3::predecessors::ProcessIds;
    use crate::h3::relay::{self, PredecessorRelay};
    use crate::h3::steering::{Routes, worker_slots};
    use crate::listen::{Bound, BoundAddress};
    use crate::options::Steering;
    use altway_http3::{Generation, ServerId};
    use rustix::net::{RecvFlags, recv};

    fn datagram(port: u16, payload: &[u8]) -> Datagram<'_> {
        Datagram {
            remote: ([192, 0, 2, 1], port).into(),
            local_ip: None,
            ecn: None,
            payload,
        }
    }

    #[test]
    fn what_comes_to_a_socket_without_a_worker_comes_to_whom_it_is_for() {
        let (theirs, ours) = relay::datagram_channel().unwrap();
        let first = ProcessIds {
            server: "0a".parse().unwrap(),
            generation: Generation::default(),
            workers: 4,
        };
        let routes = Routes {
            steering: Steering::Workers,
            ids: ProcessIds {
                server: ServerId::default(),
                generation: first.generation.next(),
                workers: 2,
            },
            predecessors: vec![PredecessorRelay::new(first, ours)],
            can_be_taken_over: true,
        };
        let bound = Bound(vec![BoundAddress {
            address: ([127, 0, 0, 1], 1).into(),
            tcp: Vec::new(),
            udp: Vec::new(),
        }]);
        let (mut slots, _) = worker_slots(&bound, &routes);
        let mut surplus = slots[0][0].surplus.clone();
        let mut routers: Vec<_> = slots.iter_mut().flatten().collect();
        let mut arrived = |worker: usize| {
            let router = routers[worker].router.as_mut().unwrap();
            router.arrived().count()
        };
        let passed = || recv(&theirs, &mut [0; 100][..], RecvFlags::empty()).is_ok();
        // Worker 3 of the first process.
        surplus.route(&datagram(1, &[0x40, 0x0a, 0, 3, 1, 2, 3, 4, 5]));
        assert!(passed());
        // Worker 1 of this one.
        surplus.route(&datagram(1, &[0x40, 0x10, 1, 3, 1, 2, 3, 4, 5]));
        assert_eq!((arrived(0), arrived(1), passed()), (0, 1, false));
        // An Initial packet that looks as if it were the first process's is for both.
        surplus.route(&datagram(
            1,
            &[0xc0, 0, 0, 0, 1, 8, 0x0a, 0, 3, 1, 2, 3, 4, 5],
        ));
        assert!(passed());
        assert_eq!(arrived(0) + arrived(1), 1);
        // New connections are spread, and each client's packets come to one worker.
        let initial = [0xc0, 0, 0, 0, 1, 8, 9, 9, 9, 9, 9, 9, 9, 9];
        let mut shares = [0, 0];
        for port in 0..200 {
            surplus.route(&datagram(port, &initial));
            surplus.route(&datagram(port, &initial));
            let counts = [arrived(0), arrived(1)];
            assert!(counts == [2, 0] || counts == [0, 2], "{counts:?}");
            shares[usize::from(counts[1] == 2)] += 1;
        }
        assert!(shares.iter().all(|share| *share > 50), "{shares:?}");
        assert!(!passed());
    }
}
