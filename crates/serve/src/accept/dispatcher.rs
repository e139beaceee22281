//! A thread that accepts every connection and hands them to the workers in turn
//! ([`Spread::RoundRobin`](crate::Spread::RoundRobin)). Left to the workers: all that is said.

use super::{Accepted, recover};
use crate::Error;
use crate::stop::StopSignal;
use rustix::net::{SocketFlags, acceptfrom_with};
use std::future::{pending, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Permit, Receiver, Sender};

/// Connections that wait for one worker, which has a moment's work before it or as many connections
/// as it may have. Each holds a descriptor.
const QUEUE: usize = 256;

/// The listener of all workers (several after a process whose workers had one each), and a queue to each.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    listeners: Vec<TcpListener>,
    queues: Vec<Sender<Accepted>>,
}

impl Dispatcher {
    /// Makes a dispatcher, and the workers' ends of its queues. The listeners must not block.
    pub(crate) fn new(
        listeners: Vec<TcpListener>,
        workers: usize,
    ) -> (Self, Vec<Receiver<Accepted>>) {
        Self::with_queues_of(QUEUE, listeners, workers)
    }

    fn with_queues_of(
        length: usize,
        listeners: Vec<TcpListener>,
        workers: usize,
    ) -> (Self, Vec<Receiver<Accepted>>) {
        let (queues, ends) = (0..workers).map(|_| mpsc::channel(length)).unzip();
        (Self { listeners, queues }, ends)
    }

    /// Accepts until the stop. Blocks the calling thread.
    ///
    /// # Errors
    /// There is no event loop to be had.
    pub(crate) fn run(self, stop: StopSignal) -> Result<(), Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::Worker)?;
        runtime
            .block_on(self.until_stopped(stop))
            .map_err(Error::Worker)
    }

    async fn until_stopped(self, stop: StopSignal) -> io::Result<()> {
        let listeners = self.listeners.into_iter();
        let listeners = listeners.map(|it| altway_socket::watch(it.into(), Interest::READABLE));
        let listeners: Vec<_> = listeners.collect::<io::Result<_>>()?;
        let mut accept_permit = stop.accept_permit();
        while !stop.is_requested() {
            let open = accept_permit.is_open();
            tokio::select! {
                () = dispatch_connections(&listeners, &self.queues), if open => {}
                () = accept_permit.changed() => {}
            }
        }
        // Before the queues end: nobody is accepted whom no worker would take.
        drop(listeners);
        drop(self.queues);
        Ok(())
    }
}

/// Never ends. A connection is accepted only when there is room for it: without, the kernel's queue
/// holds it.
async fn dispatch_connections(listeners: &[AsyncFd<OwnedFd>], queues: &[Sender<Accepted>]) {
    let (mut next, mut first) = (0, 0);
    loop {
        let (worker, room) = room(queues, next).await;
        room.send(accepted(listeners, first).await);
        next = (worker + 1) % queues.len();
        first = (first + 1) % listeners.len();
    }
}

/// A place in the queue of `next`, or of the first after it that has one, and whose it is.
async fn room(queues: &[Sender<Accepted>], next: usize) -> (usize, Permit<'_, Accepted>) {
    let in_turn = (next..queues.len()).chain(0..next);
    for worker in in_turn {
        if let Ok(room) = queues[worker].try_reserve() {
            return (worker, room);
        }
    }
    first_room(queues).await
}

/// A place in whichever queue has one first.
async fn first_room(queues: &[Sender<Accepted>]) -> (usize, Permit<'_, Accepted>) {
    let mut waits: Vec<_> = queues
        .iter()
        .map(|queue| Box::pin(reserve(queue)))
        .collect();
    poll_fn(|cx| {
        for (worker, wait) in waits.iter_mut().enumerate() {
            if let Poll::Ready(room) = wait.as_mut().poll(cx) {
                return Poll::Ready((worker, room));
            }
        }
        Poll::Pending
    })
    .await
}

/// Waits for ever when the worker has gone: the server stops then.
async fn reserve(queue: &Sender<Accepted>) -> Permit<'_, Accepted> {
    match queue.reserve().await {
        Ok(room) => room,
        Err(_) => pending().await,
    }
}

/// The next connection of any listener, of the one at `first` before others.
async fn accepted(listeners: &[AsyncFd<OwnedFd>], first: usize) -> Accepted {
    loop {
        match poll_fn(|cx| poll_accept(listeners, first, cx)).await {
            Ok(accepted) => return accepted,
            Err(error) => recover(&error).await,
        }
    }
}

