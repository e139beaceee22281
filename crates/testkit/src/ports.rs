//! Ports for servers under test, and an address that no server answers at.

use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Ports below the range from which the kernel takes those that nobody names.
const PORTS: std::ops::Range<u32> = 12_000..32_000;

/// A port of the loopback that is free over TCP and UDP, for a server that can't pick one and tell. It stays so until it
/// is bound: the kernel gives nobody one below its range of ephemeral ports, and no two callers get the same.
#[must_use]
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id().wrapping_mul(101);
    loop {
        let next =
            own.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % (PORTS.end - PORTS.start);
        let Ok(port) = u16::try_from(PORTS.start + next) else {
            continue;
        };
        let address = (Ipv4Addr::LOCALHOST, port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return port;
        }
    }
}

/// An address that leaves connections without an answer, as a host that is gone does: a listener whose queue is full.
#[derive(Debug)]
pub struct SilentAddress {
    address: SocketAddr,
    _listener: OwnedFd,
    _queue: Vec<TcpStream>,
}

impl SilentAddress {
    /// The most connections that a queue of length 0 takes before it is full.
    const MAX_QUEUED: usize = 10;

    /// Listens at an address; port 0: any that is free.
    ///
    /// # Errors
    /// The system refuses the address, or goes on answering.
    pub fn new(address: impl Into<SocketAddr>) -> io::Result<Self> {
        let address = address.into();
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let listener = socket(family, SocketType::STREAM, None)?;
        bind(&listener, &address)?;
        listen(&listener, 0)?;
        let address = SocketAddr::try_from(getsockname(&listener)?)?;
        let mut queue = Vec::new();
        while queue.len() < Self::MAX_QUEUED {
            match TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
                Ok(stream) => queue.push(stream),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Ok(Self {
                        address,
                        _listener: listener,
                        _queue: queue,
                    });
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("the queue takes ever more connections"))
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
