//! Shares sockets out to the workers.
//!
//! Usually each worker has one of each kind at each address. After a takeover from a process with more workers there are
//! more: none may be closed, for connections wait in its queue or are being made, and the kernel goes on giving it new ones
//! as long as the former process has it. So workers take what comes to those as well.

use super::{Bound, BoundAddress, Request};
use crate::accept::{Accepting, Dispatcher};
use crate::options::Spread;
use std::io;
use std::net::{TcpListener, UdpSocket};

/// The sockets of every worker.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) workers: Vec<Sockets>,
    /// The feeders of the workers' queues, one for each address; none when each worker has its listeners.
    pub(crate) dispatchers: Vec<Dispatcher>,
}

/// The sockets of one worker. They outlive the worker, for the one that takes its place after a
/// panic.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// Sources of TCP connections, one for each address.
    pub(crate) tcp: Vec<Accepting>,
    /// UDP sockets of each address.
    pub(crate) udp: Vec<WorkerUdp>,
}

/// The UDP sockets of one worker at one address.
#[derive(Debug, Default)]
pub(crate) struct WorkerUdp {
    /// The worker's own; `None` without HTTP/3.
    pub(crate) own: Option<UdpSocket>,
    /// Sockets of a former process's workers that it reads beside, 4,096 at most.
    pub(crate) surplus: Vec<UdpSocket>,
}

impl WorkerUdp {
    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &UdpSocket> {
        self.own.iter().chain(&self.surplus)
    }
}

impl Bound {
    /// Shares the sockets out to the workers, which are as many as the request said.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn share_out(self, request: &Request) -> io::Result<Listeners> {
        let mut workers: Vec<_> = (0..request.workers).map(|_| Sockets::default()).collect();
        let mut dispatchers = Vec::new();
        for BoundAddress { tcp, udp, .. } in self.0 {
            let (dispatcher, accepting) = accepting(tcp, request)?;
            dispatchers.extend(dispatcher);
            let udp = udp_of_workers(udp, request.workers);
            for (sockets, (accepting, udp)) in
                workers.iter_mut().zip(accepting.into_iter().zip(udp))
            {
                sockets.tcp.push(accepting);
                sockets.udp.push(udp);
            }
        }
        Ok(Listeners {
            workers,
            dispatchers,
        })
    }
}

/// Returns for each worker the source of its connections, and the thread that accepts for all, if there
/// is one.
fn accepting(
    tcp: Vec<TcpListener>,
    request: &Request,
) -> io::Result<(Option<Dispatcher>, Vec<Accepting>)> {
    if request.spread == Spread::PerWorker {
        let own = listeners_of_workers(tcp, request.workers)?;
        return Ok((None, own.into_iter().map(Accepting::Own).collect()));
    }
    let (dispatcher, queues) = Dispatcher::new(tcp, request.workers);
    let handed = queues.into_iter().map(Accepting::FromDispatcher).collect();
    Ok((Some(dispatcher), handed))
}

/// Each worker's listeners. The kernel gives each listener the same share, so every worker has as many, and what is left
/// over is accepted from by all.
fn listeners_of_workers(
    tcp: Vec<TcpListener>,
    workers: usize,
) -> io::Result<Vec<Vec<TcpListener>>> {
    let shared_from = tcp.len() - tcp.len() % workers;
    let mut all: Vec<_> = (0..workers).map(|_| Vec::new()).collect();
    for (index, listener) in tcp.into_iter().enumerate() {
        if index < shared_from {
            all[index % workers].push(listener);
            continue;
        }
        for own in &mut all {
            own.push(listener.try_clone()?);
        }
    }
    Ok(all)
}

/// Each worker's UDP sockets: the kernel brings a worker's datagrams to the socket of its number.
fn udp_of_workers(udp: Vec<UdpSocket>, workers: usize) -> Vec<WorkerUdp> {
    let mut all: Vec<_> = (0..workers).map(|_| WorkerUdp::default()).collect();
    for (index, socket) in udp.into_iter().enumerate() {
        match all.get_mut(index) {
            Some(worker) => worker.own = Some(socket),
            None => all[index % workers].surplus.push(socket),
        }
    }
    all
}