fn poll_accept(
    listeners: &[AsyncFd<OwnedFd>],
    first: usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<Accepted>> {
    let (before, from) = listeners.split_at(first);
    for listener in from.iter().chain(before) {
        while let Poll::Ready(ready) = listener.poll_read_ready(cx) {
            if let Ok(accepted) = ready?.try_io(|listener| accept(listener.get_ref())) {
                return Poll::Ready(accepted);
            }
        }
    }
    Poll::Pending
}

/// Accepts a connection by one system call; no event loop but the worker's gets to know it.
fn accept(listener: &OwnedFd) -> io::Result<Accepted> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (stream, peer) = acceptfrom_with(listener, flags)?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    // No address: the peer has gone.
    let peer = peer.ok_or(io::ErrorKind::ConnectionAborted)?;
    Ok((stream.into(), peer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StopHandle, stop_channel};
    use std::net::TcpStream;
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    /// A dispatcher on a thread of its own, and the workers' ends.
    struct Running {
        address: SocketAddr,
        stop: StopHandle,
        thread: Option<JoinHandle<Result<(), Error>>>,
        workers: Vec<Receiver<Accepted>>,
    }

    impl Running {
        fn start(workers: usize, length: usize) -> Self {
            let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            listener.set_nonblocking(true).unwrap();
            let address = listener.local_addr().unwrap();
            let (dispatcher, workers) = Dispatcher::with_queues_of(length, vec![listener], workers);
            let (stop, signal) = stop_channel();
            let thread = Some(thread::spawn(move || dispatcher.run(signal)));
            Self {
                address,
                stop,
                thread,
                workers,
            }
        }

        fn connect(&self) -> TcpStream {
            TcpStream::connect(self.address).unwrap()
        }

        /// Returns the address of the connection that comes next to a worker.
        fn next(&mut self, worker: usize) -> SocketAddr {
            soon(|| self.workers[worker].try_recv().ok()).1
        }

        /// Waits until each worker's queue holds one.
        fn wait_for_one_each(&self) {
            soon(|| {
                self.workers
                    .iter()
                    .all(|worker| worker.len() == 1)
                    .then_some(())
            });
        }

        fn stop(&mut self) {
            self.stop.stop();
            if let Some(thread) = self.thread.take() {
                thread.join().unwrap().unwrap();
            }
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.stop();
        }
    }

    /// No test may hang.
    fn soon<T>(mut try_it: impl FnMut() -> Option<T>) -> T {
        for _ in 0..60_000 {
            if let Some(done) = try_it() {
                return done;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("within a minute");
    }

    fn name(client: &TcpStream) -> SocketAddr {
        client.local_addr().unwrap()
    }

    #[test]
    fn every_worker_gets_as_many_in_the_order_they_came() {
        let mut running = Running::start(3, QUEUE);
        let clients: Vec<_> = (0..300).map(|_| running.connect()).collect();
        for (i, client) in clients.iter().enumerate() {
            assert_eq!(running.next(i % 3), name(client), "{i}");
        }
        running.stop();
        assert!(running.workers.iter().all(Receiver::is_empty));
    }

    #[test]
    fn a_full_worker_is_passed_over() {
        let mut running = Running::start(2, 2);
        let first = [(); 2].map(|()| running.connect());
        assert_eq!(running.next(1), name(&first[1]));
        let more = [(); 3].map(|()| running.connect());
        // The last would be worker 0's, who has taken none.
        assert_eq!(running.next(1), name(&more[1]));
        assert_eq!(running.next(1), name(&more[2]));
        assert_eq!(running.next(0), name(&first[0]));
        assert_eq!(running.next(0), name(&more[0]));
    }

    #[test]
    fn without_room_the_kernel_holds_connections_for_whoever_has_room_first() {
        let mut running = Running::start(3, 1);
        let clients = [(); 6].map(|()| running.connect());
        running.wait_for_one_each();
        for client in [2, 3, 4, 5] {
            assert_eq!(running.next(2), name(&clients[client]));
        }
        assert_eq!(running.next(0), name(&clients[0]));
        assert_eq!(running.next(1), name(&clients[1]));
    }

    #[test]
    fn a_worker_that_has_gone_is_passed_over() {
        let mut running = Running::start(2, QUEUE);
        // From now on no room is taken ahead in the first queue.
        let first = running.connect();
        assert_eq!(running.next(0), name(&first));
        running.workers[0].close();
        for _ in 0..3 {
            let client = running.connect();
            assert_eq!(running.next(1), name(&client));
        }
    }

    #[test]
    fn a_stop_closes_the_listener_and_leaves_what_was_accepted() {
        let mut running = Running::start(2, 1);
        let clients = [(); 4].map(|()| running.connect());
        running.wait_for_one_each();
        running.stop();
        assert!(TcpStream::connect(running.address).is_err());
        for (worker, client) in running.workers.iter_mut().zip(&clients) {
            assert_eq!(worker.blocking_recv().unwrap().1, name(client));
            assert!(worker.blocking_recv().is_none());
        }
    }
}
