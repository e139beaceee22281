//! Passes TCP connections and UDP datagrams on from ports of this host to ports of another, both
//! ways, unread: TLS and QUIC go through as they are.
//!
//! Stands on the router of [`Topology::Proxied`](crate::Topology::Proxied), and for people is the
//! command `altway emulate proxy`. A TCP connection ends here and another one begins, with its own
//! handshake, congestion control and loss recovery; QUIC goes through end to end, and only its
//! addresses change. Left to others: who may connect (a firewall's), what is in the bytes.
//!
//! ```
//! use altway_emulate::proxy::{Forward, Limits, Proxy};
//! use std::io::{Read, Write};
//! use std::net::{TcpListener, TcpStream};
//!
//! let server = TcpListener::bind("127.0.0.1:0")?;
//! let forward: Forward = format!("127.0.0.1:0:{}", server.local_addr()?).parse()?;
//! let proxy = Proxy::start(&[forward], &[], Limits::default())?;
//!
//! TcpStream::connect(proxy.tcp_addresses()[0])?.write_all(b"hello")?;
//! let mut text = String::new();
//! server.accept()?.0.read_to_string(&mut text)?;
//! assert_eq!(text, "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod forward;
mod sockets;
mod tcp;
mod udp;

pub use forward::Forward;

use crate::Error;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;

/// Bounds of what a proxy holds. Each bound is one of each port that is passed on, and 0 counts as
/// 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// TCP connections at once, 1,024 by default; more wait in the kernel until one ends. Each costs
    /// two descriptors and 128 KiB.
    pub tcp_connections: usize,
    /// Time that a TCP connection on which no byte goes either way is kept, and how long its target may
    /// take to answer: 5 min by default. Then both sides are reset, so that silent clients do not keep
    /// the others waiting for ever.
    pub tcp_idle: Duration,
    /// UDP clients (address and port) at once, 1,024 by default; one more takes the place of the one
    /// that has been silent longest. Each costs a descriptor.
    pub udp_flows: usize,
    /// Time that a UDP client that neither sends nor receives is remembered: 2 min by default, the
    /// least that RFC 4787 §4.3 allows a NAT.
    pub udp_idle: Duration,
}

/// Ports that are passed on, by a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    tcp: Vec<SocketAddr>,
    udp: Vec<SocketAddr>,
    counters: Arc<Counters>,
    /// Dropping it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Counters of a proxy. Up is from the clients to the targets; bytes are payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProxyReport {
    /// TCP connections of clients.
    pub tcp_connections: u64,
    /// Connections whose target could not be reached; the client's was reset.
    pub tcp_unreachable: u64,
    /// Bytes of TCP from clients to targets.
    pub tcp_bytes_up: u64,
    /// Bytes of TCP from targets to clients.
    pub tcp_bytes_down: u64,
    /// UDP clients; one that comes back after it was forgotten counts again.
    pub udp_flows: u64,
    /// Datagrams from clients to targets.
    pub udp_datagrams_up: u64,
    /// Datagrams from targets to clients.
    pub udp_datagrams_down: u64,
    /// Datagrams that were taken in and could not be passed on, because the kernel had no room or
    /// this process no descriptor for them.
    pub udp_dropped: u64,
}

/// [`ProxyReport`], as it is counted.
#[derive(Debug, Default)]
struct Counters {
    tcp_connections: AtomicU64,
    tcp_unreachable: AtomicU64,
    tcp_bytes_up: AtomicU64,
    tcp_bytes_down: AtomicU64,
    udp_flows: AtomicU64,
    udp_datagrams_up: AtomicU64,
    udp_datagrams_down: AtomicU64,
    udp_dropped: AtomicU64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tcp_connections: 1_024,
            tcp_idle: Duration::from_secs(300),
            udp_flows: 1_024,
            udp_idle: Duration::from_secs(120),
        }
    }
}

impl Proxy {
    /// Listens, in the network namespace of the calling thread, and passes on from now on.
    ///
    /// Names of targets are looked up once, here. The process may open more files afterwards (its
    /// soft limit is raised as far as `limits` need and its hard limit allows).
    ///
    /// # Errors
    /// [`Error::ProxyTarget`] when a name can't be looked up, [`Error::ProxyListen`] when a port
    /// can't be listened on, [`Error::ProxyStart`] when the system refuses a thread.
    pub fn start(tcp: &[Forward], udp: &[Forward], limits: Limits) -> Result<Self, Error> {
        sockets::allow_files(
            (2 * tcp.len() * limits.tcp_connections) + udp.len() * limits.udp_flows,
        );
        let listeners = prepare(tcp, sockets::listen)?;
        let sockets = prepare(udp, sockets::bind)?;
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = oneshot::channel();
        let serving = Serving {
            listeners: listeners.sockets,
            sockets: sockets.sockets,
            limits,
            counters: Arc::clone(&counters),
        };
        Ok(Self {
            tcp: listeners.addresses,
            udp: sockets.addresses,
            counters,
            stop: Some(stop),
            thread: Some(spawn(serving, stopped)?),
        })
    }

