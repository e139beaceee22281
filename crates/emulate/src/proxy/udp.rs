//! UDP: each client has a socket of its own towards the target, so that the target tells clients
//! apart and its answers find their way back.

use super::{Counters, Limits, count, sockets};
use rustix::net::{SendFlags, send, sendto};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout_at};

/// Datagrams that one socket passes on before the others have their turn.
const BATCH: usize = 32;

/// The largest datagram: what the length field of UDP can say.
const LARGEST: usize = 65_535;

thread_local! {
    /// Memory of a datagram between its two sockets. All of a thread's share it, as none is held over
    /// an await.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; LARGEST].into());
}

/// Passes the datagrams that come to `socket` on to `target`, and the answers back.
pub(super) async fn serve(
    socket: UdpSocket,
    target: SocketAddr,
    limits: Limits,
    counters: Arc<Counters>,
) {
    let table = Arc::new(Table {
        socket,
        target,
        limits,
        counters,
        flows: Mutex::default(),
    });
    while table.socket.readable().await.is_ok() {
        BUFFER.with_borrow_mut(|buffer| table.pass_up(buffer));
        // The socket is still readable after a whole batch.
        tokio::task::yield_now().await;
    }
}

/// The clients of one port: [`Limits::udp_flows`] at most.
struct Table {
    socket: UdpSocket,
    target: SocketAddr,
    limits: Limits,
    counters: Arc<Counters>,
    flows: Mutex<HashMap<SocketAddr, Arc<Flow>>>,
}

/// The flow of one client.
struct Flow {
    /// Towards the target.
    socket: UdpSocket,
    used: Mutex<Instant>,
    /// Signal that another client took its place.
    replaced: tokio::sync::Notify,
}

impl Table {
    /// Passes on what clients sent, one batch at most.
    fn pass_up(self: &Arc<Self>, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            let (length, client) = match self.socket.try_recv_from(buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // An answer to an earlier datagram that could not be delivered.
                Err(_) => continue,
            };
            let sent = self
                .flow(client)
                .and_then(|flow| flow.send(&buffer[..length]));
            self.count(sent.is_ok(), &self.counters.udp_datagrams_up);
        }
    }

    /// Passes on what the target sent to one client, one batch at most.
    fn pass_down(&self, flow: &Flow, client: SocketAddr, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            let length = match flow.socket.try_recv(buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Nobody listens there (an ICMP message says); who comes later may be answered.
                Err(_) => continue,
            };
            flow.touch();
            let sent = sendto(
                &self.socket,
                &buffer[..length],
                SendFlags::DONTWAIT,
                &client,
            );
            self.count(sent.is_ok(), &self.counters.udp_datagrams_down);
        }
    }

    fn count(&self, was_sent: bool, sent: &AtomicU64) {
        let counter = if was_sent {
            sent
        } else {
            &self.counters.udp_dropped
        };
        count(counter, 1);
    }

    /// The socket of a client, a new one if there is none.
    fn flow(self: &Arc<Self>, client: SocketAddr) -> io::Result<Arc<Flow>> {
        let mut flows = self.flows();
        if let Some(flow) = flows.get(&client) {
            flow.touch();
            return Ok(Arc::clone(flow));
        }
        if flows.len() >= self.limits.udp_flows {
            replace_one(&mut flows);
        }
        let flow = Arc::new(Flow {
            socket: sockets::connect(self.target)?,
            used: Mutex::new(Instant::now()),
            replaced: tokio::sync::Notify::new(),
        });
        flows.insert(client, Arc::clone(&flow));
        count(&self.counters.udp_flows, 1);
        tokio::spawn(Arc::clone(self).answer(Arc::clone(&flow), client));
        Ok(flow)
    }

    /// Passes the target's datagrams on to one client until both have been silent for long.
    async fn answer(self: Arc<Self>, flow: Arc<Flow>, client: SocketAddr) {
        loop {
            let silent_at = flow.used() + self.limits.udp_idle;
            let readable = async {
                tokio::select! {
                    readable = flow.socket.readable() => readable.is_ok(),
                    () = flow.replaced.notified() => false,
                }
            };
            match timeout_at(silent_at, readable).await {
                Ok(true) => {
                    BUFFER.with_borrow_mut(|buffer| self.pass_down(&flow, client, buffer));
                    tokio::task::yield_now().await;
                }
                Ok(false) => return,
                // It may have been used while this waited.
                Err(_) if flow.used() + self.limits.udp_idle > Instant::now() => {}
                Err(_) => break,
            }
        }
        // No datagram comes in between: one thread runs all tasks.
        self.flows().remove(&client);
    }

    fn flows(&self) -> MutexGuard<'_, HashMap<SocketAddr, Arc<Flow>>> {
        // Nothing that holds it leaves the map half changed.
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flow {
    /// Sends to the target without waiting: a full buffer drops the datagram, as a router's does.
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        let send = || send(&self.socket, datagram, SendFlags::DONTWAIT);
        // The first may fail for an earlier datagram that found nobody (ECONNREFUSED); asking takes
        // that error away.
        send().or_else(|_| send())?;
        Ok(())
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the client that has been silent longest. Clients that are in use are touched all the
/// time, so that addresses that were made up push out each other.
fn replace_one(flows: &mut HashMap<SocketAddr, Arc<Flow>>) {
    let oldest = flows.iter().min_by_key(|(_, flow)| flow.used());
    if let Some(client) = oldest.map(|(client, _)| *client)
        && let Some(flow) = flows.remove(&client)
    {
        flow.replaced.notify_one();
    }
}