    /// Addresses of TCP that are listened on, in the order of the forwardings.
    #[must_use]
    pub fn tcp_addresses(&self) -> &[SocketAddr] {
        &self.tcp
    }

    /// Addresses of UDP that are listened on, in the order of the forwardings.
    #[must_use]
    pub fn udp_addresses(&self) -> &[SocketAddr] {
        &self.udp
    }

    /// Returns what was passed on so far.
    #[must_use]
    pub fn report(&self) -> ProxyReport {
        let Counters {
            tcp_connections,
            tcp_unreachable,
            tcp_bytes_up,
            tcp_bytes_down,
            udp_flows,
            udp_datagrams_up,
            udp_datagrams_down,
            udp_dropped,
        } = &*self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ProxyReport {
            tcp_connections: read(tcp_connections),
            tcp_unreachable: read(tcp_unreachable),
            tcp_bytes_up: read(tcp_bytes_up),
            tcp_bytes_down: read(tcp_bytes_down),
            udp_flows: read(udp_flows),
            udp_datagrams_up: read(udp_datagrams_up),
            udp_datagrams_down: read(udp_datagrams_down),
            udp_dropped: read(udp_dropped),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed already; there is nothing more to clean up.
            let _ = thread.join();
        }
    }
}

impl ProxyReport {
    /// Returns what was done since `before`, an earlier report of the same proxy.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            tcp_connections: self.tcp_connections - before.tcp_connections,
            tcp_unreachable: self.tcp_unreachable - before.tcp_unreachable,
            tcp_bytes_up: self.tcp_bytes_up - before.tcp_bytes_up,
            tcp_bytes_down: self.tcp_bytes_down - before.tcp_bytes_down,
            udp_flows: self.udp_flows - before.udp_flows,
            udp_datagrams_up: self.udp_datagrams_up - before.udp_datagrams_up,
            udp_datagrams_down: self.udp_datagrams_down - before.udp_datagrams_down,
            udp_dropped: self.udp_dropped - before.udp_dropped,
        }
    }
}

/// Adds to a counter. Only sums are read, so no order with other memory is needed.
fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// Sockets that listen, each with its target, and their addresses.
struct Prepared<S> {
    sockets: Vec<(S, SocketAddr)>,
    addresses: Vec<SocketAddr>,
}

/// The state that the thread of a proxy owns.
struct Serving {
    listeners: Vec<(std::net::TcpListener, SocketAddr)>,
    sockets: Vec<(std::net::UdpSocket, SocketAddr)>,
    limits: Limits,
    counters: Arc<Counters>,
}

impl Serving {
    /// Begins to pass on; to be called in a runtime.
    fn begin(self) -> io::Result<()> {
        for (listener, target) in self.listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let counters = Arc::clone(&self.counters);
            tokio::spawn(tcp::serve(listener, target, self.limits, counters));
        }
        for (socket, target) in self.sockets {
            let socket = tokio::net::UdpSocket::from_std(socket)?;
            let counters = Arc::clone(&self.counters);
            tokio::spawn(udp::serve(socket, target, self.limits, counters));
        }
        Ok(())
    }
}

fn prepare<S>(
    forwards: &[Forward],
    open: fn(SocketAddr) -> Result<(S, SocketAddr), Error>,
) -> Result<Prepared<S>, Error> {
    let mut prepared = Prepared {
        sockets: Vec::new(),
        addresses: Vec::new(),
    };
    for forward in forwards {
        let target = forward.resolve()?;
        let (socket, address) = open(forward.listen)?;
        prepared.sockets.push((socket, target));
        prepared.addresses.push(address);
    }
    Ok(prepared)
}

/// Starts the thread, which stays in the network namespace of the calling one, and waits until it
/// passes on.
fn spawn(serving: Serving, stopped: oneshot::Receiver<()>) -> Result<JoinHandle<()>, Error> {
    let failed = |source| Error::ProxyStart { source };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let (ready, begun) = sync_channel(1);
    let body = move || {
        runtime.block_on(async {
            let _ = ready.send(serving.begin());
            // Whether it was sent or dropped, it means the end.
            let _ = stopped.await;
        });
    };
    let thread = thread::Builder::new()
        .name("altway-proxy".into())
        .spawn(body)
        .map_err(failed)?;
    let begun = begun
        .recv()
        .unwrap_or_else(|_| Err(io::Error::other("its thread ended")));
    begun.map_err(failed)?;
    Ok(thread)
}
